#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Says whether programs can be traced on this machine, or on that of a directory. usage: doctor.py [ROOT]"""
import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_size_t, c_uint, c_void_p

lib = ctypes.CDLL("libcsight.so.0")
BY_HARDWARE, BY_EMULATOR = 1, 2


class Options(ctypes.Structure):
    """struct csight_doctor_options"""
    _fields_ = [("size", c_size_t), ("root", c_char_p)]


class Finding(ctypes.Structure):
    """struct csight_finding"""
    _fields_ = [("size", c_size_t), ("level", c_char_p), ("topic", c_char_p), ("text", c_char_p), ("remedy", c_char_p)]


lib.csight_doctor_run.argtypes = [POINTER(Options), POINTER(c_void_p)]
lib.csight_doctor_ways.argtypes = [c_void_p]
lib.csight_doctor_ways.restype = c_uint
lib.csight_doctor_findings.argtypes = [c_void_p]
lib.csight_doctor_findings.restype = c_size_t
lib.csight_doctor_finding.argtypes = [c_void_p, c_size_t, POINTER(Finding)]
lib.csight_doctor_free.argtypes = [c_void_p]
lib.csight_doctor_free.restype = c_void_p

if __name__ == "__main__":
    root = os.fsencode(sys.argv[1]) if len(sys.argv) > 1 else None
    doctor = c_void_p()
    rc = lib.csight_doctor_run(byref(Options(size=ctypes.sizeof(Options), root=root)), byref(doctor))
    if rc < 0:
        sys.exit(f"cannot examine {sys.argv[1] if root else 'this machine'}: {os.strerror(-rc)}")
    for i in range(lib.csight_doctor_findings(doctor)):
        f = Finding(size=ctypes.sizeof(Finding))
        if lib.csight_doctor_finding(doctor, i, byref(f)) == 0:
            print(*(text.decode(errors="replace") for text in (f.level, f.topic, f.text)), sep="|")
    ways = lib.csight_doctor_ways(doctor)
    lib.csight_doctor_free(doctor)
    print("hardware:", "yes" if ways & BY_HARDWARE else "no", "emulator:", "yes" if ways & BY_EMULATOR else "no")
