# SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += lib/export/libexport.la
lib_export_libexport_la_SOURCES = \
	lib/export/chrome.c \
	lib/export/decode-formats.c lib/export/decode-formats.h \
	lib/export/export.c lib/export/export.h \
	lib/export/folded.c \
	lib/export/fxt.c \
	lib/export/names.c lib/export/names.h \
	lib/export/out.c lib/export/out.h \
	lib/export/parquet.c lib/export/parquet-file.c lib/export/parquet-file.h \
	lib/export/perfetto.c lib/export/perfetto.h \
	lib/export/pprof.c \
	lib/export/protobuf.h \
	lib/export/speedscope.c \
	lib/export/stacks.c lib/export/stacks.h \
	lib/export/timeline.c lib/export/timeline.h lib/export/timeline-print.c lib/export/timeline-private.h \
	lib/export/tree.c \
	lib/export/walk.c lib/export/walk.h
lib_export_libexport_la_LIBADD = lib/store/libstore.la $(ZLIB_LIBS) $(ZSTD_LIBS)
