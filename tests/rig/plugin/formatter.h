/* CoreSight frames (IHI0029, "Formatter protocol"): what the trace units of several CPUs write into one buffer. */
#ifndef CSIGHT_RIG_FORMATTER_H
#define CSIGHT_RIG_FORMATTER_H

#include <stdbool.h>
#include <stdint.h>

struct formatter {
	uint8_t *buffer;
	uint64_t size; /* a multiple of 16 */
	uint64_t head; /* bytes of whole frames ever written */
	uint8_t frame[16];
	unsigned at; /* even */
	uint8_t id;  /* whose bytes come next */
};

void formatter_start(struct formatter *f, uint8_t *buffer, uint64_t size);

/* len bytes of ring (of size mask + 1) from position `from` on, written by the unit with this trace ID. */
void formatter_write(struct formatter *f, uint8_t id, const uint8_t *ring, uint64_t mask, uint64_t from, uint64_t len);

/* The frame that is begun goes out, filled up. */
void formatter_flush(struct formatter *f);

#endif
