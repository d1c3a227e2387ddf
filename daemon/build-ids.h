/* SPDX-License-Identifier: MIT */
/*
 * Build-ids of mapped files. csight-decode reads them in its cage, since an ELF file of a target is hostile; answers
 * are cached for each user by the identity of the file. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_BUILD_IDS_H
#define CSIGHT_DAEMON_BUILD_IDS_H

#include <event2/event.h>

#include "daemon/capture/process/file-identity.h"
#include "daemon/decode-server.h"
#include "lib/emu/ring.h"

struct build_ids;

/* Creates the reader of build-ids, which borrows server until build_ids_free(). */
int build_ids_new(struct event_base *base, struct decode_server *server, struct build_ids **ret);

/* Ends all queries, and those that follow at once, without an answer. b may be NULL. */
void build_ids_stop(struct build_ids *b);

/* To be called after the last query has ended. Returns NULL. */
struct build_ids *build_ids_free(struct build_ids *b);

/* A file whose build-id is requested. */
struct build_id_file {
	int fd;
	struct file_identity identity;
	bool known;                         /* set with the answer */
	uint8_t size, id[EMU_BUILD_ID_MAX]; /* the answer; size 0: the file has none, or is not an ELF file */
};

struct build_ids_query {
	uid_t uid; /* owner of the snapshot; answers are cached for this user */
	struct build_id_file *files;
	size_t n;
	/* Called once, perhaps before build_ids_read() returns. reason: why some files have no answer, or NULL. */
	void (*ended)(void *data, const char *reason);
	void *data;
};

/* Reads the build-ids of files, which are borrowed until the query ends: after a bounded time in any case. */
void build_ids_read(struct build_ids *b, const struct build_ids_query *query);

#endif
