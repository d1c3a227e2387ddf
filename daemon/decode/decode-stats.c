/* SPDX-License-Identifier: MIT */
#include "daemon/decode/decode-stats.h"

void decode_stats_add_other(struct decode_stats *s, const struct element *e)
{
	switch (e->kind) {
	case ELEM_EXCEPTION:
		s->exceptions++;
		break;
	case ELEM_NO_IMAGE:
		s->gaps[GAP_TYPE_NO_IMAGE]++;
		break;
	case ELEM_UNKNOWN_ADDRESS:
		s->gaps[GAP_TYPE_UNKNOWN_ADDRESS]++;
		break;
	case ELEM_NO_SYNC:
		if (e->reason == REASON_OVERFLOW)
			s->gaps[GAP_TYPE_OVERFLOW]++;
		else if (e->reason == REASON_DISCARD)
			s->gaps[GAP_TYPE_DISCARD]++;
		else if (e->reason == REASON_BAD_PACKET)
			s->gaps[GAP_TYPE_BAD_PACKET]++;
		else if (e->reason == REASON_BAD_IMAGE)
			s->gaps[GAP_TYPE_BAD_IMAGE]++;
		else if (e->reason == REASON_LOST)
			s->gaps[GAP_TYPE_LOST]++;
		break;
	default:
		break;
	}
}

void decode_stats_add_batch(struct decode_stats *s, const struct native_batch *b, const struct native_sums *before,
			    const struct native_sums *with)
{
	s->ranges += with->ranges - before->ranges;
	s->instructions += with->instructions - before->instructions;
	s->gaps[GAP_TYPE_BAD_IMAGE] += with->torn - before->torn;
	for (size_t i = 0; i < b->n_events; i++) {
		if (b->events[i].kind == ELEM_RANGE_NOPATH)
			decode_stats_add_element(s, &b->events[i]);
		else if (b->events[i].kind != ELEM_RANGE)
			decode_stats_add_other(s, &b->events[i]);
	}
}

void decode_stats_add_engine(struct decode_stats *s, const struct engine_stats *engine)
{
	if (s->sync == UINT64_MAX && engine->first_sync != UINT64_MAX)
		s->sync = s->bytes + engine->first_sync;
	s->bytes += engine->bytes;
	s->decoded += engine->decoded;
	s->gaps[GAP_TYPE_CRASH] += engine->crashes;
}

void decode_stats_sum(struct decode_stats *to, const struct decode_stats *from)
{
	to->bytes += from->bytes;
	to->decoded += from->decoded;
	to->lost += from->lost;
	to->instructions += from->instructions;
	to->ranges += from->ranges;
	to->exceptions += from->exceptions;
	for (int i = 0; i < GAP_TYPES; i++)
		to->gaps[i] += from->gaps[i];
}

void decode_stats_json(const struct decode_stats *s, json_object *to)
{
	static const char *const names[GAP_TYPES] = {
		[GAP_TYPE_NO_IMAGE] = "no-image",
		[GAP_TYPE_UNKNOWN_ADDRESS] = "unknown-address",
		[GAP_TYPE_OVERFLOW] = "overflow",
		[GAP_TYPE_DISCARD] = "discard",
		[GAP_TYPE_BAD_PACKET] = "bad-packet",
		[GAP_TYPE_BAD_IMAGE] = "bad-image",
		[GAP_TYPE_LOST] = "lost",
		[GAP_TYPE_CUT] = "cut",
		[GAP_TYPE_CRASH] = "crash",
		[GAP_TYPE_UNSUPPORTED] = "unsupported",
	};
	json_object *gaps = json_object_new_object();

	json_add_u64(to, "bytes", s->bytes);
	json_add_u64(to, "decoded", s->decoded);
	if (s->lost)
		json_add_u64(to, "lost_bytes", s->lost);
	json_add_u64(to, "instructions", s->instructions);
	json_add_u64(to, "ranges", s->ranges);
	json_add_u64(to, "exceptions", s->exceptions);
	for (int i = 0; gaps && i < GAP_TYPES; i++)
		if (s->gaps[i])
			json_add_u64(gaps, names[i], s->gaps[i]);
	json_add(to, "gaps", gaps);
}
