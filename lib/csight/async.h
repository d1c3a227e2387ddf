/* SPDX-License-Identifier: MIT */
/*
 * The asynchronous calls of a handle. Any thread submits requests; one thread at a time takes results. The thread that
 * gets the lock sends what others have queued meanwhile, so that no thread waits for another. Requests without a result
 * go over a connection of their own (post), as Varlink replies in order; each of the others has a connection to itself
 * (lanes).
 */
#ifndef CSIGHT_ASYNC_H
#define CSIGHT_ASYNC_H

#include "lib/csight/csight-internal.h"
#include "lib/csight/request-queue.h"

enum async_end { ASYNC_REPLY, ASYNC_NO_CONNECTION, ASYNC_BROKEN, ASYNC_CANCELLED };

/* What happened to a request. */
struct async_event {
	struct async_request request; /* without its message */
	enum async_end end;
	int error; /* unless it is a reply */
	uid_t uid; /* of the server of the socket, if the error is that the library does not trust it */
	struct varlink_reply reply; /* freed by the caller that takes the event */
	int fd;
	bool last;
};

/* Submits a request, whose heap belongs to the calls from then on, also on failure. */
int async_submit(struct csight *c, struct async_request *request, uint64_t *ret);

/*
 * Does what csight_snapshot_async() does. annotation: further parameters of the method as JSON, each after a comma, or
 * "".
 */
int async_snapshot(struct csight *c, pid_t pid, const struct csight_async_options *options, const char *annotation,
		   uint64_t *ret);

/* Takes the next event, if there is one. */
bool async_next(struct async *a, struct async_event *ret);

int async_connect(struct async *a, uid_t *ret_uid);
int async_cancel(struct async *a, uint64_t ticket);
int async_fd(struct async *a);
int async_timeout(struct async *a);
struct csight_counts async_counts(struct async *a);

/*
 * Returns true if at least ns have passed since the last call that returned true. *ret_before: for
 * async_rate_undo(), which makes that call count as not made.
 */
bool async_rate(struct async *a, uint64_t ns, uint64_t *ret_before);
void async_rate_undo(struct async *a, uint64_t before);

#endif
