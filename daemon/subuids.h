/* SPDX-License-Identifier: MIT */
/*
 * Subordinate uids: the ranges of uids that subuid(5) gives to users for their user namespaces. The user of a range can
 * act as each uid in it, so that for limits they are one user. On the loop's thread; the file is
 * read on the queue's.
 */
#ifndef CSIGHT_DAEMON_SUBUIDS_H
#define CSIGHT_DAEMON_SUBUIDS_H

#include <sys/types.h>

#include "daemon/workqueue.h"

struct subuids;

struct subuids_options {
	const char *path;        /* of the file; must stay valid */
	struct workqueue *queue; /* to read it, which asks for the uids of names, and may take long */
};

/* Reads the file; without it there are no ranges. An error means that the owners of some are unknown. */
int subuids_new(const struct subuids_options *options, struct subuids **ret);
struct subuids *subuids_free(struct subuids *s);

/*
 * Returns the user whom a uid belongs to: itself, if it is in no range. The uids of a range of root are one user as
 * well, the first of them, which has no rights of root.
 */
uid_t subuids_owner(const struct subuids *s, uid_t uid);

/* changed() follows each change of the ranges; NULL: none. */
void subuids_watch(struct subuids *s, void (*changed)(void *data), void *data);

/* Reads the file again if it has changed; then changed() follows. It is looked at once a second at most. */
void subuids_refresh(struct subuids *s);

#endif
