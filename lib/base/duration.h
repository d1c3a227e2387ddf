/* SPDX-License-Identifier: MIT */
/* Durations as text: formats them for people, and parses them. */
#ifndef CSIGHT_DURATION_H
#define CSIGHT_DURATION_H

#include <stdint.h>

enum { DURATION_SIZE = 40, DURATION_ERROR_SIZE = DURATION_SIZE + 32 };

/*
 * Formats a duration with a unit and only the digits that are known: bound is its largest error in ns, 0 if it is
 * exact. Digits below the first one of the bound are rounded off. A duration that is shorter than its bound has one
 * digit, after a tilde; with bound UINT64_MAX it is a question mark. Returns ret.
 */
char *duration_text(uint64_t ns, uint64_t bound, char ret[DURATION_SIZE]);

/* Returns what is to be said of times with an error bound: ", time error at most 3 us", for example; "" for 0. */
char *duration_error_text(uint64_t bound, char ret[DURATION_ERROR_SIZE]);

/* Parses a number with a unit: ns, us, ms, s, m or h. -EINVAL. */
int duration_parse(const char *text, uint64_t *ret);

#endif
