# SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += lib/etm/libetm.la
lib_etm_libetm_la_SOURCES = \
	lib/etm/blocks.c lib/etm/blocks.h \
	lib/etm/branches.c lib/etm/branches.h \
	lib/etm/continuity.c lib/etm/continuity.h \
	lib/etm/element.c lib/etm/element.h \
	lib/etm/engine.c lib/etm/engine.h \
	lib/etm/guard.c lib/etm/guard.h \
	lib/etm/instr.c lib/etm/instr.h \
	lib/etm/itm.c \
	lib/etm/native-engine.c \
	lib/etm/native-fast.c \
	lib/etm/native-flow.c \
	lib/etm/native-fold.c \
	lib/etm/native-memo.c \
	lib/etm/native-batch.c \
	lib/etm/native-chunk.c lib/etm/native-chunk.h \
	lib/etm/native-queue.c \
	lib/etm/native-state.h \
	lib/etm/native-workers.c \
	lib/etm/native.c lib/etm/native.h \
	lib/etm/opencsd-element.c \
	lib/etm/opencsd-source.c \
	lib/etm/opencsd.c lib/etm/opencsd.h \
	lib/etm/packet.c lib/etm/packet.h \
	lib/etm/pool.c lib/etm/pool.h \
	lib/etm/verify.c lib/etm/verify.h \
	lib/etm/filler.c lib/etm/filler.h
lib_etm_libetm_la_LIBADD = lib/etm/libruns.la lib/base/libbase.la $(OPENCSD_LIBS)

# For lib/calls, which needs no engine
noinst_LTLIBRARIES += lib/etm/libruns.la
lib_etm_libruns_la_SOURCES = lib/etm/native-runs.c lib/etm/native-runs.h
