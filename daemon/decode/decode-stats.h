/* What a decode found, counted; a stream's are added to the whole's. */
#ifndef CSIGHT_DECODE_DECODE_STATS_H
#define CSIGHT_DECODE_DECODE_STATS_H

#include "lib/base/json.h"
#include "lib/etm/engine.h"

/* Where a stream has holes. */
enum gap_type {
	GAP_TYPE_NO_IMAGE,        /* code that nobody could give */
	GAP_TYPE_UNKNOWN_ADDRESS, /* the stream did not say where it is */
	GAP_TYPE_OVERFLOW,        /* the trace unit lost bytes */
	GAP_TYPE_DISCARD,         /* the trace unit took back what it had said */
	GAP_TYPE_BAD_PACKET,      /* bytes that mean nothing; the decoder went on at the next synchronisation */
	GAP_TYPE_BAD_IMAGE,       /* the code is not what ran, or the trace was garbled */
	GAP_TYPE_LOST,            /* the recorder says that it lost trace here */
	GAP_TYPE_CUT,             /* bytes that the file should have and has not */
	GAP_TYPE_CRASH,           /* the engine's library crashed, and lost the rest of its piece */
	GAP_TYPE_UNSUPPORTED,     /* a source that no engine here decodes */
	GAP_TYPES,
};

struct decode_stats {
	uint64_t bytes, decoded;
	uint64_t sync; /* offset of the first synchronisation point; UINT64_MAX: none */
	uint64_t instructions, ranges, exceptions;
	uint64_t gaps[GAP_TYPES];
};

/* Of all that is no range. */
void decode_stats_add_other(struct decode_stats *t, const struct element *e);
void decode_stats_add_engine(struct decode_stats *t, const struct engine_stats *stats);
void decode_stats_sum(struct decode_stats *to, const struct decode_stats *from);

/* bytes, decoded, instructions, ranges, exceptions, gaps. */
void decode_stats_json(const struct decode_stats *t, json_object *to);

static inline void decode_stats_add_element(struct decode_stats *t, const struct element *e)
{
	if (e->kind != ELEM_RANGE && e->kind != ELEM_RANGE_NOPATH) {
		decode_stats_add_other(t, e);
		return;
	}
	t->ranges += e->several ? e->offset : 1;
	t->instructions += e->range.count;
	t->gaps[GAP_TYPE_BAD_IMAGE] += e->torn;
}

#endif
