/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/drain-pace.h"
#include "lib/base/util.h"

enum { PAUSE_LEAST_US = 1000, PAUSE_MOST_US = 10000 };

void drain_pace_begin(struct drain_pace *p)
{
	p->pause_us = PAUSE_LEAST_US;
}

void drain_pace_set(struct drain_pace *p, double fullest)
{
	double wanted = fullest > 0 ? p->pause_us * DRAIN_PACE_WANTED / fullest : PAUSE_MOST_US;

	p->pause_us = MAX(MIN(wanted, (double)PAUSE_MOST_US), (double)PAUSE_LEAST_US);
}

struct timeval drain_pace_pause(const struct drain_pace *p)
{
	return (struct timeval){ 0, (suseconds_t)p->pause_us };
}
