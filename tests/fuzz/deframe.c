/* SPDX-License-Identifier: MIT */
/* lib/coresight/deframe.c: the result does not depend on the size of the pieces, which the first byte of input sets. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/coresight/deframe.h"
#include "tests/fuzz/fuzz.h"

struct seen {
	uint64_t bytes[128], hash[128], resets, total;
};

static int on_run(void *user, const struct deframe_run *run)
{
	struct seen *s = user;

	if (run->reset) {
		s->resets++;
		return 0;
	}
	fuzz_require(run->id <= 0x7f || run->id == DEFRAME_NO_ID);
	for (size_t i = 0; i < run->size; i++)
		s->hash[run->id & 0x7f] = (s->hash[run->id & 0x7f] ^ run->data[i]) * 0x100000001b3;
	s->bytes[run->id & 0x7f] += run->size;
	s->total += run->size;
	return 0;
}

static void take_apart(const uint8_t *data, size_t size, size_t chunk, struct seen *ret)
{
	const struct deframe_sink sink = { on_run, ret };
	struct deframe *d = malloc(sizeof(*d));

	memset(ret, 0, sizeof(*ret));
	deframe_init(d, &sink);
	for (size_t at = 0; at < size; at += chunk) {
		size_t n = MIN(chunk, size - at);
		uint8_t *copy = malloc(n);

		memcpy(copy, data + at, n);
		fuzz_require(deframe_push(d, copy, n) == 0);
		free(copy);
	}
	free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole, pieces;

	if (size < 2)
		return 0;
	take_apart(data + 1, size - 1, size - 1, &whole);
	take_apart(data + 1, size - 1, data[0] + 1u, &pieces);
	fuzz_require(memcmp(&whole, &pieces, sizeof(whole)) == 0 && whole.total <= size);
	return 0;
}

void fuzz_seeds(void)
{
	uint8_t frames[1 + 64] = { 5, 0x21, 1, 2, 3, 0x23, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x04 };

	for (size_t i = 0; i < 4; i++)
		memcpy(frames + 17 + 4 * i, "\xff\xff\xff\x7f", 4);
	memcpy(frames + 33, frames + 1, 16);
	fuzz_seed(frames, sizeof(frames));
}
