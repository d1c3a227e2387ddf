/* SPDX-License-Identifier: MIT */
/*
 * The control socket: accepts clients within limits, and passes on the calls that they make, in turns (turns.h),
 * however many connections a user has. While all connections are in use, a new one takes the place of the connection
 * that has been idle for longest, of the user who has most. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_SERVICE_H
#define CSIGHT_DAEMON_SERVICE_H

#include <event2/event.h>
#include <sys/types.h>

#include "daemon/call.h"
#include "daemon/ledger.h"
#include "daemon/settings.h"
#include "daemon/turns.h"

struct service;

struct service_options {
	const char *path;
	unsigned mode; /* of the socket file */
	/* Handles a call, see call.h. method: "interface.Method", valid as long as the call. */
	void (*dispatch)(void *data, struct call *c, const char *method);
	void *data;
	struct turns *turns;
	struct ledger *ledger;
	struct audit *audit;             /* or NULL */
	const struct settings *settings; /* who may connect */
};

/* Errors are those of listener_new(); *ret_pid is a process that listens at the path already. */
int service_new(struct event_base *base, const struct service_options *options, pid_t *ret_pid, struct service **ret);

/* Applies changed settings of who may connect to the connections that exist. */
void service_update(struct service *s);

/* Returns whether the settings deny the client of this connection everything. */
bool service_denies(const struct service *s, const struct connection *n);

/* Returns the groups of the client of this connection, as long as that exists. */
const gid_t *service_groups(const struct service *s, const struct connection *n, size_t *ret_n);

/* Returns whether a client waits for a reply, or has not read one. */
bool service_busy(const struct service *s);

/* See listener_hold(). */
void service_hold(struct service *s, bool hold);

/* Sends the replies that wait, outside the loop; a client that does not read them has a second. */
void service_flush(struct service *s);
struct service *service_free(struct service *s);

#endif
