/* SPDX-License-Identifier: MIT */
/*
 * The spool: the directory of snapshots, and the list of them, oldest first. Each snapshot is a directory named by its
 * id. A directory tmp-ID is incomplete, or was being removed, when a daemon ended; the next start removes it. The list
 * belongs to the loop's thread; the disk is read and written on the spool thread.
 */
#ifndef CSIGHT_DAEMON_SPOOL_H
#define CSIGHT_DAEMON_SPOOL_H

#include <event2/event.h>

#include "daemon/audit.h"
#include "daemon/ledger.h"
#include "daemon/snapshot.h"
#include "daemon/workqueue.h"

struct spool;

struct spool_options {
	const char *path;
	uint64_t keep_free; /* bytes on its file system */
	uint64_t max_age;   /* seconds for which snapshots are kept; 0: without a limit */
	struct workqueue *queue;
	struct ledger *ledger;
	struct audit *audit; /* or NULL */
	struct event_base *base;
	/* Called for each change that spool_report() reports. */
	void (*changed)(void *data, const struct snapshot *s, enum snapshot_change change);
	void *data;
};

/*
 * Opens or makes the directory, removes incomplete snapshots and lists the others. A snapshot whose decode has not
 * ended is listed as queued, and what that has written is removed. -EBUSY: another daemon uses the directory.
 */
int spool_new(const struct spool_options *options, struct spool **ret);
struct spool *spool_free(struct spool *s);

int spool_fd(const struct spool *s);
const char *spool_path(const struct spool *s);
const struct snapshot_list *spool_list(const struct spool *s);
struct snapshot *spool_find(const struct spool *s, const char *id);
const struct spool_options *spool_options(const struct spool *s);

/* Changes keep_free and max_age of the options, and removes snapshots that are too old now. */
void spool_limit(struct spool *s, uint64_t keep_free, uint64_t max_age);

/* Sets the function that is called each time when there may be more room, or NULL. */
void spool_watch(struct spool *s, void (*freed)(void *data), void *data);

/* For spool-room.c: reports that there may be more room. */
void spool_report_room(struct spool *s);

/*
 * For spool-room.c: returns the bytes that are being removed, of a user as of ledger_owner(), or of all if uid is -1.
 */
uint64_t spool_leaving(const struct spool *s, uid_t uid);

/*
 * For spool-room.c: the first returns the bytes that are claimed and not written yet, the second changes their number.
 */
uint64_t spool_unwritten(const struct spool *s);
void spool_wrote(struct spool *s, int64_t change);

/* Reports a change of a snapshot to the subscriber. */
void spool_report(struct spool *s, const struct snapshot *snapshot, enum snapshot_change change);

/* Adds a snapshot to the list, which takes a reference of its own. */
void spool_insert(struct spool *s, struct snapshot *snapshot);

/* Removes a snapshot from the list, not from the disk, and reports it: for one that could not be written. */
void spool_drop(struct spool *s, struct snapshot *snapshot);

/* Who removes a snapshot, and the function that is called when it is done. */
struct spool_removal {
	struct audit_actor by;
	void (*done)(int rc, pid_t pid, void *data); /* pid: the process that it is of; or NULL */
	void *data;
};

/*
 * Removes a snapshot from the list at once, and then its files; done() follows. If memory is short, done(-ENOMEM) is
 * called at once, and the snapshot stays.
 */
void spool_remove(struct spool *s, struct snapshot *snapshot, const struct spool_removal *removal);

/*
 * Removes a snapshot in the name of csightd. limit: the setting that demands it, a constant. Returns false without
 * memory.
 */
bool spool_expire(struct spool *s, struct snapshot *snapshot, const char *limit);

typedef void spool_kept_fn(int rc, const struct snapshot *snapshot, void *data);

/* Keeps a snapshot from being removed to make room, or for its age, or no longer; done() follows. */
void spool_keep(struct spool *s, struct snapshot *snapshot, bool keep, spool_kept_fn *done, void *data);

/*
 * Deletes traces that hold other processes' control flow, too, until so many bytes more are being removed. They are the
 * first data to go: the owner has the decode.
 */
void spool_drop_shared_traces(struct spool *s, uint64_t bytes);

#endif
