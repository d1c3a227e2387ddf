/* SPDX-License-Identifier: MIT */
/* Formatter frames (IHI0029, "Formatter protocol"): puts the trace of several CPUs into one buffer. */
#ifndef CSIGHT_RIG_FORMATTER_H
#define CSIGHT_RIG_FORMATTER_H

#include <stdbool.h>
#include <stdint.h>

struct formatter {
	uint8_t *buffer;
	uint64_t size; /* a multiple of 16 */
	uint64_t head; /* bytes of whole frames ever written */
	uint8_t frame[16];
	unsigned at; /* next position in the frame, even */
	uint8_t id;  /* the source of the next byte */
};

void formatter_start(struct formatter *f, uint8_t *buffer, uint64_t size);

/* Adds len bytes from position `from` of a ring (of size mask + 1), written by the trace unit with this ID. */
void formatter_write(struct formatter *f, uint8_t id, const uint8_t *ring, uint64_t mask, uint64_t from, uint64_t len);

/* Completes the current frame with padding and writes it. */
void formatter_flush(struct formatter *f);

#endif
