/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "daemon/decode/trigger-mark.h"
#include "lib/base/duration.h"
#include "lib/base/parse.h"

static void read_hit(json_object *mark, struct store_trigger *ret)
{
	struct store_trigger t = { .condition = NULL };
	uint64_t tid;

	if (json_get_str(mark, "condition", &t.condition) < 0)
		return;
	if (json_get_str(mark, "function", &t.function) < 0)
		t.function = NULL;
	if (json_get_u64(mark, "tid", &tid) == 0 && tid <= UINT32_MAX)
		t.tid = (uint32_t)tid;
	if (json_get_u64(mark, "time", &t.time) < 0)
		t.time = 0;
	t.timed = json_get_u64(mark, "value", &t.value) == 0;
	*ret = t;
}

/* Returns the value of the label with the name wanted, or NULL. */
static const char *label_value(json_object *labels, const char *wanted)
{
	for (size_t i = 0; i < json_array_size(labels); i++) {
		json_object *label = json_object_array_get_idx(labels, i);
		const char *name, *value;

		if (json_object_is_type(label, json_type_object) && json_get_str(label, "name", &name) == 0 &&
		    json_get_str(label, "value", &value) == 0 && strcmp(name, wanted) == 0)
			return value;
	}
	return NULL;
}

static uint64_t number_of(json_object *labels, const char *name)
{
	const char *text = label_value(labels, name);
	uint64_t n;

	return text && parse_u64(text, UINT64_MAX, &n) == 0 ? n : 0;
}

/* True if the times of the trace are those of the program's CLOCK_MONOTONIC. */
static bool is_monotonic(json_object *snapshot)
{
	const char *clock;
	int64_t shift;

	return (json_get_str(snapshot, "clock", &clock) == 0 && strcmp(clock, "monotonic") == 0) ||
	       json_get_i64(snapshot, "clock_shift", &shift) == 0;
}

static void read_region(json_object *snapshot, struct trigger_mark *ret)
{
	char budget[DURATION_SIZE];
	json_object *labels;
	const char *name;

	if (json_get(snapshot, "labels", json_type_array, &labels) < 0)
		return;
	name = label_value(labels, "region");
	if (!name)
		return;
	snprintf(ret->region, sizeof(ret->region), "region %.64s longer than %s", name,
		 duration_text(number_of(labels, "region-budget"), 0, budget));
	ret->trigger = (struct store_trigger){ .condition = ret->region,
					       .tid = (uint32_t)number_of(labels, "region-tid"),
					       .time = is_monotonic(snapshot) ? number_of(labels, "region-end") : 0,
					       .timed = label_value(labels, "region-ns") != NULL,
					       .value = number_of(labels, "region-ns") };
}

void trigger_mark_read(const struct decode_job *job, struct trigger_mark *ret)
{
	json_object *mark;

	*ret = (struct trigger_mark){ .region = "" };
	if (!job->snapshot)
		return;
	if (json_get(job->snapshot, "trigger", json_type_object, &mark) == 0)
		read_hit(mark, &ret->trigger);
	if (!ret->trigger.condition)
		read_region(job->snapshot, ret);
}
