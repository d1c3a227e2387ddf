/*
 * Takes the frames of a CoreSight formatter apart (Arm IHI 0029, "Trace formatter"): 16 bytes each, of which fifteen
 * are trace of any source, or say which source follows. Frames stand one behind the other without synchronisation
 * packets between them, as sinks leave them in memory; a frame of four FSYNCs, which drivers put where trace was lost,
 * is a reset: what follows has nothing to do with what was before.
 *
 * Nothing in the input is an error. What does not make a whole frame at the end is kept for the next push.
 */
#ifndef CSIGHT_CORESIGHT_DEFRAME_H
#define CSIGHT_CORESIGHT_DEFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DEFRAME_SIZE = 16,
	DEFRAME_NO_ID = 0xff,  /* before the first frame that names a source, and after a reset */
	DEFRAME_ID_MAX = 0x6f, /* of a source; 0 fills up, higher ones are the formatter's own */
	DEFRAME_ARENA = 4096 * 15,
};

/* Bytes of one source that stood one behind the other. */
struct deframe_run {
	uint8_t id;
	bool reset;      /* instead of bytes: a reset, for all sources */
	uint64_t offset; /* in the input, of the frame that it begins in */
	const uint8_t *data;
	size_t size;
};

/* A negative return ends the push, which returns it. */
struct deframe_sink {
	int (*run)(void *user, const struct deframe_run *run);
	void *user;
};

struct deframe {
	struct deframe_sink sink;
	uint8_t id;
	uint64_t offset;     /* of the next frame */
	uint64_t run_offset; /* of what is in the arena */
	size_t used, held;
	uint8_t held_bytes[DEFRAME_SIZE]; /* of a frame that is not whole yet */
	uint8_t arena[DEFRAME_ARENA + DEFRAME_SIZE];
};

void deframe_init(struct deframe *d, const struct deframe_sink *sink);

/* Any chunking. What was taken apart has been handed on when it returns. */
int deframe_push(struct deframe *d, const void *data, size_t size);

#endif
