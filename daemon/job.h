/* SPDX-License-Identifier: MIT */
/*
 * Jobs: the queue of snapshots that wait for a decode, fair between their owners, and the decodes that run. A decode
 * that crashes is repeated once; then the snapshot stays raw, with the reason. The end of one affects no other. The
 * number of attempts is on disk before an attempt begins. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_JOB_H
#define CSIGHT_DAEMON_JOB_H

#include "daemon/counters.h"
#include "daemon/settings.h"
#include "daemon/spool.h"

struct build_ids;
struct job_queue;

struct job_queue_options {
	struct event_base *base;
	const struct settings *settings;
	struct workqueue *spool_queue;
	struct user_queues *user_queues;
	struct ledger *ledger;
	struct spool *spool;
	struct counters *counters;
};

int job_queue_new(const struct job_queue_options *options, struct job_queue **ret);

/* Room in the spool may have been made. */
void job_queue_retry(struct job_queue *j);

/* The settings have changed: more decodes may run at a time. */
void job_queue_update(struct job_queue *j);

/* Queues a snapshot in state queued for its decode. */
void job_queue_add(struct job_queue *j, struct snapshot *s);

/* Queues the decodes of all snapshots of the spool that an earlier daemon did not finish. */
void job_queue_add_old(struct job_queue *j);

/* Returns the reader of build-ids, which uses the same csight-decode. */
struct build_ids *job_queue_build_ids(struct job_queue *j);

/* Returns the number of decodes that wait or run: of this user, or of all users if uid is 0. */
unsigned job_queue_count(const struct job_queue *j, uid_t uid);

/* Returns why no decode can run, or NULL. */
const char *job_queue_trouble(const struct job_queue *j);

/* Returns the version of OpenCSD that the last decode used, or NULL. */
const char *job_queue_opencsd(const struct job_queue *j);

/* Ends the running decodes and readings of build-ids. Their snapshots are queued again, on disk too, without counting
 * the attempt. */
void job_queue_stop(struct job_queue *j);
struct job_queue *job_queue_free(struct job_queue *j);

#endif
