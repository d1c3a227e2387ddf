/* SPDX-License-Identifier: MIT */
/* The regions of what has no code in the trace: system calls, and time in which the thread did not run. Where that is
 * in the trace of the kernel. */
#include <string.h>

#include "lib/calls/calls-private.h"
#include "lib/code/syscalls.h"

#define KERNEL "[kernel]"

enum { SWITCH_DEPTH = 256 }; /* of calls that the kernel makes in the function that switches to another thread */

const struct region calls_waiting = { .kind = REGION_WAITING, .name = "waiting", .image = KERNEL };
const struct region calls_preempted = { .kind = REGION_PREEMPTED, .name = "preempted", .image = KERNEL };

static const struct region unnamed = { .kind = REGION_SYSCALL, .name = "syscall", .image = KERNEL };

static const struct region syscalls[] = {
#define SYSCALL_REGION(number, text) [number] = { .kind = REGION_SYSCALL, .name = #text, .image = KERNEL },
	SYSCALLS(SYSCALL_REGION)
#undef SYSCALL_REGION
};

const struct region *calls_syscall_region(int64_t number)
{
	bool known = number >= 0 && (size_t)number < ELEMENTS(syscalls) && syscalls[number].name;

	return known ? &syscalls[number] : &unnamed;
}

static bool is_of_program(const struct calls_frame *f)
{
	return f->function->start && !(f->function->start >> 63);
}

/* Returns the number of frames up to the function in which the kernel switches to another thread; 0: it is not open. */
static size_t find_switch(const struct calls *c)
{
	for (size_t i = 0; i < MIN((size_t)SWITCH_DEPTH, c->depth); i++) {
		const struct calls_frame *f = &c->stack[c->depth - 1 - i];

		if (is_of_program(f))
			break;
		if (strcmp(f->function->name, "__schedule") == 0)
			return c->depth - i;
	}
	return 0;
}

bool calls_may_switch(const struct calls *c)
{
	bool goes_on = c->arrival == ARRIVE_FLOW || c->arrival == ARRIVE_JUMP || c->arrival == ARRIVE_CALL ||
		       c->arrival == ARRIVE_RETURN;

	return c->times.find_pause && goes_on && c->depth && c->address >> 63 && find_switch(c);
}

int calls_add_switch(struct calls *c)
{
	int rc;

	event_times_set_switches(&c->times);
	rc = event_times_add_place(&c->times, c->counts.instructions);
	event_times_add_wait(&c->times);
	return rc;
}

int calls_context(struct calls *c, const struct element *e)
{
	bool in_kernel = e->context.level >= 1 && e->context.level <= 3;

	return in_kernel && calls_may_switch(c) ? calls_add_switch(c) : 0;
}

int calls_switch(struct calls *c)
{
	size_t depth = find_switch(c);
	int rc = depth ? 0 : calls_gap(c, GAP_PAUSED);

	while (rc == 0 && c->depth > depth)
		rc = calls_pop(c, LEAVE_RETURN);
	if (rc < 0 || !depth)
		return rc;
	c->arrival = ARRIVE_SWITCHED;
	rc = calls_add_switch(c);
	if (rc == 0 && c->stamp)
		rc = event_times_add_timestamp(&c->times, c->counts.instructions, c->stamp);
	c->stamp = 0;
	return rc;
}
