/* What the parts of csightd share; main.c makes and ends it. Everything here belongs to the loop's thread. */
#ifndef CSIGHT_DAEMON_DAEMON_H
#define CSIGHT_DAEMON_DAEMON_H

#include <event2/event.h>
#include <sys/queue.h>

#include "daemon/settings.h"

struct daemon {
	struct settings settings;
	struct event_base *base;
	struct workqueue *capture; /* freezes and copies rings */
	struct workqueue *disk;    /* writes the spool */
	struct workqueue *opener;  /* opens what others named, which may take for ever */
	struct target_list *targets;
	struct registry *registry; /* programs under the emulated ETM */
	struct trace_units *units; /* the trace units of this machine */
	struct spool *spool;
	struct job_queue *jobs;
	struct service *service;
	TAILQ_HEAD(, snapshot_request) requests; /* snapshots on their way to the spool */
	uint64_t started_ns;                     /* CLOCK_MONOTONIC */
	size_t files_per_user;                   /* descriptors kept open for a user's targets */
	bool stopping;
	int exit_status;
};

#endif
