/*
 * The trace units of this machine, as the daemon holds them: found at the start, or later when their modules come; what
 * the kernel tells beside the trace is taken in all the time.
 */
#ifndef CSIGHT_DAEMON_TRACE_UNITS_H
#define CSIGHT_DAEMON_TRACE_UNITS_H

#include <stddef.h>

#include "daemon/capture/perf/perf.h"
#include "daemon/daemon.h"

struct trace_units;

/* Where there are none, it looks again when trace_units_machine() asks. */
int trace_units_new(struct daemon *d, struct trace_units **ret);

/* Before the workqueue is stopped: nothing is taken in from then on. */
void trace_units_stop(struct trace_units *u);
struct trace_units *trace_units_free(struct trace_units *u);

/* NULL: none, and trace_units_why() tells why. */
struct perf_machine *trace_units_machine(struct trace_units *u);
const char *trace_units_why(const struct trace_units *u);

#endif
