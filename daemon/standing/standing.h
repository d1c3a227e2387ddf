/* SPDX-License-Identifier: MIT */
/*
 * Standing targets: rules by which processes are armed, those that run and those that start later. A program under the
 * emulated trace unit is found when it registers; others by the kernel's events (process-events.h). A user's rule
 * selects that user's own processes, root's any; what its targets use is charged to the rule's user.
 *
 * A rule of root's with a program has a gate before it (exec-gate.h), so that its processes are armed before they
 * execute it: other users' rules must not delay what others execute.
 *
 * A process that several rules select belongs to the oldest, but one that root has armed to no user's. A rule that is
 * removed leaves its processes armed.
 *
 * On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_STANDING_H
#define CSIGHT_DAEMON_STANDING_H

#include <sys/queue.h>

#include "daemon/audit.h"
#include "daemon/settings.h"
#include "daemon/standing/standing-rule.h"
#include "daemon/target.h"
#include "daemon/trace-units.h"

struct standing_list;
struct exec_gate;
struct process_set;

struct standing {
	TAILQ_ENTRY(standing) link;
	struct standing_list *all;
	uint32_t id;
	struct standing_rule rule;
	struct capture_options options;
	struct audit_actor by; /* whose rule it is */
	char *section;         /* of the configuration, or NULL */
	struct charge charge;
	uint64_t armed;          /* targets that the rule has, or had */
	uint64_t failed;         /* processes that could not be armed */
	struct reason why;       /* why the last of these could not; "": none */
	struct process_set *set; /* the processes of its tree, or NULL */
	int first;               /* a pidfd of the tree's first process, or -1 */
	struct event *first_ended;
	bool first_gone;        /* that process has ended, */
	uint64_t first_gone_ns; /* at this time, CLOCK_MONOTONIC; 0: before csightd began */
	unsigned awaited;       /* targets of the tree, of an earlier daemon, that are not targets of this one yet */
	struct exec_gate *gate; /* before its program, or NULL */
	unsigned arriving;      /* processes that wait at the gate */
	uint64_t gate_ns;       /* when the gate was made, CLOCK_MONOTONIC */
};

TAILQ_HEAD(standing_head, standing);

struct standing_list_options {
	struct event_base *base;
	const struct settings *settings;
	struct ledger *ledger;
	struct audit *audit;
	struct trace_units *units;
	struct target_list *targets;
	void (*changed)(void *data); /* the state to store has changed; may be NULL */
	void *data;
};

int standing_list_new(const struct standing_list_options *options, struct standing_list **ret);
struct standing_list *standing_list_free(struct standing_list *all);
const struct standing_head *standing_list_all(const struct standing_list *all);

struct standing_request {
	struct standing_rule rule; /* rule and options are copied */
	struct capture_options options;
	const struct audit_actor *by;
	const char *section; /* or NULL */
	uint32_t id;         /* of a rule of an earlier daemon; 0: a new one */
};

/*
 * Adds a rule. -EINVAL, -ESRCH, -EPERM, -EOPNOTSUPP with a reason; -EDQUOT, see ret_limit; -EEXIST: the user has this
 * rule, with these options or others; -ENOMEM.
 */
int standing_add(struct standing_list *all, const struct standing_request *request, struct standing **ret,
		 struct reason *why, struct ledger_refusal *ret_limit);
void standing_remove(struct standing *s);
struct standing *standing_find(const struct standing_list *all, uint32_t id);

/* From now on processes are armed: first those that run. */
void standing_list_begin(struct standing_list *all);

/* To be called when a target is armed or disarmed, or has ended. */
void standing_target(struct standing_list *all, struct target *t, enum target_change change);

/* A process is to become a target again that an earlier daemon had for this rule; standing_restore() follows. */
void standing_await(struct standing_list *all, uint32_t id);

/*
 * Gives a target of an earlier daemon to the rule that had it, if that is of a tree. Targets of other rules are matched
 * again. t: NULL: the process has ended, or cannot be armed.
 */
void standing_restore(struct standing_list *all, struct target *t, uint32_t id);

#endif
