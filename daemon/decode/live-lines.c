/* SPDX-License-Identifier: MIT */
#include "daemon/decode/live-lines.h"

#include <stdlib.h>

#include "daemon/decode/demux.h"
#include "daemon/decode/syscall-names.h"

struct line_thread {
	struct live_lines *output;
	struct stream stream;
	struct engine_context context; /* by which its code is read */
	struct calls *calls;
	struct call_lines_thread lines;
	uint64_t time; /* of its last timestamp */
};

struct live_lines {
	struct output output;
	struct region_map *regions;
	struct call_lines *lines;
	struct input *input;
	struct syscall_names syscalls;
	struct line_thread *threads[DEMUX_FOLLOWED_MAX];
	size_t n_threads;
	struct line_thread *current;
};

static int64_t find_syscall(void *user, uint64_t address)
{
	struct line_thread *t = user;
	struct live_lines *l = t->output;
	const struct syscall_place place = { &t->stream, &t->context, l->regions, t->time, address };

	return l->input ? syscall_names_find(&l->syscalls, &place) : -1;
}

static bool find_pause(void *user, uint64_t from, uint64_t to, struct calls_pause *ret)
{
	const struct line_thread *t = user;
	const struct input *in = t->output->input;
	struct schedule_pause found;

	if (!in || !schedule_pause(in->schedule, t->stream.tid, from, to, &found))
		return false;
	*ret = (struct calls_pause){ found.from, found.to, found.preempted };
	return true;
}

static void thread_free(struct line_thread *t)
{
	calls_free(t->calls);
	free(t->lines.stack);
	free(t);
}

static int add_thread(struct live_lines *l, uint32_t tid)
{
	const struct pd_clock *clock = l->input->clock;
	struct line_thread *t;
	int rc;

	if (l->n_threads == DEMUX_FOLLOWED_MAX)
		return -ENOSPC;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->output = l;
	t->lines.lines = l->lines;
	t->lines.tid = tid;
	rc = calls_new(l->regions, &(struct calls_sink){ call_lines_event, &t->lines, false }, &t->calls);
	if (rc < 0) {
		free(t);
		return rc;
	}
	if (clock)
		calls_set_resolution(t->calls, (clock->mult >> clock->shift) + 1);
	calls_set_syscalls(t->calls, find_syscall, t);
	if (l->input->has_clock)
		calls_set_pauses(t->calls, find_pause, t);
	l->threads[l->n_threads++] = l->current = t;
	return 0;
}

/* demux.c has no two threads of the same ID at a time. */
static struct line_thread **find_thread(struct live_lines *l, uint32_t tid)
{
	for (size_t i = 0; i < l->n_threads; i++)
		if (l->threads[i]->lines.tid == tid)
			return &l->threads[i];
	return NULL;
}

static int lines_begin(struct output *o, const struct stream *s)
{
	struct live_lines *l = (struct live_lines *)o;
	struct line_thread **found = find_thread(l, s->tid);
	int rc = 0;

	if (found)
		l->current = *found;
	else
		rc = add_thread(l, s->tid);
	if (rc == 0)
		l->current->stream = *s;
	return rc;
}

static int lines_element(struct output *o, const struct element *e)
{
	struct live_lines *l = (struct live_lines *)o;
	struct line_thread *t = l->current;
	struct element timed = *e;

	stream_note_context(&t->context, e);
	if (e->kind == ELEM_TIMESTAMP && !e->time_unknown)
		t->time = timed.value = input_time(l->input, e->value);
	return calls_element(t->calls, &timed);
}

static int lines_end(struct output *o, const struct stream *s)
{
	struct live_lines *l = (struct live_lines *)o;
	struct line_thread **found = find_thread(l, s->tid), *t;
	int rc;

	if (!found)
		return 0;
	t = *found;
	*found = l->threads[--l->n_threads];
	rc = calls_end(t->calls, 0);
	thread_free(t);
	return rc;
}

static void lines_free(struct output *o)
{
	struct live_lines *l = (struct live_lines *)o;

	if (!l)
		return;
	for (size_t i = 0; i < l->n_threads; i++)
		thread_free(l->threads[i]);
	syscall_names_done(&l->syscalls);
	free(l);
}

int live_lines_new(struct region_map *regions, struct call_lines *lines, struct output **ret)
{
	static const struct output_ops ops = { .format = DECODE_FORMAT_LIVE,
					       .begin = lines_begin,
					       .element = lines_element,
					       .end = lines_end,
					       .free = lines_free };
	struct live_lines *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->output.ops = &ops;
	l->regions = regions;
	l->lines = lines;
	*ret = &l->output;
	return 0;
}

void live_lines_open(void *output, struct input *round)
{
	struct live_lines *l = output;

	l->input = l->syscalls.input = round;
}

/*
 * A thread that does not run has executed all that is in its trace before it left the CPU: what it did last is written
 * now, and not when it runs again.
 */
int live_lines_decoded(void *output, uint64_t until)
{
	struct live_lines *l = output;
	int rc = 0;

	for (size_t i = 0; rc == 0 && l->input->has_clock && i < l->n_threads; i++) {
		struct line_thread *t = l->threads[i];
		struct element left = { .kind = ELEM_TIMESTAMP, .isa = ISA_UNKNOWN };
		struct schedule_pause pause;

		if (!schedule_pause(l->input->schedule, t->lines.tid, until, until + 1, &pause) || pause.from < t->time)
			continue;
		left.value = t->time = pause.from;
		rc = calls_element(t->calls, &left);
	}
	return rc;
}
