/* SPDX-License-Identifier: MIT */
/*
 * Snapshots of a group: the rings of all its targets are frozen at one instant, then each is copied by a request of its
 * own. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_GROUP_H
#define CSIGHT_DAEMON_GROUP_H

#include "daemon/annotation.h"
#include "daemon/call.h"
#include "daemon/target.h"

struct daemon;

enum { GROUP_MAX = 256 };

/* The targets besides the one that a call or a trigger is about. They are borrowed until the loop continues. */
struct snapshot_group {
	struct target *members[GROUP_MAX];
	size_t n;
};

/* Reads the processes in the parameter "with". Returns false after an error reply. */
bool group_read(struct daemon *d, struct call *c, struct snapshot_group *ret);

/*
 * Freezes the rings of first, the target of the call or trigger, and of all members, then requests snapshots of the
 * members, with copies of the annotation.
 */
void group_begin(struct daemon *d, const struct audit_actor *by, struct target *first, const struct snapshot_group *g,
		 const struct annotation *annotation);

/* Restarts the rings of a process that group_begin() froze, after its request failed before the copy. */
void group_release(struct daemon *d, pid_t pid, uid_t uid);

#endif
