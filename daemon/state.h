/* SPDX-License-Identifier: MIT */
/*
 * What outlasts the daemon: which processes are targets, with which options and at whose request, their triggers, the
 * standing targets of users, and whether all recording is paused. Standing targets outlast the boot as well.
 * It is in the file targets.json of the spool, which is replaced soon after each change. A new daemon arms the
 * processes of trace units again; programs under the emulated trace unit register by themselves, and get their
 * triggers back then. A process is named by its number, when it started, and the boot; and what its requester may do
 * is checked again.
 *
 * On the loop's thread; the spool's queue writes.
 */
#ifndef CSIGHT_DAEMON_STATE_H
#define CSIGHT_DAEMON_STATE_H

#include "daemon/spool.h"
#include "daemon/standing/standing.h"
#include "daemon/target.h"
#include "daemon/trace-units.h"
#include "daemon/trigger/trigger.h"

struct state;

struct state_options {
	struct event_base *base;
	const struct settings *settings;
	struct workqueue *queue; /* of the spool */
	struct ledger *ledger;
	struct spool *spool;
	struct trace_units *units;
	struct target_list *targets;
	struct trigger_list *triggers;
	struct standing_list *standing;
	struct audit *audit;
};

/*
 * Restores what an earlier daemon stored, without the targets if the settings forbid it. A damaged file is logged and
 * renamed.
 */
int state_new(const struct state_options *options, struct state **ret);

/* True if a target of an earlier daemon, whose process runs, is not one of this daemon yet. */
bool state_waits(const struct state *s);

/* Writes the state for the last time. */
void state_stop(struct state *s);

/* To be called after the spool's queue has stopped. Returns NULL. */
struct state *state_free(struct state *s);

/* Schedules a write, since triggers or standing targets have changed. s may be NULL: the state is not read yet. */
void state_changed(struct state *s);

/* Return and record whether all recording is paused; s may be NULL in state_paused(). */
bool state_paused(const struct state *s);
void state_pause(struct state *s, bool paused);

/* Schedules a write, since a target has changed; one that was waited for gets its triggers back. s may be NULL. */
void state_target(struct state *s, struct target *t, enum target_change change);

#endif
