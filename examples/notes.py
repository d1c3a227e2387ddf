#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the notes and spans that a program made, from a store. usage: notes.py STORE"""
import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

lib = ctypes.CDLL("libcsight.so.0")


class Note(ctypes.Structure):
    """struct csight_stored_note"""
    _fields_ = [("size", c_size_t), ("label", c_char_p), ("kind", c_char_p), ("time", c_uint64), ("until", c_uint64),
                ("value", c_int64), ("tid", c_uint32), ("unused", c_uint32)]


lib.csight_store_open_path.argtypes = [c_char_p, c_uint, POINTER(c_void_p)]
lib.csight_store_notes.argtypes = [c_void_p]
lib.csight_store_notes.restype = c_size_t
lib.csight_store_note.argtypes = [c_void_p, c_size_t, POINTER(Note)]
lib.csight_store_note.restype = c_int
lib.csight_store_close.argtypes = [c_void_p]
lib.csight_store_close.restype = c_void_p


def notes(path):
    store = c_void_p()
    rc = lib.csight_store_open_path(os.fsencode(path), 0, byref(store))
    if rc < 0:
        sys.exit(f"cannot read {path}: {os.strerror(-rc)}")
    try:
        for i in range(lib.csight_store_notes(store)):
            n = Note(size=ctypes.sizeof(Note))
            if lib.csight_store_note(store, i, byref(n)) == 0:
                yield n
    finally:
        lib.csight_store_close(store)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for n in notes(sys.argv[1]):
        # A label may have any bytes: repr() escapes them.
        label = repr(n.label.decode(errors="replace"))
        print(f"{n.time:20} {n.until - n.time:12} ns  thread {n.tid}  {n.kind.decode():5}  {label} = {n.value}")
