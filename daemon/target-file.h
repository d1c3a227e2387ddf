/* SPDX-License-Identifier: MIT */
/*
 * A file that a target has mapped, shared by the target and snapshots of it; or its memory, when it is freed.
 * References belong to the loop's thread. The descriptor is closed on the thread of the target's owner.
 */
#ifndef CSIGHT_DAEMON_TARGET_FILE_H
#define CSIGHT_DAEMON_TARGET_FILE_H

#include <stdint.h>

#include "daemon/ledger.h"
#include "daemon/user-queues.h"

struct target_file {
	struct user_work work;
	struct user_queues *closer;
	uid_t uid; /* the owner of the target */
	unsigned refs;
	uint32_t id; /* of the file in the target's log */
	int fd;
	struct charge charge; /* of its descriptor, until it is closed; none by default */
	struct charge memory; /* the same of its bytes */
};

/* fd is owned, also on failure, which returns NULL. */
struct target_file *target_file_new(struct user_queues *closer, uid_t uid, uint32_t id, int fd);
struct target_file *target_file_ref(struct target_file *f);

/* Returns NULL. f may be NULL. */
struct target_file *target_file_unref(struct target_file *f);

#endif
