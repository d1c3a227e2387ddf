# SPDX-License-Identifier: MIT
# Without lib/base, which libcsight has once: for libcsight.so
noinst_LTLIBRARIES += lib/coresight/libcoresight-alone.la
lib_coresight_libcoresight_alone_la_SOURCES = \
	lib/coresight/deframe.c lib/coresight/deframe.h \
	lib/coresight/armsnap.c lib/coresight/armsnap.h \
	lib/coresight/hazards.c lib/coresight/hazards.h \
	lib/coresight/kernel-config.c lib/coresight/kernel-config.h \
	lib/coresight/sysroot.c lib/coresight/sysroot.h \
	lib/coresight/topology.c lib/coresight/topology-cpus.c lib/coresight/topology-devices.c \
	lib/coresight/topology.h lib/coresight/topology-read.h
lib_coresight_libcoresight_alone_la_LIBADD = $(ZLIB_LIBS)

noinst_LTLIBRARIES += lib/coresight/libcoresight.la
lib_coresight_libcoresight_la_SOURCES =
lib_coresight_libcoresight_la_LIBADD = lib/coresight/libcoresight-alone.la lib/base/libbase.la
