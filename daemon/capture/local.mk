# SPDX-License-Identifier: MIT
# Where trace comes from: emu/ (programs under the emulated ETM), perf/ (the kernel's cs_etm PMU), process/ (which code
# a process ran).
noinst_LTLIBRARIES += daemon/capture/libcapture.la
daemon_capture_libcapture_la_SOURCES = \
	daemon/capture/capture.c daemon/capture/capture.h \
	daemon/capture/emu/emu.c daemon/capture/emu/emu.h \
	daemon/capture/emu/emu-internal.h daemon/capture/emu/emu-copy.c daemon/capture/emu/emu-drain.c daemon/capture/emu/emu-slots.c daemon/capture/emu/emu-watch.c \
	daemon/capture/emu/patience.c daemon/capture/emu/patience.h \
	daemon/capture/perf/arena.c daemon/capture/perf/arena.h \
	daemon/capture/perf/backlog.c daemon/capture/perf/backlog.h \
	daemon/capture/perf/aux-buffer.c daemon/capture/perf/aux-buffer.h \
	daemon/capture/perf/replay-log.c daemon/capture/perf/replay-log.h \
	daemon/capture/perf/kernel-code.c daemon/capture/perf/kernel-code.h daemon/kernel/protocol.h \
	daemon/capture/perf/keeper-client.c daemon/capture/perf/keeper-client.h \
	daemon/capture/perf/perf-keep.c daemon/capture/perf/perf-share.c \
	daemon/capture/perf/run-watch.c daemon/capture/perf/run-watch.h \
	daemon/capture/perf/filter.c daemon/capture/perf/filter.h \
	daemon/capture/perf/grid.c daemon/capture/perf/grid.h \
	daemon/capture/perf/perf-counters.c daemon/capture/perf/pmu-counters.c daemon/capture/perf/pmu-counters.h \
	daemon/capture/perf/pause-list.c daemon/capture/perf/pause-list.h \
	daemon/capture/perf/perf.c daemon/capture/perf/perf.h \
	daemon/capture/perf/perf-copy.c daemon/capture/perf/perf-drain.c daemon/capture/perf/perf-follow.c \
	daemon/capture/perf/perf-event.c daemon/capture/perf/perf-event.h \
	daemon/capture/perf/perf-internal.h \
	daemon/capture/perf/perf-target.c \
	daemon/capture/perf/perf-watch.c \
	daemon/capture/perf/plan.c daemon/capture/perf/plan.h \
	daemon/capture/perf/process-table.c daemon/capture/perf/process-table.h \
	daemon/capture/perf/sideband.c daemon/capture/perf/sideband.h \
	daemon/capture/perf/thread-table.c daemon/capture/perf/thread-table.h \
	daemon/capture/perf/watch-calls.c daemon/capture/perf/watch-calls.h \
	daemon/capture/perf/watch-events.c daemon/capture/perf/watch-events.h \
	daemon/capture/perf/watch-places.c daemon/capture/perf/watch-places.h \
	daemon/capture/perf/watch-repeats.c daemon/capture/perf/watch-repeats.h \
	daemon/capture/process/address-space.c daemon/capture/process/address-space.h \
	daemon/capture/process/code-history.c daemon/capture/process/code-history.h \
	daemon/capture/process/code-log.c daemon/capture/process/code-log.h \
	daemon/capture/process/credentials.c daemon/capture/process/credentials.h \
	daemon/capture/process/exit-status.c daemon/capture/process/exit-status.h \
	daemon/capture/process/file-identity.c daemon/capture/process/file-identity.h \
	daemon/capture/process/proc-dir.c daemon/capture/process/proc-dir.h \
	daemon/capture/process/proc-file.c daemon/capture/process/proc-file.h \
	daemon/capture/process/process.c daemon/capture/process/process.h \
	daemon/capture/process/process-internal.h \
	daemon/capture/process/process-log.c \
	daemon/capture/process/process-maps.c \
	daemon/capture/process/process-threads.c daemon/capture/process/process-threads.h \
	daemon/capture/process/process-scan.c
daemon_capture_libcapture_la_LIBADD = lib/emu/libemuring.la lib/coresight/libcoresight.la lib/perfdata/libperfdata.la \
	lib/base/libbase.la -lpthread
