pkglibexec_PROGRAMS += csight-decode
csight_decode_SOURCES = \
	client/decode/autofdo.c \
	client/decode/cage.c client/decode/cage.h \
	client/decode/calls.c \
	client/decode/decode.c client/decode/decode.h \
	client/decode/demux.c client/decode/demux.h \
	client/decode/info.c client/decode/info.h \
	client/decode/job.c client/decode/job.h \
	client/decode/lane.c client/decode/lane.h \
	client/decode/main.c \
	client/decode/output.h \
	client/decode/outputs.c client/decode/outputs.h \
	client/decode/queue.c client/decode/queue.h \
	client/decode/runs.c client/decode/runs.h \
	client/decode/source.c client/decode/source.h \
	client/decode/source-perf.c \
	client/decode/source-snapshot.c \
	client/decode/source-store.c \
	client/decode/stream.c client/decode/stream.h \
	client/decode/tally.c client/decode/tally.h \
	client/decode/text.c
csight_decode_LDADD = lib/export/libexport.la lib/store/libstore.la lib/calls/libcalls.la \
	lib/etm/libetm.la lib/coresight/libcoresight.la lib/code/libcode.la lib/perfdata/libperfdata.la lib/worker/libworker.la \
	lib/base/libbase.la
