/* SPDX-License-Identifier: MIT */
/*
 * The spool: the directory of snapshots, and the list of them, oldest first. Each snapshot is a directory named by its
 * id. A directory tmp-ID is incomplete, or was being removed, when a daemon ended; the next start removes it. The list
 * belongs to the loop's thread; the disk is read and written on the spool thread, in order.
 */
#ifndef CSIGHT_DAEMON_SPOOL_H
#define CSIGHT_DAEMON_SPOOL_H

#include "daemon/snapshot.h"
#include "daemon/workqueue.h"

struct spool;

struct spool_options {
	const char *path;
	uint64_t max; /* bytes of all snapshots, see spool_vacuum() */
	struct workqueue *queue;
	/* Called for each change that spool_report() reports. */
	void (*changed)(void *data, const struct snapshot *s, enum snapshot_change change);
	void *data;
};

/*
 * Opens or makes the directory, removes incomplete snapshots and lists the others. A snapshot whose decode has not
 * ended is listed as queued. -EBUSY: another daemon uses the directory.
 */
int spool_new(const struct spool_options *options, struct spool **ret);
struct spool *spool_free(struct spool *s);

int spool_fd(const struct spool *s);
const char *spool_path(const struct spool *s);
const struct snapshot_list *spool_list(const struct spool *s);
struct snapshot *spool_find(const struct spool *s, const char *id);
uint64_t spool_bytes(const struct spool *s);

/* Reports a change of a snapshot to the subscriber. */
void spool_report(struct spool *s, const struct snapshot *snapshot, enum snapshot_change change);

/* The list has a reference of its own. */
void spool_insert(struct spool *s, struct snapshot *snapshot);

/* Removes a snapshot from the list, not from the disk, and reports it: for one that could not be written. */
void spool_drop(struct spool *s, struct snapshot *snapshot);

/* Removes a snapshot from the list at once, and then its files; done(rc, data) follows and may be NULL. */
void spool_remove(struct spool *s, struct snapshot *snapshot, void (*done)(int rc, void *data), void *data);

/*
 * Makes room for this many more bytes: first deletes the traces of ready snapshots that hold other processes' control
 * flow, then removes the oldest ready or raw snapshots of the user whose snapshots are largest together. keep is not
 * removed.
 */
void spool_vacuum(struct spool *s, uint64_t more, const struct snapshot *keep);

#endif
