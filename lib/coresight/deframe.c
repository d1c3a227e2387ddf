#include "lib/coresight/deframe.h"

#include <endian.h>
#include <string.h>

/* Bytes 0, 2, 4, 6 of a frame's half: data whose lowest bit is in the last byte, or, with that bit set, a source's ID.
 */
#define EVEN_LOW_BITS 0x0001000100010001ull
#define FSYNCS 0x7fffffff7fffffffull

void deframe_init(struct deframe *d, const struct deframe_sink *sink)
{
	d->sink = *sink;
	d->id = DEFRAME_NO_ID;
	d->offset = d->run_offset = 0;
	d->used = d->held = 0;
}

static uint64_t load64(const uint8_t *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return le64toh(v);
}

static void store64(uint8_t *at, uint64_t v)
{
	v = htole64(v);
	memcpy(at, &v, sizeof(v));
}

/* Bits 0 to 3 to the lowest bits of bytes 0, 2, 4 and 6. */
static uint64_t spread(uint64_t bits)
{
	return ((bits & 0xf) * 0x0000200040008001ull) & EVEN_LOW_BITS;
}

static int flush(struct deframe *d)
{
	const struct deframe_run run = { d->id, false, d->run_offset, d->arena, d->used };

	if (!d->used)
		return 0;
	d->used = 0;
	return d->sink.run(d->sink.user, &run);
}

static int change_id(struct deframe *d, uint8_t id)
{
	int rc = d->id != id ? flush(d) : 0;

	d->id = id;
	return rc;
}

static void put(struct deframe *d, uint8_t byte)
{
	if (!d->used)
		d->run_offset = d->offset;
	d->arena[d->used++] = byte;
}

/* A frame that changes sources: byte by byte. */
static int mixed_frame(struct deframe *d, const uint8_t *frame)
{
	uint8_t last = frame[15];
	int rc = 0;

	for (unsigned i = 0; i < 15 && rc == 0; i += 2) {
		bool bit = last >> (i / 2) & 1;

		if (!(frame[i] & 1)) {
			put(d, (uint8_t)(frame[i] | bit));
			if (i < 14)
				put(d, frame[i + 1]);
			continue;
		}
		/* With its bit set a change takes place one byte later. */
		if (bit && i < 14)
			put(d, frame[i + 1]);
		rc = change_id(d, frame[i] >> 1);
		if (!bit && i < 14)
			put(d, frame[i + 1]);
	}
	return rc;
}

static int reset(struct deframe *d)
{
	const struct deframe_run run = { .id = DEFRAME_NO_ID, .reset = true, .offset = d->offset };
	int rc = flush(d);

	d->id = DEFRAME_NO_ID;
	return rc < 0 ? rc : d->sink.run(d->sink.user, &run);
}

static int take_frame(struct deframe *d, const uint8_t *frame)
{
	uint64_t low = load64(frame), high = load64(frame + 8);
	int rc = 0;

	if (((low | high) & EVEN_LOW_BITS) == 0) {
		uint64_t last = high >> 56;

		if (!d->used)
			d->run_offset = d->offset;
		store64(d->arena + d->used, low | spread(last));
		store64(d->arena + d->used + 8, high | spread(last >> 4));
		d->used += 15;
	} else if (low == FSYNCS && high == FSYNCS) {
		rc = reset(d);
	} else {
		rc = mixed_frame(d, frame);
	}
	d->offset += DEFRAME_SIZE;
	if (rc == 0 && d->used > DEFRAME_ARENA - DEFRAME_SIZE)
		rc = flush(d);
	return rc;
}

int deframe_push(struct deframe *d, const void *data, size_t size)
{
	const uint8_t *at = data;
	int rc = 0;

	while (size && rc == 0) {
		if (d->held || size < DEFRAME_SIZE) {
			size_t n = DEFRAME_SIZE - d->held < size ? DEFRAME_SIZE - d->held : size;

			memcpy(d->held_bytes + d->held, at, n);
			d->held += n;
			at += n;
			size -= n;
			if (d->held < DEFRAME_SIZE)
				break;
			d->held = 0;
			rc = take_frame(d, d->held_bytes);
		} else {
			rc = take_frame(d, at);
			at += DEFRAME_SIZE;
			size -= DEFRAME_SIZE;
		}
	}
	return rc < 0 ? rc : flush(d);
}
