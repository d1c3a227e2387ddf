/* SPDX-License-Identifier: MIT */
/* The hit of a trigger that took the snapshot, from snapshot.json. */
#ifndef CSIGHT_DECODE_TRIGGER_MARK_H
#define CSIGHT_DECODE_TRIGGER_MARK_H

#include "daemon/decode/job.h"
#include "lib/store/store.h"

/* Sets what is valid; the condition is NULL if no trigger took it. Texts are the job's. */
void trigger_mark_read(const struct decode_job *job, struct store_trigger *ret);

#endif
