/*
 * Writes the directory of one snapshot: all files into SPOOL/tmp-ID, synced, then renamed to SPOOL/ID. On the spool
 * thread, which owns the struct during snapshot_writer_run().
 */
#ifndef CSIGHT_DAEMON_SNAPSHOT_WRITER_H
#define CSIGHT_DAEMON_SNAPSHOT_WRITER_H

#include <sys/types.h>

#include "daemon/capture/capture.h"
#include "daemon/target.h"
#include "lib/base/json.h"
#include "lib/base/reason.h"

struct snapshot_writer {
	const char *id;
	struct capture_copy *copy;
	const struct target *target; /* only members that do not change are read */
	uid_t asked_by;              /* the caller's */
	struct target_file **files;  /* the mapped files of the target; borrowed */
	size_t n_files;
	unsigned lost_files; /* mapped files that are not available */
	uint64_t keep_free;  /* bytes that must stay free on the file system */
	/* Results: */
	json_object *missing;             /* an array of texts */
	uint64_t size;                    /* bytes in the directory */
	struct target_file **image_files; /* for each image of snapshot.json, or NULL; borrowed */
	size_t n_images;
	struct reason reason; /* of a failure */
};

int snapshot_writer_run(int spool_fd, struct snapshot_writer *w);
void snapshot_writer_done(struct snapshot_writer *w);

#endif
