/* SPDX-License-Identifier: MIT */
/* lib/etm/native*.c: what a malformed packet drops, however the bytes are split; lib/etm/filler.c: where walks end. */
#include "config.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/engine.h"
#include "lib/etm/filler.h"
#include "tests/unit.h"

enum { BASE = 0x400000 };

static const uint32_t program[] = {
	0x94000002, /* bl BASE + 8 */
	0xd503201f, /* nop */
	0xd65f03c0, /* ret */
};

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	if (address < BASE || address >= BASE + sizeof(program))
		return 0;
	size = MIN(size, BASE + sizeof(program) - address);
	for (size_t i = 0; i < size / 4; i++)
		((uint32_t *)ret)[i] = htole32(program[(address - BASE) / 4 + i]);
	return size & ~(size_t)3;
}

static uint64_t version(void *user, const struct engine_context *context)
{
	return 1;
}

static int on_element(void *user, const struct element *e)
{
	char *all = user, line[128];
	size_t n = strlen(all);

	element_format(e, line, sizeof(line));
	snprintf(all + n, 2048 - n, "%s; ", line);
	return 0;
}

/* Cycle counts and a return stack. */
static struct engine_config config = { .protocol = PROTOCOL_ETMV4,
				       .trace_id = 16,
				       .configr = 1 << 4 | 1 << 12,
				       .idr0 = 0x28000ea1,
				       .idr1 = 0x4100f403,
				       .idr2 = 0x10000488,
				       .core_aa64 = true };

static const char *decode_by(const struct engine_ops *ops, const struct engine_memory *memory, const uint8_t *bytes,
			     size_t size, size_t chunk)
{
	static char all[2048];
	struct engine *e;
	int rc = 0;

	all[0] = '\0';
	CHECK(ops->open(&config, memory, &(struct element_sink){ on_element, all }, &e) == 0);
	for (size_t at = 0; at < size && rc == 0; at += chunk)
		rc = ops->push(e, bytes + at, MIN(chunk, size - at));
	CHECK(rc == 0 && ops->finish(e) == 0);
	ops->close(e);
	return all;
}

static const char *decode(const uint8_t *bytes, size_t size, size_t chunk)
{
	return decode_by(&native_engine_ops, &(struct engine_memory){ .read = read_code, .version = version }, bytes,
			 size, chunk);
}

/* A packet with an atom behind the return that pops the stack's last entry is dropped, with the cycles before it. */
static void test_atoms_without_return_stack(void)
{
	static const uint8_t bytes[] = {
		0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0x80, 0x01, 0x01, 0x00, 0x04, 0x85,
		0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x30, 0xf7, 0xf7, 0xf7, /* bl, ret, ret */
		0x90, 0x1c, 0xff, /* the same in one packet, from BASE on */
		0x90, 0x1d, 0xc0, /* and with one atom more */
		0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 0xf7,
	};
	_cleanup_free_ char *whole = strdup(decode(bytes, sizeof(bytes), sizeof(bytes)));

	CHECK(strstr(whole, "cycles 0; ") && strstr(whole, "no-sync bad-packet; ") && !strstr(whole, "cycles 1; "));
	for (size_t chunk = 1; chunk < 40; chunk++)
		CHECK(strcmp(decode(bytes, sizeof(bytes), chunk), whole) == 0);
}

/* NOPs, three times the size of filler, and a branch in the middle of the first third. */
static size_t read_filler(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	enum { END = BASE + 3 * FILLER_SIZE, BRANCH = BASE + FILLER_SIZE / 2 };
	uint32_t op = htole32(0xd503201f), branch = htole32(0x14000001);

	if (address < BASE || address >= END)
		return 0;
	size = MIN(size, END - address) & ~(size_t)3;
	for (size_t i = 0; i < size / 4; i++)
		memcpy((uint8_t *)ret + 4 * i, address + 4 * i == BRANCH ? &branch : &op, 4);
	return size;
}

/* A walk through filler ends at the same place in both engines, wherever it began. */
static void test_walks_end(void)
{
	static const uint8_t bytes[] = {
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x01, 0x00, 0x04, 0x85, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x30, 0xf7, 0xf7,
		/* Those atoms: to the branch, and from there on. */
		0x9a, 0x7f, 0x7f, 0x41, 0x00, 0xf7, /* before the end of the first third */
		0x9a, 0x00, 0x7f, 0x43, 0x00, 0xf7, /* in the middle of the second */
		0x9a, 0x00, 0x00, 0x44, 0x00, 0xf7, /* at its end */
		0x9a, 0x01, 0x00, 0x44, 0x00, 0xf7, /* behind its end */
	};
	const struct engine_memory memory = { .read = read_filler, .version = version };
	_cleanup_free_ char *ours = strdup(decode_by(&native_engine_ops, &memory, bytes, sizeof(bytes), sizeof(bytes)));

	CHECK(strstr(ours,
		     "range 400000 410004 16385 A64 E br; range 410004 440000 49151 A64 E other; no-image 440000; "));
	CHECK(strstr(ours, "range 41fffc 440000 32769 A64 E other; no-image 440000; "));
	CHECK(strstr(ours, "range 43fe00 440000 128 A64 E other; no-image 440000; no-image 440000; "));
	CHECK(strstr(ours, "range 440004 460000 32767 A64 E other; no-image 460000; "));
	CHECK(strcmp(ours, decode_by(&opencsd_engine_ops, &memory, bytes, sizeof(bytes), 1)) == 0);
}

/* An exception without its address does not count for the depth, but may be committed, so the depth can be negative. */
static void test_negative_depth(void)
{
	static const uint8_t bytes[] = {
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x80,
		0x01,
		0x01,
		0x00,
		0x04,
		0x85,
		0x00,
		0x00,
		0x40,
		0x00,
		0x00,
		0x00,
		0x00,
		0x00,
		0x30,
		0xf7,
		0x06,
		0x06,
		0xf7,
		0xf7,
		/* Those are four P0 elements, of which one does not count. */
		0x2e,
		0x03,
		0xf7,
		0x2d,
		0x02, /* three are cancelled, one is added, two are committed */
		0x81,
		0x31,
		0xf7,
		0x2d,
		0x01,
	};
	const struct engine_memory memory = { .read = read_filler, .version = version };
	_cleanup_free_ char *ours = NULL;

	config.idr8 = 8;
	ours = strdup(decode_by(&native_engine_ops, &memory, bytes, sizeof(bytes), sizeof(bytes)));
	CHECK(strstr(ours,
		     "range 400000 410004 16385 A64 E br; range 410004 440000 49151 A64 E other; no-image 440000; "));
	CHECK(strstr(ours, "context A64 EL1 N 64; ") && !strstr(ours, "bad-packet"));
	CHECK(strcmp(ours, decode_by(&opencsd_engine_ops, &memory, bytes, sizeof(bytes), 1)) == 0);
	config.idr8 = 0;
}

/*
 * An atom behind trace on without an address is malformed while a return waits for its target. The trace on before it
 * is emitted nevertheless.
 */
static void test_trace_on_without_address(void)
{
	static const uint8_t bytes[] = {
		0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0x80, 0x01, 0x01,
		0x00, 0x04, 0x85, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x30, 0xf7, 0xf7, /* bl, ret */
		0x04, 0xf7,
	};

	for (size_t chunk = 1; chunk <= sizeof(bytes); chunk++)
		CHECK(strstr(decode(bytes, sizeof(bytes), chunk),
			     "E ibr+ret; trace-on begin; no-sync bad-packet; end end; "));
}

/*
 * The trace unit empties its return stack at a trace info packet, and writes the target of each return up to the next
 * call. So the decoder may keep its entries (Linaro/OpenCSD, pull request 70 and issue 88): no valid trace reaches
 * them, and a return before the packet may still need one after it.
 */
static void test_return_stack_outlives_trace_info(void)
{
	static const uint8_t bytes[] = {
		0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0x80, 0x01, 0x01, 0x00, 0x04,
		0x85, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x30, 0xf7, 0xf7, /* bl, ret */
		0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0x80, 0x01, 0x01, 0x00, 0xf7,
	};

	for (size_t chunk = 1; chunk <= sizeof(bytes); chunk++)
		CHECK(strstr(decode(bytes, sizeof(bytes), chunk), "range 400004 40000c 2 A64 E ibr+ret; end end; "));
}

/* A timestamp behind the last atom is emitted when the stream pauses, and changes nothing in what follows. */
static void test_settle(void)
{
	static const uint8_t bytes[] = {
		0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0x80, 0x01, 0x01,
		0x00, 0x04, 0x85, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x30, 0xf7, /* bl */
		0x02, 0x05,                                                                   /* timestamp 5 */
	};
	static const uint8_t rest[] = { 0xf7, 0x02, 0x06 };
	const struct engine_memory memory = { .read = read_code, .version = version };
	uint8_t both[sizeof(bytes) + sizeof(rest)];
	char all[2048] = "";
	struct engine *e;

	memcpy(both, bytes, sizeof(bytes));
	memcpy(both + sizeof(bytes), rest, sizeof(rest));
	CHECK(native_engine_ops.open(&config, &memory, &(struct element_sink){ on_element, all }, &e) == 0);
	CHECK(native_engine_ops.push(e, bytes, sizeof(bytes)) == 0 && !strstr(all, "timestamp"));
	CHECK(native_engine_ops.settle(e) == 0 && strstr(all, "timestamp 5"));
	CHECK(native_engine_ops.push(e, rest, sizeof(rest)) == 0 && native_engine_ops.settle(e) == 0);
	CHECK(strstr(all, "timestamp 6"));
	CHECK(native_engine_ops.finish(e) == 0);
	native_engine_ops.close(e);
	CHECK(strcmp(all, decode(both, sizeof(both), sizeof(both))) == 0);
}

int main(void)
{
	test_settle();
	test_atoms_without_return_stack();
	test_trace_on_without_address();
	test_return_stack_outlives_trace_info();
	test_walks_end();
	test_negative_depth();
	return unit_end();
}
