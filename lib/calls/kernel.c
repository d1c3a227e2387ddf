/* SPDX-License-Identifier: MIT */
/* The regions of what has no code in the trace: system calls, and time in which the thread did not run. */
#include "lib/calls/calls-private.h"
#include "lib/code/syscalls.h"

#define KERNEL "[kernel]"

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
