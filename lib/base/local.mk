noinst_LTLIBRARIES += lib/base/libbase.la
lib_base_libbase_la_SOURCES = \
	lib/base/array.c lib/base/array.h \
	lib/base/buf.c lib/base/buf.h \
	lib/base/escape.c lib/base/escape.h \
	lib/base/huge.c lib/base/huge.h \
	lib/base/io.c lib/base/io.h \
	lib/base/json.c lib/base/json.h \
	lib/base/log.c lib/base/log.h \
	lib/base/numbers.c lib/base/numbers.h \
	lib/base/paths.c lib/base/paths.h \
	lib/base/reader.c lib/base/reader.h \
	lib/base/reason.c lib/base/reason.h \
	lib/base/util.h
lib_base_libbase_la_LIBADD = $(JSON_LIBS)
