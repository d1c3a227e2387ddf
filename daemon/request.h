/* From a request to a job: arm where needed, freeze, copy, write to the spool, queue for the decode. */
#ifndef CSIGHT_DAEMON_REQUEST_H
#define CSIGHT_DAEMON_REQUEST_H

#include <stdbool.h>

#include "daemon/service.h"
#include "daemon/target.h"

struct request_options {
	bool no_arm, no_wait;
};

/* The call is answered when the snapshot is queued (no_wait), decoded, or failed. */
void request_begin(struct target *t, const struct request_options *options, struct call *c);

/* Ends the waiting for rings to fill, so that the daemon can end; what is being copied is written. */
void request_stop(struct daemon *d);

#endif
