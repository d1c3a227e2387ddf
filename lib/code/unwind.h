/*
 * How the code of an Arm ELF file leaves functions other than by a return: where exceptions land (.eh_frame or
 * .ARM.exidx, and the tables of call sites; OCaml's trap frames, from the code), and which code saves the stack pointer
 * or sets it to a saved one. Of 32-bit files the landing places alone are known: their code is not examined. All places
 * are file offsets. Files are hostile. Any thread may call.
 */
#ifndef CSIGHT_CODE_UNWIND_H
#define CSIGHT_CODE_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

struct unwind;

/* fd stays the caller's and must stay open. -EBADMSG: no such file; -ENOMEM, -EIO. Reads little until it is asked. */
int unwind_open(int fd, struct unwind **ret);
struct unwind *unwind_free(struct unwind *u);

enum {
	UNWIND_SAVES_STACK = 1, /* where others find it: setjmp, and what switches to another stack */
	UNWIND_SETS_STACK = 2,  /* to what neither it nor its caller's frame pointer had: longjmp, and the same */
};

/* Of a function's code. */
unsigned unwind_stack_use(struct unwind *u, uint64_t start, uint64_t end);

/* Whether the branch at `at`, of a function that begins at start, comes with another stack pointer. */
bool unwind_moves_stack(struct unwind *u, uint64_t start, uint64_t at);

/* Whether the code from `at` on leads straight to such a branch that is no return. */
bool unwind_block_moves_stack(struct unwind *u, uint64_t at);

/*
 * Where an exception goes that comes out of the call before `at` (its return address) in the function [start, end). 1:
 * to *ret; 0: past the function; -ENOENT: not known.
 */
int unwind_handler(struct unwind *u, uint64_t start, uint64_t end, uint64_t at, uint64_t *ret);

#endif
