/*
 * An ETMv4 instruction trace encoder for A64 at EL0 (IHI0064, "Instruction trace packets"). It owns no memory but what
 * is in its struct, and writes into an overwriting ring. One thread uses an encoder. The caller says what happened, in
 * order; the encoder chooses the shortest packets.
 *
 * Its return stack mirrors what a decoder keeps: 16 entries, pushed by every taken branch with link. It may hold fewer
 * entries than the decoder's, never others: forgetting one only costs an address packet.
 */
#ifndef CSIGHT_EMU_ENCODE_H
#define CSIGHT_EMU_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/emu/ring.h"

enum {
	ETM_CONFIGR_CID = 1 << 6,
	ETM_CONFIGR_TS = 1 << 11,
	ETM_CONFIGR_RS = 1 << 12,
	ETM_STACK = 16,
	ETM_ATOMS_MAX = 24,
};

/* Exception types (IHI0064, "Exception instruction trace packet"). */
enum etm_exception {
	ETM_CALL = 2,
	ETM_TRAP = 3,
	ETM_INST_DEBUG = 6,
	ETM_ALIGNMENT = 0xa,
	ETM_INST_FAULT = 0xb,
	ETM_DATA_FAULT = 0xc,
	ETM_IRQ = 0xe,
};

struct etm {
	uint8_t *ring;
	uint64_t mask; /* ring size - 1 */
	uint64_t head; /* bytes ever written */
	uint32_t atoms; /* held back, the oldest in bit 0; E is 1 */
	uint32_t n_atoms;
	uint64_t history[3]; /* address registers; the newest first */
	uint64_t timestamp;
	uint32_t context;
	bool return_stack;
	uint8_t top, depth;
	uint64_t stack[ETM_STACK];
};

void etm_regs(bool return_stack, struct emu_regs *ret);
void etm_init(struct etm *e, uint8_t *ring, uint64_t size, bool return_stack, uint32_t context);

/* A-sync, trace info, time, context and address: decoding can begin here. begins: as etm_trace_on, too. */
void etm_sync(struct etm *e, uint64_t time, uint64_t address, bool begins);

/* Tracing begins, or goes on after a stretch that was not traced. */
void etm_trace_on(struct etm *e, uint64_t address);

void etm_timestamp(struct etm *e, uint64_t time);
void etm_address(struct etm *e, uint64_t address);

/* to: the preferred return address; target: it is where the last indirect branch went, and nothing ran there. */
void etm_exception(struct etm *e, enum etm_exception type, uint64_t to, bool target);
void etm_exception_return(struct etm *e);

/* The encoder's atoms go out. */
void etm_flush(struct etm *e);

/* Atoms as emu_slot.pending holds them, for emu_finish(). */
static inline uint64_t etm_pending(const struct etm *e)
{
	return (uint64_t)e->n_atoms << 32 | e->atoms;
}

void etm_settle(struct etm *e);

static inline void etm_atom(struct etm *e, bool taken)
{
	e->atoms |= (uint32_t)taken << e->n_atoms++;
	/* A run of E grows quietly; all else is looked at. */
	if (e->atoms != (1u << e->n_atoms) - 1 || e->n_atoms == ETM_ATOMS_MAX)
		etm_settle(e);
}

static inline void etm_push(struct etm *e, uint64_t address)
{
	if (!e->return_stack)
		return;
	e->top = (e->top + 1) % ETM_STACK;
	e->stack[e->top] = address;
	if (e->depth < ETM_STACK)
		e->depth++;
}

/* A taken direct branch; link: the address after it, or 0. */
static inline void etm_branch(struct etm *e, uint64_t link)
{
	etm_atom(e, true);
	if (link)
		etm_push(e, link);
}

/* A taken indirect branch to target. */
static inline void etm_indirect(struct etm *e, uint64_t target, uint64_t link)
{
	etm_atom(e, true);
	if (link) {
		etm_push(e, link);
	} else if (e->depth && e->stack[e->top] == target) {
		e->top = (e->top + ETM_STACK - 1) % ETM_STACK;
		e->depth--;
		return;
	}
	etm_address(e, target);
}

/* The shortest packets for n atoms (at most ETM_ATOMS_MAX), into ret: at most n bytes; returns how many. */
unsigned etm_atom_packets(uint32_t atoms, unsigned n, uint8_t *ret);

#endif
