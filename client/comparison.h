/* SPDX-License-Identifier: MIT */
/*
 * Compares how the functions of two traces behave: what a call costs in the function itself, and what it calls.
 * Functions are matched by name and file, else by a name that only one function has.
 */
#ifndef CSIGHT_CLIENT_COMPARISON_H
#define CSIGHT_CLIENT_COMPARISON_H

#include "client/behaviour.h"

/* The least share of a trace that a change must cost or save, as a part of the threshold. */
enum { COMPARISON_SHARES = 300 };

enum change_kind { CHANGE_INSTRUCTIONS, CHANGE_TIME, CHANGE_CALLS };

/* One figure per call, on both sides. */
struct change {
	enum change_kind kind;
	uint32_t pair, caller;     /* indexes of pairs; caller: of CHANGE_CALLS, whose calls of the pair are counted */
	double a, b;               /* instructions, ns or calls per call */
	double noise;              /* least difference that is not noise */
	double instructions, time; /* what the difference amounts to, as shares of the traces */
	bool differs;
};

struct compared_pair {
	const struct behaviour_function *side[2]; /* NULL: ran on the other side only */
	enum behaviour_set set;                   /* the calls that are compared */
	struct change instructions, time;         /* time: valid if it ran on both sides */
};

struct comparison {
	struct behaviour sides[2];
	double threshold; /* 0.03 is 3 % */
	struct compared_pair *pairs;
	size_t n_pairs;
	uint32_t *pair_of[2]; /* by function of a side: index of its pair */
	struct change *calls; /* of functions whose caller ran on both sides */
	size_t n_calls, cap_calls;
};

/* Reads and compares both stores, which must outlive *ret. Set threshold before. Errors as of behaviour_read(). */
int comparison_make(struct comparison *ret, const struct store *a, const struct store *b);
void comparison_done(struct comparison *c);

/* Returns (b - a) / a; INFINITY if only a is 0. */
double comparison_relative(const struct change *change);

/* Returns the largest error of a duration of the function, in most of its batches. */
uint64_t comparison_bound(const struct behaviour_function *f);

#endif
