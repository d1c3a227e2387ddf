# SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += lib/calls/libcalls.la
lib_calls_libcalls_la_SOURCES = \
	lib/calls/arrival.c lib/calls/arrival.h \
	lib/calls/calls.c lib/calls/calls.h lib/calls/calls-private.h \
	lib/calls/compiled.c \
	lib/calls/event-times.c lib/calls/event-times.h \
	lib/calls/fibres.c \
	lib/calls/inlined.c \
	lib/calls/kernel.c \
	lib/calls/stack.c
lib_calls_libcalls_la_LIBADD = lib/calls/libkinds.la lib/etm/libruns.la lib/code/libcode.la

# For programs that only read stores
noinst_LTLIBRARIES += lib/calls/libkinds.la
lib_calls_libkinds_la_SOURCES = lib/calls/kind-names.c
