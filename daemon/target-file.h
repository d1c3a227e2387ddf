/*
 * A file that a target has mapped; shared between the target and snapshots of it. References are the loop's. It is
 * closed on a workqueue: for a file system in user space that means asking someone who may never answer.
 */
#ifndef CSIGHT_DAEMON_TARGET_FILE_H
#define CSIGHT_DAEMON_TARGET_FILE_H

#include <stdint.h>

#include "daemon/workqueue.h"

struct target_file {
	struct work work;
	struct workqueue *closer;
	unsigned refs;
	uint32_t id; /* by which the target's log calls it */
	int fd;
};

/* fd is taken, also on failure. */
struct target_file *target_file_new(struct workqueue *closer, uint32_t id, int fd);
struct target_file *target_file_ref(struct target_file *f);
struct target_file *target_file_unref(struct target_file *f);

#endif
