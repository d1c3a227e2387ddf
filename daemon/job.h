/*
 * Decodes: the queue of snapshots that wait for one, and those that run. A decode that crashes is tried once more; then
 * the snapshot is kept raw, with the reason. How often it was begun is on disk before it begins.
 */
#ifndef CSIGHT_DAEMON_JOB_H
#define CSIGHT_DAEMON_JOB_H

#include "daemon/spool.h"

struct job_queue;

int job_queue_new(struct daemon *d, struct job_queue **ret);

/* A snapshot in state queued. */
void job_queue_add(struct job_queue *j, struct snapshot *s);

/* How many wait or run; of this user, or of all where uid is 0. */
unsigned job_queue_count(const struct job_queue *j, uid_t uid);

/* Why nothing is decoded, or NULL. */
const char *job_queue_trouble(const struct job_queue *j);

/* The version of OpenCSD that decoded last, or NULL. */
const char *job_queue_opencsd(const struct job_queue *j);

/* Those that run go back to the queue, on disk too, as if they had not been begun. */
void job_queue_stop(struct job_queue *j);
struct job_queue *job_queue_free(struct job_queue *j);

#endif
