/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "client/format.h"
#include "client/function-name.h"
#include "client/selection.h"
#include "lib/base/duration.h"
#include "lib/base/escape.h"

int selection_parse_duration(const char *text, uint64_t *ret)
{
	_cleanup_free_ char *seconds = NULL;

	/* A number without a unit is in seconds. */
	if (text[strspn(text, "0123456789.")])
		return duration_parse(text, ret);
	if (asprintf(&seconds, "%ss", text) < 0)
		return -ENOMEM;
	return duration_parse(seconds, ret);
}

int selection_parse_time(const char *text, uint64_t first, uint64_t last, uint64_t *ret)
{
	int64_t absolute;
	uint64_t ns;
	int rc;

	if (*text == '@') {
		if (parse_i64(text + 1, 0, INT64_MAX, &absolute) < 0)
			return -EINVAL;
		*ret = (uint64_t)absolute;
		return 0;
	}
	rc = selection_parse_duration(text + (*text == '-'), &ns);
	if (rc == 0)
		*ret = *text != '-' ? first + ns : last > ns ? last - ns : 0;
	return rc;
}

static int find_thread(const struct store *s, const char *text, int64_t *ret)
{
	int64_t tid = -1;
	int found = 0;

	if (parse_i64(text, 0, INT32_MAX, &tid) < 0)
		tid = -1;
	for (size_t i = 0; i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);

		if (tid >= 0 ? t->tid != tid : strcmp(t->name, text) != 0)
			continue;
		*ret = t->tid;
		found++;
	}
	return found == 0 ? -ENOENT : found > 1 && tid < 0 ? -EEXIST : 0;
}

/* The first and the last time of the threads that are selected; first > last: they have no events. */
static void find_span(const struct store *s, int64_t tid, uint64_t *ret_first, uint64_t *ret_last)
{
	*ret_first = UINT64_MAX;
	*ret_last = 0;
	for (size_t i = 0; i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);

		if (!t->events || (tid >= 0 && (uint64_t)tid != t->tid))
			continue;
		*ret_first = MIN(*ret_first, t->first);
		*ret_last = MAX(*ret_last, t->last);
	}
}

static int select_thread(const struct selection *v, const struct store *s, struct export_options *o)
{
	int rc = find_thread(s, v->thread, &o->tid);

	if (rc == 0)
		return 0;
	client_error(rc == -EEXIST ? "more than one thread has the name '%s'; select one by ID:"
				   : "no thread '%s' in this trace, only these:",
		     esc(v->thread));
	for (size_t i = 0; i < store_threads(s); i++)
		fprintf(stderr, "  %u  %s\n", store_thread(s, i)->tid, esc(store_thread(s, i)->name));
	return STATUS_NOT_FOUND;
}

/*
 * Parses a time that may also be "trigger", "trigger-20ms" or "trigger+20ms". Returns 0, -EINVAL, or -ENOENT: no
 * trigger took the snapshot.
 */
static int parse_any_time(const struct store *s, const char *text, uint64_t first, uint64_t last, uint64_t *ret)
{
	static const char word[] = "trigger";
	struct store_trigger trigger;
	uint64_t ns = 0;

	if (strncmp(text, word, strlen(word)) != 0)
		return selection_parse_time(text, first, last, ret);
	text += strlen(word);
	if (*text && ((*text != '+' && *text != '-') || selection_parse_duration(text + 1, &ns) < 0))
		return -EINVAL;
	if (!store_trigger(s, &trigger))
		return -ENOENT;
	last = trigger.time ? trigger.time : last;
	*ret = *text != '-' ? last + ns : last - MIN(last, ns);
	return 0;
}

static int fail_time(struct client *c, const char *option, const char *text, int rc)
{
	if (rc != -ENOENT)
		return client_usage(c, "--%s: '%s' is not a time such as 1.5s, 20ms or -20ms", option, esc(text));
	client_error("--%s=%s: no trigger took this snapshot", option, esc(text));
	return STATUS_NOT_FOUND;
}

/* Times are relative to the whole trace: first, last. */
static int select_times(struct client *c, const struct selection *v, const struct store *s, struct export_options *o)
{
	uint64_t first, last, length, until;
	int rc;

	find_span(s, -1, &first, &last);
	first = MIN(first, last);
	rc = v->since ? parse_any_time(s, v->since, first, last, &o->since) : 0;
	if (rc < 0)
		return fail_time(c, "since", v->since, rc);
	rc = v->until ? parse_any_time(s, v->until, first, last, &o->until) : 0;
	if (rc < 0)
		return fail_time(c, "until", v->until, rc);
	if (v->since && v->last)
		return client_usage(c, "--since and --last cannot be combined: both say where to begin");
	if (v->last && selection_parse_duration(v->last, &length) < 0)
		return client_usage(c, "--last: '%s' is not a duration such as 1.5s, 20ms or 100us", esc(v->last));
	if (v->since && v->until && o->since > o->until)
		return client_usage(c, "--since=%s is after --until=%s", esc(v->since), esc(v->until));
	until = o->until ? MIN(o->until, last) : last;
	if (v->last)
		o->since = until - MIN(until, length);
	/* The option 0 stands for the end of the trace. */
	if (v->until && !o->until)
		o->until = 1;
	return 0;
}

/* Refuses a window in which no selected thread has events. */
static int check_window(const struct selection *v, const struct store *s, uint64_t start,
			const struct export_options *o)
{
	uint64_t first, last;

	find_span(s, o->tid, &first, &last);
	if (first > last || (o->since <= last && (!o->until || o->until >= first)))
		return 0;
	client_error("nothing was traced in this window; %s %s spans %s to %s after the beginning",
		     v->thread ? "thread" : "the", v->thread ? esc(v->thread) : "trace", format_duration(first - start),
		     format_duration(last - start));
	return STATUS_NOT_FOUND;
}

/*
 * Finds the first call of a wanted function in a thread before *time, from o->since on; it becomes *time. *ret_before:
 * the events of that time before it.
 */
static int first_call(const struct store *s, size_t thread, const uint8_t *wanted, const struct export_options *o,
		      uint64_t *time, uint64_t *ret_before)
{
	uint64_t before = 0, last = UINT64_MAX;
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	struct store_event e;
	int rc = store_iter_new(s, thread, &it);

	if (rc == 0 && o->since > store_thread(s, thread)->first)
		rc = store_iter_seek(it, o->since);
	while (rc >= 0 && (rc = store_iter_next(it, &e)) == 1) {
		if (e.time >= *time)
			return 0;
		before = e.time == last ? before + 1 : 0;
		last = e.time;
		if (e.type == STORE_ENTER && wanted[e.frame.function] && !calls_kind_is_resumed(e.kind)) {
			*time = e.time;
			*ret_before = before;
			return 1;
		}
	}
	return rc;
}

/* Begins at the first call of a function, without what is open there in its thread. */
static int select_from(const struct selection *v, const struct store *s, struct export_options *o)
{
	_cleanup_free_ uint8_t *wanted = calloc(store_functions(s) + 1, 1);
	uint64_t time = o->until ? add_saturating(o->until, 1) : UINT64_MAX;
	bool known = false;
	int rc = wanted ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < store_functions(s); i++) {
		wanted[i] = store_name_matches(store_function(s, i)->name, v->from);
		known = known || (wanted[i] && store_function(s, i)->calls);
	}
	if (rc == 0 && !known) {
		function_name_suggest(v->from, &s, 1);
		return STATUS_NOT_FOUND;
	}
	for (size_t i = 0; rc >= 0 && i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);

		if (!t->events || (o->tid >= 0 && (uint64_t)o->tid != t->tid))
			continue;
		rc = first_call(s, i, wanted, o, &time, &o->bare_events);
		if (rc == 1)
			o->bare = t->tid;
	}
	if (rc < 0) {
		client_error("cannot read the calls: %s", client_read_problem(-rc));
		return STATUS_FAILED;
	}
	if (o->bare >= 0) {
		o->since = time;
		return 0;
	}
	client_error("no call of '%s' begins in this window", esc(v->from));
	return STATUS_NOT_FOUND;
}

int selection_apply(struct client *c, const struct selection *v, const struct store *s, struct export_options *o)
{
	uint64_t first, last;
	int64_t budget;
	int rc;

	find_span(s, -1, &first, &last);
	if (first > last)
		first = last;
	rc = select_times(c, v, s, o);
	if (rc != 0)
		return rc;
	if (v->budget) {
		if (parse_i64(v->budget, 0, INT64_MAX, &budget) < 0)
			return client_usage(c, "--budget: '%s' is not a number", esc(v->budget));
		o->budget = (uint64_t)budget;
	}
	if (v->thread)
		rc = select_thread(v, s, o);
	if (rc == 0)
		rc = check_window(v, s, first, o);
	return rc == 0 && v->from ? select_from(v, s, o) : rc;
}
