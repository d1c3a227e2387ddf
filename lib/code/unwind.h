/* SPDX-License-Identifier: MIT */
/*
 * How the code of an Arm ELF file leaves functions other than by a return: the landing pads of exceptions (.eh_frame or
 * .ARM.exidx, and the tables of call sites; OCaml's trap frames, from the code), which code saves the stack pointer or
 * sets it to a saved one, and where the program begins. The code of 32-bit files is not examined: of them only the
 * landing pads and the entry are known. All positions are file offsets. Files are hostile. Any thread may call.
 */
#ifndef CSIGHT_CODE_UNWIND_H
#define CSIGHT_CODE_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

struct unwind;

/*
 * Opens an ELF file; most of it is read on demand. fd stays the caller's and must stay open. -EBADMSG: not an ELF file
 * for AArch64 or 32-bit Arm; -ENOMEM, -EIO.
 */
int unwind_open(int fd, struct unwind **ret);
struct unwind *unwind_free(struct unwind *u);

enum {
	UNWIND_SAVES_STACK = 1, /* stores the stack pointer outside of the frame: setjmp, stack switches */
	UNWIND_SETS_STACK = 2,  /* sets it to a value from outside of the frame: longjmp, stack switches */
	UNWIND_LOADS_STACK = 4, /* loads it from memory outside of the frame, and may mask it: LuaJIT, longjmp */
};

/* Returns the UNWIND_ flags that apply to the code in [start, end); 0 also if the code cannot be read. */
unsigned unwind_stack_use(struct unwind *u, uint64_t start, uint64_t end);

/* Returns whether code sets the stack pointer right before the branch at `at`, in a function that starts at start. */
bool unwind_moves_stack(struct unwind *u, uint64_t start, uint64_t at);

/* Returns whether the basic block that contains `at` ends in BR, and code sets the stack pointer right before it. */
bool unwind_block_moves_stack(struct unwind *u, uint64_t at);

/* Returns whether code from `at` to the end of its basic block loads the stack pointer from outside of the frame. */
bool unwind_block_loads_stack(struct unwind *u, uint64_t at);

/*
 * Finds the landing pad of an exception that leaves a call in the function [start, end); `at` is the return address of
 * the call. 1: *ret is set; 0: the exception leaves the function; -ENOENT: unknown; -ENOMEM.
 */
int unwind_handler(struct unwind *u, uint64_t start, uint64_t end, uint64_t at, uint64_t *ret);

/* Returns whether a table of call sites has `at` as a landing pad. */
bool unwind_is_landing(struct unwind *u, uint64_t at);

/* Returns whether the file is a program, or the interpreter of programs, that begins at `at`. */
bool unwind_is_entry(const struct unwind *u, uint64_t at);

#endif
