/* SPDX-License-Identifier: MIT */
/*
 * Parses the jitdump of a program (jit-PID.dump), in which it describes the code that it generates. The file is
 * hostile: parsing ends at the first invalid record, and an incomplete last record is ignored.
 */
#ifndef CSIGHT_DECODE_JITDUMP_H
#define CSIGHT_DECODE_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/code/image.h"
#include "lib/code/symbols.h"

/* Code present from this time on. */
struct jitdump_piece {
	uint64_t time, start, size;
	uint64_t offset; /* of its bytes in the file */
	uint64_t index;  /* by which the program names it */
	uint32_t name;   /* offset in names */
};

struct jitdump {
	struct jitdump_piece *pieces; /* in the order of the file */
	size_t n, capacity;
	struct buf names;
	bool broken; /* a record is invalid, or there are more than the limit: code described later is unknown */
};

/*
 * Reads a jitdump. shift: the trace's clock minus CLOCK_MONOTONIC. The caller releases *ret with jitdump_done().
 * Returns 0 or -ENOMEM.
 */
int jitdump_read(int fd, int64_t shift, struct jitdump *ret);

/*
 * Adds the code to the images of pid, each piece from its time on. If the dump is broken, the code at all its addresses
 * is unknown after its last piece. fd: of the jitdump; it must stay open as long as images.
 */
int jitdump_add(const struct jitdump *j, int fd, struct image_set *images, uint32_t pid);

/*
 * Makes a table of the functions by address, the last that was at each of them. Takes the names. -EFBIG: they are too
 * long; -ENOMEM.
 */
int jitdump_take_names(struct jitdump *j, struct symbols **ret);
void jitdump_done(struct jitdump *j);

#endif
