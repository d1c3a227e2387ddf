/* SPDX-License-Identifier: MIT */
/* Replies with the errors of org.csight. They free the call, as call_error() does. On the loop's thread. */
#ifndef CSIGHT_DAEMON_FAILURE_H
#define CSIGHT_DAEMON_FAILURE_H

#include "daemon/call.h"
#include "daemon/wire.h"

/* About a process. reason: may be NULL. */
void failure_process(struct call *c, enum wire_error error, pid_t pid, const char *reason);

/* Any error that has one parameter. */
void failure_text(struct call *c, const char *error, const char *key, const char *text);

void failure_no_snapshot(struct call *c, const char *id);
void failure_not_ready(struct call *c, const struct snapshot *s);

#endif
