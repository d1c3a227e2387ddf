/* One job from its start message to its result: bytes to elements, elements to outputs, and what there was of both. */
#ifndef CSIGHT_DECODE_DECODE_H
#define CSIGHT_DECODE_DECODE_H

#include "daemon/decode/job.h"

/* 0, with the result told to the owner; else a negative errno and a reason in the job. */
int decode_run(struct decode_job *job);

#endif
