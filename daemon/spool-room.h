/* SPDX-License-Identifier: MIT */
/*
 * Room in the spool: bytes are claimed before they are written, so that what is under way and what is at rest are
 * within spool-max together, and spool-keep-free stays free. Room is made by removing snapshots that are ready or raw:
 * of a user who would have more than its share, its own; else of the user who exceeds its share by most, the oldest
 * first. A snapshot within its owner's share is never removed for another user. Snapshots that are kept are removed
 * only for another user, and where no other of a user beyond its share is left. A claim that is refused removes no
 * snapshot, but perhaps traces of shared sinks. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_SPOOL_ROOM_H
#define CSIGHT_DAEMON_SPOOL_ROOM_H

#include "daemon/ledger.h"

struct spool;
struct snapshot;

/* Bytes of one snapshot; zeros are none. To move it, copy it and zero the source. */
struct spool_claim {
	struct spool *spool;
	struct charge bytes, pending; /* pending: until the snapshot is ready or raw */
	uint64_t unwritten;           /* part of bytes that is not at rest */
};

/* Why there is no room. */
struct spool_refusal {
	struct ledger_refusal limit; /* for -EDQUOT */
	struct reason reason;
};

/*
 * Claims bytes for a user. -EAGAIN: snapshots are being removed; spool_watch() reports their end, and that of claims;
 * -EDQUOT, -ENOSPC: there is no room, for the reason in ret_refusal.
 */
int spool_room_claim(struct spool *s, uid_t uid, uint64_t bytes, struct spool_claim *ret,
		     struct spool_refusal *ret_refusal);

/*
 * Changes the bytes of a claim that are not at rest; the errors of spool_room_claim(). More is not refused for what is
 * pending, since what is begun must come to its end.
 */
int spool_room_resize(struct spool_claim *c, uint64_t unwritten, struct spool_refusal *ret_refusal);

/* Records that a part of a claim has been written, and more follows. */
void spool_room_wrote(struct spool_claim *c, uint64_t bytes);

/* Returns how many bytes a user can claim without a removal. */
uint64_t spool_room_free(struct spool *s, uid_t uid);

/* Returns whether a claim of the user may become less, since it is being written. */
bool spool_room_writing(struct spool *s, uid_t uid);

/* Claims bytes that are in the spool already. */
void spool_room_record(struct spool *s, uid_t uid, uint64_t bytes, bool pending, struct spool_claim *ret);

/* Records that all bytes of a claim have been written, and their number. */
void spool_room_settle(struct spool_claim *c, uint64_t size);

/* Records that the snapshot is ready or raw, so that it can be removed. */
void spool_room_rest(struct spool_claim *c);

/* Returns whether the user has a snapshot that is ready or raw, and not kept; drop_oldest() removes the oldest one. */
bool spool_room_may_drop(const struct spool *s, uid_t uid);
bool spool_room_drop_oldest(struct spool *s, uid_t uid);

void spool_room_return(struct spool_claim *c);

/* Removes snapshots until all that is left is within spool-max and leaves spool-keep-free. */
void spool_room_vacuum(struct spool *s, const struct snapshot *keep);

#endif
