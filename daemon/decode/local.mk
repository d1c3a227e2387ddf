# csight-decode: all of it but main() is a convenience library, which the tests link.
noinst_LTLIBRARIES += daemon/decode/libdecode.la
daemon_decode_libdecode_la_SOURCES = \
	daemon/decode/autofdo.c \
	daemon/decode/cage.c daemon/decode/cage.h \
	daemon/decode/calls.c \
	daemon/decode/decode.c daemon/decode/decode.h \
	daemon/decode/demux.c daemon/decode/demux.h \
	daemon/decode/info.c daemon/decode/info.h \
	daemon/decode/job.c daemon/decode/job.h \
	daemon/decode/lane.c daemon/decode/lane.h \
	daemon/decode/output.h \
	daemon/decode/outputs.c daemon/decode/outputs.h \
	daemon/decode/queue.c daemon/decode/queue.h \
	daemon/decode/runs.c daemon/decode/runs.h \
	daemon/decode/source-perf.c \
	daemon/decode/source-snapshot.c \
	daemon/decode/source-store.c \
	daemon/decode/source.c daemon/decode/source.h \
	daemon/decode/stream.c daemon/decode/stream.h \
	daemon/decode/tally.c daemon/decode/tally.h \
	daemon/decode/text.c
daemon_decode_libdecode_la_LIBADD = lib/export/libexport.la lib/store/libstore.la lib/calls/libcalls.la \
	lib/etm/libetm.la lib/coresight/libcoresight.la lib/code/libcode.la lib/perfdata/libperfdata.la lib/decoder/libdecoder.la \
	lib/base/libbase.la

pkglibexec_PROGRAMS += csight-decode
csight_decode_SOURCES = daemon/decode/main.c
csight_decode_LDADD = daemon/decode/libdecode.la
