noinst_LTLIBRARIES += lib/calls/libcalls.la
lib_calls_libcalls_la_SOURCES = \
	lib/calls/calls.c lib/calls/calls.h \
	lib/calls/fibres.c \
	lib/calls/inlined.c \
	lib/calls/names.c \
	lib/calls/spread.c lib/calls/spread.h \
	lib/calls/stack.c lib/calls/state.h
lib_calls_libcalls_la_LIBADD = lib/code/libcode.la
