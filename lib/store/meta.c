/* SPDX-License-Identifier: MIT */
/* META: what a store says of the snapshot, its processes and how they ended. */
#include <string.h>

#include "lib/store/reader.h"

bool store_has_waits(const struct store *s)
{
	return s->layout->waits && !store_meta(s, "waits");
}

static const char *next_meta(struct reader *r, const char *key)
{
	const char *name, *value;

	while (rd_str(r, &name) == 0 && rd_str(r, &value) == 0) {
		if (strcmp(name, key) == 0)
			return value;
	}
	return NULL;
}

const char *store_meta(const struct store *s, const char *key)
{
	struct reader r = reader_of(s->meta, s->meta_size);

	return next_meta(&r, key);
}

uint64_t store_meta_number(const struct store *s, const char *key)
{
	const char *value = store_meta(s, key);

	return value ? strtoull(value, NULL, 10) : 0;
}

bool store_trigger(const struct store *s, struct store_trigger *ret)
{
	*ret = (struct store_trigger){
		.condition = store_meta(s, "trigger"),
		.function = store_meta(s, "trigger_function"),
		.tid = (uint32_t)store_meta_number(s, "trigger_thread"),
		.time = store_meta_number(s, "trigger_time"),
		.timed = store_meta(s, "trigger_value") != NULL,
		.value = store_meta_number(s, "trigger_value"),
	};
	return ret->condition != NULL;
}

int store_endings(const struct store *s, int (*ending)(void *user, const char *text, uint32_t tid), void *user)
{
	struct reader texts = reader_of(s->meta, s->meta_size), threads = texts;
	const char *text, *thread;
	int rc = 0;

	while (rc == 0 && (text = next_meta(&texts, "ended"))) {
		thread = next_meta(&threads, "ended_thread");
		rc = ending(user, text,
			    thread ? (uint32_t)strtoul(thread, NULL, 10) : (uint32_t)store_meta_number(s, "pid"));
	}
	return rc;
}

int store_processes(const struct store *s, int (*process)(void *user, const struct store_process *p), void *user)
{
	struct reader pids = reader_of(s->meta, s->meta_size), threads = pids, programs = pids;
	const char *pid, *thread, *program;
	int rc = 0;

	while (rc == 0 && (pid = next_meta(&pids, "process")) && (thread = next_meta(&threads, "process_thread")) &&
	       (program = next_meta(&programs, "process_program")))
		rc = process(user, &(struct store_process){ (uint32_t)strtoul(pid, NULL, 10),
							    (uint32_t)strtoul(thread, NULL, 10), program });
	return rc;
}

struct process_search {
	size_t thread;
	struct store_process found;
};

static int is_process_of(void *user, const struct store_process *p)
{
	struct process_search *search = user;

	if (search->thread == SIZE_MAX)
		search->found.pid = 0;
	else if (p->first_thread <= search->thread)
		search->found = *p;
	return 0;
}

struct store_process store_process_of(const struct store *s, size_t thread)
{
	const char *program = store_meta(s, "program");
	struct process_search search = { thread, { (uint32_t)store_meta_number(s, "pid"), 0, program ? program : "" } };

	store_processes(s, is_process_of, &search);
	return search.found;
}

struct store_meta store_meta_all(const struct store *s)
{
	struct store_trigger trigger;

	store_trigger(s, &trigger);
	return (struct store_meta){
		.trigger = trigger,
		.pid = (uint32_t)store_meta_number(s, "pid"),
		.program = store_meta(s, "program"),
		.source = store_meta(s, "source"),
		.id = store_meta(s, "id"),
		.clock = store_meta(s, "clock"),
		.realtime = store_meta_number(s, "realtime"),
		.monotonic = store_meta_number(s, "monotonic"),
		.unrecorded = store_meta_number(s, "unrecorded"),
		.window = store_meta_number(s, "window"),
		.waits_unknown = !store_has_waits(s),
	};
}

uint64_t store_realtime(const struct store *s, uint64_t time)
{
	uint64_t realtime = store_meta_number(s, "realtime");

	return realtime ? realtime - store_meta_number(s, "monotonic") + time : 0;
}
