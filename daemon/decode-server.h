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

struct decode_server;

struct decode_server_events {
	void (*ended)(void *data, uint64_t job, int status);
	void (*lost)(void *data); /* every job's child is gone with it */
	void (*ready)(void *data);
};

/* user: whom it runs as where this process is root; "" picks csight or nobody. */
int decode_server_new(struct event_base *base, const char *user, const struct decode_server_events *events, void *data,
		      struct decode_server **ret);
struct decode_server *decode_server_free(struct decode_server *d);

bool decode_server_ready(const struct decode_server *d);

/* It was started several times in a row and is not there. */
bool decode_server_hopeless(const struct decode_server *d);

/* In words, while it does not run. */
const char *decode_server_why(const struct decode_server *d);

/* The socket to a new job's child, not blocking. */
int decode_server_submit(struct decode_server *d, uint64_t job);

/* Ends the server and with it every child: for one that does not end in time. */
void decode_server_kill(struct decode_server *d);

/* csight-decode's own end, from SIGCHLD. */
void decode_server_reap(struct decode_server *d);

#endif
