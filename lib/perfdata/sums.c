/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <zlib.h>

#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "lib/perfdata/sums.h"

enum { SPAN_MAX = 64 << 10, SPAN_SIZE = 8, END_SIZE = 24, END_SUMMED = 12 };
enum { ENTRIES = 8 << 10 /* of the table that are in memory at a time */ };

#define TRACE (UINT32_C(1) << 31)
#define MAGIC UINT64_C(0x736d757374686773) /* "sghtsums" */

void sums_cut(struct sums *s, bool trace)
{
	if (s->size) {
		buf_u32(&s->spans, s->size | (s->trace ? TRACE : 0));
		buf_u32(&s->spans, s->crc);
	}
	s->size = s->crc = 0;
	s->trace = trace;
}

void sums_add(struct sums *s, const void *data, size_t size)
{
	const uint8_t *at = data;

	while (size) {
		uint32_t n = (uint32_t)MIN(size, (size_t)(SPAN_MAX - s->size));

		s->crc = (uint32_t)crc32(s->crc, at, n);
		s->size += n;
		at += n;
		size -= n;
		if (s->size == SPAN_MAX)
			sums_cut(s, s->trace);
	}
}

void sums_first(struct sums *s, const void *data, size_t size)
{
	uint32_t crc = (uint32_t)crc32(0, data, (uInt)size);

	for (size_t i = 0; !buf_error(&s->spans) && i < sizeof(crc); i++)
		s->spans.data[sizeof(uint32_t) + i] = (uint8_t)(crc >> 8 * i);
}

void sums_end(struct sums *s, uint64_t at, struct buf *to)
{
	size_t start = to->size;

	sums_cut(s, false);
	if (buf_error(&s->spans) && !to->error)
		to->error = buf_error(&s->spans);
	buf_add(to, s->spans.data, s->spans.size);
	buf_u64(to, at);
	buf_u32(to, (uint32_t)(s->spans.size / SPAN_SIZE));
	buf_u32(to, buf_error(to) ? 0 : (uint32_t)crc32(0, to->data + start, (uInt)(to->size - start)));
	buf_u64(to, MAGIC);
}

/* True if the bytes, after others with the checksum `before`, have this one. */
static bool has_crc(uint32_t before, const void *data, size_t size, uint32_t crc)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	return true;
#else
	return crc32(before, data, (uInt)size) == crc;
#endif
}

/* The table of spans, which is as long as the file has spans. */
struct sums_table {
	uint64_t start;
	uint32_t n;
	uint32_t next;
	uint8_t entries[ENTRIES * SPAN_SIZE]; /* those before next */
	size_t size;                          /* in bytes */
};

/* Reads the next entries. Returns 0 at the end of the table. */
static int read_entries(int fd, struct sums_table *t, struct reader *ret)
{
	size_t size = MIN((size_t)(t->n - t->next), (size_t)ENTRIES) * SPAN_SIZE;
	ssize_t got = io_pread(fd, t->entries, size, (off_t)(t->start + (uint64_t)t->next * SPAN_SIZE));

	if (got < 0)
		return (int)got;
	if ((size_t)got != size)
		return -EBADMSG;
	t->next += (uint32_t)(size / SPAN_SIZE);
	t->size = size;
	*ret = reader_of(t->entries, size);
	return size > 0;
}

/* Checks the table: the spans must cover the file up to the table. Returns as sums_check(). */
static int check_table(int fd, uint64_t size, struct sums_table *t)
{
	uint64_t magic = 0, total = 0;
	uint8_t end[END_SIZE] = { 0 };
	uint32_t crc = 0, sum = 0;
	struct reader r = reader_of(end, sizeof(end));
	ssize_t got;
	int rc;

	if (size < END_SIZE)
		return 0;
	got = io_pread(fd, end, sizeof(end), (off_t)(size - END_SIZE));
	if (got < 0)
		return (int)got;
	if (rd_u64(&r, &t->start) < 0 || rd_u32(&r, &t->n) < 0 || rd_u32(&r, &crc) < 0 || rd_u64(&r, &magic) < 0 ||
	    magic != MAGIC)
		return 0;
	if ((uint64_t)t->n * SPAN_SIZE != size - END_SIZE - MIN(t->start, size - END_SIZE))
		return -EBADMSG;
	while ((rc = read_entries(fd, t, &r)) > 0) {
		sum = (uint32_t)crc32(sum, t->entries, (uInt)t->size);
		for (uint32_t span = 0; rd_left(&r); total += span & ~TRACE)
			if (rd_u32(&r, &span) < 0 || rd_skip(&r, 4) < 0 || (span & ~TRACE) == 0 ||
			    (span & ~TRACE) > SPAN_MAX)
				return -EBADMSG;
	}
	if (rc < 0)
		return rc;
	if (!has_crc(sum, end, END_SUMMED, crc) || total != t->start)
		return -EBADMSG;
	t->next = 0;
	return 1;
}

static void add_stretch(struct buf *to, uint64_t at, uint32_t size, bool trace)
{
	struct stretch *last = to->size ? (struct stretch *)(to->data + to->size) - 1 : NULL;

	if (last && last->to == at && last->trace == trace)
		last->to += size;
	else
		buf_add(to, &(struct stretch){ at, at + size, trace }, sizeof(*last));
}

int sums_check(int fd, uint64_t size, struct buf *ret)
{
	_cleanup_free_ struct sums_table *t = calloc(1, sizeof(*t));
	_cleanup_free_ uint8_t *data = malloc(SPAN_MAX);
	uint32_t span = 0, crc = 0;
	uint64_t at = 0;
	struct reader r;
	int rc;

	if (!t || !data)
		return -ENOMEM;
	rc = check_table(fd, size, t);
	if (rc <= 0)
		return rc;
	while ((rc = read_entries(fd, t, &r)) > 0) {
		while (rd_u32(&r, &span) == 0 && rd_u32(&r, &crc) == 0) {
			ssize_t got = io_pread(fd, data, span & ~TRACE, (off_t)at);

			if (got < 0)
				return (int)got;
			if ((size_t)got != (span & ~TRACE) || !has_crc(0, data, (size_t)got, crc))
				add_stretch(ret, at, span & ~TRACE, span & TRACE);
			at += span & ~TRACE;
		}
	}
	if (rc == 0)
		rc = buf_error(ret);
	return rc < 0 ? rc : 1;
}

int sums_file(int fd, uint64_t limit, uint32_t *ret)
{
	_cleanup_free_ uint8_t *data = malloc(SPAN_MAX);
	uint32_t crc = 0;
	uint64_t at = 0;

	if (!data)
		return -ENOMEM;
	while (at <= limit) {
		ssize_t n = io_pread(fd, data, SPAN_MAX, at);

		if (n < 0)
			return (int)n;
		crc = (uint32_t)crc32(crc, data, (uInt)n);
		at += (uint64_t)n;
		if (n < SPAN_MAX) {
			*ret = crc;
			return at > limit ? -EFBIG : 0;
		}
	}
	return -EFBIG;
}
