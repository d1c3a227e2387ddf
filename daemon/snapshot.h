/* SPDX-License-Identifier: MIT */
/*
 * A snapshot: a finished recording in the spool, or one on the way there. Counted references. On the loop's thread,
 * except snapshot_write_state().
 */
#ifndef CSIGHT_DAEMON_SNAPSHOT_H
#define CSIGHT_DAEMON_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/annotation.h"
#include "daemon/fair-queue.h"
#include "daemon/spool-room.h"
#include "daemon/target-file.h"
#include "lib/base/json.h"

#define SNAPSHOT_TRACE_FILE "trace.perf.data"
#define SNAPSHOT_KEPT_FILE "kept" /* exists while the snapshot is kept */
#define SNAPSHOT_TMP "tmp-"       /* before the id: the name of a directory that is being written or removed */

enum {
	SNAPSHOT_ID_SIZE = 32,
	SNAPSHOT_ATTEMPTS = 2,
	SNAPSHOT_MISSING_MAX = 64, /* texts about data that could not be recorded */
	SNAPSHOT_MISSING_BYTES = 16 << 10,
};

/* Until SNAPSHOT_QUEUED its directory is being written. */
enum snapshot_state {
	SNAPSHOT_RECORDING,
	SNAPSHOT_COPYING,
	SNAPSHOT_QUEUED,
	SNAPSHOT_DECODING,
	SNAPSHOT_READY,
	SNAPSHOT_RAW,
};

/* The changes that the spool reports to its subscriber. */
enum snapshot_change {
	SNAPSHOT_PROGRESSED, /* the members done and total have changed */
	SNAPSHOT_SETTLED,    /* the snapshot is ready or raw */
	SNAPSHOT_REMOVED,    /* the snapshot is no longer in the spool */
};

struct snapshot {
	unsigned refs;
	TAILQ_ENTRY(snapshot) link;  /* oldest first */
	STAILQ_ENTRY(snapshot) room; /* for spool-room.c, while it makes room */
	uint64_t number;             /* in the list; ascending */
	char id[SNAPSHOT_ID_SIZE];
	enum snapshot_state state;
	pid_t pid;
	uid_t uid;   /* of the process */
	uid_t owner; /* who may read it, and is charged for it */
	gid_t gid;
	char *name;
	uint64_t unrecorded;        /* CPU time of the process before it was armed, ns; 0: none, or unknown */
	uint64_t time, blind, size; /* CLOCK_REALTIME ns of the freeze, ns without tracing, bytes in the spool */
	size_t threads;
	bool shared;            /* the trace holds other processes' control flow, too */
	bool trace_dropped;     /* the spool has deleted the trace */
	unsigned attempts;      /* decodes that were begun, without losses */
	unsigned losses;        /* decodes that ended with the server of csight-decode */
	char *reason;           /* why it is raw or an attempt failed; or NULL */
	char *decode;           /* the result of the decode as JSON text, which is a tenth of the objects; or NULL */
	json_object *missing;   /* array of texts, each about data that could not be recorded; or NULL */
	json_object *mark;      /* the hit that requested it, as org.csight has it; NULL: a call did */
	json_object *ended;     /* how the process had ended, as in lib/base/ending.h; NULL: it ran */
	json_object *recording; /* as org.csight has it; NULL: it is none */
	struct annotation annotation;
	bool kept;     /* the snapshot is not removed to make room */
	bool removed;  /* from the spool */
	bool given_up; /* it is raw as long as csight-decode cannot be started */
	/*
	 * Charges of the owner. claim: the bytes; stored: the snapshot, as long as it exists; waiting: until it is
	 * ready or raw.
	 */
	struct spool_claim claim;
	struct charge stored, waiting;
	struct fair_item turn; /* place in the queue of decodes (job.h) */
	uint64_t queued_ns;    /* CLOCK_MONOTONIC time when it was queued for its decode */
	uint64_t waits_ns;     /* CLOCK_MONOTONIC time since when it waits for room for its decode; 0: it does not */
	/* The mapped files, one for each image of snapshot.json; none after a restart of the daemon. */
	struct target_file **files;
	size_t n_files;
	uint64_t done, total; /* bytes of its decode */
};

TAILQ_HEAD(snapshot_list, snapshot);

const char *snapshot_state_str(enum snapshot_state state);

/* Returns NULL if memory is short. */
struct snapshot *snapshot_new(void);
struct snapshot *snapshot_ref(struct snapshot *s);
struct snapshot *snapshot_unref(struct snapshot *s);

/* Logs the move. One that the table of states does not allow is an error of the program. */
void snapshot_move(struct snapshot *s, enum snapshot_state to);
void snapshot_set_reason(struct snapshot *s, const char *fmt, ...) _printf_(2, 3);

/* Sets the list of missing data, cut to its limits. */
void snapshot_set_missing(struct snapshot *s, json_object *texts);

/* Sets the result of the decode, which is kept as text. Its member "ended", which has the place, replaces s->ended. */
void snapshot_set_decode(struct snapshot *s, json_object *decode);

/* Returns a new object, or NULL. */
json_object *snapshot_decode(const struct snapshot *s);

/* Drops the mapped files, which only a decode needs. */
void snapshot_drop_files(struct snapshot *s);

/* Returns the text of state.json with the given state, which the caller frees; NULL without memory. */
char *snapshot_state_text(const struct snapshot *s, enum snapshot_state state);

/* Writes the text to state.json. Returns -ENOMEM if text is NULL. On any thread. */
int snapshot_write_state(int spool_fd, const char *id, const char *text);

#endif
