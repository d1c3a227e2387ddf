/* SPDX-License-Identifier: MIT */
/*
 * Requests for a snapshot: arm the target where necessary, wait for trace, charge the memory and the room in the spool
 * that a copy takes at most, freeze and copy its ring, have build-ids of mapped files read, write the copy to the
 * spool, queue the decode. A request waits for memory, and for room that is being made; a user who waits behind others'
 * copies is served before one who has several under way. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_REQUEST_H
#define CSIGHT_DAEMON_REQUEST_H

#include <stdbool.h>

#include "daemon/counters.h"
#include "daemon/job.h"
#include "daemon/recording.h"
#include "daemon/settings.h"
#include "daemon/target.h"

struct request_list;

struct request_list_options {
	struct event_base *base;
	const struct settings *settings;
	struct workqueue *capture_queue, *spool_queue, *record_queue;
	struct user_queues *user_queues;
	struct ledger *ledger;
	struct spool *spool;
	struct job_queue *jobs;
	struct counters *counters;
};

int request_list_new(const struct request_list_options *options, struct request_list **ret);

/* Fails the requests that wait for trace. Those that are being copied end as the workqueues are stopped. */
void request_list_stop(struct request_list *list);

/* Ends the recording of which this is the snapshot. Returns false if there is none. */
bool request_list_end_recording(struct request_list *list, const struct snapshot *s);

/* Ends all recordings, since csightd ends; their snapshots are completed. */
void request_list_end_recordings(struct request_list *list);

/* To be called after all requests have ended. Returns NULL. */
struct request_list *request_list_free(struct request_list *list);

enum request_result {
	REQUEST_DONE,       /* the snapshot is in the spool, queued for its decode */
	REQUEST_NOT_ARMED,  /* the target is disarmed, and the request may not arm it */
	REQUEST_OVER_LIMIT, /* the ledger refused it to the target's owner */
	REQUEST_FAILED,
	REQUEST_CUT_SHORT, /* csightd ends */
};

struct request_options {
	uid_t uid; /* of the caller, which the snapshot records */
	bool no_arm;
	bool records; /* it goes on until it reaches a limit of record, or until another end (recording.h) */
	struct recording_limits record;
	struct annotation annotation; /* owned by the request */
	json_object *mark; /* of the hit that requests it, as org.csight has it; or NULL. Borrowed until ended() */
	/* Of a request that records: called when that has begun, and some times a second. */
	void (*recording)(void *data, const struct snapshot *s);
	/* Called at the begin of each phase: arming, waiting, freezing, copying or queued. */
	void (*progress)(void *data, const char *phase);
	/*
	 * Called once, perhaps before request_begin() returns. s: the snapshot, for REQUEST_DONE; its decode has not
	 * begun. reason: the text of an error, or NULL. limit: of REQUEST_OVER_LIMIT.
	 */
	void (*ended)(void *data, enum request_result result, const struct snapshot *s, const char *reason,
		      const struct ledger_refusal *limit);
	void *data;
};

/* Takes the annotation of the options. */
void request_begin(struct request_list *list, struct target *t, struct request_options *options);

#endif
