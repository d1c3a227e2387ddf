#include "daemon/decode/decode-stats.h"

void decode_stats_add_other(struct decode_stats *t, const struct element *e)
{
	switch (e->kind) {
	case ELEM_EXCEPTION:
		t->exceptions++;
		break;
	case ELEM_NO_IMAGE:
		t->gaps[GAP_TYPE_NO_IMAGE]++;
		break;
	case ELEM_UNKNOWN_ADDRESS:
		t->gaps[GAP_TYPE_UNKNOWN_ADDRESS]++;
		break;
	case ELEM_NO_SYNC:
		if (e->reason == REASON_OVERFLOW)
			t->gaps[GAP_TYPE_OVERFLOW]++;
		else if (e->reason == REASON_DISCARD)
			t->gaps[GAP_TYPE_DISCARD]++;
		else if (e->reason == REASON_BAD_PACKET)
			t->gaps[GAP_TYPE_BAD_PACKET]++;
		else if (e->reason == REASON_BAD_IMAGE)
			t->gaps[GAP_TYPE_BAD_IMAGE]++;
		break;
	default:
		break;
	}
}

void decode_stats_add_engine(struct decode_stats *t, const struct engine_stats *stats)
{
	if (t->sync == UINT64_MAX && stats->first_sync != UINT64_MAX)
		t->sync = t->bytes + stats->first_sync;
	t->bytes += stats->bytes;
	t->decoded += stats->decoded;
	t->gaps[GAP_TYPE_CRASH] += stats->crashes;
}

void decode_stats_sum(struct decode_stats *to, const struct decode_stats *from)
{
	to->bytes += from->bytes;
	to->decoded += from->decoded;
	to->instructions += from->instructions;
	to->ranges += from->ranges;
	to->exceptions += from->exceptions;
	for (int i = 0; i < GAP_TYPES; i++)
		to->gaps[i] += from->gaps[i];
}

void decode_stats_json(const struct decode_stats *t, json_object *to)
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

	json_add_u64(to, "bytes", t->bytes);
	json_add_u64(to, "decoded", t->decoded);
	json_add_u64(to, "instructions", t->instructions);
	json_add_u64(to, "ranges", t->ranges);
	json_add_u64(to, "exceptions", t->exceptions);
	for (int i = 0; gaps && i < GAP_TYPES; i++)
		if (t->gaps[i])
			json_add_u64(gaps, names[i], t->gaps[i]);
	json_object_object_add(to, "gaps", gaps);
}
