/*
 * A jitdump (jit-PID.dump): what a program that makes code tells of it itself, as it makes it. It is read on from where
 * the last reading ended. Hostile: what makes no sense ends the reading of it.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_JITDUMP_H
#define CSIGHT_DAEMON_CAPTURE_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jitdump;

/* Code that was there from time on. */
struct jitdump_piece {
	uint64_t time, start, size, index;
	uint8_t *bytes;
};

/* Whether a file's name says that it is one. */
bool jitdump_name(const char *path);

/* fd is taken, also on failure. */
int jitdump_new(int fd, struct jitdump **ret);
struct jitdump *jitdump_free(struct jitdump *j);

/* Takes in what is new. shift: what makes CLOCK_MONOTONIC the caller's clock. False: it is broken or too much. */
bool jitdump_read(struct jitdump *j, int64_t shift);

/* Drops what was overwritten before this time. */
void jitdump_forget(struct jitdump *j, uint64_t before);

/* Ordered by time; until the next of the calls above. */
const struct jitdump_piece *jitdump_pieces(const struct jitdump *j, size_t *ret_n);

uint64_t jitdump_memory(const struct jitdump *j);

#endif
