/* SPDX-License-Identifier: MIT */
/*
 * The commands of triggers (the rule exec), which csight-runner runs when the snapshot of a hit is ready or raw. The
 * number that run at once is limited for each user and for all; commands beyond that are not run, and logged. On the
 * loop's thread.
 */
#ifndef CSIGHT_DAEMON_TRIGGER_EXEC_H
#define CSIGHT_DAEMON_TRIGGER_EXEC_H

#include <event2/event.h>

#include "daemon/settings.h"
#include "lib/base/reason.h"
#include "lib/trigger/trigger-spec.h"

struct trigger_exec;

struct trigger_exec_hit {
	uid_t uid;
	const char *command;
	const char *snapshot; /* its ID */
	const char *state;    /* of the snapshot */
	pid_t pid;            /* of the snapshot's process */
	uint32_t id;          /* of the trigger */
	const char *name;     /* of the trigger's section, or NULL */
	const char *condition;
	bool timed;
	uint64_t value; /* a duration in ns, if timed */
	int64_t tid;    /* 0: unknown */
};

int trigger_exec_new(struct event_base *base, const struct settings *settings, struct trigger_exec **ret);

/* Returns 0 if commands of the user can be run; else negative errno with the reason. */
int trigger_exec_check(const struct trigger_exec *x, uid_t uid, struct reason *why);

void trigger_exec_run(struct trigger_exec *x, const struct trigger_exec_hit *hit);

/* Commands that run continue. */
struct trigger_exec *trigger_exec_free(struct trigger_exec *x);

#endif
