/* SPDX-License-Identifier: MIT */
/*
 * The stacks of a thread, from the emulator's log of stack pointers alone (lib/emu/stacks.h). A branch with link pushes
 * a frame; the frame ends when control is at its return address with the stack pointer it began with. Stack pointers
 * show which frames a jump unwound, which of several stacks a thread is on, and where an exit of LuaJIT's, which is a
 * call that does not return, has given its stack back to the interpreter. Go has the current goroutine in x28: it moves
 * the stacks of goroutines, and puts them side by side. Functions are those of lib/code.
 */
#ifndef CSIGHT_TESTS_STACKS_H
#define CSIGHT_TESTS_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/code/region-map.h"
#include "lib/code/symbols.h"

enum { TRUTH_CALLERS_MAX = 32 };

struct truth_frame {
	const struct region *function;
	uint64_t ret, sp; /* return address; initial stack pointer */
	bool signal;      /* a handler, which ends in rt_sigreturn */
	bool apart;       /* its stack pointer is unrelated to that of the frame below */
	bool exit;        /* LuaJIT's exit handler */
	uint64_t low;     /* apart, exit: the lowest stack pointer since */
	uint64_t resume;  /* signal: the interrupted address */
	/* Functions that jumped to another one in place of a return, outermost first; function is the last of the
	 * chain. */
	const struct region *callers[TRUTH_CALLERS_MAX];
	unsigned n_callers;
	bool folded; /* the chain had a function twice, or was too long: only its first caller is kept */
	bool binds;  /* the function was entered from the first entry of a PLT: the resolver of lazy binding */
};

struct truth_stack {
	struct truth_frame *frames; /* outermost first */
	size_t n, capacity;
	const struct region *caller; /* function that the first frame returns to */
	uint64_t g;                  /* address of the goroutine */
	bool whole;                  /* traced from the beginning of its thread or process */
};

struct stack_truth;

/* Opens a .stacks file. Borrows regions. */
int stack_truth_open(const char *path, struct region_map *regions, struct stack_truth **ret);
void stack_truth_close(struct stack_truth *t);

/* Returns the position of the next step in the thread's instructions, or UINT64_MAX at the end. */
uint64_t stack_truth_next(const struct stack_truth *t);

/* Applies the next step. Returns true if a system call directly precedes it. */
bool stack_truth_step(struct stack_truth *t);
const struct truth_stack *stack_truth_now(const struct stack_truth *t);

/* Forgets the callers that jumped so far. */
void stack_truth_forget_callers(struct stack_truth *t);

/* Returns the number of steps that the stack pointers do not explain. */
size_t stack_truth_odd(const struct stack_truth *t);

#endif
