/*
 * Decodes: the queue of snapshots that wait for one, and those that run. A decode that crashes is tried once more; then
 * the snapshot is kept raw, with the reason. How often it was begun is on disk before it begins.
 */
#ifndef CSIGHT_DAEMON_JOB_H
#define CSIGHT_DAEMON_JOB_H

#include "daemon/spool.h"

struct jobs;

int jobs_new(struct daemon *d, struct jobs **ret);

/* A snapshot in state queued. */
void jobs_add(struct jobs *j, struct snapshot *s);

/* How many wait or run; of this user, or of all where uid is 0. */
unsigned jobs_count(const struct jobs *j, uid_t uid);

/* Why nothing is decoded, or NULL. */
const char *jobs_trouble(const struct jobs *j);

/* The version of OpenCSD that decoded last, or NULL. */
const char *jobs_opencsd(const struct jobs *j);

/* Those that run go back to the queue, on disk too, as if they had not been begun. */
void jobs_stop(struct jobs *j);
struct jobs *jobs_free(struct jobs *j);

#endif
