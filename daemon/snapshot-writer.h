/*
 * Writes one snapshot's directory: everything into SPOOL/tmp-ID, synced, then renamed to SPOOL/ID. On the disk
 * workqueue; all of it belongs to the workqueue while it is written.
 */
#ifndef CSIGHT_DAEMON_SNAPSHOT_WRITER_H
#define CSIGHT_DAEMON_SNAPSHOT_WRITER_H

#include <sys/types.h>

#include "daemon/capture/capture.h"
#include "daemon/capture/process/file-identity.h"
#include "daemon/target.h"
#include "lib/base/json.h"

struct snapshot_writer {
	const char *id;
	struct capture_copy *copy;
	const struct target *target; /* only what does not change in it is read */
	uid_t asked_by;
	struct target_file **files; /* what the target has mapped; borrowed */
	size_t n_files;
	unsigned lost_files; /* that the target mapped and could not hand over */
	uint64_t keep_free;
	/* results */
	json_object *missing; /* an array of texts */
	uint64_t size;        /* bytes in the directory */
	struct target_file *
	    *image_files; /* one an image of snapshot.json, NULL where there is none; borrowed; freed by done */
	size_t n_images;
	char reason[256]; /* why it failed */
};

int snapshot_writer_run(int spool_fd, struct snapshot_writer *r);
void snapshot_writer_done(struct snapshot_writer *r);

#endif
