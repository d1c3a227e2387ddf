# SPDX-License-Identifier: MIT
# Without lib/base, which libcsight has once: for libcsight.so
noinst_LTLIBRARIES += lib/store/libstore-alone.la
lib_store_libstore_alone_la_SOURCES = \
	lib/store/bounds.c \
	lib/store/call.c lib/store/call.h \
	lib/store/chunk.c \
	lib/store/clones.c \
	lib/store/cut-calls.c \
	lib/store/finder.c lib/store/finder.h \
	lib/store/format.h \
	lib/store/histogram.c lib/store/histogram.h \
	lib/store/iter.c \
	lib/store/merge.c \
	lib/store/names.c \
	lib/store/notes.c \
	lib/store/numbering.c \
	lib/store/physical.c \
	lib/store/meta.c lib/store/read.c lib/store/reader.h \
	lib/store/recover.c \
	lib/store/redact.c \
	lib/store/rename.c \
	lib/store/rewriter.c \
	lib/store/store.h \
	lib/store/trigger-call.c lib/store/trigger-call.h \
	lib/store/write-tables.c \
	lib/store/write.c lib/store/writer.h
lib_store_libstore_alone_la_LIBADD = $(ZLIB_LIBS)

noinst_LTLIBRARIES += lib/store/libstore.la
lib_store_libstore_la_SOURCES =
lib_store_libstore_la_LIBADD = lib/store/libstore-alone.la lib/base/libbase.la $(ZLIB_LIBS)
