#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the functions of a store in which most time was spent. usage: report.py STORE [N]"""
import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

lib = ctypes.CDLL("libcsight.so.0")


class Function(ctypes.Structure):
    """struct csight_function"""
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("image", c_char_p), ("file", c_char_p), ("address", c_uint64),
                ("calls", c_uint64), ("whole", c_uint64), ("total", c_uint64), ("self_", c_uint64), ("wait", c_uint64),
                ("total_instructions", c_uint64), ("self_instructions", c_uint64), ("shortest", c_uint64),
                ("median", c_uint64), ("p99", c_uint64), ("longest", c_uint64), ("longest_enter", c_uint64),
                ("longest_thread", c_uint32), ("line", c_uint32), ("inlined", c_uint32), ("uncertain", c_uint32)]


lib.csight_store_open_path.argtypes = [c_char_p, c_uint, POINTER(c_void_p)]
lib.csight_store_functions.argtypes = [c_void_p]
lib.csight_store_functions.restype = c_size_t
lib.csight_store_function.argtypes = [c_void_p, c_size_t, POINTER(Function)]
lib.csight_store_function.restype = c_int
lib.csight_store_close.argtypes = [c_void_p]
lib.csight_store_close.restype = c_void_p


def functions(path):
    store = c_void_p()
    rc = lib.csight_store_open_path(path.encode(), 0, byref(store))
    if rc < 0:
        sys.exit(f"cannot read {path}: {os.strerror(-rc)}")
    try:
        for i in range(lib.csight_store_functions(store)):
            f = Function(size=ctypes.sizeof(Function))
            if lib.csight_store_function(store, i, byref(f)) == 0 and f.calls:
                # Its texts are valid until the store is closed.
                yield {"name": f.name.decode(errors="replace"), "calls": f.calls, "self": f.self_, "p99": f.p99}
    finally:
        lib.csight_store_close(store)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    rows = sorted(functions(sys.argv[1]), key=lambda f: (-f["self"], f["name"]))
    for f in rows[:int(sys.argv[2]) if len(sys.argv) == 3 else 10]:
        print(f"{f['self']:15} ns self {f['calls']:10} calls {f['p99']:12} ns p99  {f['name']}")
