/* SPDX-License-Identifier: MIT */
#include "daemon/decode/trigger-mark.h"

void trigger_mark_read(const struct decode_job *job, struct store_trigger *ret)
{
	struct store_trigger t = { .condition = NULL };
	json_object *mark;
	uint64_t tid;

	*ret = t;
	if (!job->snapshot || json_get(job->snapshot, "trigger", json_type_object, &mark) < 0 ||
	    json_get_str(mark, "condition", &t.condition) < 0)
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
