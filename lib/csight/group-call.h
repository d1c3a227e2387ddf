/* SPDX-License-Identifier: MIT */
/* The snapshot of a group, for csight. It is no part of the library's interface. Errors as in csight.h. */
#ifndef CSIGHT_GROUP_CALL_H
#define CSIGHT_GROUP_CALL_H

#include "lib/csight/csight.h"

struct group_call {
	const pid_t *pids;
	size_t n; /* at least 1 */
	const struct csight_snapshot_options *options;
};

/* Freezes all at one instant. *ret: the snapshot of the first, in the spool. The others follow with the same labels. */
int group_call_snapshot(struct csight *c, const struct group_call *call, struct csight_object **ret);

#endif
