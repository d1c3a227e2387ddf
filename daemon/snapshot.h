/* From a request to a job: arm where needed, freeze, copy, write to the spool, queue for the decode. */
#ifndef CSIGHT_DAEMON_SNAPSHOT_H
#define CSIGHT_DAEMON_SNAPSHOT_H

#include <stdbool.h>

#include "daemon/service.h"
#include "daemon/target.h"

struct snapshot_options {
	bool no_arm, no_wait;
};

/* The call is answered when the snapshot is queued (no_wait), decoded, or failed. */
void snapshot_take(struct target *t, const struct snapshot_options *options, struct call *c);

/* Ends the waiting for rings to fill, so that the daemon can end; what is being copied is written. */
void snapshot_stop(struct daemon *d);

#endif
