/* SPDX-License-Identifier: MIT */
/*
 * Requests for a snapshot, for the files that implement them: request.c arms, waits and admits, request-record.c has
 * those that go on while the program runs, request-copy.c makes the snapshot.
 */
#ifndef CSIGHT_DAEMON_REQUEST_INTERNAL_H
#define CSIGHT_DAEMON_REQUEST_INTERNAL_H

#include "daemon/program-notes.h"
#include "daemon/recording.h"
#include "daemon/request.h"
#include "daemon/snapshot-writer.h"
#include "daemon/spool.h"
#include "daemon/user-queues.h"

struct request_list {
	struct request_list_options o;
	TAILQ_HEAD(, snapshot_request) all;
	struct event *room;
	bool stopping, admitting;
};

/* A work on the thread of the target's owner: when it is done, the files that were passed before it are checked. */
struct files_check {
	struct user_work work;
	struct snapshot_request *request; /* NULL: no request waits for this check any more */
};

struct snapshot_request {
	struct ring_op op;
	struct work copy, prepare, write;
	uint64_t cost_ns; /* processor time of the copy */
	struct request_list *list;
	TAILQ_ENTRY(snapshot_request) link;
	struct request_options options;
	struct target *target;
	struct program_notes *notes; /* while the rings are copied; or NULL */
	bool alive;                  /* the process ran when the copy began */
	uint64_t begun_ns;           /* CLOCK_MONOTONIC */
	unsigned tries;              /* how often the ring was found empty after arming */
	struct event *timer;
	struct charge charge, waiting, memory;
	struct charge stored;     /* none: the snapshot will replace the oldest one of its user */
	struct spool_claim claim; /* until the snapshot has it */
	bool waits;               /* the request waits for memory and for room in the spool */
	bool reported;            /* that it waits */
	bool blocked;             /* a request of its user has got no room, while requests are admitted */
	bool grows;               /* the request has its copy, and waits for more room */
	bool admitted;
	struct capture_limits limits;
	struct files_check *check; /* or NULL */
	unsigned unchecked;        /* files whose check took too long */
	struct capture_copy *copied;
	struct snapshot *snapshot;
	bool listed;                 /* the snapshot is in the list of the spool */
	struct recording *recording; /* or NULL */
	bool recorded;               /* the recording has ended */
	struct target_file **files;
	struct snapshot_writer writer;
	int rc;
};

enum {
	REQUEST_COPY_EXTRA = 1 << 20,  /* estimated bytes of a copy in memory besides trace and log */
	REQUEST_SPOOL_EXTRA = 1 << 20, /* the same in the spool, until the images are known */
};

/* Returns the user whose turn it is. */
uid_t request_owner(const struct snapshot_request *r);

void request_report_phase(const struct snapshot_request *r, const char *phase);

/* That memory, or room in the spool, is in use by other copies and decodes. */
void request_report_waiting(struct snapshot_request *r);

/* Ends a request whose ended() was called, and admits those that wait. request_fail() calls ended() first. */
void request_end(struct snapshot_request *r);
void request_fail(struct snapshot_request *r, enum request_result result, const char *reason);

/* Ends it because csightd ends. */
void request_cut_short(struct snapshot_request *r);

/* Looks at the requests that wait. */
void request_admit_all(struct request_list *list);

/* Makes the snapshot, and lists it; the user's oldest one may be removed for it. Returns 0, -ENOMEM or -EDQUOT. */
int request_make_snapshot(struct snapshot_request *r, uint64_t time, enum snapshot_state state);

void request_init_copy(struct snapshot_request *r);

/* Copies the rings when their turn comes; the snapshot follows. -EBUSY: too many operations wait for the process. */
int request_copy(struct snapshot_request *r);

/* The same of a recording that ends with csightd, for which no room is waited for. */
void request_copy_at_end(struct snapshot_request *r);

/* Goes on without the files whose check takes too long. */
void request_abandon_files(struct snapshot_request *r);

/* Writes the snapshot, whose images are known now, as soon as there is room for it. */
void request_write_when_room(struct snapshot_request *r);

/* Begins the recording of a request that has been admitted. */
void request_record(struct snapshot_request *r);

/*
 * Claims room for the last copy of a recording, whose log may have grown since it began. What there is no room for
 * there, or in the memory that its user may have, is left out of the log, and noted. -EAGAIN: there may be room soon.
 */
int request_claim_last(struct snapshot_request *r);

#endif
