/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "tests/rig/plugin/formatter.h"

void formatter_start(struct formatter *f, uint8_t *buffer, uint64_t size)
{
	*f = (struct formatter){ .buffer = buffer, .size = size };
}

static void frame_out(struct formatter *f)
{
	memcpy(f->buffer + f->head % f->size, f->frame, sizeof(f->frame));
	f->head += sizeof(f->frame);
	memset(f->frame, 0, sizeof(f->frame));
	f->at = 0;
}

/* Puts an ID byte at an even position. late: the byte after it still belongs to the former source. */
static void put_id(struct formatter *f, uint8_t id, bool late)
{
	f->frame[f->at] = (uint8_t)(id << 1 | 1);
	if (late)
		f->frame[15] |= (uint8_t)(1 << f->at / 2);
	f->id = id;
	if (++f->at == 15)
		frame_out(f);
}

static void put_data(struct formatter *f, uint8_t byte)
{
	if (f->at % 2) {
		f->frame[f->at] = byte;
	} else {
		f->frame[f->at] = byte & 0xfe;
		f->frame[15] |= (uint8_t)((byte & 1) << f->at / 2);
	}
	if (++f->at == 15)
		frame_out(f);
}

void formatter_write(struct formatter *f, uint8_t id, const uint8_t *ring, uint64_t mask, uint64_t from, uint64_t len)
{
	if (len && f->id != id) {
		put_id(f, id, false);
		/* An ID byte within a frame is followed by a byte of its source. */
		if (f->at % 2) {
			put_data(f, ring[from++ & mask]);
			len--;
		}
	}
	for (; len; len--) {
		/*
		 * The last byte must not end at an odd position, where no other source can begin, so it is written
		 * late, after an ID byte.
		 */
		if (len == 1 && f->at % 2 == 0 && f->at != 14)
			put_id(f, 0, true);
		put_data(f, ring[from++ & mask]);
	}
}

void formatter_flush(struct formatter *f)
{
	if (!f->at)
		return;
	put_id(f, 0, false);
	while (f->at)
		put_data(f, 0);
}
