/* SPDX-License-Identifier: MIT */
/* Takes the snapshots of a group of processes, for csight. It is no part of the library's interface. Errors as in
 * csight.h. */
#ifndef CSIGHT_GROUP_CALL_H
#define CSIGHT_GROUP_CALL_H

#include "lib/csight/csight.h"

struct group_call {
	const pid_t *pids;
	size_t n; /* at least 1 */
	const struct csight_snapshot_options *options;
};

/*
 * Freezes the rings of all processes at one instant. *ret is the snapshot of the first process, already in the spool;
 * those of the others are written later, with the same labels. The caller frees *ret.
 */
int group_call_snapshot(struct csight *c, const struct group_call *call, struct csight_object **ret);

#endif
