# SPDX-License-Identifier: MIT
# The parts that the daemon uses to read the rings.
noinst_LTLIBRARIES += lib/emu/libemuring.la
lib_emu_libemuring_la_SOURCES = lib/emu/etm-atoms.c lib/emu/etm-encode.c lib/emu/etm-encode.h \
	lib/emu/etm-sync.c lib/emu/etm-sync.h lib/emu/ring.h

# The plugin has its own copies of what else it needs, since QEMU loads it into a process without our libraries.
noinst_LTLIBRARIES += lib/emu/libplugin.la
lib_emu_libplugin_la_SOURCES = \
	lib/code/a64.h lib/code/syscalls.h \
	lib/emu/buildid.c lib/emu/buildid.h \
	lib/emu/codelog.c lib/emu/codelog.h \
	lib/emu/death.c lib/emu/death.h \
	lib/emu/descriptor.c lib/emu/descriptor.h \
	lib/emu/endings.c lib/emu/endings.h \
	lib/emu/files.c lib/emu/files.h \
	lib/emu/guest.c lib/emu/guest.h \
	lib/emu/maps.c lib/emu/maps.h \
	lib/emu/qemu.h \
	lib/emu/registration.c lib/emu/registration.h \
	lib/emu/shared.c lib/emu/shared.h \
	lib/emu/signals.c lib/emu/signals.h \
	lib/emu/stacks.c lib/emu/stacks.h \
	lib/emu/system-calls.c lib/emu/system-calls.h \
	lib/emu/thread-clock.c lib/emu/thread-clock.h \
	lib/emu/tracing.c lib/emu/tracing.h \
	lib/emu/truth.c lib/emu/truth.h \
	lib/emu/watch.c lib/emu/watch.h lib/emu/watch-goroutines.c lib/emu/watch-goroutines.h lib/emu/watch-join.h
lib_emu_libplugin_la_CFLAGS = -std=gnu11 $(CSIGHT_PLAIN_CFLAGS) -fvisibility=hidden
pkglib_LTLIBRARIES += csight-etm.la
csight_etm_la_SOURCES = lib/emu/plugin.c lib/emu/etm-atoms.c lib/emu/etm-encode.c lib/emu/etm-encode.h lib/base/array.c lib/base/io.c lib/base/quantile.c
csight_etm_la_LIBADD = lib/emu/libplugin.la
csight_etm_la_CFLAGS = $(lib_emu_libplugin_la_CFLAGS)
csight_etm_la_LDFLAGS = -module -avoid-version -shared
