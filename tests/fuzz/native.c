/* SPDX-License-Identifier: MIT */
/*
 * lib/etm/native*.c, packet.c, blocks.c and branches.c. The input begins with four bytes of options and the registers.
 * The result may depend neither on the sizes of the pushes nor on the outlet: a hash of the elements is compared, and
 * the number of instructions that the outlets of edges and of sums report.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/branches.h"
#include "lib/etm/native.h"
#include "tests/fuzz/fuzz.h"

struct head {
	uint8_t protocol, trace_id, chunk, flags;
	uint32_t configr, idr0, idr1, idr2, idr8, devarch;
};

/* The result of a decode; the instructions are the same for all outlets. */
struct said {
	uint64_t hash, instructions, elements;
	struct native_reader reader;
	struct native_sums sums;
};

static uint32_t region(void *user, uint64_t address)
{
	return (uint32_t)(address >> 5) & INT32_MAX;
}

static int on_sums(void *user, const struct native_batch *b)
{
	struct said *s = user;

	native_sum_executed(&s->sums, b);
	s->instructions = s->sums.instructions;
	s->elements = s->sums.ranges + s->sums.others;
	return 0;
}

static int on_element(void *user, const struct element *e)
{
	struct said *s = user;
	char line[256];
	size_t n = element_format(e, line, sizeof(line));

	if (e->kind == ELEM_RANGE)
		s->instructions += e->range.count;
	s->elements++;
	s->hash = (s->hash ^ e->offset) * 0x100000001b3u ^ e->torn;
	for (size_t i = 0; i < n; i++)
		s->hash = (s->hash ^ (uint8_t)line[i]) * 0x100000001b3u;
	return 0;
}

static int on_batch(void *user, const struct native_batch *b)
{
	struct said *s = user;
	struct element e;
	size_t event = 0;

	for (size_t i = 0; i < b->n_calls; i++)
		fuzz_require(b->calls[i].edge & NATIVE_CYCLES || b->blocks[b->calls[i].to & ~NATIVE_TORN].count > 0);
	native_read_batch(&s->reader, b);
	while (native_read(&s->reader, &e)) {
		s->elements++;
		if (e.kind == ELEM_RANGE)
			s->instructions += e.range.count;
		event++;
	}
	fuzz_require(event == b->n);
	return 0;
}

static int on_branches(void *user, const struct branch *list, size_t n)
{
	char line[BRANCHES_LINE_MAX];

	for (size_t i = 0; i < n; i++)
		fuzz_require(branches_format(&list[i], line) < sizeof(line));
	return 0;
}

static struct engine_config config_of(const struct head *h)
{
	return (struct engine_config){ .protocol = h->protocol & 1 ? PROTOCOL_ETE : PROTOCOL_ETMV4,
				       .trace_id = h->trace_id & 0x7f,
				       .configr = h->configr,
				       .traceidr = h->trace_id & 0x7f,
				       .idr0 = h->idr0,
				       .idr1 = h->idr1,
				       .idr2 = h->idr2,
				       .idr8 = h->idr8,
				       .devarch = h->devarch,
				       .core_aa64 = h->flags & 1 };
}

static const struct engine_memory memory = { .read = fuzz_read_code, .version = fuzz_version };

/* Pushes all bytes in pieces, each in an allocation of its own, so that sanitizers detect reads past it. */
static int push(int (*take)(void *to, const void *data, size_t size), void *to, const uint8_t *data, size_t size,
		size_t chunk)
{
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < size; at += chunk) {
		size_t n = MIN(chunk, size - at);
		uint8_t *copy = malloc(n);

		memcpy(copy, data + at, n);
		rc = take(to, copy, n);
		free(copy);
	}
	return rc;
}

static int take_engine(void *to, const void *data, size_t size)
{
	return native_engine_ops.push(to, data, size);
}

static int take_native(void *to, const void *data, size_t size)
{
	return native_push(to, data, size);
}

static int take_branches(void *to, const void *data, size_t size)
{
	return branches_push(to, data, size);
}

static int run_engine(const struct engine_config *config, const uint8_t *data, size_t size, size_t chunk,
		      struct said *ret)
{
	const struct element_sink sink = { on_element, ret };
	struct engine_stats stats;
	struct engine *e;
	int rc = native_engine_ops.open(config, &memory, &sink, &e);

	if (rc < 0)
		return rc;
	rc = push(take_engine, e, data, size, chunk);
	if (rc == 0)
		rc = native_engine_ops.finish(e);
	native_engine_ops.stats(e, &stats);
	fuzz_require(rc != 0 || (stats.bytes == size && stats.decoded <= size));
	fuzz_require(rc == 0 || rc == -EOPNOTSUPP);
	native_engine_ops.close(e);
	return rc;
}

static int run_outlet(const struct engine_config *config, const uint8_t *data, size_t size, size_t chunk,
		      enum native_outlet outlet, struct said *ret)
{
	const struct native_sink sink = {
		.batch = outlet == NATIVE_SUMS ? on_sums : on_batch, .user = ret, .outlet = outlet, .region = region
	};
	struct native *e;
	int rc = native_open(config, &memory, &sink, &e);

	if (rc < 0)
		return rc;
	native_reader_init(&ret->reader);
	rc = push(take_native, e, data, size, chunk);
	if (rc == 0)
		rc = native_finish(e);
	native_close(e);
	return rc;
}

static void run_branches(const struct engine_config *config, const uint8_t *data, size_t size, size_t chunk)
{
	const struct branches_sink sink = { on_branches };
	struct branches *b;

	if (branches_open(config, &sink, &b) < 0)
		return;
	fuzz_require(push(take_branches, b, data, size, chunk) == 0 && branches_finish(b) == 0);
	branches_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct said whole = { 0 }, cut = { 0 }, edges = { 0 }, calls = { 0 }, sums = { 0 };
	struct engine_config config;
	struct head head;
	int rc;

	if (size < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	config = config_of(&head);
	data += sizeof(head);
	size -= sizeof(head);
	rc = run_engine(&config, data, size, MAX(size, (size_t)1), &whole);
	fuzz_require(run_engine(&config, data, size, head.chunk + 1u, &cut) == rc);
	fuzz_require(whole.hash == cut.hash);
	fuzz_require(run_outlet(&config, data, size, head.chunk + 1u, NATIVE_EDGES, &edges) == rc);
	fuzz_require(edges.elements == whole.elements && edges.instructions == whole.instructions);
	fuzz_require(run_outlet(&config, data, size, MAX(size, (size_t)1), NATIVE_CALLS, &calls) == rc);
	fuzz_require(run_outlet(&config, data, size, head.chunk + 1u, NATIVE_SUMS, &sums) == rc);
	fuzz_require(sums.elements == whole.elements && sums.instructions == whole.instructions);
	run_branches(&config, data, size, head.chunk + 1u);
	return 0;
}

static void seed(const struct head *head, const void *trace, size_t size)
{
	uint8_t all[sizeof(*head) + FUZZ_TRACE_MAX];

	memcpy(all, head, sizeof(*head));
	memcpy(all + sizeof(*head), trace, size);
	fuzz_seed(all, sizeof(*head) + size);
}

void fuzz_seeds(void)
{
	struct engine_config c = fuzz_etmv4();
	struct head head = {
		.trace_id = c.trace_id,
		.chunk = 7,
		.configr = c.configr,
		.idr0 = c.idr0,
		.idr1 = c.idr1,
		.idr2 = c.idr2,
		.devarch = 0x47735a13,
	};
	uint8_t trace[FUZZ_TRACE_MAX];
	size_t size = fuzz_trace(trace);

	seed(&head, trace, size);
	head.configr |= 1 << 12;
	head.chunk = 255;
	seed(&head, trace, size);
	head.idr8 = 8;
	seed(&head, trace, size);
	head.idr0 |= 1 << 15;
	head.protocol = 1;
	seed(&head, trace, size);
}
