/* SPDX-License-Identifier: MIT */
/*
 * The cause of the snapshot, from snapshot.json: the hit of a trigger, or a region of the program
 * (csight_region_end()).
 */
#ifndef CSIGHT_DECODE_TRIGGER_MARK_H
#define CSIGHT_DECODE_TRIGGER_MARK_H

#include "daemon/decode/job.h"
#include "lib/store/store.h"

struct trigger_mark {
	struct store_trigger trigger; /* the condition is NULL if neither took it; texts are the job's, or: */
	char region[128];
};

void trigger_mark_read(const struct decode_job *job, struct trigger_mark *ret);

#endif
