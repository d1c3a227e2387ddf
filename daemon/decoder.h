/*
 * csight-decode: the server that csightd starts before anything else and keeps running. It answers through two
 * functions: one when a job's child ended, one when the server itself did; then it is started again, a little later
 * each time.
 */
#ifndef CSIGHT_DAEMON_DECODER_H
#define CSIGHT_DAEMON_DECODER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct decoder;

struct decoder_events {
	void (*ended)(void *data, uint64_t job, int status);
	void (*lost)(void *data); /* every job's child is gone with it */
	void (*ready)(void *data);
};

/* user: whom it runs as where this process is root; "" picks csight or nobody. */
int decoder_new(struct event_base *base, const char *user, const struct decoder_events *events, void *data,
		struct decoder **ret);
struct decoder *decoder_free(struct decoder *d);

bool decoder_ready(const struct decoder *d);

/* It was started several times in a row and is not there. */
bool decoder_hopeless(const struct decoder *d);

/* In words, while it does not run. */
const char *decoder_why(const struct decoder *d);

/* The socket to a new job's child, not blocking. */
int decoder_submit(struct decoder *d, uint64_t job);

/* Ends the server and with it every child: for one that does not end in time. */
void decoder_kill(struct decoder *d);

/* csight-decode's own end, from SIGCHLD. */
void decoder_reap(struct decoder *d);

#endif
