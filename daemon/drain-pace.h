/* SPDX-License-Identifier: MIT */
/*
 * The pace at which the rings of a target are drained while the program runs: with a pause after each step, which is
 * shorter as the rings fill faster. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_DRAIN_PACE_H
#define CSIGHT_DAEMON_DRAIN_PACE_H

#include <stdint.h>
#include <sys/time.h>

/* Part of a ring at which it is drained, and at which it should be when its turn comes. */
#define DRAIN_PACE_AT (1 / 8.0)
#define DRAIN_PACE_WANTED (1 / 4.0)

struct drain_pace {
	double pause_us;
};

/* Begins with the shortest pause. */
void drain_pace_begin(struct drain_pace *p);

/*
 * Sets the pause after a step such that the fullest ring, of which this part was to be drained, is full to
 * DRAIN_PACE_WANTED when it is over.
 */
void drain_pace_set(struct drain_pace *p, double fullest);

struct timeval drain_pace_pause(const struct drain_pace *p);

#endif
