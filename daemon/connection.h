/* SPDX-License-Identifier: MIT */
/*
 * One client of the control socket: Varlink messages in both directions. The connection announces each message to its
 * owner, who takes it when it is the client's turn, and announces the next one after the final reply. It ends by itself
 * when the client has left and what it had sent is executed, when it sends no valid message, stops in the middle of
 * one, or does not read its replies. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_CONNECTION_H
#define CSIGHT_DAEMON_CONNECTION_H

#include <event2/event.h>
#include <sys/types.h>

#include "lib/base/buf.h"

struct connection;

struct connection_owner {
	/*
	 * Called with one message; text: without its NUL, valid during the call. Returns 0 if the owner has called
	 * connection_expect(); its connection_finish(), now or later, ends the exchange. Returns negative errno if the
	 * message is not a method call: the client gets an error, and the connection ends.
	 */
	int (*message)(void *data, const char *text, size_t size);
	/* Called when a message waits; connection_turn() passes it on. */
	void (*ready)(void *data);
	/* Called when the connection is being freed. */
	void (*closed)(void *data);
	void *data;
	struct ledger *ledger; /* for unread output */
};

/*
 * Creates a connection. uid: of the client. fd belongs to the connection, also on failure; then closed() is not called.
 */
int connection_new(struct event_base *base, int fd, uid_t uid, const struct connection_owner *owner,
		   struct connection **ret);
struct connection *connection_free(struct connection *n);

/* Passes the message that waits to message(). Perhaps frees the connection. */
void connection_turn(struct connection *n);

/* Returns since when the client has neither sent nor read: CLOCK_MONOTONIC ns; 0: it waits for a reply, or is sending.
 */
uint64_t connection_idle_since(const struct connection *n);

/* Returns whether the client waits for a reply, or has unread output. */
bool connection_busy(const struct connection *n);

/* Sends what the socket accepts now, outside the loop. Returns whether output is left that the client may still read.
 */
bool connection_flush(struct connection *n);

/* Announces a reply. client_left(data) is called if the connection ends before connection_finish(). */
void connection_expect(struct connection *n, void (*client_left)(void *data), void *data);

/*
 * What is left of the exchange is to reply: it ends with client_left() as soon as the client can no longer read.
 * Returns false if that is so already; then the owner calls connection_finish().
 */
bool connection_wait(struct connection *n);

/*
 * Queues the final reply b. If b is NULL, nothing is queued; if b has the error -ENOMEM, the reply is an error that
 * says so. fd: sent with the first byte of the reply, or -1; owned.
 */
void connection_finish(struct connection *n, const struct buf *b, int fd);

/* Queues a reply that others follow. -ENOBUFS, and nothing is queued: the client has unread output, 64 KiB with it. */
int connection_event(struct connection *n, const struct buf *b);

/* Queues a reply that others follow. A client with unread output does not get it. */
void connection_progress(struct connection *n, const struct buf *b);

#endif
