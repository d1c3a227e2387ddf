/* SPDX-License-Identifier: MIT */
/*
 * A file that a target has mapped, shared by the target and snapshots of it. References belong to the loop's thread.
 * The descriptor is closed on a workqueue, since closing a file of a user-space file system can block for ever.
 */
#ifndef CSIGHT_DAEMON_TARGET_FILE_H
#define CSIGHT_DAEMON_TARGET_FILE_H

#include <stdint.h>

#include "daemon/ledger.h"
#include "daemon/workqueue.h"

struct target_file {
	struct work work;
	struct workqueue *closer;
	unsigned refs;
	uint32_t id; /* of the file in the target's log */
	int fd;
	struct charge charge; /* of its descriptor, until it is closed; none by default */
};

/* fd is owned, also on failure, which returns NULL. */
struct target_file *target_file_new(struct workqueue *closer, uint32_t id, int fd);
struct target_file *target_file_ref(struct target_file *f);

/* Returns NULL. f may be NULL. */
struct target_file *target_file_unref(struct target_file *f);

#endif
