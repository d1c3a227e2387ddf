/*
 * The trace units of this machine, as the daemon holds them: found at the start, or later when their modules come; what
 * the kernel tells beside the trace is taken in all the time.
 */
#ifndef CSIGHT_DAEMON_UNITS_H
#define CSIGHT_DAEMON_UNITS_H

#include <stddef.h>

#include "daemon/capture/perf/perf.h"
#include "daemon/daemon.h"

struct units;

/* Where there are none, it looks again when units_machine() asks. */
int units_new(struct daemon *d, struct units **ret);

/* Before the lane is stopped: nothing is taken in from then on. */
void units_stop(struct units *u);
struct units *units_free(struct units *u);

/* NULL: none, and units_why() tells why. */
struct perf_machine *units_machine(struct units *u);
const char *units_why(const struct units *u);

#endif
