/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/window.h"
#include "lib/base/util.h"
#include "lib/etm/packet.h"

enum {
	SCAN_SIZE = 64 << 10,
	AHEAD = 4096, /* bytes behind a sync point in which its first timestamp is looked for */
	ASYNC_ZEROS = 11,
	ASYNC_END = 0x80,
};

/* True if timestamps of the stream can be found without a decode, and compared with times of records. */
static bool has_times(const struct input *in, const struct stream *s)
{
	bool native = s->config.protocol == PROTOCOL_ETMV4 || s->config.protocol == PROTOCOL_ETE;

	return in->clock && s->supported && !s->formatted && native && s->config.configr & TRCCONFIGR_TS;
}

/* Returns the first timestamp behind a sync point; false if there is none within the bytes. */
static bool first_stamp(struct packet_reader *r, const uint8_t *bytes, size_t n, uint64_t *ret)
{
	struct packet p;

	packet_reader_reset(r);
	while (n && packet_next(r, bytes, n, &p) && p.size <= n) {
		bytes += p.size;
		n -= p.size;
		if (p.kind == PACKET_TIMESTAMP) {
			*ret = p.value;
			return true;
		}
	}
	return false;
}

/* A search for a sync point among the first `begins` of n bytes whose time is before `since`. */
struct scan {
	const struct input *in;
	struct packet_reader packets;
	uint8_t *bytes;
	size_t begins, n;
	uint64_t since;
};

/* Finds the last such sync point. Returns false if there is none. */
static bool find_sync(struct scan *s, size_t *ret)
{
	static const uint8_t zeros[ASYNC_ZEROS];
	size_t limit = MIN(s->n, s->begins + ASYNC_ZEROS);
	const uint8_t *end;
	uint64_t stamp;

	while (limit && (end = memrchr(s->bytes, ASYNC_END, limit))) {
		size_t at = (size_t)(end - s->bytes);

		limit = at;
		if (at < ASYNC_ZEROS || memcmp(end - ASYNC_ZEROS, zeros, ASYNC_ZEROS) != 0 ||
		    !first_stamp(&s->packets, end - ASYNC_ZEROS, s->n - at + ASYNC_ZEROS, &stamp) ||
		    input_time(s->in, stamp) >= s->since)
			continue;
		*ret = at - ASYNC_ZEROS;
		return true;
	}
	return false;
}

static int scan_piece(struct input *in, const struct pd_piece *p, struct scan *s, uint64_t *ret)
{
	for (uint64_t from, to = p->size; to; to = from) {
		ssize_t n;
		size_t at;

		from = to - MIN(to, (uint64_t)SCAN_SIZE);
		n = in->ops->read(in, p, from, s->bytes, MIN(p->size - from, (uint64_t)(SCAN_SIZE + AHEAD)));
		if (n < 0)
			return (int)n;
		s->begins = to - from;
		s->n = (size_t)n;
		if (find_sync(s, &at)) {
			*ret = from + at;
			break;
		}
	}
	return 0;
}

int window_begin(struct input *in, const struct stream *stream, const struct pd_piece *p, uint64_t *ret)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct scan s = { .in = in };
	struct engine_config config;

	*ret = 0;
	if (!in->job->snapshot || json_get_u64(in->job->snapshot, "since", &s.since) < 0 || !s.since ||
	    !has_times(in, stream))
		return 0;
	if (p->origin.time && p->origin.time < s.since) {
		*ret = p->size;
		return 0;
	}
	s.bytes = bytes = malloc(SCAN_SIZE + AHEAD);
	if (!bytes)
		return -ENOMEM;
	stream_configure(in->contents, stream, p, &config);
	packet_reader_init(&s.packets, &config);
	return scan_piece(in, p, &s, ret);
}
