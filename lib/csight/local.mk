# SPDX-License-Identifier: MIT
# lib/csight: the shared library, and its code as a convenience library for csight, which then runs uninstalled
noinst_LTLIBRARIES += lib/csight/libclient.la
lib_csight_libclient_la_SOURCES = lib/csight/csight.c lib/csight/csight.h lib/csight/csight-internal.h \
	lib/csight/async.c lib/csight/async.h lib/csight/async-calls.c lib/csight/error.c lib/csight/object.c lib/csight/options.c \
	lib/csight/decode.c lib/csight/doctor.c lib/csight/note.c lib/csight/region.c lib/csight/request-queue.c lib/csight/request-queue.h lib/csight/store.c \
	lib/csight/standing-calls.c lib/csight/group-call.c lib/csight/group-call.h lib/csight/trigger-calls.c lib/csight/trigger-calls.h \
	lib/csight/watch.c
lib_csight_libclient_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
lib_csight_libclient_la_LIBADD = lib/calls/libkinds.la lib/doctor/libdoctor.la lib/local/liblocal.la lib/notes/libnotes.la lib/store/libstore-alone.la lib/varlink/libvarlink.la

lib_LTLIBRARIES += lib/csight/libcsight.la
lib_csight_libcsight_la_SOURCES =
lib_csight_libcsight_la_LIBADD = lib/csight/libclient.la
lib_csight_libcsight_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,-z,defs \
	-Wl,--version-script=$(top_srcdir)/lib/csight/libcsight.map
EXTRA_lib_csight_libcsight_la_DEPENDENCIES = lib/csight/libcsight.map
include_HEADERS += lib/csight/csight.h
pkgconfig_DATA += lib/csight/libcsight.pc
EXTRA_DIST += lib/csight/libcsight.map lib/csight/org.csight.varlink
