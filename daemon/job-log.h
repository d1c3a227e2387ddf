/* SPDX-License-Identifier: MIT */
/*
 * The standard error of a job of csight-decode, or the output of a command of a trigger: a pipe, whose text is logged
 * line by line, escaped, with what the job is for. It is hostile: lines are cut, a job has a few, and all jobs together
 * have a number a minute; the rest is dropped with a line that says so. Then the pipe is closed, so that more costs
 * nothing. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_JOB_LOG_H
#define CSIGHT_DAEMON_JOB_LOG_H

#include <event2/event.h>
#include <stdint.h>

struct job_log;

/* Counts the lines of all jobs within a minute. Initialize with zeros. */
struct job_log_rate {
	uint64_t since_ns; /* CLOCK_MONOTONIC */
	unsigned lines;
};

/*
 * Creates the log of a job. about: who writes, and what the job is for. rate must outlive the log. *ret_fd: the end of
 * the pipe for the job, which the caller owns.
 */
int job_log_new(struct event_base *base, const char *about, struct job_log_rate *rate, struct job_log **ret,
		int *ret_fd);

/* Logs the rest of the text in the pipe, and frees the log. Returns NULL. */
struct job_log *job_log_free(struct job_log *l);

#endif
