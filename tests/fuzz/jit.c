/* SPDX-License-Identifier: MIT */
/* daemon/decode/jitdump.c, lib/code/symbols-perf.c: a jitdump and a perf map of generated code. */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "daemon/decode/jitdump.h"
#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/code/symbols.h"
#include "tests/fuzz/fuzz.h"

static size_t read_dump(const uint8_t *data, size_t size)
{
	_cleanup_(jitdump_done) struct jitdump j = { 0 };
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	_cleanup_close_ int fd = fuzz_fd(data, size);
	struct symbols_at at;
	size_t sum = 0;

	if (jitdump_read(fd, 0, &j) < 0)
		return 0;
	for (size_t i = 0; i < j.n; i++) {
		fuzz_require(j.pieces[i].offset <= size && j.pieces[i].size <= size - j.pieces[i].offset);
		fuzz_require(j.pieces[i].size <= INT64_MAX - j.pieces[i].start);
		for (uint64_t k = 0; k < j.pieces[i].size; k++)
			sum += data[j.pieces[i].offset + k];
	}
	if (jitdump_take_names(&j, &s) == 0) {
		symbols_find(s, 0x1010, &at);
		sum += at.name ? strlen(at.name) : 0;
	}
	return sum + j.broken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	_cleanup_close_ int fd = fuzz_fd(data, size);
	size_t sum = read_dump(data, size);
	struct symbols_at at;

	if (symbols_load_perf_map(fd, &s) == 0) {
		symbols_find(s, 0x1010, &at);
		sum += at.name ? strlen(at.name) : 0;
	}
	return sum == SIZE_MAX;
}

static void put_record(struct buf *b, uint32_t type, uint64_t time, const struct buf *body)
{
	buf_u32(b, type);
	buf_u32(b, (uint32_t)(16 + body->size));
	buf_u64(b, time);
	buf_add(b, body->data, body->size);
}

static void put_load(struct buf *b, uint64_t time, uint64_t start, uint64_t index)
{
	static const char code[] = "a name\0ABCDEFGHIJKLMNO";
	_cleanup_buf_ struct buf body = { 0 };

	buf_u32(&body, FUZZ_PID);
	buf_u32(&body, FUZZ_PID);
	buf_u64(&body, start);
	buf_u64(&body, start);
	buf_u64(&body, 16);
	buf_u64(&body, index);
	buf_add(&body, code, sizeof(code));
	put_record(b, 0, time, &body);
}

void fuzz_seeds(void)
{
	static const char map[] = "1000 20 a function\n1020 10 another\n";
	_cleanup_buf_ struct buf b = { 0 }, move = { 0 };
	static const uint32_t header[10] = { 0x4a695444, 1, 40 };

	fuzz_seed(map, sizeof(map) - 1);
	buf_add(&b, header, sizeof(header));
	for (unsigned i = 0; i < 4; i++)
		put_load(&b, 10 + 20 * (i ^ 1), 0x1000 + 8 * i, i);
	buf_u64(&move, FUZZ_PID);
	buf_u64(&move, 0x1000);
	buf_u64(&move, 0x1000);
	buf_u64(&move, 0x2000);
	buf_u64(&move, 8);
	buf_u64(&move, 1);
	put_record(&b, 1, 60, &move);
	fuzz_seed(b.data, b.size);
}
