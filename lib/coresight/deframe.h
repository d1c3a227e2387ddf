/* SPDX-License-Identifier: MIT */
/*
 * Deframer: separates the trace of each source in the output of a CoreSight formatter (Arm IHI 0029, "Trace
 * formatter"). A frame has 16 bytes; fifteen are trace or the ID of the source of the following trace. Frames follow
 * each other without synchronisation packets, as sinks write them to memory. A frame of four FSYNCs, which drivers
 * insert where trace was lost, is a reset: the trace after it does not continue the trace before it.
 *
 * No input is an error. An incomplete frame at the end is kept for the next push.
 */
#ifndef CSIGHT_CORESIGHT_DEFRAME_H
#define CSIGHT_CORESIGHT_DEFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DEFRAME_SIZE = 16,
	DEFRAME_NO_ID = 0xff,  /* before the first ID, and after a reset */
	DEFRAME_ID_MAX = 0x6f, /* of a source; 0 is padding, higher IDs are reserved for the formatter */
	DEFRAME_ARENA = 4096 * 15,
};

/* Contiguous bytes of one source. */
struct deframe_run {
	uint8_t id;
	bool reset;      /* a reset, for all sources, without bytes */
	uint64_t offset; /* in the input, of the frame in which the run begins */
	const uint8_t *data;
	size_t size;
};

/* Receives the runs. A negative return ends deframe_push(), which returns it. */
struct deframe_sink {
	int (*run)(void *user, const struct deframe_run *run);
	void *user;
};

struct deframe {
	struct deframe_sink sink;
	uint8_t id;
	uint64_t offset;     /* of the next frame */
	uint64_t run_offset; /* of the run in the arena */
	size_t used, held;
	uint8_t held_bytes[DEFRAME_SIZE]; /* an incomplete frame */
	uint8_t arena[DEFRAME_ARENA + DEFRAME_SIZE];
};

void deframe_init(struct deframe *d, const struct deframe_sink *sink);

/* Accepts input in parts of any size. All complete frames have been passed to the sink when it returns. */
int deframe_push(struct deframe *d, const void *data, size_t size);

#endif
