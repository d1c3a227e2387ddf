/* SPDX-License-Identifier: MIT */
/* The number of a system call, from the A64 code that makes it. */
#ifndef CSIGHT_CODE_SYSCALL_NUMBER_H
#define CSIGHT_CODE_SYSCALL_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/*
 * Returns the constant that the code sets in X8 before the SVC at code[svc], or -1 if that is not certain. code is the
 * whole function, of n instructions, so that a branch past the assignment is noticed.
 */
int64_t syscall_number(const uint32_t *code, size_t n, size_t svc);

#endif
