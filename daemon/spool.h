/*
 * Snapshots at rest: the directory, and the list of what is in it. Each snapshot is a directory named by its id; one of
 * a name tmp-… was being made or removed when a daemon ended, and is cleared away at the start. The list belongs to the
 * loop; what touches the disk runs on the disk workqueue, in order.
 */
#ifndef CSIGHT_DAEMON_SPOOL_H
#define CSIGHT_DAEMON_SPOOL_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/snapshot.h"

struct daemon;
struct spool;

/*
 * Opens or makes the directory, clears away halves and lists the rest: what was waiting or being decoded is queued
 * again. -EBUSY: another daemon has it.
 */
int spool_new(struct daemon *d, const char *path, struct spool **ret);
struct spool *spool_free(struct spool *s);

int spool_fd(const struct spool *s);
const char *spool_path(const struct spool *s);
const struct snapshot_list *spool_list(const struct spool *s);
struct snapshot *spool_find(const struct spool *s, const char *id);
uint64_t spool_bytes(const struct spool *s);

/* The list takes a reference. */
void spool_insert(struct spool *s, struct snapshot *snapshot);

/* Off the list, without touching the disk: for one that never came to be. */
void spool_drop(struct spool *s, struct snapshot *snapshot);

/* Off the list at once; done(rc, data) when the files are gone too. Those who wait for it are told. */
void spool_remove(struct spool *s, struct snapshot *snapshot, void (*done)(int rc, void *data), void *data);

/*
 * First drops raw traces, of decoded snapshots, that hold other processes' control flow; then removes the oldest
 * snapshots at rest, of the user who has most, until the rest and more bytes fit in spool-max; keep stays in any case.
 */
void spool_vacuum(struct spool *s, uint64_t more, const struct snapshot *keep);

#endif
