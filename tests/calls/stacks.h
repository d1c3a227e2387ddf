/*
 * What stood on a thread's stack, by the emulator's log of stack pointers alone (lib/emu/stacks.h): a frame is entered
 * by a branch with link and is gone when control is at its return address with the stack pointer it began with; stack
 * pointers tell what a jump passed over, and which of several stacks a thread is on. Go has its goroutine in x28: it
 * moves their stacks, and puts them side by side. Functions are those of lib/code.
 */
#ifndef CSIGHT_TESTS_STACKS_H
#define CSIGHT_TESTS_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/code/symbols.h"

struct truth_frame {
	const struct region *function;
	uint64_t ret, sp; /* where it returns to; the stack pointer it began with */
	bool signal;      /* a handler, which ends in rt_sigreturn */
	bool apart;       /* its stack pointer has nothing to do with that of the frame below */
	uint64_t low;     /* apart: the lowest stack pointer since */
	uint64_t resume;  /* signal: what it interrupted */
};

struct truth_stack {
	struct truth_frame *frames; /* outermost first */
	size_t n, room;
	const struct region *caller; /* of its first frame, as that says where it returns to */
	uint64_t g;                  /* of a goroutine */
	bool whole;                  /* it was seen from the beginning of its thread or process */
};

struct stack_truth;

/* path: of a .stacks file. Regions are borrowed. */
int stack_truth_open(const char *path, struct region_map *regions, struct stack_truth **ret);
void stack_truth_close(struct stack_truth *t);

/* Where in the thread's instructions the next step is; UINT64_MAX: there is none. */
uint64_t stack_truth_next(const struct stack_truth *t);

/* Takes it. True: a system call lies right before it. */
bool stack_truth_step(struct stack_truth *t);
const struct truth_stack *stack_truth_now(const struct stack_truth *t);

/* Steps that the stack pointers do not explain. */
size_t stack_truth_odd(const struct stack_truth *t);

#endif
