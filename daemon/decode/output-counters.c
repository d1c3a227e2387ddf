/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/output-counters.h"
#include "lib/base/util.h"

enum { LABEL_MAX = 128 };

/* A sample of a counter, of the thread or, if its events are frequencies, of the CPU that it counts in. */
struct counted {
	uint32_t counter, of;
	uint64_t time, value;
};

static int compare_counted(const void *left, const void *right)
{
	const struct counted *a = left, *b = right;

	if (a->counter != b->counter)
		return a->counter < b->counter ? -1 : 1;
	if (a->of != b->of)
		return a->of < b->of ? -1 : 1;
	return (a->time > b->time) - (a->time < b->time);
}

static int put_sample(struct store_writer *w, const struct pd_counter *counter, const struct counted *s, uint64_t total)
{
	char label[LABEL_MAX];
	struct store_note n = { .tid = counter->frequency ? 0 : s->of,
				.kind = STORE_NOTE_COUNTER,
				.label = label,
				.time = s->time,
				.until = s->time,
				.value = (int64_t)MIN(counter->frequency ? s->value : total, (uint64_t)INT64_MAX) };

	if (counter->frequency)
		snprintf(label, sizeof(label), "CPU %u frequency (kHz)", s->of);
	else
		snprintf(label, sizeof(label), "%s", counter->name);
	return store_put_note(w, &n);
}

int output_counters_put(const struct pd_contents *c, uint64_t shift, struct store_writer *w)
{
	_cleanup_free_ struct counted *list = calloc(c->n_samples + 1, sizeof(*list));
	uint64_t total = 0;
	size_t n = 0;
	int rc = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_samples; i++) {
		const struct pd_sample *s = &c->samples[i];
		uint32_t of = c->counters[s->counter].frequency ? s->origin.cpu : s->origin.tid;

		/* Thread 0 is that of a CPU that does nothing. The shift may be negative: times are modulo 2^64. */
		if (s->origin.time && of != UINT32_MAX && (of || c->counters[s->counter].frequency))
			list[n++] = (struct counted){ s->counter, of, s->origin.time - shift, s->value };
	}
	qsort(list, n, sizeof(*list), compare_counted);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct counted *before = i ? &list[i - 1] : NULL;

		if (!before || before->counter != list[i].counter || before->of != list[i].of)
			total = 0;
		total += MIN(list[i].value, UINT64_MAX - total);
		rc = put_sample(w, &c->counters[list[i].counter], &list[i], total);
	}
	return rc;
}
