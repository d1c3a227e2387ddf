# SPDX-License-Identifier: MIT
# The check of the environment: csight doctor, and csight_doctor_run() of libcsight.
noinst_LTLIBRARIES += lib/doctor/libdoctor.la
lib_doctor_libdoctor_la_SOURCES = lib/doctor/doctor.c lib/doctor/doctor.h lib/doctor/doctor-firmware.c \
	lib/doctor/doctor-hardware.c lib/doctor/doctor-kernel.c lib/doctor/doctor-programs.c lib/doctor/doctor-rights.c \
	lib/doctor/doctor-use.c lib/doctor/emulator.c lib/doctor/emulator.h
lib_doctor_libdoctor_la_LIBADD = lib/coresight/libcoresight-alone.la
