/* SPDX-License-Identifier: MIT */
/* A sequence of executed instructions, as runs of ascending addresses. Positions count instructions. */
#ifndef CSIGHT_RIG_RUNS_H
#define CSIGHT_RIG_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct run {
	uint64_t start; /* address of its first instruction */
	uint64_t at;    /* position of that */
};

struct runs {
	struct run *all;
	size_t n, room;
	uint64_t total; /* instructions */
};

/* Appends count instructions from address start. */
void runs_add(struct runs *r, uint64_t start, uint64_t count);
void runs_done(struct runs *r);

/* The address at a position, which must be below the total. */
uint64_t runs_address(const struct runs *r, uint64_t at);

/* Returns how many instructions, at most max, are alike at the end of the first a_end and b_end ones. */
uint64_t runs_common_end(const struct runs *a, uint64_t a_end, const struct runs *b, uint64_t b_end, uint64_t max);

/* Returns how many instructions are alike from these positions on. */
uint64_t runs_common_start(const struct runs *a, uint64_t a_at, const struct runs *b, uint64_t b_at);

/* Returns the first position, not before at, of a part of another sequence in this one; UINT64_MAX: there is none. */
uint64_t runs_find(const struct runs *in, uint64_t at, const struct runs *part, uint64_t from, uint64_t to);

#endif
