/* SPDX-License-Identifier: MIT */
/* The control groups of a process, and the systemd unit that it belongs to. */
#ifndef CSIGHT_DAEMON_CONTROL_GROUP_H
#define CSIGHT_DAEMON_CONTROL_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CONTROL_GROUP_SIZE = 8192 };

/* The text of /proc/PID/cgroup. */
struct control_groups {
	char text[CONTROL_GROUP_SIZE];
};

/* Negative errno; -ENOENT or -ESRCH: the process has ended, or this kernel has no control groups. */
int control_groups_read(pid_t pid, struct control_groups *ret);

/*
 * Returns whether the process is in this group, or in one below it, of any hierarchy. group: an absolute path; of "/",
 * csightd's own services are not.
 */
bool control_groups_have(const struct control_groups *g, const char *group);

/*
 * Returns whether the process belongs to this unit, which may be a slice. A group that a user made below one of his own
 * units is no unit. user: units of users' service managers count as well.
 */
bool control_groups_of_unit(const struct control_groups *g, const char *unit, bool user);

/* Returns whether two processes are in the same group in each hierarchy. */
bool control_groups_equal(const struct control_groups *a, const struct control_groups *b);

/*
 * Returns whether two processes belong to the same unit: the paths up to it are equal. Below user@UID.service that is
 * the user's unit. False if the first belongs to none.
 */
bool control_groups_same_unit(const struct control_groups *a, const struct control_groups *b);

#endif
