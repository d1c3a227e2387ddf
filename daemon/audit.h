/* SPDX-License-Identifier: MIT */
/*
 * The audit: who armed, disarmed, took, opened, exported, removed or reloaded what, or was refused it. Each action is
 * one event, with the fields and message ids that csightd(8) lists, in the journal; where there is none, or the log
 * goes elsewhere, it is a line of the log. The first refusal of a kind to a user is an event, those that follow within
 * an interval are summed in one. What is not recorded, because too much waits for the journal, is counted and reported.
 *
 * On the loop's thread; a thread of its own sends, so that a busy journal does not block the loop.
 */
#ifndef CSIGHT_DAEMON_AUDIT_H
#define CSIGHT_DAEMON_AUDIT_H

#include <event2/event.h>

#include "daemon/counters.h"

struct audit;

enum audit_action {
	AUDIT_LOOK, /* refusals only: what succeeds is no event */
	AUDIT_CONNECT,
	AUDIT_ARM,
	AUDIT_DISARM,
	AUDIT_TAKE,
	AUDIT_FOLLOW, /* read the trace of a process while it runs */
	AUDIT_OPEN,   /* what csight reads */
	AUDIT_EXPORT, /* a file in the format of another program */
	AUDIT_REMOVE,
	AUDIT_KEEP,   /* keep a snapshot from being removed to make room */
	AUDIT_LET_GO, /* allow the removal of a kept snapshot again */
	AUDIT_RELOAD, /* read the configuration again */
	AUDIT_PAUSE,  /* pause all recording */
	AUDIT_RESUME,
	AUDIT_ACTIONS,
};

/* Who acts: the peer of a connection, as it was when it connected. Without an audit, nothing is recorded. */
struct audit_actor {
	struct audit *audit;
	uid_t uid;
	pid_t pid;
	uid_t login_uid; /* (uid_t)-1: unknown, or the session has none */
};

/* A hit of a trigger. */
struct audit_hit {
	int64_t id;       /* of the trigger */
	const char *name; /* of its section, or NULL */
	uint64_t value;   /* a duration in ns, if timed */
	bool timed;
	int64_t tid; /* 0: unknown */
};

/* The object of an action. */
struct audit_object {
	pid_t pid;            /* of the process, or of the one that the snapshot is of; 0: unknown */
	uid_t owner;          /* (uid_t)-1: unknown */
	const char *name;     /* of the process, or NULL */
	const char *snapshot; /* its id, or NULL */
	const char *detail;   /* the file that is opened, or the limit for which csightd removes a snapshot; or NULL */
	const char *trigger;  /* the condition of the trigger that is set or removed, or takes the snapshot; or NULL */
	const char *rule;     /* of the standing target; or NULL */
	const struct audit_hit *hit; /* that took the snapshot; or NULL */
};

struct audit_options {
	struct event_base *base;
	struct ledger *ledger;     /* subordinate uids count as their owner */
	unsigned interval_ms;      /* of sums; 0: the default, a minute */
	struct counters *counters; /* of refusals; or NULL */
};

int audit_new(const struct audit_options *options, struct audit **ret);

/* Records the sums, waits until all events are sent, and frees the audit. Returns NULL. */
struct audit *audit_free(struct audit *a);

/* Returns csightd itself, as an actor. */
struct audit_actor audit_self(struct audit *a);

/* Records an action that has been done. */
void audit_done(const struct audit_actor *by, enum audit_action action, const struct audit_object *on);

/* Records that an actor lacks the right to an action, or is over a limit. */
void audit_deny(const struct audit_actor *by, enum audit_action action, const struct audit_object *on);
void audit_limit(const struct audit_actor *by, enum audit_action action, const struct audit_object *on,
		 const struct ledger_refusal *why);

#endif
