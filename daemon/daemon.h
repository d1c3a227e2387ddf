/* SPDX-License-Identifier: MIT */
/* The state of csightd: main.c makes and ends it, methods.c reads it. It belongs to the loop's thread. */
#ifndef CSIGHT_DAEMON_DAEMON_H
#define CSIGHT_DAEMON_DAEMON_H

#include <event2/event.h>

#include "daemon/call.h"
#include "daemon/counters.h"
#include "daemon/settings.h"

struct daemon {
	int argc; /* the command line, which a reload parses again */
	char **argv;
	struct settings settings;
	struct event_base *base;
	struct workqueue *capture_queue; /* opens, freezes and copies rings */
	struct workqueue *spool_queue;   /* reads and writes the spool */
	struct workqueue *record_queue;  /* drains rings into the spool */
	struct user_queues *user_queues; /* open, check and close files of users, which may block for ever */
	struct workqueue *names_queue;   /* asks for users, which may take long */
	struct subuids *subuids;
	struct limits *limits;
	struct ledger *ledger; /* of limits */
	struct turns *turns;   /* of calls, messages of programs, and hits of triggers */
	struct counters counters;
	struct audit *audit;
	struct exit_listener *exits; /* NULL: not available */
	struct event *late_exits;    /* on the connection to a csight-opener that has not answered yet, or NULL */
	struct oom_listener *ooms;   /* NULL: not available */
	struct target_list *targets;
	struct registry *registry;
	struct trace_units *units;
	struct spool *spool;
	struct job_queue *jobs;
	struct request_list *requests;
	struct tail_list *tails;
	struct trigger_list *triggers;
	struct standing_list *standing;
	struct state *state;
	struct overhead *overhead;
	struct service *service;
	struct status_line *status_line;
	struct calls subscribers; /* subscriptions.h */
	struct calls waiting;     /* for the end of a decode; their subject is the snapshot */
	uint64_t started_ns;      /* CLOCK_MONOTONIC */
	struct event *signals[12];
	/* From the first SIGTERM or SIGINT on, until no client waits for a reply, or until ends_ns: */
	bool ending;
	uint64_t ends_ns;
	struct event *end_tick;
	/* Until the targets of an earlier daemon have come back, or until hold_ns, connections are not accepted: */
	struct event *hold_tick;
	uint64_t hold_ns;
};

#endif
