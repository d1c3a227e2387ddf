/* SPDX-License-Identifier: MIT */
/* Runs one job: reads the input, decodes it into elements, passes these to the outputs, and reports the result. */
#ifndef CSIGHT_DECODE_DECODE_H
#define CSIGHT_DECODE_DECODE_H

#include "daemon/decode/job.h"

/* Returns 0 after sending the result to the owner; else a negative errno, with a reason in the job. */
int decode_run(struct decode_job *job);

#endif
