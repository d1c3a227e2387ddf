/* A snapshot: what it is of, its state, and what its decode said. On the loop's thread. */
#ifndef CSIGHT_DAEMON_SNAPSHOT_H
#define CSIGHT_DAEMON_SNAPSHOT_H

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
	struct target_file **files;
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

#endif
