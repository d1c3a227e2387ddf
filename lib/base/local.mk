# SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += lib/base/libbase.la
lib_base_libbase_la_SOURCES = \
	lib/base/array.c lib/base/array.h \
	lib/base/buf.c lib/base/buf.h \
	lib/base/digest.c lib/base/digest.h \
	lib/base/duration.c lib/base/duration.h \
	lib/base/ending.c lib/base/ending.h \
	lib/base/escape.c lib/base/escape.h \
	lib/base/fit.c lib/base/fit.h \
	lib/base/hash.c lib/base/hash.h \
	lib/base/hex.c lib/base/hex.h \
	lib/base/huge.c lib/base/huge.h \
	lib/base/ini.c lib/base/ini.h \
	lib/base/io.c lib/base/io.h \
	lib/base/json.c lib/base/json-parse.c lib/base/json-text.c lib/base/json.h \
	lib/base/log.c lib/base/log.h \
	lib/base/parse.c lib/base/parse.h \
	lib/base/path.c lib/base/path.h \
	lib/base/quantile.c lib/base/quantile.h \
	lib/base/reader.c lib/base/reader.h \
	lib/base/reason.c lib/base/reason.h \
	lib/base/texts.c lib/base/texts.h \
	lib/base/util.h
lib_base_libbase_la_LIBADD = $(JSON_LIBS)
