# SPDX-License-Identifier: MIT
# lib/local: decodes of files without the daemon, for csight and libcsight
noinst_LTLIBRARIES += lib/local/liblocal.la
lib_local_liblocal_la_SOURCES = lib/local/bundle.c lib/local/bundle.h lib/local/file-decode.c lib/local/file-decode.h \
	lib/local/finder.c lib/local/finder.h
lib_local_liblocal_la_LIBADD = lib/decoder/libdecoder-alone.la
