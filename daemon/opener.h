/* SPDX-License-Identifier: MIT */
/*
 * Opens files and sockets for csightd by csight-opener, so that csightd needs no right to change users or to administer
 * the network. Without csight-opener, csightd opens them itself.
 *
 * Files that a decode requested are opened by path and with the rights of the snapshot's owner: an image, whose
 * identity must be that of the snapshot, or the ELF file of debug information for one.
 */
#ifndef CSIGHT_DAEMON_OPENER_H
#define CSIGHT_DAEMON_OPENER_H

#include "daemon/capture/process/file-identity.h"
#include "lib/base/reason.h"

struct opener_file {
	uid_t uid;
	gid_t gid;
	bool debug;
	struct file_identity want; /* of an image: device, inode, size, mtime */
	uint64_t skip;             /* of debug files: number of candidates to pass over, which did not match earlier */
	const char *path;
	const char *build_id, *link, *program; /* of debug files */
};

/*
 * Opens the file as its owner: by csight-opener, which listens at socket (NULL or empty: there is none), or where that
 * is not there, on the calling thread, whose rights over files change meanwhile. Returns the descriptor, or negative
 * errno with the reason. May block for ever in a file system of the owner.
 */
int opener_open_file(const char *socket, const struct opener_file *f, struct reason *why);

/*
 * Returns a socket of the process connector (exit_listener_socket()) that csight-opener made, or negative errno.
 * -EAGAIN: it has not answered for some seconds; *ret_late is readable when it does, which opener_receive_exits()
 * receives.
 */
int opener_open_exits(const char *socket, int *ret_late);
int opener_receive_exits(int late);

/*
 * Asks csight-opener for a gate before this program (exec-gate.h), without waiting. Returns the connection, or negative
 * errno.
 */
int opener_open_gate(const char *socket, const char *path);

/* The opener's side: opens what the message of its client asks for, in a process that ends then. */
int opener_serve(int client);

#endif
