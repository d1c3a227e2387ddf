/* SPDX-License-Identifier: MIT */
/* Formats numbers and times for people. The functions return one of eight static buffers in rotation. */
#ifndef CSIGHT_CLIENT_FORMAT_H
#define CSIGHT_CLIENT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/code/region-map.h"

/* 1,234,567 */
const char *format_count(uint64_t n);
const char *format_calls(uint64_t n, bool uncertain); /* "~12" if uncertain */
/* 1 thread, 1,234 threads */
const char *format_plural(uint64_t n, const char *noun);
/* 1.5 MiB */
const char *format_size(uint64_t bytes);
/* 12.3 ms */
const char *format_duration(uint64_t ns);
/* The same with no digits below the error bound; ~10 ms if it is shorter than that: lib/base/duration.h */
const char *format_duration_within(uint64_t ns, uint64_t bound);
/* 2026-01-31 12:30:59 in local time, from CLOCK_REALTIME in ns */
const char *format_time(uint64_t ns);
/* 2026-01-31 12:30:59.123456 */
const char *format_time_exact(uint64_t ns);

/* Returns the text that is printed after the name of a function: " (inlined)", " (system call)" or "". */
const char *format_function_kind(enum region_kind kind);

/* Returns the escape sequence of a style if f is a terminal with colours and NO_COLOR is unset, else "". */
enum format_style { STYLE_PLAIN, STYLE_HEADING, STYLE_GOOD, STYLE_BAD, STYLE_SLOW, STYLE_DIM };
const char *format_style(FILE *f, enum format_style style);

#endif
