/* SPDX-License-Identifier: MIT */
/* Computes the bytes that a snapshot takes in the spool before it is written. On the spool thread. */
#ifndef CSIGHT_DAEMON_SNAPSHOT_SPACE_H
#define CSIGHT_DAEMON_SNAPSHOT_SPACE_H

#include "daemon/snapshot-writer.h"

enum {
	SNAPSHOT_JITDUMP_MAX = 256 << 20,
	SNAPSHOT_COPY_FILE_MAX = 64 << 20, /* bytes of one deleted file */
	SNAPSHOT_COPY_ALL_MAX = 256 << 20, /* bytes of all deleted files */
};

/*
 * True if the snapshot gets the kernel's code, which only root may see. The same answer decides whether its size is
 * claimed and whether it is written.
 */
bool snapshot_space_has_kernel(const struct snapshot_writer *sw);

/* True if the program may have generated code, which its perf map, if it has one, names. As above. */
bool snapshot_space_has_generated(const struct snapshot_writer *sw);

/* Returns the most bytes that the directory of the snapshot takes. The log must be read. */
uint64_t snapshot_space_need(const struct snapshot_writer *sw);

/*
 * Returns 0, or negative errno; -ENOSPC, with a reason: the file system has less free space than the snapshot needs
 * beside keep_free.
 */
int snapshot_space_check(struct snapshot_writer *sw, int spool_fd);

#endif
