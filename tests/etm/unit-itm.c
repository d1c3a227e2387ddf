/* SPDX-License-Identifier: MIT */
/* lib/etm/itm.c: packets in pieces of every size, malformed packets, payloads that look like synchronization. */
#include "config.h"

#include <stdlib.h>

#include "lib/base/util.h"
#include "lib/etm/engine.h"
#include "tests/unit.h"

static char text[4096];
static size_t length;

static int append(void *user, const struct element *e)
{
	(void)user;
	length += element_format(e, text + length, sizeof(text) - length);
	length += (size_t)snprintf(text + length, sizeof(text) - length, "\n");
	return 0;
}

static struct engine_stats decode(const uint8_t *bytes, size_t n, size_t piece)
{
	const struct engine_config config = { .protocol = PROTOCOL_ITM };
	const struct element_sink sink = { append, NULL };
	struct engine_stats stats = { 0 };
	struct engine *e = NULL;

	length = 0;
	CHECK(itm_engine_ops.open(&config, NULL, &sink, &e) == 0);
	for (size_t at = 0; at < n; at += piece)
		CHECK(itm_engine_ops.push(e, bytes + at, MIN(piece, n - at)) == 0);
	CHECK(itm_engine_ops.finish(e) == 0);
	itm_engine_ops.stats(e, &stats);
	itm_engine_ops.close(e);
	return stats;
}

static void test_packets(void)
{
	static const uint8_t bytes[] = {
		0x34, 0x12,                                     /* before the first sync point */
		0,    0,    0,    0,    0, 0,    0x80,          /* sync, with one zero more */
		0x03, 0,    0,    0,    0,                      /* a payload of zeros ... */
		0x01, 0x80,                                     /* ... is no part of a synchronization packet */
		0x38, 0x0a, 0x34, 0x12,                         /* page 3, port 1 */
		0x04, 0x01, 0xff,                               /* reserved: nothing until the next sync point */
		0,    0,    0,    0,    0, 0x80, 0x60, 0x01, 7, /* time + 6 */
		0x94, 0x05,                                     /* the upper bits are unknown */
		0xb4, 0x01, 0x02,                               /* they follow; then a packet that is cut off */
	};
	static const char wanted[] = "no-sync init\n"
				     "sw ITM_SWIT (ch: 0x0; Data: 0x00000000)\n"
				     "sw ITM_SWIT (ch: 0x0; Data: 0x80)\n"
				     "sw ITM_SWIT (ch: 0x61; Data: 0x1234)\n"
				     "no-sync bad-packet\n"
				     "sw ITM_TS_LOCAL ( TS delta: 0x00000006, { TS Sync}; TS cumulative: "
				     "0x0000000000000006)\n"
				     "sw ITM_SWIT (ch: 0x60; Data: 0x07)\n"
				     "sw ITM_TS_GLOBAL ( TS: 0x0000000004000005)\n"
				     "end end\n";

	for (size_t piece = 1; piece <= sizeof(bytes); piece++) {
		struct engine_stats s = decode(bytes, sizeof(bytes), piece);

		CHECK(strcmp(text, wanted) == 0);
		CHECK(s.bytes == sizeof(bytes) && s.first_sync == 3 && s.decoded <= s.bytes);
	}
}

static void test_other_protocols(void)
{
	const struct engine_config config = { .protocol = PROTOCOL_STM };
	const struct element_sink sink = { append, NULL };
	struct engine *e = NULL;

	CHECK(itm_engine_ops.open(&config, NULL, &sink, &e) == -EOPNOTSUPP);
}

int main(void)
{
	test_packets();
	test_other_protocols();
	return unit_end();
}
