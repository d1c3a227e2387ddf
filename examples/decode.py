#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Decodes a file of trace to stacks, and prints what ran. usage: decode.py FILE [DIRECTORY OF IMAGES]..."""
import ctypes
import json
import os
import sys
import tempfile
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p

lib = ctypes.CDLL("libcsight.so.0")


class Options(ctypes.Structure):
    """struct csight_decode_options"""
    _fields_ = [("size", c_size_t), ("images", POINTER(c_char_p)), ("n_images", c_size_t), ("buffer", c_char_p), ("regs", c_char_p),
                ("engine", c_char_p), ("limit", c_uint64), ("tid", c_uint32), ("workers", c_uint32), ("by_thread", c_uint32),
                ("no_inlines", c_uint32), ("verify", c_uint32), ("unused", c_uint32)]


lib.csight_open.argtypes = [c_char_p, POINTER(c_void_p)]
lib.csight_close.argtypes = [c_void_p]
lib.csight_close.restype = c_void_p
lib.csight_error.argtypes = [c_void_p]
lib.csight_error.restype = c_char_p
lib.csight_decode_open.argtypes = [c_void_p, c_char_p, POINTER(Options), POINTER(c_void_p)]
lib.csight_decode_output.argtypes = [c_void_p, c_char_p, c_int]
lib.csight_decode_run.argtypes = [c_void_p, c_void_p, c_void_p, POINTER(c_void_p)]
lib.csight_decode_close.argtypes = [c_void_p]
lib.csight_decode_close.restype = c_void_p
lib.csight_json.argtypes = [c_void_p]
lib.csight_json.restype = c_char_p
lib.csight_object_free.argtypes = [c_void_p]
lib.csight_object_free.restype = c_void_p


def decode(path, images, outputs):
    """Decodes to files, which outputs names by format; returns the result."""
    names = (c_char_p * len(images))(*map(os.fsencode, images))
    options = Options(size=ctypes.sizeof(Options), images=names, n_images=len(images))
    handle, run, result = c_void_p(), c_void_p(), c_void_p()
    if lib.csight_open(None, byref(handle)) < 0:
        raise MemoryError
    try:
        if (lib.csight_decode_open(handle, os.fsencode(path), byref(options), byref(run)) < 0
                or any(lib.csight_decode_output(run, form.encode(), file.fileno()) < 0 for form, file in outputs.items())
                or lib.csight_decode_run(run, None, None, byref(result)) < 0):
            raise OSError(lib.csight_error(handle).decode(errors="replace"))
        return json.loads(lib.csight_json(result))
    finally:
        lib.csight_object_free(result)
        lib.csight_decode_close(run)
        lib.csight_close(handle)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryFile() as calls:
        try:
            found = decode(sys.argv[1], sys.argv[2:], {"folded": calls})
        except OSError as e:
            sys.exit(str(e))
        calls.seek(0)
        print(f"{found['instructions']} instructions, {len(calls.readlines())} stacks")
    for image in found["images"]:
        if not image["found"]:
            print(f"not found: {image['path']!r}")
