/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/duration.h"
#include "lib/base/util.h"

static const struct {
	const char *name;
	uint64_t ns;
} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };

/* Returns the largest power of ten that is not larger than n; 1 for 0. */
static uint64_t magnitude(uint64_t n)
{
	uint64_t power = 1;

	while (n / power >= 10)
		power *= 10;
	return power;
}

/* Rounds to a multiple of step, which is a power of ten. */
static uint64_t round_to(uint64_t ns, uint64_t step)
{
	uint64_t half = step / 2, rounded = ns / step * step;

	return ns - rounded >= half && half && rounded <= UINT64_MAX - step ? rounded + step : rounded;
}

char *duration_text(uint64_t ns, uint64_t bound, char ret[DURATION_SIZE])
{
	const char *about = ns < bound ? "~" : "";
	uint64_t step = magnitude(MIN(ns, bound)), minutes;
	size_t unit = 0;

	if (bound == UINT64_MAX) {
		snprintf(ret, DURATION_SIZE, "?");
		return ret;
	}
	ns = round_to(ns, step);
	minutes = ns / 60000000000u;
	while (unit + 1 < ELEMENTS(units) && ns >= units[unit + 1].ns)
		unit++;
	if (minutes >= 48 * 60)
		snprintf(ret, DURATION_SIZE, "%s%ju days %ju h", about, (uintmax_t)minutes / 1440,
			 (uintmax_t)minutes / 60 % 24);
	else if (minutes >= 60)
		snprintf(ret, DURATION_SIZE, "%s%ju h %ju min", about, (uintmax_t)minutes / 60,
			 (uintmax_t)minutes % 60);
	else if (minutes)
		snprintf(ret, DURATION_SIZE, "%s%ju min %ju s", about, (uintmax_t)minutes,
			 (uintmax_t)ns / 1000000000 % 60);
	else
		snprintf(ret, DURATION_SIZE, "%s%.*f %s", about, unit && !*about && step < units[unit].ns,
			 (double)ns / (double)units[unit].ns, units[unit].name);
	return ret;
}

char *duration_error_text(uint64_t bound, char ret[DURATION_ERROR_SIZE])
{
	char text[DURATION_SIZE];

	snprintf(ret, DURATION_ERROR_SIZE, "%s%s",
		 !bound                ? ""
		 : bound == UINT64_MAX ? ", times are not known"
				       : ", time error at most ",
		 !bound || bound == UINT64_MAX ? "" : duration_text(bound, 0, text));
	return ret;
}

int duration_parse(const char *text, uint64_t *ret)
{
	static const struct {
		const char *name;
		double ns;
	} known[] = { { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 }, { "m", 60e9 }, { "h", 3600e9 } };
	char *end;
	double v;

	/* strtod() also accepts signs, blanks, hexadecimal and "inf". */
	if (strspn(text, "0123456789.") == 0)
		return -EINVAL;
	v = strtod(text, &end);
	for (size_t i = 0; i < ELEMENTS(known); i++) {
		if (strcmp(end, known[i].name) != 0)
			continue;
		v *= known[i].ns;
		if (v >= 1e18)
			return -EINVAL;
		*ret = (uint64_t)(v + 0.5);
		return 0;
	}
	return -EINVAL;
}
