/* SPDX-License-Identifier: MIT */
/* Internal to generate*.c: the program, its execution, its packets and the elements that these mean. */
#ifndef CSIGHT_TESTS_GENERATE_PARTS_H
#define CSIGHT_TESTS_GENERATE_PARTS_H

#include "lib/base/buf.h"
#include "tests/etm/generate.h"

enum { GEN_REGIONS = 3, GEN_WORDS = 1024, GEN_STACK = 16, GEN_ATOMS_MAX = 24 };

/* An instruction and its type for the trace unit; INSTR_OTHER: it ends no range. */
struct instruction {
	uint32_t op;
	uint8_t kind, sub;
	bool link, conditional, returns; /* returns: an exception return */
	int32_t words;                   /* distance to a direct branch's target, in instructions */
};

struct generate_code {
	struct instruction words[GEN_REGIONS][GEN_WORDS];
};

/* An expected element, and the P0 element that emits it; lasting ones are emitted even if that one is cancelled. */
struct truth {
	struct element element;
	uint64_t p0;
	bool lasting, always; /* always: about the stream itself, as a gap */
};

/* The state of the generator. */
struct gen {
	uint64_t random;
	unsigned without, used;
	struct engine_config config;
	struct generate_code *code;
	unsigned version; /* 0x40.., 0x50.. */
	bool modern, waits;
	/* The processor. */
	uint64_t pc, start; /* start: of the range that is not emitted yet */
	const struct instruction *last;
	uint8_t level;
	bool nonsecure, nse;
	uint32_t ctxid, vmid;
	bool ctxid_emitted, vmid_emitted;
	/* The trace unit. */
	struct buf bytes, truths;
	uint32_t atoms;
	unsigned n_atoms;
	uint64_t history[3], stamp, stack[GEN_STACK];
	unsigned entries, top;
	unsigned known; /* the newest entries, which a decoder has: it does not see what unavailable code does */
	bool stack_waits, marked, wants_overflow;
	uint32_t threshold, depth, spec;
	uint64_t made, committed; /* numbers of P0 elements, including atoms that are held back */
};

static inline uint64_t gen_draw(struct gen *g)
{
	uint64_t z = g->random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static inline unsigned gen_below(struct gen *g, unsigned n)
{
	return (unsigned)(gen_draw(g) % n);
}

/* True once in n calls, if the feature is enabled. */
static inline bool gen_rarely(struct gen *g, unsigned feature, unsigned n)
{
	if (g->without & feature || gen_below(g, n))
		return false;
	g->used |= feature;
	return true;
}

/* generate-program.c */
void gen_make_code(struct gen *g);
const struct instruction *generate_instruction(const struct generate_code *code, uint64_t address);
uint64_t gen_anywhere(struct gen *g);

/*
 * generate-packets.c: writes packets, each in a random one of its equivalent forms, and records the elements that a
 * decoder must emit. Atoms are held back until gen_flush(), which precedes any other packet.
 */
void gen_put(struct gen *g, unsigned byte);
void gen_put_field(struct gen *g, uint32_t value); /* seven bits a byte */
void gen_put_bytes(struct gen *g, uint64_t value, unsigned size);
unsigned gen_atoms_of(unsigned packet, uint32_t *ret);
void gen_flush(struct gen *g);
void gen_atom(struct gen *g, bool taken);

/* The headers of an address packet's forms; 0: the packet has no such form. */
struct gen_headers {
	uint8_t match, one, long32, long64;
};

void gen_put_address_as(struct gen *g, uint64_t address, const struct gen_headers *h);
void gen_put_address(struct gen *g, uint64_t address);
void gen_put_long(struct gen *g, uint64_t address, unsigned size);
void gen_put_short(struct gen *g, uint64_t address, bool two);
void gen_remember(struct gen *g, uint64_t address);

/* emits: a decoder emits a context element, with the next P0 element. */
void gen_put_context(struct gen *g, bool emits);
void gen_put_address_and_context(struct gen *g, uint64_t address);

void gen_put_cycles(struct gen *g);
void gen_put_timestamp(struct gen *g, bool whole);
void gen_put_marker(struct gen *g);
void gen_put_event(struct gen *g);
void gen_put_sync(struct gen *g, uint32_t unseen);
void gen_trace_on(struct gen *g);

/* Counts n more speculative P0 elements; commits all or some; drops the elements of those that are not committed. */
void gen_deepen(struct gen *g, unsigned n);
void gen_put_commit(struct gen *g, bool all);
void gen_drop_uncommitted(struct gen *g, bool lasting);

/* Records an element that is emitted with a P0 element; and the range from g->start to g->pc unless it is empty. */
struct element *gen_emit(struct gen *g, enum element_kind kind, uint64_t p0);
void gen_emit_range(struct gen *g, bool taken, uint64_t p0);

#endif
