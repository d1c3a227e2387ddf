/* SPDX-License-Identifier: MIT */
/*
 * Assertions about the calls of a trace, as csight assert has them:
 *
 *	METRIC(FUNCTION) OPERATOR VALUE [per CALLER]
 *	METRIC(FUNCTION) within N% of TRACE
 */
#ifndef CSIGHT_CLIENT_ASSERTION_H
#define CSIGHT_CLIENT_ASSERTION_H

#include "client/measure.h"
#include "lib/base/reason.h"

enum assertion_operator { LESS, AT_MOST, MORE, AT_LEAST, EQUAL, UNEQUAL, WITHIN };

struct assertion {
	const char *text; /* borrowed */
	enum measure_metric metric;
	char *function;
	enum assertion_operator op;
	uint64_t value;   /* ns, or a number */
	double tolerance; /* of WITHIN, as a share */
	char *base;       /* of WITHIN: a snapshot or file */
	char *per;        /* a function, or NULL */
};

enum assertion_verdict { ASSERTION_HOLDS, ASSERTION_FAILS, ASSERTION_UNKNOWN };

/* Parses an assertion. Returns 0, -EINVAL with the reason, or -ENOMEM. */
int assertion_parse(const char *text, struct assertion *ret, struct reason *why);
void assertion_done(struct assertion *a);

/* Compares a measured value with that of the assertion, or, for WITHIN, with that of the base. */
enum assertion_verdict assertion_judge(const struct assertion *a, const struct measure *is, const struct measure *base);

#endif
