/* SPDX-License-Identifier: MIT */
/*
 * The replay log of a target or of the arena, in shared memory that csight-keeper holds: the records of its rings and
 * of the sideband, in the order in which they were folded. A new daemon folds them again. The oldest are overwritten.
 * Capture thread only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_REPLAY_H
#define CSIGHT_DAEMON_CAPTURE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct replay_log;

enum { REPLAY_LOG_SIZE = (8 << 20) + (64 << 10) }; /* bytes of memory */

/* The place of an entry: the number of the ring that its records are from, or one of these. */
enum {
	REPLAY_RECORD = UINT32_MAX,    /* one record of the sideband */
	REPLAY_PAUSE = UINT32_MAX - 1, /* a struct trace_pause */
	/* UINT32_MAX - 2 is ENTRY_PAD of replay-log.c. */
	REPLAY_THREAD = UINT32_MAX - 3,   /* a struct thread_entry of the time when the target was armed */
	REPLAY_OWNED = UINT32_MAX - 4,    /* the process is its owner's from that time, the position, on */
	REPLAY_LOST = UINT32_MAX - 5,     /* records after that time were lost; data: up to which time, if known */
	REPLAY_LEFT_OUT = UINT32_MAX - 6, /* the same, of mappings alone */
};

/* about: any bytes; replay_log_open() accepts the log only with the same. */
int replay_log_new(uint64_t armed_at, const void *about, size_t about_size, struct replay_log **ret);

/* Maps a log and takes the descriptor if the log is valid. -EBADMSG: it is not; -ESTALE: about differs. */
int replay_log_open(int *fd, const void *about, size_t about_size, struct replay_log **ret);
struct replay_log *replay_log_free(struct replay_log *j);

int replay_log_fd(const struct replay_log *j);
uint64_t replay_log_armed_at(const struct replay_log *j);

/* True if the oldest entries have been overwritten. */
bool replay_log_wrapped(const struct replay_log *j);

/* position: of the byte after the data in its ring. A killed daemon leaves all of an entry or nothing. */
void replay_log_add(struct replay_log *j, uint32_t place, uint64_t position, const void *data, size_t size);

/* Calls fn for each entry, oldest first; fn must not add any. */
typedef void (*replay_entry_fn)(void *user, uint32_t place, uint64_t position, const uint8_t *data, size_t size);
void replay_log_each(const struct replay_log *j, replay_entry_fn fn, void *user);

#endif
