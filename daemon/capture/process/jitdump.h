/*
 * Reads a jitdump (jit-PID.dump), in which a program describes the code that it generates, incrementally while the
 * program writes it. The file is untrusted: reading ends at the first invalid record.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_JITDUMP_H
#define CSIGHT_DAEMON_CAPTURE_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jitdump;

/* Code present from this time on. */
struct jitdump_piece {
	uint64_t time, start, size, index;
	uint8_t *bytes;
};

/* True if this is the name of a jitdump. */
bool jitdump_name(const char *path);

/* Owns fd from now on, also on failure. */
int jitdump_new(int fd, struct jitdump **ret);
struct jitdump *jitdump_free(struct jitdump *j);

/*
 * Reads new records. shift: added to CLOCK_MONOTONIC it gives the caller's clock. Returns false if the file is invalid
 * or exceeds a limit.
 */
bool jitdump_read(struct jitdump *j, int64_t shift);

/* Drops code that was overwritten before this time. */
void jitdump_forget(struct jitdump *j, uint64_t before);

/* Returns the pieces ordered by time; valid until the next of the calls above. */
const struct jitdump_piece *jitdump_pieces(const struct jitdump *j, size_t *ret_n);

uint64_t jitdump_memory(const struct jitdump *j);

#endif
