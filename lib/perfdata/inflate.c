/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "lib/perfdata/file.h"

/* A record has 64 KiB at most, so a buffer of twice that always makes progress. */
enum { BUFFER_SIZE = 128 << 10, WINDOW_LOG_MAX = 27 };

#define INFLATED_MAX ((uint64_t)64 << 30)

struct pd_inflate {
	ZSTD_DStream *stream;
	uint8_t data[BUFFER_SIZE];
	size_t have;
	uint64_t total;
};

static struct pd_inflate *inflate_new(void)
{
	struct pd_inflate *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->stream = ZSTD_createDStream();
	/* The stream itself states how much memory its decoder needs: limit that. */
	if (!i->stream || ZSTD_isError(ZSTD_DCtx_setParameter(i->stream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
		return pd_inflate_free(i);
	return i;
}

struct pd_inflate *pd_inflate_free(struct pd_inflate *i)
{
	if (!i)
		return NULL;
	ZSTD_freeDStream(i->stream);
	free(i);
	return NULL;
}

bool pd_inflate_whole(const struct pd_inflate *i)
{
	return !i || i->have == 0;
}

/* Passes the whole records in the buffer on, and moves the beginning of an incomplete one to its front. */
static int pass_records(struct pd_file *f, struct pd_inflate *i, pd_record_fn on_record)
{
	struct reader all = reader_of(i->data, i->have);
	int rc = 0;

	while (rc == 0) {
		struct reader r = all, body;
		uint16_t misc, size;
		uint32_t type;

		if (rd_u32(&r, &type) < 0 || rd_u16(&r, &misc) < 0 || rd_u16(&r, &size) < 0)
			break;
		if (size < 8)
			return -EBADMSG;
		if (rd_sub(&r, size - 8, &body) < 0)
			break;
		/* perf compresses only records of the kernel. */
		if (type < PD_REC_USER)
			rc = on_record(f, type, misc, &body);
		rd_skip(&all, size);
	}
	memmove(i->data, all.at, rd_left(&all));
	i->have = rd_left(&all);
	return rc;
}

int pd_inflate(struct pd_file *f, const struct reader *compressed, pd_record_fn on_record)
{
	ZSTD_inBuffer in = { compressed->at, rd_left(compressed), 0 };
	struct pd_inflate *i = f->inflate;
	bool full = false;
	int rc = 0;

	if (!i)
		i = f->inflate = inflate_new();
	if (!i)
		return -ENOMEM;
	while (rc == 0 && (in.pos < in.size || full)) {
		ZSTD_outBuffer out = { i->data, sizeof(i->data), i->have };

		if (ZSTD_isError(ZSTD_decompressStream(i->stream, &out, &in)))
			return -EBADMSG;
		i->total += out.pos - i->have;
		if (i->total > INFLATED_MAX)
			return -EFBIG;
		i->have = out.pos;
		full = out.pos == out.size;
		rc = pass_records(f, i, on_record);
	}
	return rc;
}
