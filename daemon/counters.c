/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/counters.h"

static const uint64_t bounds_ms[COUNTERS_BUCKETS] = { 10, 100, 1000, 10000, 60000, 600000 };

void counters_add_wait(struct counters_wait *w, uint64_t since_ns)
{
	uint64_t waited = now_ns(CLOCK_MONOTONIC) - since_ns;
	size_t i = 0;

	while (i < COUNTERS_BUCKETS && waited > bounds_ms[i] * 1000000)
		i++;
	w->n[i]++;
	w->sum_ns += waited;
}

static json_object *wait_json(const struct counters_wait *w)
{
	json_object *o = json_object_new_object(), *buckets = json_object_new_array();

	for (size_t i = 0; i <= COUNTERS_BUCKETS; i++) {
		json_object *bucket = json_object_new_object();

		if (i < COUNTERS_BUCKETS)
			json_add_u64(bucket, "atMost", bounds_ms[i]);
		json_add_u64(bucket, "count", w->n[i]);
		json_array_add(buckets, bucket);
	}
	json_add(o, "buckets", buckets);
	json_add_u64(o, "sum", w->sum_ns);
	return o;
}

static json_object *refusals_json(const char *cause, uint64_t n)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "cause", cause);
	json_add_u64(o, "count", n);
	return o;
}

json_object *counters_json(const struct counters *c)
{
	json_object *o = json_object_new_object(), *refused = json_object_new_array();

	json_add_u64(o, "taken", c->taken);
	json_add_u64(o, "failed", c->failed);
	json_add_u64(o, "ready", c->ready);
	json_add_u64(o, "raw", c->raw);
	json_add_u64(o, "blind", c->blind_ns);
	json_add(o, "copyWait", wait_json(&c->copy));
	json_add(o, "decodeWait", wait_json(&c->decode));
	json_array_add(refused, refusals_json("permission", c->denied));
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		json_array_add(refused, refusals_json(ledger_kind_str(k), c->limits[k]));
	json_add(o, "refused", refused);
	return o;
}
