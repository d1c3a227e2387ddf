/* SPDX-License-Identifier: MIT */
/* Permissions: an owner may act on its own processes and snapshots, and root on all of them. */
#ifndef CSIGHT_DAEMON_POLICY_H
#define CSIGHT_DAEMON_POLICY_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns whether caller may act on, and read, what belongs to owner. */
bool policy_owns(uid_t caller, uid_t owner);

/*
 * Returns the owner of the trace of a process of this uid: root, if it includes execution in the kernel, unless the
 * user armed it, who then may read the kernel's addresses.
 */
uid_t policy_owner(uid_t uid, bool kernel, uid_t requester);

/* Returns whether caller may change what concerns all users: root, and the user as whom csightd runs. */
bool policy_administers(uid_t caller);

/*
 * Returns 0 if caller may act on this process, -ESRCH if there is none, else -EACCES. A process whose uids differ from
 * each other has privileges that its user lacks, and belongs to root.
 */
int policy_process(uid_t caller, pid_t pid);

#endif
