# SPDX-License-Identifier: MIT
# csight-decode: all of it but main() is a convenience library, which the tests link.
noinst_LTLIBRARIES += daemon/decode/libdecode.la
daemon_decode_libdecode_la_SOURCES = \
	daemon/decode/build-id-job.c daemon/decode/build-id-job.h \
	daemon/decode/cage.c daemon/decode/cage.h \
	daemon/decode/call-lines.c daemon/decode/call-lines.h \
	daemon/decode/code-tables.c daemon/decode/code-tables.h \
	daemon/decode/decode-stats.c daemon/decode/decode-stats.h \
	daemon/decode/decode.c daemon/decode/decode.h \
	daemon/decode/demux.c daemon/decode/demux.h daemon/decode/demux-state.h \
	daemon/decode/demux-loss.c daemon/decode/demux-loss.h daemon/decode/demux-place.c daemon/decode/demux-place.h \
	daemon/decode/edge-counts.c daemon/decode/edge-counts.h \
	daemon/decode/element-queue.c daemon/decode/element-queue.h \
	daemon/decode/info.c daemon/decode/info.h \
	daemon/decode/input-perf.c \
	daemon/decode/input-snapshot.c \
	daemon/decode/input-store.c \
	daemon/decode/input.c daemon/decode/input.h \
	daemon/decode/intervals.c daemon/decode/intervals.h \
	daemon/decode/jitdump.c daemon/decode/jitdump.h \
	daemon/decode/job.c daemon/decode/job.h \
	daemon/decode/live.c daemon/decode/live.h daemon/decode/live-rounds.c daemon/decode/live-rounds.h \
	daemon/decode/live-lines.c daemon/decode/live-lines.h \
	daemon/decode/memory-files.c daemon/decode/memory-files.h \
	daemon/decode/output-autofdo.c \
	daemon/decode/output-branches.c \
	daemon/decode/output-calls.c daemon/decode/output-counters.c daemon/decode/output-counters.h \
	daemon/decode/output-text.c \
	daemon/decode/output.h \
	daemon/decode/output-ending.c daemon/decode/output-ending.h \
	daemon/decode/outputs.c daemon/decode/outputs.h \
	daemon/decode/place.c daemon/decode/place.h \
	daemon/decode/region-numbers.c daemon/decode/region-numbers.h \
	daemon/decode/rename.c daemon/decode/rename.h \
	daemon/decode/schedule.c daemon/decode/schedule.h \
	daemon/decode/window.c daemon/decode/window.h \
	daemon/decode/syscall-names.c daemon/decode/syscall-names.h \
	daemon/decode/server.c daemon/decode/server.h \
	daemon/decode/store-queue.c daemon/decode/store-queue.h \
	daemon/decode/stream-decoder.c daemon/decode/stream-decoder.h \
	daemon/decode/stream.c daemon/decode/stream.h \
	daemon/decode/trigger-mark.c daemon/decode/trigger-mark.h \
	daemon/decode/watchdog.c daemon/decode/watchdog.h
daemon_decode_libdecode_la_LIBADD = lib/export/libexport.la lib/store/libstore.la lib/notes/libnotes.la lib/calls/libcalls.la \
	lib/etm/libetm.la lib/coresight/libcoresight.la lib/code/libcode.la lib/perfdata/libperfdata.la lib/decoder/libdecoder.la \
	lib/base/libbase.la

pkglibexec_PROGRAMS += csight-decode
csight_decode_SOURCES = daemon/decode/main.c
csight_decode_LDADD = daemon/decode/libdecode.la
