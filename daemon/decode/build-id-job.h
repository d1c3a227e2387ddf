/* SPDX-License-Identifier: MIT */
/* A job that reads the build-ids of files: csightd records them in snapshots, and parses no ELF itself. */
#ifndef CSIGHT_DECODE_BUILD_ID_JOB_H
#define CSIGHT_DECODE_BUILD_ID_JOB_H

#include "daemon/decode/job.h"

/* Sends the result for job->files. Returns an error of the socket or -ENOMEM. */
int build_id_job_run(struct decode_job *job);

#endif
