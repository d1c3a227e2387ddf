/* SPDX-License-Identifier: MIT */
/* Numbers in text from a user or a file. The whole text must be the number: no blanks, no '+'. -EINVAL otherwise. */
#ifndef CSIGHT_PARSE_H
#define CSIGHT_PARSE_H

#include <stdbool.h>
#include <stdint.h>

/* Decimal, from min to max. */
int parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret);

/* Decimal or hexadecimal with 0x, at most max. */
int parse_u64(const char *text, uint64_t max, uint64_t *ret);

/* Parses the decimal number at *text, which is less than limit, and moves *text behind it. limit: at most 2^28. */
int parse_digits(const char **text, uint32_t limit, uint32_t *ret);

/* Parses a list of numbers below n, such as "0-3,5", and sets their items; "" sets none. */
int parse_ranges(const char *text, bool *ret, uint32_t n);

/* Parses a number of bytes: decimal, with an optional K, M, G or T for powers of 1024. */
int parse_size(const char *text, uint64_t *ret);

#endif
