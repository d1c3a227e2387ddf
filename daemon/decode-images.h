/* SPDX-License-Identifier: MIT */
/*
 * The image files that a decode requests. An image is answered with the file that the target handed over, with the copy
 * in the snapshot, or, after a restart of the daemon, with the file of that path, opened with its owner's rights and
 * compared with its identity at the time of the snapshot. A debug file is an ELF file in one of the places of
 * lib/decoder/debug-places.h for an image of the snapshot, opened with the owner's rights as well. A file on a file
 * system in user space is not opened; one whose file system does not answer in USER_QUEUE_SECONDS is answered as one
 * that is not there. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_DECODE_IMAGES_H
#define CSIGHT_DAEMON_DECODE_IMAGES_H

#include "daemon/snapshot.h"
#include "daemon/user-queues.h"
#include "lib/base/json.h"
#include "lib/decoder/decoder.h"

struct decode_images;

struct decode_images_options {
	struct event_base *base;
	struct user_queues *queues; /* to open files by path */
	const char *opener;         /* socket of csight-opener; NULL or empty: none */
	struct snapshot *snapshot;
	int dir;           /* the snapshot's directory; borrowed until decode_images_end() */
	json_object *info; /* snapshot.json */
	/* Answers one request, perhaps after decode_images_ask() has returned. fd: borrowed, or -1 with a reason. */
	void (*answer)(void *data, uint32_t index, int fd, const char *reason);
	void *data;
};

int decode_images_new(const struct decode_images_options *options, struct decode_images **ret);

/*
 * Finds the image that a request of type DECODER_IMAGE names; answer() follows. -EBADMSG: the last request has no
 * answer yet, so that this is no decoder of ours.
 */
int decode_images_ask(struct decode_images *i, const struct decoder_event *e);

/* Ends the requests: no answer follows. i may be NULL. */
void decode_images_end(struct decode_images *i);

#endif
