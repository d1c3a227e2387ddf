/* SPDX-License-Identifier: MIT */
/*
 * The room that the outputs of a decode may take in the spool. A process has one limit for the size of each of its
 * files: room for all outputs at that limit is claimed before the decode may reach it, so that the spool stays within
 * its limits whatever the decode writes. The budget grows while they grow, as far as there is room. On the loop's
 * thread.
 */
#ifndef CSIGHT_DAEMON_JOB_BUDGET_H
#define CSIGHT_DAEMON_JOB_BUDGET_H

#include "daemon/job-files.h"
#include "daemon/snapshot.h"

struct job_budget {
	struct snapshot *snapshot; /* borrowed; its claim has the room */
	uint64_t limit;            /* bytes of one file */
	bool exhausted;            /* there is no room for more */
};

/*
 * Claims room for a decode of this many bytes of trace. -EAGAIN: snapshots are being removed; -ENOSPC, -EDQUOT: there
 * is too little room.
 */
int job_budget_begin(struct job_budget *b, struct snapshot *s, uint64_t trace, struct spool_refusal *ret_refusal);

/* Claims more where the largest file nears the limit. Returns true if the limit is another one now. */
bool job_budget_grow(struct job_budget *b, const struct job_files *files);

#endif
