/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "lib/store/trigger-call.h"

/* Beside the bound: the emulator reads its clock some time after the instruction that the trace gives a time. */
enum { SLACK_NS = 100000 };

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static const char syscall_prefix[] = "syscall ";

static bool is_syscall(const struct store_trigger *t)
{
	return !t->function && strncmp(t->condition, syscall_prefix, sizeof(syscall_prefix) - 1) == 0;
}

/* True if the hit may be in that system call, whose name may be unknown. */
static bool may_be_in(const struct store_trigger *t, const struct store_function *f)
{
	const char *wanted = t->condition + sizeof(syscall_prefix) - 1;
	size_t n = strcspn(is_syscall(t) ? wanted : "", " ");

	return f->kind == REGION_SYSCALL &&
	       (!n || strcmp(f->name, "syscall") == 0 || (strncmp(f->name, wanted, n) == 0 && !f->name[n]));
}

/* Returns a byte for each function, not 0 where the trigger may mean it. */
static uint8_t *wanted_functions(const struct store *s, const struct store_trigger *t)
{
	uint8_t *wanted = calloc(store_functions(s) + 1, 1);

	for (size_t i = 0; wanted && i < store_functions(s); i++) {
		const struct store_function *f = store_function(s, i);

		wanted[i] = t->function ? store_name_matches(f->name, t->function) : may_be_in(t, f);
	}
	return wanted;
}

/* True if the hit is the end of a wait, which is a part of a system call. */
static bool is_wait(const struct store_trigger *t)
{
	return !t->function && strncmp(t->condition, "off-cpu-longer-than ", 20) == 0;
}

/* Returns how far the times of the call may be from those of the hit. */
static uint64_t slack_of(const struct store *s, const struct store_trigger *t)
{
	const char *clock = store_meta(s, "clock");
	uint64_t begin = t->time - (t->timed ? MIN(t->time, t->value) : 0);

	for (size_t i = 0; i < store_threads(s); i++)
		if (store_thread(s, i)->tid == t->tid)
			return store_duration_bound(s, i, begin, t->time) +
			       (clock && strcmp(clock, "virtual") == 0 ? 0 : SLACK_NS);
	return 0;
}

/* True if the call began before the trace, or continues one that was left before, as when a goroutine is resumed. */
static bool is_continued(const struct store_frame *f)
{
	return f->kind == CALL_INFERRED || calls_kind_is_resumed(f->kind);
}

/* Returns how far a call is from the hit; UINT64_MAX: it is another one. */
static uint64_t mismatch(const struct store_trigger *t, const struct store_found_call *c, uint64_t slack)
{
	uint64_t at = t->timed ? c->end : c->frame.enter;
	bool longer = is_wait(t) && c->ns > t->value;

	/* A call does not end where its goroutine goes on in another thread. */
	if (distance(at, t->time) > slack || (t->timed && c->left == LEAVE_SWITCH))
		return UINT64_MAX;
	if (t->timed && is_continued(&c->frame) && c->ns < t->value)
		return 2 * slack + distance(at, t->time) + 1;
	if (t->timed && !longer && distance(c->ns, t->value) > 2 * slack)
		return UINT64_MAX;
	return distance(at, t->time) + (t->timed ? distance(c->ns, t->value) : 0);
}

int store_trigger_call(const struct store *s, struct store_found_call *ret)
{
	_cleanup_(store_finder_freep) struct store_finder *f = NULL;
	_cleanup_free_ uint8_t *wanted = NULL;
	uint64_t best = UINT64_MAX, slack;
	struct store_found_call c;
	struct store_trigger t;
	int rc;

	/* A region of a program is no call. */
	if (!store_trigger(s, &t) || !t.tid || !t.time || (!t.function && !is_wait(&t) && !is_syscall(&t)))
		return 0;
	slack = slack_of(s, &t);
	wanted = wanted_functions(s, &t);
	rc = wanted ? store_finder_new(s,
				       &(struct store_finder_options){ .wanted = wanted,
								       .tid = t.tid,
								       .since = t.time - MIN(t.time, slack),
								       .until = t.time + slack },
				       &f)
		    : -ENOMEM;
	while (rc == 0 && (rc = store_finder_next(f, &c)) == 1) {
		uint64_t is = mismatch(&t, &c, slack);

		rc = 0;
		if (is < best) {
			best = is;
			*ret = c;
		}
		if (is == 0)
			break;
	}
	return rc < 0 ? rc : best != UINT64_MAX;
}
