/* SPDX-License-Identifier: MIT */
/*
 * A recording: a snapshot that goes on while the program runs. Its rings are drained again and again into the file of
 * its trace, with a timer, sooner as they fill faster; each step is bounded, and takes turns with those of other users
 * on the recorder's thread. Room in the spool is claimed before it is written. A recording ends at one of its limits or
 * for another reason below; the request that began it makes an ordinary snapshot of it. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_RECORDING_H
#define CSIGHT_DAEMON_RECORDING_H

#include "daemon/snapshot.h"
#include "daemon/target.h"
#include "daemon/trace-file.h"

/* 0: no limit. */
struct recording_limits {
	uint64_t time, bytes; /* ns; of trace */
	uint64_t rate;        /* bytes a second; what is more is lost */
};

enum recording_end {
	RECORDING_GOES_ON,
	RECORDING_TIME, /* a limit of its own */
	RECORDING_BYTES,
	RECORDING_REQUEST,  /* the method EndRecording */
	RECORDING_TARGET,   /* the process has ended */
	RECORDING_DISARMED, /* the target was disarmed */
	RECORDING_USER,     /* the process has changed its user */
	RECORDING_SPOOL,    /* no room in the spool */
	RECORDING_DAEMON,   /* csightd ends */
	RECORDING_PARTS,    /* too many threads, or slices of their streams */
	RECORDING_FAILED,   /* the trace cannot be read or written */
};

struct recording;

struct recording_options {
	struct event_base *base;
	struct workqueue *queue;         /* of the recorder */
	struct workqueue *capture_queue; /* for the drains of trace units */
	struct spool *spool;
	struct ledger *ledger;
	struct target *target;     /* borrowed, as the snapshot */
	struct snapshot *snapshot; /* in the list of the spool, in the state recording */
	struct recording_limits limits;
	/* Called some times a second, after the snapshot has changed. */
	void (*progress)(void *data);
	/* Called once, after recording_begin() has returned. */
	void (*ended)(void *data);
	void *data;
};

enum { RECORDING_STEP = 4 << 20 /* bytes of a step, at most, which it takes in memory */ };

int recording_begin(const struct recording_options *options, struct recording **ret);

/* Ends a recording, unless it is ending; ended() is called at once, or after the step that is under way. */
void recording_end(struct recording *r, enum recording_end why);

/* Returns the bytes that it takes in memory. */
uint64_t recording_memory(const struct recording *r);

/*
 * Of one that has ended. closed: no trace that is later belongs to it. log: bytes of the log that do; UINT64_MAX: no
 * step has been recorded.
 */
const struct capture_positions *recording_positions(const struct recording *r);
bool recording_closed(const struct recording *r);
uint64_t recording_log(const struct recording *r);
bool recording_lost_user(const struct recording *r);

/* Returns why nothing can be made of it, or NULL. */
const char *recording_failure(const struct recording *r);

/* Moves the file to the caller; NULL: nothing has been recorded. */
struct trace_file *recording_take_file(struct recording *r);

/* Updates the counts, after the last copy was appended to the file. */
void recording_count(struct recording *r, const struct trace_file *f);

/* Records that its directory has become that of a snapshot. */
void recording_saved(struct recording *r);

/* Returns the object Recording of org.csight. */
json_object *recording_json(const struct recording *r);

/* Frees a recording that has ended; its directory is removed unless it is saved. Returns NULL. */
struct recording *recording_free(struct recording *r);

#endif
