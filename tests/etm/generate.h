/* SPDX-License-Identifier: MIT */
/*
 * Generates synthetic instruction traces, ETMv4 and ETE: a random A64 program, a processor that executes it, speculates
 * and takes exceptions, a trace unit that chooses at random among the packets that encode the same, and the elements
 * that a decoder must emit. It shares no code with either engine. Equal seeds give equal traces.
 */
#ifndef CSIGHT_TESTS_GENERATE_H
#define CSIGHT_TESTS_GENERATE_H

#include "lib/etm/engine.h"

/* Features that a caller can exclude. */
enum generate_feature {
	GENERATE_SPECULATION = 1 << 0,
	GENERATE_CYCLES = 1 << 1,
	GENERATE_RETURN_STACK = 1 << 2,
	GENERATE_BROADCAST = 1 << 3,
	GENERATE_TRANSACTIONS = 1 << 4,
	GENERATE_Q = 1 << 5,
	GENERATE_SOURCES = 1 << 6, /* source addresses */
	GENERATE_INSTRUMENTATION = 1 << 7,
	GENERATE_MARKERS = 1 << 8,
	GENERATE_COMPARE_BRANCHES = 1 << 9, /* CB, CBB, CBH */
	GENERATE_PAUTH_LR = 1 << 10,
	GENERATE_REALMS = 1 << 11,
	GENERATE_RESETS = 1 << 12,
	GENERATE_LOSS = 1 << 13,           /* overflow, discard */
	GENERATE_MISSING = 1 << 14,        /* code that is unavailable */
	GENERATE_WAITS = 1 << 15,          /* WFI and the like as branches */
	GENERATE_HIDDEN_RETURNS = 1 << 16, /* to what called before code that is unavailable, by the return stack */
	GENERATE_FEATURES = 17,
};

struct generated {
	struct engine_config config;
	uint8_t *bytes;
	size_t size;
	struct element *truth;
	size_t n_truth;
	unsigned used; /* the features that occur in the trace */
	struct generate_code *code;
};

/* Generates a trace of about size bytes without the features in without. */
void generate(uint64_t seed, size_t size, unsigned without, struct generated *ret);
void generated_done(struct generated *g);

/* The read function of struct engine_memory, with the code as its user pointer. */
size_t generate_read(void *code, const struct engine_context *context, uint64_t address, void *ret, size_t size);

/* The name of a feature, as "speculation". */
const char *generate_feature_str(unsigned bit);

#endif
