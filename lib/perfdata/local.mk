# SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += lib/perfdata/libperfdata.la
lib_perfdata_libperfdata_la_SOURCES = \
	lib/perfdata/features.c lib/perfdata/file.h lib/perfdata/format.h lib/perfdata/inflate.c lib/perfdata/live.c lib/perfdata/live.h \
	lib/perfdata/pieces.c lib/perfdata/pieces.h lib/perfdata/losses.c lib/perfdata/losses.h lib/perfdata/inherit.c \
	lib/perfdata/read.c lib/perfdata/read.h lib/perfdata/records.c lib/perfdata/samples.c lib/perfdata/sums.c lib/perfdata/sums.h \
	lib/perfdata/write.c lib/perfdata/write.h
lib_perfdata_libperfdata_la_LIBADD = lib/base/libbase.la $(ZLIB_LIBS) $(ZSTD_LIBS)
