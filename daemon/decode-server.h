/* SPDX-License-Identifier: MIT */
/*
 * The decode server: the csight-decode process that forks a child for each job. It is of a unit of its own, which gives
 * it its user and limits, or without systemd a child of csightd. It is started first and restarted when it ends, after
 * a pause that grows with each failure. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_DECODE_SERVER_H
#define CSIGHT_DAEMON_DECODE_SERVER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct decode_server;

struct decode_server_events {
	void (*ended)(void *data, uint64_t job, int status); /* the child of a job; status as from waitpid() */
	void (*lost)(void *data);                            /* the server, and the children of all jobs with it */
	void (*ready)(void *data);                           /* the server accepts jobs */
};

struct decode_server_options {
	struct event_base *base;
	const char *user;   /* see decoder_user() */
	const char *socket; /* of csight-decode's unit; where it is not active, the program is started here */
	struct decode_server_events events;
	void *data;
};

/*
 * Starts the decode server. If that fails, it succeeds all the same, and retries later. -ESRCH: there is no such user.
 */
int decode_server_new(const struct decode_server_options *options, struct decode_server **ret);
struct decode_server *decode_server_free(struct decode_server *d);

bool decode_server_ready(const struct decode_server *d);

/* Returns true if several starts in a row have failed. */
bool decode_server_hopeless(const struct decode_server *d);

/* Returns the reason why the server does not run. */
const char *decode_server_why(const struct decode_server *d);

/*
 * Returns the non-blocking socket of a new job's child, which the caller owns. *ret_job: the number of the job, above
 * 0. about: what it is for, in front of the text that it writes to its standard error. limit: bytes of each file that
 * it writes; 0: none.
 */
int decode_server_submit(struct decode_server *d, const char *about, uint64_t limit, uint64_t *ret_job);

/* Changes the limit of a job. */
void decode_server_extend(struct decode_server *d, uint64_t job, uint64_t limit);

/* Kills the child of one job. */
void decode_server_kill_job(struct decode_server *d, uint64_t job);

/* Kills the server and all children, when one of them exceeds its time. */
void decode_server_kill(struct decode_server *d);

/* Waits for the server after SIGCHLD, and schedules its restart. */
void decode_server_reap(struct decode_server *d);

#endif
