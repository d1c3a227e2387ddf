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

/* The object of a call, after the check of the right. */
struct methods_subject {
	enum audit_action action;
	pid_t pid;
	struct target *target; /* NULL if the process is no target */
	struct snapshot *snapshot;
	struct trigger *trigger;
	struct standing *standing;
};

struct audit_object methods_object_of_snapshot(const struct snapshot *s);

/* Replies PermissionDenied to a call, and records in the audit that its client has no right to the subject. */
void methods_deny(struct call *c, const struct methods_subject *s);

/*
 * Finds a process, and checks the right to its target, or, if it is none, to the process as /proc describes it. Returns
 * false after an error reply.
 */
bool methods_find_process(struct daemon *d, struct call *c, pid_t pid, struct methods_subject *ret);

void methods_arm(struct daemon *d, struct call *c, struct methods_subject *s);
void methods_disarm(struct daemon *d, struct call *c, struct methods_subject *s);
void methods_end_recording(struct daemon *d, struct call *c, struct methods_subject *s);
void methods_snapshot(struct daemon *d, struct call *c, struct methods_subject *s);
void methods_tail(struct daemon *d, struct call *c, struct methods_subject *s);

#endif
