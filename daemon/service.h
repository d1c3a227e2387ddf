/*
 * The control socket: connections, their limits, and calls. A call that a method's handler is given is answered exactly
 * once, now or later, with call_reply() or call_error(); that frees it. Its client may leave before: then answers go
 * nowhere, and a call that waits on a list is taken off it. All on the loop's thread.
 */
#ifndef CSIGHT_DAEMON_SERVICE_H
#define CSIGHT_DAEMON_SERVICE_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "lib/base/json.h"
#include "lib/varlink/varlink.h"

struct daemon;
struct connection;
struct method;
struct service;
struct call;
TAILQ_HEAD(calls, call);

struct call {
	struct connection *connection; /* NULL once the client has left */
	const struct method *method;
	json_object *root, *parameters; /* parameters is within root; an object always */
	uid_t uid;
	bool more;          /* progress is wanted; only for methods that have it */
	bool oneway;        /* no answer is */
	struct calls *list; /* where it waits, or NULL */
	TAILQ_ENTRY(call) link;
};

/* mode: of the socket. -EADDRINUSE: another daemon answers there; its pid goes to *ret_pid. */
int service_new(struct daemon *d, const char *path, unsigned mode, pid_t *ret_pid, struct service **ret);
struct service *service_free(struct service *s);

/* A listening socket at path: a stale one is replaced, a live one is -EADDRINUSE. Also for the registration socket. */
int service_listen(const char *path, int type, unsigned mode, pid_t *ret_pid);

/* parameters are taken; NULL stands for none. */
void call_reply(struct call *c, json_object *parameters);
void call_reply_fd(struct call *c, json_object *parameters, int fd); /* fd is taken */
void call_progress(struct call *c, json_object *parameters);
void call_error(struct call *c, const char *error, json_object *parameters);

/* org.varlink.service.InvalidParameter */
void call_invalid(struct call *c, const char *parameter);

void call_wait(struct call *c, struct calls *list);
void call_unwait(struct call *c);

#endif
