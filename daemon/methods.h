/* SPDX-License-Identifier: MIT */
/* The methods of org.csight and org.varlink.service: one row for each in methods.c. */
#ifndef CSIGHT_DAEMON_METHODS_H
#define CSIGHT_DAEMON_METHODS_H

#include "daemon/call.h"
#include "daemon/pause.h"
#include "daemon/snapshot.h"

struct daemon;

/* Finds the method, checks the caller's right, and calls its handler, or replies with an error. data: struct daemon. */
void methods_dispatch(void *data, struct call *c, const char *name);

/* Replies to the calls that wait for a snapshot, and reports progress to them; see struct spool_options. */
void methods_snapshot_changed(void *data, const struct snapshot *s, enum snapshot_change change);

/* Returns the targets and the queue that a pause of all recording needs. */
struct pause_options methods_pausing(const struct daemon *d);

/* Replies to the calls that still wait: the daemon ends. */
void methods_end(struct daemon *d);

#endif
