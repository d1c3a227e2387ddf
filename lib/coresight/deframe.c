/* SPDX-License-Identifier: MIT */
#include "lib/coresight/deframe.h"

#include <endian.h>
#include <string.h>

/*
 * The lowest bits of bytes 0, 2, 4 and 6 in half a frame. If set, the byte is a source ID; if clear, it is data whose
 * lowest bit is in the last byte of the frame.
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

/* Moves bits 0 to 3 to the lowest bits of bytes 0, 2, 4 and 6. */
static uint64_t spread_bytes(uint64_t bits)
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

/* Handles a frame that contains an ID, byte by byte. */
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
		/* If the bit in the last byte is set, the ID takes effect one byte later. */
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

/* The hot path: copies frames without an ID to the arena, as many as follow and fit. Returns their number. */
static size_t plain_frames(struct deframe *d, const uint8_t *frame, size_t n)
{
	uint8_t *to = d->arena + d->used;
	size_t i;

	n = n < (DEFRAME_ARENA - d->used) / 15 ? n : (DEFRAME_ARENA - d->used) / 15;
	for (i = 0; i < n; i++, frame += DEFRAME_SIZE, to += 15) {
		uint64_t low = load64(frame), high = load64(frame + 8);

		if ((low | high) & EVEN_LOW_BITS)
			break;
		store64(to, low | spread_bytes(high >> 56));
		store64(to + 8, high | spread_bytes(high >> 60));
	}
	if (i && !d->used)
		d->run_offset = d->offset;
	d->used += i * 15;
	d->offset += i * DEFRAME_SIZE;
	return i;
}

/* Handles at least one of n frames; *ret_used is their number. */
static int next_frames(struct deframe *d, const uint8_t *frame, size_t n, size_t *ret_used)
{
	int rc = 0;

	*ret_used = plain_frames(d, frame, n);
	if (*ret_used == 0) {
		rc = load64(frame) == FSYNCS && load64(frame + 8) == FSYNCS ? reset(d) : mixed_frame(d, frame);
		d->offset += DEFRAME_SIZE;
		*ret_used = 1;
	}
	return rc == 0 && d->used > DEFRAME_ARENA - 15 ? flush(d) : rc;
}

int deframe_push(struct deframe *d, const void *data, size_t size)
{
	const uint8_t *at = data;
	int rc = 0;

	while (size && rc == 0) {
		size_t n;

		if (!d->held && size >= DEFRAME_SIZE) {
			rc = next_frames(d, at, size / DEFRAME_SIZE, &n);
			at += n * DEFRAME_SIZE;
			size -= n * DEFRAME_SIZE;
			continue;
		}
		n = DEFRAME_SIZE - d->held < size ? DEFRAME_SIZE - d->held : size;
		memcpy(d->held_bytes + d->held, at, n);
		d->held += n;
		at += n;
		size -= n;
		if (d->held == DEFRAME_SIZE) {
			d->held = 0;
			rc = next_frames(d, d->held_bytes, 1, &n);
		}
	}
	return rc < 0 ? rc : flush(d);
}
