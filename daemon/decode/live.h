/* SPDX-License-Identifier: MIT */
/*
 * A job that decodes a recording while it is written, from a pipe: its only output has lines of calls (call-lines.h).
 * The end of the pipe ends it.
 */
#ifndef CSIGHT_DECODE_LIVE_H
#define CSIGHT_DECODE_LIVE_H

#include "daemon/decode/job.h"

int live_run(struct decode_job *job);

#endif
