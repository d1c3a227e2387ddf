/* SPDX-License-Identifier: MIT */
/* Groups of processes: their snapshots, frozen at one instant, have a common label group=NAME. */
#ifndef CSIGHT_CLIENT_GROUP_H
#define CSIGHT_CLIENT_GROUP_H

#include "client/client.h"

enum { GROUP_PIDS_MAX = 256 };

enum group_kind { GROUP_NONE, GROUP_TREE, GROUP_CGROUP, GROUP_UNIT };

struct group_pids {
	pid_t pids[GROUP_PIDS_MAX];
	size_t n;
};

/* Finds the running targets of a group, oldest first. Returns 0, or an exit status after an error message. */
int group_find(struct client *c, enum group_kind kind, const char *value, struct group_pids *ret);

/* Takes snapshots of all processes of a group at one instant, and reports them. Returns an exit status. */
int group_snapshot(struct client *c, struct client_annotation *a, const struct group_pids *g);

/* Returns the value of a snapshot's label "group", the name of its group; NULL: it has none. */
const char *group_of(const struct csight_object *snapshot);

#define GROUP_PREFIX "group:"

/*
 * Merges the stores of all snapshots of the group "group:NAME" in a temporary store, and sets *ret_fd. Returns 0, or an
 * exit status after an error message.
 */
int group_open_store(struct client *c, const char *name, int *ret_fd);

#endif
