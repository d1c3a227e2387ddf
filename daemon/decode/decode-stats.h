/* SPDX-License-Identifier: MIT */
/* Statistics of a decode, kept per stream and summed for the job. */
#ifndef CSIGHT_DECODE_DECODE_STATS_H
#define CSIGHT_DECODE_DECODE_STATS_H

#include "lib/base/json.h"
#include "lib/etm/native.h"

/* Causes of gaps. */
enum gap_type {
	GAP_TYPE_NO_IMAGE,        /* the code is not available */
	GAP_TYPE_UNKNOWN_ADDRESS, /* the trace has not given an address yet */
	GAP_TYPE_OVERFLOW,        /* the trace unit overflowed */
	GAP_TYPE_DISCARD,         /* the trace unit discarded speculative trace */
	GAP_TYPE_BAD_PACKET,      /* invalid bytes; decoding resumes at the next sync point */
	GAP_TYPE_BAD_IMAGE,       /* trace and code contradict each other */
	GAP_TYPE_LOST,            /* the recorder reports that it lost trace */
	GAP_TYPE_CUT,             /* bytes that the input describes are missing from it */
	GAP_TYPE_CRASH,           /* OpenCSD crashed; the rest of the piece is lost */
	GAP_TYPE_UNSUPPORTED,     /* no engine supports this trace source */
	GAP_TYPES,
};

struct decode_stats {
	uint64_t bytes, decoded;
	uint64_t lost; /* bytes that were overwritten before they could be copied, as far as their number is known */
	uint64_t sync; /* offset of the first sync point; UINT64_MAX: none */
	uint64_t instructions, ranges, exceptions;
	uint64_t gaps[GAP_TYPES];
};

/* Counts an element that is not a range. */
void decode_stats_add_other(struct decode_stats *s, const struct element *e);

/* Counts a batch, by the sums before it and with it. */
void decode_stats_add_batch(struct decode_stats *s, const struct native_batch *b, const struct native_sums *before,
			    const struct native_sums *with);
void decode_stats_add_engine(struct decode_stats *s, const struct engine_stats *engine);

/* Adds all counts of `from`; the sync point of `to` stays. */
void decode_stats_sum(struct decode_stats *to, const struct decode_stats *from);

/* Adds the members bytes, decoded, lost_bytes, instructions, ranges, exceptions and gaps. */
void decode_stats_json(const struct decode_stats *s, json_object *to);

static inline void decode_stats_add_element(struct decode_stats *s, const struct element *e)
{
	if (e->kind != ELEM_RANGE && e->kind != ELEM_RANGE_NOPATH) {
		decode_stats_add_other(s, e);
		return;
	}
	s->ranges += e->several ? e->offset : 1;
	s->instructions += e->range.count;
	s->gaps[GAP_TYPE_BAD_IMAGE] += e->torn;
}

#endif
