/* SPDX-License-Identifier: MIT */
/*
 * Writes the directory of one snapshot: all files into SPOOL/tmp-ID, synced, then renamed to SPOOL/ID. On the spool
 * thread, which owns the struct during snapshot_writer_prepare() and snapshot_writer_run().
 */
#ifndef CSIGHT_DAEMON_SNAPSHOT_WRITER_H
#define CSIGHT_DAEMON_SNAPSHOT_WRITER_H

#include <sys/types.h>

#include "daemon/annotation.h"
#include "daemon/build-ids.h"
#include "daemon/capture/capture.h"
#include "daemon/capture/process/code-log.h"
#include "daemon/target.h"
#include "lib/base/ending.h"
#include "lib/base/json.h"
#include "lib/base/reason.h"

struct trace_file;

struct snapshot_writer {
	const char *id;
	struct capture_copy *copy;
	const struct target *target;  /* only members that do not change are read: not name and exe */
	char *name, *exe;             /* of the target, when it was copied; owned */
	uid_t account;                /* of the target's owner */
	uid_t asked_by;               /* the caller's */
	struct annotation annotation; /* owned */
	struct target_file **files;   /* the mapped files of the target; borrowed */
	size_t n_files;
	unsigned lost_files; /* mapped files that are not available */
	bool locked;         /* a program keeps the lock of a file */
	unsigned slow;       /* reads of files that took long */
	uint64_t keep_free;  /* bytes that must stay free on the file system */
	json_object *mark;   /* the hit that requested it, or NULL; owned */
	json_object *ended;  /* how the process ended; NULL: it runs; owned */
	/* Of a recording, whose directory is made by then; else NULL. Owned */
	struct trace_file *trace;
	bool closed; /* as in trace_file_append_last() */
	json_object *recording;
	/* After snapshot_writer_prepare(): images that have a file and no build-id; the caller adds the answers */
	struct build_id_file *unidentified;
	size_t n_unidentified;
	char no_build_ids[128]; /* why some of them have no answer */
	struct code_log log;
	uint32_t *unidentified_images; /* for each of them, its number in the log */
	uint64_t need;                 /* bytes that the directory takes at most */
	uint32_t code_crc;             /* of code/bytes */
	json_object *jitdump;          /* the member of snapshot.json, or NULL */
	/* Results: */
	json_object *missing;             /* an array of texts */
	size_t missing_bytes, unlisted;   /* of its texts; losses beyond its limits */
	uint64_t size;                    /* bytes in the directory */
	struct target_file **image_files; /* for each image of snapshot.json, or NULL; borrowed */
	size_t n_images;
	struct reason reason; /* of a failure */
};

/* Returns the mapped file with this identifier, or NULL. */
struct target_file *snapshot_writer_file(const struct snapshot_writer *sw, uint32_t id);

/* Reads the log of the copy. Returns 0 or -ENOMEM. */
int snapshot_writer_prepare(struct snapshot_writer *w);
int snapshot_writer_run(int spool_fd, struct snapshot_writer *w);
void snapshot_writer_done(struct snapshot_writer *w);

#endif
