/* SPDX-License-Identifier: MIT */
/* Makes the jobs of fuzz-engines: mutated pieces of inputs, synthetic traces, and saved cases. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "tests/etm/fuzz-engines.h"
#include "tests/etm/generate.h"

enum {
	INPUTS = 64,
	INPUT_MAX = 8 << 20, /* bytes kept of an input: each new process copies all inputs */
	NO_INPUT = INPUTS,
	/* Features that OpenCSD 1.3.3 lacks: such traces are only compared with their expected elements. */
	NEW_FEATURES = GENERATE_COMPARE_BRANCHES | GENERATE_PAUTH_LR | GENERATE_RESETS | GENERATE_INSTRUMENTATION |
		       GENERATE_MARKERS | GENERATE_Q | GENERATE_RETURN_STACK,
};

struct input {
	struct trace trace;
	const char *path;
	size_t *syncs, n_syncs;
};

static struct input inputs[INPUTS];
static size_t n_inputs;
static uint64_t state;

static uint64_t draw(void)
{
	state += 0x9e3779b97f4a7c15;
	uint64_t z = state;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static size_t below(size_t n)
{
	return n ? draw() % n : 0;
}

/* Puts a random packet, most of them complete; headers have weights, so that rare packets occur often enough. */
static size_t put_packet(uint8_t ret[32])
{
	static const uint8_t plain[] = { 0x04, 0x07, 0x0a, 0x0b, 0x80, 0x88, 0x90, 0x91, 0x92, 0xa0, 0xa1,
					 0xa2, 0xaf, 0xb0, 0xb1, 0xb2, 0x70, 0x71, 0x74, 0x7f, 0x30, 0x31,
					 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3d, 0x3f };
	static const uint8_t payload[][2] = {
		/* header, bytes behind it; 0xff: a field of variable length */
		{ 0x01, 2 },    { 0x02, 0xff }, { 0x03, 0xff }, { 0x06, 1 },    { 0x06, 2 },    { 0x09, 9 },
		{ 0x0c, 1 },    { 0x0d, 1 },    { 0x0e, 0xff }, { 0x0f, 0xff }, { 0x2d, 0xff }, { 0x2e, 0xff },
		{ 0x2f, 0xff }, { 0x81, 1 },    { 0x81, 5 },    { 0x82, 5 },    { 0x85, 9 },    { 0x85, 13 },
		{ 0x95, 0xff }, { 0x96, 0xff }, { 0x9a, 4 },    { 0x9b, 4 },    { 0x9d, 8 },    { 0x9e, 8 },
		{ 0xa5, 3 },    { 0xa6, 3 },    { 0xaa, 5 },    { 0xab, 5 },    { 0xac, 1 },    { 0xb4, 0xff },
		{ 0xb5, 0xff }, { 0xb6, 4 },    { 0xb8, 8 },    { 0x00, 1 },
	};
	size_t n = 1, kind = below(10), row;

	ret[0] = (uint8_t)(0xc0 + below(0x40));
	if (kind < 4)
		return n;
	if (kind < 7) {
		ret[0] = plain[below(sizeof(plain))];
		return n;
	}
	if (kind == 7) {
		ret[0] = (uint8_t)(0x10 + below(0x10));
		return n;
	}
	row = below(ELEMENTS(payload));
	ret[0] = payload[row][0];
	if (payload[row][1] == 0xff) {
		while (n < 9 && below(3))
			ret[n++] = (uint8_t)(0x80 | draw());
		ret[n++] = (uint8_t)below(below(2) ? 4 : 0x80);
	} else {
		for (; n <= payload[row][1]; n++)
			ret[n] = (uint8_t)(below(4) ? draw() : below(4));
	}
	return n;
}

static void insert(struct job *job, size_t at, const uint8_t *bytes, size_t n)
{
	if (job->size + n > BYTES_MAX)
		return;
	memmove(job->bytes + at + n, job->bytes + at, job->size - at);
	memcpy(job->bytes + at, bytes, n);
	job->size += n;
}

static void cut_out(struct job *job, size_t at, size_t n)
{
	n = MIN(n, job->size - at);
	memmove(job->bytes + at, job->bytes + at + n, job->size - at - n);
	job->size -= n;
}

static void mutate(struct job *job)
{
	size_t at = below(job->size), n;
	uint8_t bytes[64];

	switch (below(8)) {
	case 0:
		job->bytes[at] ^= (uint8_t)(1u << below(8));
		break;
	case 1:
		job->bytes[at] = (uint8_t)draw();
		break;
	case 2:
		cut_out(job, at, 1 + below(below(4) ? 4 : 64));
		break;
	case 3: /* duplicate */
		n = 1 + below(32);
		n = MIN(n, job->size - at);
		memcpy(bytes, job->bytes + at, n);
		insert(job, below(job->size), bytes, n);
		break;
	default:
		for (n = 1 + below(4); n; n--)
			insert(job, at, bytes, put_packet(bytes));
		break;
	}
}

static void mutate_config(struct job *job)
{
	struct engine_config *c = &job->config;

	switch (below(12)) {
	case 1:
		/*
		 * OpenCSD uses the code as of the newest timestamp, also for older P0 elements that are not committed
		 * yet, so inputs with code that changes keep their speculation depth.
		 */
		c->idr8 = job->input == NO_INPUT ? (uint32_t)below(20) : c->idr8;
		break;
	case 5:
		c->configr ^= 1u << 4; /* cycle counts */
		break;
	case 6:
		c->idr0 ^= 1u << 30; /* transactions */
		break;
	}
}

/* Avoids features that OpenCSD 1.3.3 decodes wrongly in ways that no pattern can describe. */
static void keep_to_known(struct engine_config *c)
{
	/* It ignores commits by cycle count packets. */
	c->idr0 |= 1u << 29;
	/* Its return stack loses entries at exceptions, source addresses and trace info, or makes it crash. */
	c->configr &= ~(1u << 12);
	/* It does not decode Q elements. */
	c->idr0 &= ~(3u << 15);
	/* It reads context IDs and VMIDs from context packets even if the trace unit has none. */
	if (!(c->idr2 >> 5 & 31))
		c->idr2 |= 4u << 5;
	if (!(c->idr2 >> 10 & 31))
		c->idr2 |= 1u << 10;
}

static void make_up(struct job *job)
{
	struct generated made;

	job->input = NO_INPUT;
	job->seed = draw();
	job->made_size = 200 + (uint32_t)below(below(4) ? 3000 : 12000);
	job->against_truth = below(3) == 0;
	job->without = (uint32_t)(draw() & draw()) | (job->against_truth ? 0 : NEW_FEATURES);
	/* A speculating trace that was mutated rarely decodes any further. */
	if (!job->against_truth && below(4))
		job->without |= GENERATE_SPECULATION;
	/* OpenCSD 1.3.3 does not cancel source addresses. */
	if (!job->against_truth && !(job->without & GENERATE_SPECULATION))
		job->without |= GENERATE_SOURCES;
	generate(job->seed, job->made_size, job->without, &made);
	job->config = made.config;
	job->size = MIN(made.size, (size_t)BYTES_MAX);
	memcpy(job->bytes, made.bytes, job->size);
	generated_done(&made);
}

/* Chooses a piece of a real trace. */
static void choose_piece(struct job *job)
{
	const struct input *in;
	size_t from, n;

	job->input = (uint32_t)below(n_inputs);
	job->against_truth = false;
	in = &inputs[job->input];
	job->config = in->trace.config;
	from = in->n_syncs && below(16) ? in->syncs[below(in->n_syncs)] : below(in->trace.size);
	n = 100 + below(below(4) ? 1000 : 16000);
	n = MIN(in->trace.size - from, n);
	memcpy(job->bytes, in->trace.bytes + from, n);
	job->size = n;
}

void job_make(struct job *job, uint64_t seed)
{
	state = seed;
	if (!n_inputs || below(2))
		make_up(job);
	else
		choose_piece(job);
	job->chunks = below(2) ? (uint32_t)draw() : 0;
	if (job->against_truth)
		return;
	if (below(4) == 0)
		mutate_config(job);
	keep_to_known(&job->config);
	for (size_t i = below(2) ? 1 + below(3) : below(30); i && job->size > 1; i--)
		mutate(job);
}

static void find_syncs(struct input *in)
{
	static const uint8_t sync[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80 };
	const uint8_t *at = in->trace.bytes, *end = at + in->trace.size;

	while ((at = memmem(at, (size_t)(end - at), sync, sizeof(sync)))) {
		in->syncs = reallocarray(in->syncs, in->n_syncs + 1, sizeof(*in->syncs));
		if (!in->syncs)
			abort();
		in->syncs[in->n_syncs++] = (size_t)(at - in->trace.bytes);
		at += sizeof(sync);
	}
}

static int find_input(const char *path)
{
	for (size_t i = 0; i < n_inputs; i++)
		if (strcmp(inputs[i].path, path) == 0)
			return (int)i;
	return -1;
}

void job_write(const struct job *job, FILE *f)
{
	const struct engine_config *c = &job->config;

	if (job->input == NO_INPUT)
		fprintf(f, "made %llx %x %x %d\n", (unsigned long long)job->seed, job->made_size, job->without,
			job->against_truth);
	else
		fprintf(f, "code %s\n", inputs[job->input].path);
	fprintf(f, "config %d %x %x %x %x %x %x %x %x %d\n", c->protocol, c->trace_id, c->configr, c->traceidr, c->idr0,
		c->idr1, c->idr2, c->idr8, c->devarch, c->core_aa64);
	fprintf(f, "chunks %x\nbytes", job->chunks);
	for (size_t i = 0; i < job->size; i++)
		fprintf(f, "%s%02x", i % 32 ? " " : "\n", job->bytes[i]);
	fprintf(f, "\n");
}

int job_read(struct job *job, const char *path)
{
	FILE *f = fopen(path, "re");
	struct engine_config *c = &job->config;
	char line[8192], code[4096];
	unsigned byte, v[10] = { 0 };
	unsigned long long seed;
	int input = -1;

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f) && strncmp(line, "bytes", 5) != 0) {
		if (sscanf(line, "code %4095s", code) == 1)
			input = find_input(code);
		if (sscanf(line, "made %llx %x %x %u", &seed, &v[0], &v[1], &v[2]) == 4) {
			input = NO_INPUT;
			job->seed = seed;
			job->made_size = v[0];
			job->without = v[1];
			job->against_truth = v[2];
		}
		sscanf(line, "config %u %x %x %x %x %x %x %x %x %u", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7,
		       v + 8, v + 9);
		sscanf(line, "chunks %x", &job->chunks);
	}
	*c = (struct engine_config){ .protocol = v[0],
				     .trace_id = (uint8_t)v[1],
				     .configr = v[2],
				     .traceidr = v[3],
				     .idr0 = v[4],
				     .idr1 = v[5],
				     .idr2 = v[6],
				     .idr8 = v[7],
				     .devarch = v[8],
				     .core_aa64 = v[9] };
	for (job->size = 0; job->size < BYTES_MAX && fscanf(f, "%2x", &byte) == 1;)
		job->bytes[job->size++] = (uint8_t)byte;
	fclose(f);
	job->input = (uint32_t)input;
	return input < 0 ? -ENOENT : 0;
}

int job_add_input(const char *path)
{
	struct input *in = &inputs[n_inputs];

	if (n_inputs == INPUTS || trace_load(path, -1, &in->trace) != 0)
		return -EINVAL;
	if (in->trace.size > INPUT_MAX) {
		uint8_t *less = realloc(in->trace.bytes, INPUT_MAX);

		in->trace.bytes = less ? less : in->trace.bytes;
		in->trace.size = INPUT_MAX;
	}
	in->path = path;
	find_syncs(in);
	n_inputs++;
	return 0;
}

void job_drop_inputs(void)
{
	for (size_t i = 0; i < n_inputs; i++) {
		trace_done(&inputs[i].trace);
		free(inputs[i].syncs);
	}
}

static uint64_t same_version(void *user, const struct engine_context *context)
{
	return 0;
}

void job_memory(const struct job *job, struct job_memory *ret)
{
	*ret = (struct job_memory){ 0 };
	if (job->input == NO_INPUT) {
		generate(job->seed, job->made_size, job->without, &ret->made);
		ret->memory = (struct engine_memory){ generate_read, same_version, false, ret->made.code };
	} else {
		ret->memory = inputs[job->input].trace.memory;
	}
}

void job_memory_done(struct job_memory *m)
{
	generated_done(&m->made);
}
