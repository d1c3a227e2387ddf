/* SPDX-License-Identifier: MIT */
/*
 * Functions that count their own calls. The compiler may scatter, duplicate and reorder the instructions of a count,
 * but executes them once a call. SHOW prints a line that tests/calls/inlined.test compares with the store.
 */
#ifndef COUNT_H
#define COUNT_H

#include <stdio.h>
#include <stdlib.h>

#define COUNTED(f) static volatile unsigned long calls_of_##f;
#define COUNT(f) (calls_of_##f = calls_of_##f + 1)
#define SHOW(f) printf("%s\t%lu\n", #f, calls_of_##f)

#define APART __attribute__((noinline, noclone))
#define ALWAYS inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

static volatile unsigned sink;

#endif
