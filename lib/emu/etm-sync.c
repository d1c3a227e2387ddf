/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/emu/etm-sync.h"
#include "lib/emu/etm-encode.h"

enum {
	ASYNC_ZEROS = 11,
	ASYNC_END = 0x80,
	TRACE_INFO = 0x01,
	INFO = 0x01,
	INFO_CYCLES = 0x09,
	TIMESTAMP = 0x02,
	TIMESTAMP_BYTES = 9,
};

_Static_assert(ETM_SYNC_MAX == ASYNC_ZEROS + 1 + 5 + 1 + TIMESTAMP_BYTES, "the longest trace info has 5 bytes");

/* Parses what follows an A-sync packet: trace info, and a timestamp of all its bytes. */
static bool parse_time(const uint8_t *p, size_t n, uint64_t *ret)
{
	uint64_t time = 0;
	size_t at = 3;

	if (n < 3 || p[0] != TRACE_INFO || (p[1] != INFO && p[1] != INFO_CYCLES))
		return false;
	/* If cycle counting is enabled, the threshold of cycle counts follows in one or two bytes. */
	if (p[1] == INFO_CYCLES)
		at += n > at && p[at] & 0x80 ? 2 : 1;
	if (at >= n || n - at < 1 + TIMESTAMP_BYTES || p[at++] != TIMESTAMP)
		return false;
	for (int i = 0; i < TIMESTAMP_BYTES - 1; i++)
		time |= (uint64_t)(p[at + (size_t)i] & 0x7f) << 7 * i;
	*ret = time | (uint64_t)p[at + TIMESTAMP_BYTES - 1] << 56;
	return true;
}

bool etm_sync_find(const uint8_t *bytes, size_t begins, size_t n, uint64_t latest, size_t *ret_at, uint64_t *ret_time)
{
	static const uint8_t zeros[ASYNC_ZEROS];
	size_t limit = begins > n || n - begins < ASYNC_ZEROS ? n : begins + ASYNC_ZEROS;
	const uint8_t *end;
	uint64_t time;

	while (limit && (end = memrchr(bytes, ASYNC_END, limit))) {
		size_t at = (size_t)(end - bytes);

		limit = at;
		if (at < ASYNC_ZEROS || memcmp(end - ASYNC_ZEROS, zeros, ASYNC_ZEROS) != 0 ||
		    !parse_time(end + 1, n - at - 1, &time) || time > latest)
			continue;
		*ret_at = at - ASYNC_ZEROS;
		*ret_time = time;
		return true;
	}
	return false;
}
