/* SPDX-License-Identifier: MIT */
/*
 * Triggers: snapshots of a target that its own behaviour requests. A trigger belongs to the user who set it, to whom it
 * is charged, and to one target. Its spec (lib/trigger/trigger-spec.h) says what counts as a hit, and which hits take a
 * snapshot; every hit is counted, with what became of it.
 *
 * The source of a target watches the places of all its triggers (struct capture_watching); the end of the process is
 * what the target reports. A hit freezes the rings itself, where a snapshot of it is due: the copy has what led to it.
 *
 * On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_TRIGGER_H
#define CSIGHT_DAEMON_TRIGGER_H

#include <event2/event.h>
#include <sys/queue.h>

#include "daemon/call.h"
#include "daemon/request.h"
#include "daemon/spool.h"
#include "daemon/turns.h"
#include "daemon/target.h"
#include "lib/trigger/trigger-spec.h"

enum { TRIGGER_PLACES_MAX = 16 };

struct trigger_list;
struct watched_target;
struct daemon;
struct service;
struct control_groups;

/* What is watched, as in struct emu_watch: an address, with an inode an offset in that file, or a number. */
struct trigger_place {
	unsigned condition;          /* of the spec: its index */
	uint64_t place, size, inode; /* size: of the function; 0: it is none */
	uint32_t major, minor;
	struct capture_watch_ends ends; /* of the function */
};

/* Whether a hit takes a snapshot, or why not. */
enum trigger_outcome {
	TRIGGER_TAKEN,
	TRIGGER_OVER_MAX,      /* the rule once or max */
	TRIGGER_TOO_SOON,      /* the rule every */
	TRIGGER_BUSY,          /* the snapshot of an earlier hit was being taken */
	TRIGGER_SHORT_HISTORY, /* the rule min-history */
	TRIGGER_NOT_LONGEST,   /* the rule keep */
	TRIGGER_OVER_LIMIT,    /* a limit of the user */
	TRIGGER_FAILED,
	TRIGGER_OUTCOMES,
};

const char *trigger_outcome_str(enum trigger_outcome outcome);

/* A hit, as a snapshot records it. */
struct trigger_hit {
	unsigned condition; /* that it met: the index in the spec */
	enum emu_hit_how how;
	uint32_t tid;          /* 0: unknown */
	uint64_t time_ns;      /* on the thread's clock; 0: unknown */
	uint64_t monotonic_ns; /* CLOCK_MONOTONIC */
	uint64_t value;        /* the duration, if the condition has one */
	bool held;             /* it froze the rings */
};

/* A snapshot of a trigger that keeps those of the longest durations. */
struct kept_snapshot {
	char id[SNAPSHOT_ID_SIZE];
	uint64_t value;
};

struct trigger {
	TAILQ_ENTRY(trigger) link; /* oldest first */
	struct trigger_list *all;
	uint32_t number;
	struct audit_actor by;
	struct trigger_spec spec;
	char *condition, *rules; /* the texts of spec: all conditions, and the rules */
	char *section;           /* of the configuration, if that has set the trigger; NULL: a user has */
	pid_t pid;
	char *name;                     /* of the process */
	struct watched_target *watched; /* NULL once the trigger has ended and no copy is incomplete */
	struct trigger_place places[TRIGGER_PLACES_MAX];
	size_t n_places;
	/* Of the places: indices in the source's list, while enabled. With and, the last one is that of their join. */
	uint32_t slots[TRIGGER_PLACES_MAX + 1];
	size_t n_slots;
	struct emu_watch_count since[TRIGGER_PLACES_MAX + 1]; /* the source's counts at the last trigger_count() */
	bool enabled;
	bool attached; /* it ends with the call that set it */
	bool reported; /* the caller knows that it is in effect */
	bool ended;    /* the target has ended or left the list, or all snapshots are taken */
	bool end_hit;  /* the end of the process was a hit */
	bool settled;  /* it has ended, and with it some that ended before may be dropped */
	uint64_t hits;
	/* Of each condition; with and, also those that were no hits of the trigger. */
	uint64_t condition_hits[TRIGGER_CONDITIONS_MAX];
	uint64_t completed[TRIGGER_CONDITIONS_MAX]; /* with and: those that were, as far as they have been read */
	uint64_t measured, unknown;                 /* calls of known and of unknown duration */
	uint64_t outcomes[TRIGGER_OUTCOMES];
	uint64_t longest;  /* the greatest value of a hit */
	uint64_t taken_ns; /* CLOCK_MONOTONIC of the last snapshot */
	unsigned copying;  /* snapshots of which the copy is not complete */
	unsigned pending;  /* snapshots that are neither ready nor raw */
	struct kept_snapshot kept[TRIGGER_KEEP_MAX + 1];
	size_t n_kept;
	struct event *timer;           /* until hits may freeze the rings again */
	struct event *period;          /* of the condition period; or NULL */
	struct calls calls;            /* that wait for its snapshots */
	struct control_groups *groups; /* of the process when it was set, if the spec has such a group; or NULL */
	struct charge charge;
};

TAILQ_HEAD(trigger_head, trigger);

struct trigger_list_options {
	struct event_base *base;
	struct ledger *ledger;
	struct turns *turns;
	struct workqueue *capture_queue;
	struct request_list *requests;
	struct spool *spool;
	struct daemon *daemon; /* for group_begin() */
	/* A trigger was added, removed, enabled or disabled, or took a snapshot. May be NULL. */
	void (*changed)(void *data);
	void *data;
};

int trigger_list_new(const struct trigger_list_options *options, struct trigger_list **ret);
const struct trigger_head *trigger_list_all(const struct trigger_list *all);

/* Ends the calls of clients that may not connect any more. all may be NULL. */
void trigger_list_update(struct trigger_list *all, const struct service *s);

/* Replies to all calls that wait: the daemon ends. No snapshot is requested from then on. */
void trigger_list_stop(struct trigger_list *all);
struct trigger_list *trigger_list_free(struct trigger_list *all);

struct trigger_request {
	struct target *target;
	const struct audit_actor *by;
	struct trigger_spec spec;
	struct trigger_place places[TRIGGER_PLACES_MAX];
	size_t n_places;
	bool attached;
	bool restored;       /* of an earlier daemon, which has checked its command */
	const char *section; /* trigger-sections.h; or NULL */
};

/*
 * Adds a trigger and enables it. -EDQUOT: the ledger refused it; -EOPNOTSUPP: the target cannot watch this, -E2BIG: it
 * watches too much, both with a reason; -ENOMEM.
 */
int trigger_add(struct trigger_list *all, const struct trigger_request *request, struct trigger **ret,
		struct reason *why, struct ledger_refusal *ret_refusal);
struct trigger *trigger_find(const struct trigger_list *all, uint32_t number);
int trigger_enable(struct trigger *t, bool enabled, struct reason *why);

/* Removes and frees a trigger; calls that wait for it end. Snapshots that it has requested are completed. */
void trigger_remove(struct trigger *t);

/* The caller waits until the trigger is in effect and, with more, for its snapshots. */
void trigger_wait(struct trigger *t, struct call *c);

/* Brings the trigger's counts up to date with those of the source. */
void trigger_count(struct trigger *t);

/* Describes how place i of a trigger is watched. False: it has no such place, or is not enabled. */
bool trigger_state_of(const struct trigger *t, size_t i, struct capture_watch_state *ret);

/* To be called when the source of a target has new hits. */
void trigger_list_hits(void *data, struct target *t);

/* To be called when the process of a target has ended, and again when it is known how, or when the target has left the
 * list. */
void trigger_list_ended(void *data, struct target *t);

/* To be called when overhead.h does not pause a target any more: its hits may freeze the rings again. */
void trigger_list_continued(struct trigger_list *all, const struct target *t);

void trigger_list_snapshot_changed(struct trigger_list *all, const struct snapshot *s, enum snapshot_change change);

#endif
