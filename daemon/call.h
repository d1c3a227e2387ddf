/* SPDX-License-Identifier: MIT */
/*
 * Calls of Varlink methods. The handler of a call replies exactly once, at once or later, with call_reply_empty(),
 * call_reply(), call_reply_fd(), call_error() or call_invalid(), which free the call. If the client leaves first, a
 * call on a list is removed from it and freed; any other call stays valid until its reply, which is then dropped. On
 * the loop's thread.
 */
#ifndef CSIGHT_DAEMON_CALL_H
#define CSIGHT_DAEMON_CALL_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/audit.h"
#include "daemon/connection.h"
#include "lib/base/json.h"
#include "lib/varlink/varlink.h"

struct call;
TAILQ_HEAD(calls, call);

struct call {
	struct connection *connection;  /* NULL after the client has left */
	json_object *root, *parameters; /* parameters: an object, within root */
	struct audit_actor by;          /* the client */
	bool more;                      /* the client wants progress, and the method reports it */
	bool oneway;                    /* the client wants no reply */
	struct calls *list;             /* where the call waits, or NULL */
	const void *subject;            /* what the call waits for: identifies it for the owner of the list */
	TAILQ_ENTRY(call) link;
};

/* v->root belongs to the call, and is NULL afterwards. Returns NULL without memory. */
struct call *call_new(struct connection *n, const struct audit_actor *by, struct varlink_call *v);

/* Replies with success and no parameters. */
void call_reply_empty(struct call *c);

/*
 * These consume parameters. NULL means that there was no memory for them: then, and if they are incomplete, the reply
 * is an error that says so. call_error() has no parameters then.
 */
void call_reply(struct call *c, json_object *parameters);
void call_reply_fd(struct call *c, json_object *parameters, int fd); /* fd is owned */
void call_progress(struct call *c, json_object *parameters);
void call_error(struct call *c, const char *error, json_object *parameters);

/* Queues a reply that others follow, b, even if the client has unread ones. -ENOBUFS: it has too many of them. */
int call_event(struct call *c, const struct buf *b);

/* Replies with org.varlink.service.InvalidParameter. */
void call_invalid(struct call *c, const char *parameter);

/* Puts the call on a list until its reply. Frees it if the client has left. */
void call_wait(struct call *c, struct calls *list, const void *subject);

#endif
