/* SPDX-License-Identifier: MIT */
#include <lzma.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "lib/code/inflate.h"

/* Limits on the memory that a stream can make the decompressors allocate. */
enum { STEP = 256 << 10, XZ_MEMORY = 128 << 20, WINDOW_LOG_MAX = 27 };

int inflate_xz(struct reader from, struct buf *to)
{
	lzma_stream s = LZMA_STREAM_INIT;
	lzma_ret rc = lzma_stream_decoder(&s, XZ_MEMORY, 0);

	s.next_in = from.at;
	s.avail_in = rd_left(&from);
	while (rc == LZMA_OK) {
		uint8_t *out = buf_reserve(to, STEP);

		if (!out)
			break;
		s.next_out = out;
		s.avail_out = STEP;
		rc = lzma_code(&s, LZMA_FINISH);
		buf_grew(to, STEP - s.avail_out);
	}
	lzma_end(&s);
	if (buf_error(to))
		return buf_error(to);
	return rc == LZMA_STREAM_END       ? 0
	       : rc == LZMA_MEM_ERROR      ? -ENOMEM
	       : rc == LZMA_MEMLIMIT_ERROR ? -EFBIG
					   : -EBADMSG;
}

int inflate_zlib(struct reader from, struct buf *to)
{
	z_stream s = { .next_in = (uint8_t *)from.at, .avail_in = (uInt)MIN(rd_left(&from), (size_t)UINT32_MAX) };
	int rc = inflateInit(&s);

	if (rc != Z_OK)
		return -ENOMEM;
	while (rc == Z_OK) {
		uint8_t *out = buf_reserve(to, STEP);

		if (!out)
			break;
		s.next_out = out;
		s.avail_out = STEP;
		rc = inflate(&s, Z_NO_FLUSH);
		buf_grew(to, STEP - s.avail_out);
	}
	inflateEnd(&s);
	if (buf_error(to))
		return buf_error(to);
	return rc == Z_STREAM_END ? 0 : rc == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
}

int inflate_zstd(struct reader from, struct buf *to)
{
	ZSTD_DStream *s = ZSTD_createDStream();
	ZSTD_inBuffer in = { from.at, rd_left(&from), 0 };
	size_t rc = 1;

	if (!s)
		return -ENOMEM;
	ZSTD_DCtx_setParameter(s, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	while (rc && !ZSTD_isError(rc)) {
		ZSTD_outBuffer out = { buf_reserve(to, STEP), STEP, 0 };

		if (!out.dst)
			break;
		rc = ZSTD_decompressStream(s, &out, &in);
		buf_grew(to, out.pos);
		if (rc && in.pos == in.size && out.pos < out.size)
			break;
	}
	ZSTD_freeDStream(s);
	return buf_error(to) ? buf_error(to) : rc ? -EBADMSG : 0;
}
