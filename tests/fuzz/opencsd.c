/* SPDX-License-Identifier: MIT */
/*
 * lib/etm/opencsd.c over OpenCSD, for every protocol, and lib/etm/itm.c. The input begins with four bytes of options
 * and the registers.
 * OpenCSD itself is not instrumented, and its crashes are ignored: the harness searches for mistakes of ours.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "tests/fuzz/fuzz.h"

enum { ELEMENTS_MAX = 100000 };

struct head {
	uint8_t protocol, trace_id, chunk, flags;
	uint32_t configr, idr0, idr1, idr2, idr8, devarch, ccer, control;
};

struct run {
	size_t elements;
	uint64_t version;
};

static int on_element(void *user, const struct element *e)
{
	struct run *run = user;
	char line[64], whole[1024];
	size_t n = element_format(e, line, sizeof(line)), m = element_format(e, whole, sizeof(whole));

	fuzz_require(n < sizeof(line) && m < sizeof(whole) && strlen(whole) == m && memcmp(line, whole, n) == 0);
	return ++run->elements < ELEMENTS_MAX ? 0 : -ECANCELED;
}

static struct engine_config config_of(const struct head *h)
{
	return (struct engine_config){ .protocol = (enum engine_protocol)(h->protocol % PROTOCOLS),
				       .trace_id = h->trace_id & 0x7f,
				       .configr = h->configr,
				       .traceidr = h->trace_id & 0x7f,
				       .idr0 = h->idr0,
				       .idr1 = h->idr1,
				       .idr2 = h->idr2,
				       .idr8 = h->idr8,
				       .devarch = h->devarch,
				       .ccer = h->ccer,
				       .control = h->control,
				       .core_aa64 = h->flags & 1 };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run run = { 0 };
	const struct engine_memory memory = { .read = fuzz_read_code, .version = fuzz_version, .user = &run };
	const struct element_sink sink = { on_element, &run };
	const struct engine_ops *ops;
	struct engine_config config;
	struct engine_stats stats;
	struct engine *engine;
	struct head head;
	size_t chunk;
	int rc = 0;

	fuzz_guard();
	if (size < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	config = config_of(&head);
	ops = config.protocol == PROTOCOL_ITM ? &itm_engine_ops : &opencsd_engine_ops;
	if (ops->open(&config, &memory, &sink, &engine) < 0)
		return 0;
	data += sizeof(head);
	size -= sizeof(head);
	chunk = head.chunk ? head.chunk : size;
	for (size_t at = 0; rc == 0 && at < size; at += chunk) {
		/* An allocation of its own, so that sanitizers detect reads past it. */
		size_t n = MIN(chunk, size - at);
		uint8_t *copy = malloc(n);

		memcpy(copy, data + at, n);
		rc = ops->push(engine, copy, n);
		free(copy);
		if (rc == 0 && head.flags & 2 && at / chunk == 3)
			rc = ops->reset(engine);
	}
	if (rc == 0)
		rc = ops->finish(engine);
	ops->stats(engine, &stats);
	fuzz_require(rc != 0 || (stats.bytes == size && stats.decoded <= size));
	fuzz_require(rc == 0 || rc == -ECANCELED || rc == -ENOMEM);
	ops->close(engine);
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
	/* A sync point and a few packets by hand: ETMv3 (IHI0014), PTM (IHI0035), STM and ITM. */
	static const uint8_t etmv3[] = { 0, 0, 0, 0, 0, 0x80, 0x08, 0x41, 0, 0, 0x40, 0, 0x84, 0x84, 0x03, 0x01 };
	static const uint8_t ptm[] = { 0,    0, 0,    0,    0,    0x80, 0x08, 0,    0,
				       0x40, 0, 0x41, 0x84, 0x86, 0x88, 0x0b, 0x10, 0x84 };
	static const uint8_t stm[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
				       0xff, 0x0f, 0x00, 0x13, 0x02, 0x34, 0x25, 0x43, 0x65, 0x87 };
	static const uint8_t itm[] = { 0, 0, 0, 0, 0, 0x80, 0x01, 0x41, 0x0a, 0x42, 0x43, 0xc0, 0x05, 0x70, 0x0d };
	struct engine_config c = fuzz_etmv4();
	struct head head = {
		.protocol = PROTOCOL_ETMV4,
		.trace_id = c.trace_id,
		.configr = c.configr,
		.idr0 = c.idr0,
		.idr1 = c.idr1,
		.idr2 = c.idr2,
		.devarch = 0x47705a13,
		.ccer = 0x344008f2,
		.control = 0x10001000,
	};
	uint8_t trace[FUZZ_TRACE_MAX];
	size_t size = fuzz_trace(trace);

	seed(&head, trace, size);
	head.protocol = PROTOCOL_ETE;
	head.idr1 = 0x4100fff3;
	seed(&head, trace, size);
	head.idr0 = 0x4114f250;
	head.idr1 = 0;
	head.protocol = PROTOCOL_ETMV3;
	seed(&head, etmv3, sizeof(etmv3));
	head.idr0 = 0x411cf300;
	head.protocol = PROTOCOL_PTM;
	seed(&head, ptm, sizeof(ptm));
	head.protocol = PROTOCOL_STM;
	seed(&head, stm, sizeof(stm));
	head.protocol = PROTOCOL_ITM;
	seed(&head, itm, sizeof(itm));
}
