/* SPDX-License-Identifier: MIT */
/* For job.c, which runs one decode, and job-queue.c, which decides when. On the loop's thread. */
#ifndef CSIGHT_DAEMON_JOB_INTERNAL_H
#define CSIGHT_DAEMON_JOB_INTERNAL_H

#include "daemon/build-ids.h"
#include "daemon/decode-images.h"
#include "daemon/decode-server.h"
#include "daemon/fair-queue.h"
#include "daemon/job-budget.h"
#include "daemon/job-files.h"
#include "daemon/job.h"
#include "daemon/symbol-cache.h"

/* One decode. It exists until its result or failure is on disk. */
struct job {
	struct job_queue *jobs;
	TAILQ_ENTRY(job) link;
	struct work prepare, finish;
	uint64_t id; /* from decode_server_submit(); 0: not submitted */
	struct snapshot *snapshot;
	struct fair_item turn; /* of the snapshot's owner */
	uint64_t began_ns;     /* CLOCK_MONOTONIC */
	struct job_files files;
	struct decode_images *images;
	int fd; /* to the child */
	struct event *event, *timer, *tick;
	struct job_budget budget;
	bool tables;      /* the child may have symbol tables, and keep them */
	bool slow;        /* counts in n_slow, not in n_running */
	bool closed;      /* the child has closed its end of fd */
	bool child_ended; /* status is valid */
	bool killed;      /* the child is being killed */
	bool over;        /* job_conclude() has been called */
	int status;       /* of the child, as from waitpid() */
	json_object *result;
	bool unsuccessful;
	char *failed;            /* why the job is unsuccessful; NULL: out of memory */
	bool crashed;            /* another attempt may succeed */
	enum snapshot_state end; /* the state that the snapshot gets */
	char *state_text;        /* state.json */
	uint64_t size;           /* of the snapshot's directory */
	int rc;
};

struct job_queue {
	struct job_queue_options o;
	struct decode_server *decoder;
	struct build_ids *build_ids;
	struct symbol_cache *symbol_cache;
	struct event *child; /* SIGCHLD */
	struct fair_queue queue;
	struct event *retry; /* pending while users wait for room in the spool */
	TAILQ_HEAD(, job) running;
	unsigned n_running, n_slow;
	bool stopping;
	char opencsd[32]; /* the version that the last decode used */
};

/*
 * Begins the decode of a snapshot. turn: the turn of the snapshot's owner, which ends with the job. Returns false if
 * the decode must wait for room in the spool: it does not begin, and the turn is the caller's.
 */
bool job_begin(struct job_queue *j, struct snapshot *s, struct fair_item *turn);

/* Records why there is no result; the first reason stays. crashed: another attempt may succeed. */
void job_fail(struct job *job, bool crashed, const char *fmt, ...) _printf_(3, 4);

/*
 * Records that the server of csight-decode ended with the children of all jobs, any of which may be the cause: the
 * attempt is not counted.
 */
void job_lose(struct job *job);

/* Ends a job with its result or its failure; the outcome is then written to disk. */
void job_conclude(struct job *job);

/* Takes note of the end of the child; status as from waitpid(). The job is concluded when all that it sent is read. */
void job_child_ended(struct job *job, int status);

/* A decode that has run for long lets others have its place, if they wait. */
void job_queue_yield(struct job_queue *j, struct job *job);

void job_queue_push(struct job_queue *j, struct snapshot *s);

/* Leaves a snapshot raw. Its state on disk stays queued, so that the next start of the daemon tries again. */
void job_queue_give_up(struct job_queue *j, struct snapshot *s, const char *why);

/* Begins as many decodes as may run. */
void job_queue_begin(struct job_queue *j);

/* Drops what a decode needs of a snapshot that is ready or raw now, and reports its state. */
void job_queue_settle(struct job_queue *j, struct snapshot *s);

#endif
