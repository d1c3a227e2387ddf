/* SPDX-License-Identifier: MIT */
/* For methods.c, which has the table of methods and those of snapshots, and methods-process.c with those of processes.
 */
#ifndef CSIGHT_DAEMON_METHODS_INTERNAL_H
#define CSIGHT_DAEMON_METHODS_INTERNAL_H

#include "daemon/audit.h"
#include "daemon/call.h"
#include "daemon/daemon.h"
#include "daemon/snapshot.h"
#include "daemon/target.h"

struct standing;
struct trigger;

/* What a call names, after the check of the right. */
struct methods_subject {
	enum audit_action action;
	pid_t pid;
	struct target *target; /* NULL if the process is no target */
	struct snapshot *snapshot;
	struct trigger *trigger;
	struct standing *standing;
};

struct audit_object methods_object_of_snapshot(const struct snapshot *s);

/* Refuses a call for the lack of a right. */
void methods_deny(struct call *c, const struct methods_subject *s);

/* Finds a process, and checks the right to it: to its target, or else as /proc has it. Replies where it returns false.
 */
bool methods_find_process(struct daemon *d, struct call *c, pid_t pid, struct methods_subject *ret);

void methods_arm(struct daemon *d, struct call *c, struct methods_subject *s);
void methods_disarm(struct daemon *d, struct call *c, struct methods_subject *s);
void methods_snapshot(struct daemon *d, struct call *c, struct methods_subject *s);

#endif
