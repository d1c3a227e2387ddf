# Where trace comes from: emu/ (programs under the emulated ETM), perf/ (the kernel's cs_etm PMU), process/ (which code
# a process ran).
noinst_LTLIBRARIES += daemon/capture/libcapture.la
daemon_capture_libcapture_la_SOURCES = \
	daemon/capture/capture.h \
	daemon/capture/copy.c \
	daemon/capture/emu/emu.c daemon/capture/emu/emu.h \
	daemon/capture/perf/arena.c daemon/capture/perf/arena.h \
	daemon/capture/perf/aux.c daemon/capture/perf/aux.h \
	daemon/capture/perf/births.c daemon/capture/perf/births.h \
	daemon/capture/perf/filter.c daemon/capture/perf/filter.h \
	daemon/capture/perf/grid.c daemon/capture/perf/grid.h \
	daemon/capture/perf/perf-copy.c \
	daemon/capture/perf/perf-private.h \
	daemon/capture/perf/perf-source.c \
	daemon/capture/perf/perf.c daemon/capture/perf/perf.h \
	daemon/capture/perf/pevent.c daemon/capture/perf/pevent.h \
	daemon/capture/perf/plan.c daemon/capture/perf/plan.h \
	daemon/capture/perf/side.c daemon/capture/perf/side.h \
	daemon/capture/perf/tasks.c daemon/capture/perf/tasks.h \
	daemon/capture/process/code.c daemon/capture/process/code.h \
	daemon/capture/process/credentials.c daemon/capture/process/credentials.h \
	daemon/capture/process/history.c daemon/capture/process/history.h \
	daemon/capture/process/identity.c daemon/capture/process/identity.h \
	daemon/capture/process/jitdump.c daemon/capture/process/jitdump.h \
	daemon/capture/process/proc.c daemon/capture/process/proc.h \
	daemon/capture/process/process-look.c daemon/capture/process/process-look.h \
	daemon/capture/process/process.c daemon/capture/process/process.h \
	daemon/capture/process/procfs.c daemon/capture/process/procfs.h
daemon_capture_libcapture_la_LIBADD = lib/emu/libemuring.la lib/coresight/libcoresight.la lib/perfdata/libperfdata.la \
	lib/base/libbase.la -lpthread
