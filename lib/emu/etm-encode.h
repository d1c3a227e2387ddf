/*
 * An ETMv4 instruction trace encoder for A64 at EL0 (IHI0064, "Instruction trace packets"). It owns no memory but what
 * is in its struct, and writes into an overwriting ring. One thread uses an encoder. The caller says what happened, in
 * order; the encoder chooses the shortest packets.
 *
 * Its return stack mirrors what a decoder keeps: 16 entries, pushed by every taken branch with link. It may hold fewer
 * entries than the decoder's, never others: forgetting one only costs an address packet.
 */
#ifndef CSIGHT_EMU_ETM_ENCODE_H
#define CSIGHT_EMU_ETM_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/emu/ring.h"

enum {
	ETM_CONFIGR_BB = 1 << 3,
	ETM_CONFIGR_CCI = 1 << 4,
	ETM_CONFIGR_CID = 1 << 6,
	ETM_CONFIGR_TS = 1 << 11,
	ETM_CONFIGR_RS = 1 << 12,
	ETM_STACK = 16,
	ETM_THRESHOLD_MAX = 0xfff, /* of cycles: TRCCCCTLR.THRESHOLD has 12 bits */
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
	uint64_t mask;       /* ring size - 1 */
	uint64_t head;       /* bytes ever written */
	uint8_t atoms;       /* the packet that would say the atoms held back; 0: there are none */
	uint64_t history[3]; /* address registers; the newest first */
	uint64_t timestamp;
	uint32_t context;
	bool return_stack;
	bool untimed, nameless; /* no timestamps, no context IDs */
	bool broadcast;         /* targets of direct branches, too; the return stack then serves for nothing */
	bool cycles;            /* counts of them, each of at least threshold */
	uint16_t threshold;
	uint64_t counted; /* cycles that have been told of */
	uint8_t top, depth;
	uint64_t stack[ETM_STACK];
};

void etm_regs(bool return_stack, struct emu_regs *ret);
void etm_init(struct etm *e, uint8_t *ring, uint64_t size, bool return_stack, uint32_t context);

/* What etm_init() leaves off: by TRCCONFIGR's bits, and the threshold of cycle counts. */
void etm_configure(struct etm *e, uint32_t configr, uint16_t threshold);

/* A-sync, trace info, time, context and address: decoding can begin here. begins: as etm_trace_on, too. */
void etm_sync(struct etm *e, uint64_t time, uint64_t address, bool begins);

/* Tracing begins, or goes on after a stretch that was not traced. */
void etm_trace_on(struct etm *e, uint64_t address);

void etm_timestamp(struct etm *e, uint64_t time);
void etm_address(struct etm *e, uint64_t address);

/* to: the preferred return address; target: it is where the last indirect branch went, and nothing ran there. */
void etm_exception(struct etm *e, enum etm_exception type, uint64_t to, bool target);
void etm_exception_return(struct etm *e);

/*
 * Behind whatever a decoder can walk to: so many cycles have gone by in all. Here an instruction takes one, so the
 * counts of a stream are those of its instructions.
 */
void etm_cycles(struct etm *e, uint64_t now);

/* The encoder's atoms go out. */
void etm_flush(struct etm *e);

/* Atoms as emu_slot.pending holds them, for etm_finish(): with the head that they come after. */
static inline uint64_t etm_pending(const struct etm *e)
{
	return e->head << 8 | e->atoms;
}

/* By packet held back and next atom: in the high byte what goes out, or 0; in the low byte what is held back then. */
extern uint16_t etm_atoms[256][2];
void etm_atoms_init(void);

static inline void etm_atom(struct etm *e, bool taken)
{
	uint16_t next = etm_atoms[e->atoms][taken];

	/* Without a jump that is hard to guess: a byte that does not count goes where the next one will. */
	e->ring[e->head & e->mask] = (uint8_t)(next >> 8);
	e->head += next >> 8 != 0;
	e->atoms = (uint8_t)next;
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

/* A taken direct branch, or an ISB; link: the address after it, or 0. */
static inline void etm_direct(struct etm *e, uint64_t target, uint64_t link)
{
	etm_atom(e, true);
	if (link)
		etm_push(e, link);
	if (__builtin_expect(e->broadcast, 0))
		etm_address(e, target);
}

/* The same, where targets are not told. */
static inline void etm_branch(struct etm *e, uint64_t link)
{
	etm_direct(e, 0, link);
}

/* A taken indirect branch to target. */
static inline void etm_indirect(struct etm *e, uint64_t target, uint64_t link)
{
	etm_atom(e, true);
	if (link) {
		etm_push(e, link);
	} else if (e->depth && e->stack[e->top] == target && !e->broadcast) {
		e->top = (e->top + ETM_STACK - 1) % ETM_STACK;
		e->depth--;
		return;
	}
	etm_address(e, target);
}

#endif
