/* SPDX-License-Identifier: MIT */
/* The control socket: accepts clients within limits, and passes on each call that they make. On the loop's thread. */
#ifndef CSIGHT_DAEMON_SERVICE_H
#define CSIGHT_DAEMON_SERVICE_H

#include <event2/event.h>
#include <sys/types.h>

#include "daemon/call.h"

struct service;

struct service_options {
	const char *path;
	unsigned mode; /* of the socket file */
	/* Handles a call, see call.h. method: "interface.Method", valid as long as the call. */
	void (*dispatch)(void *data, struct call *c, const char *method);
	void *data;
};

/* Errors are those of listener_new(); *ret_pid is a process that listens at the path already. */
int service_new(struct event_base *base, const struct service_options *options, pid_t *ret_pid, struct service **ret);
struct service *service_free(struct service *s);

#endif
