/*
 * Snapshots at rest: the directory, and the list of what is in it. Each snapshot is a directory named by its id; one of
 * a name tmp-… was being made or removed when a daemon ended, and is cleared away at the start. The list belongs to the
 * loop; what touches the disk runs on the disk lane, in order.
 */
#ifndef CSIGHT_DAEMON_SPOOL_H
#define CSIGHT_DAEMON_SPOOL_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/service.h"
#include "daemon/target.h"
#include "lib/base/json.h"

#define TRACE_NAME "trace.perf.data"

enum { SNAPSHOT_ID_SIZE = 32, SNAPSHOT_ATTEMPTS = 2 };

enum snapshot_state { SNAPSHOT_COPYING, SNAPSHOT_QUEUED, SNAPSHOT_DECODING, SNAPSHOT_READY, SNAPSHOT_RAW };

struct snapshot {
	unsigned refs;
	TAILQ_ENTRY(snapshot) link; /* oldest first */
	char id[SNAPSHOT_ID_SIZE];
	enum snapshot_state state;
	pid_t pid;
	uid_t uid;
	gid_t gid;
	char *name;
	uint64_t time, blind, size;
	size_t threads;
	bool shared;    /* its trace holds what other processes did, too */
	bool traceless; /* its trace is dropped */
	unsigned attempts;
	char *reason;         /* or NULL */
	char *decode;         /* what the decoder counted, as JSON text: a tenth of its size as objects; or NULL */
	json_object *missing; /* or NULL */
	bool removed;
	/* The mapped files, one an image of snapshot.json; none after a restart. */
	struct file **files;
	size_t n_files;
	struct calls waiting;
	uint64_t done, total; /* of its decode */
};

TAILQ_HEAD(snapshot_list, snapshot);

const char *snapshot_state_str(enum snapshot_state state);
bool snapshot_may(enum snapshot_state from, enum snapshot_state to);

struct snapshot *snapshot_new(void);
struct snapshot *snapshot_ref(struct snapshot *s);
struct snapshot *snapshot_unref(struct snapshot *s);

/* Logged; a move that the table does not have is a mistake of this program. */
void snapshot_move(struct snapshot *s, enum snapshot_state to);
void snapshot_set_reason(struct snapshot *s, const char *fmt, ...) _printf_(2, 3);

void snapshot_set_decode(struct snapshot *s, json_object *decode);

/* The caller's own object, or NULL. */
json_object *snapshot_decode(const struct snapshot *s);

/* state.json as it is to be with this state; the caller frees. */
char *snapshot_state_text(const struct snapshot *s, enum snapshot_state state);
int snapshot_write_state(int spool_fd, const char *id, const char *text);

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
