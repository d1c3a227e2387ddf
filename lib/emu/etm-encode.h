/* SPDX-License-Identifier: MIT */
/*
 * An ETMv4 instruction trace encoder for A64 code (IHI0064, "Instruction trace packets"). It owns no memory
 * outside its struct, and writes to a ring buffer of the caller, overwriting the oldest bytes. One thread uses an
 * encoder. The caller reports branches and exceptions in order; the encoder chooses the shortest packets.
 *
 * The encoder's return stack mirrors the decoder's: 16 entries, pushed by each taken branch with link. It may hold
 * fewer entries than the decoder's but never different ones: a missing entry costs only an address packet.
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
	uint8_t atoms;       /* the packet for the pending atoms; 0: none */
	uint64_t history[3]; /* address registers; the newest first */
	uint64_t timestamp;
	uint32_t context;
	bool return_stack;
	bool untimed, nameless; /* no timestamps, no context IDs */
	bool broadcast;         /* emits the targets of direct branches too; the return stack is unused then */
	bool cycles;            /* emits cycle counts of at least threshold */
	uint16_t threshold;
	uint64_t counted; /* cycles in the counts emitted so far */
	uint8_t level;    /* the exception level of the code, 0 or 1, that contexts name */
	uint8_t top, depth;
	uint64_t stack[ETM_STACK];
};

/* Sets *ret to the trace unit's registers, for the decoder. */
void etm_regs(bool return_stack, struct emu_regs *ret);

/* ring has size bytes, a power of two; context is the context ID. Enables timestamps and context IDs. */
void etm_init(struct etm *e, uint8_t *ring, uint64_t size, bool return_stack, uint32_t context);

/* Sets the options by the bits of TRCCONFIGR, and the threshold of cycle counts. */
void etm_configure(struct etm *e, uint32_t configr, uint16_t threshold);

/* Emits a sync point: A-sync, trace info, timestamp, context and address. begins: with a trace-on packet. */
void etm_sync(struct etm *e, uint64_t time, uint64_t address, bool begins);

/* Tracing has been stopped: to be called before the sync point at which it continues. */
void etm_pause(struct etm *e);

/* Tracing begins, or continues after untraced instructions. */
void etm_trace_on(struct etm *e, uint64_t address);

void etm_timestamp(struct etm *e, uint64_t time);

/* Emits an event packet; events is a set of the events 0 to 3, not empty. */
void etm_event(struct etm *e, unsigned events);
void etm_address(struct etm *e, uint64_t address);

/* Emits an address with a context, where the exception level or the context ID changes. */
void etm_context(struct etm *e, uint64_t address);

/* to is the preferred return address. target: it is also the target of the last branch, where nothing executed. */
void etm_exception(struct etm *e, enum etm_exception type, uint64_t to, bool target);
void etm_exception_return(struct etm *e);

/*
 * Emits a cycle count; now is the total number of cycles. The preceding packet must be one that a decoder can walk to.
 * An instruction takes one cycle here, so that the counts equal the numbers of instructions.
 */
void etm_cycles(struct etm *e, uint64_t now);

/* Writes the pending atoms. */
void etm_flush(struct etm *e);

/* Returns the value of emu_slot.pending, for etm_finish_stream(): the pending atoms, with the head at which they
 * belong. */
static inline uint64_t etm_pending(const struct etm *e)
{
	return e->head << 8 | e->atoms;
}

/*
 * By pending packet and next atom: the high byte is the packet to write, or 0; the low byte is the new pending packet.
 */
extern uint16_t etm_atoms[256][2];
void etm_atoms_init(void);

static inline void etm_atom(struct etm *e, bool taken)
{
	uint16_t next = etm_atoms[e->atoms][taken];

	/* Branchless, since the branch would be mispredicted: a byte that is not written is overwritten by the next. */
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

/*
 * Emits a taken direct branch, or an ISB, without branch broadcast, which needs the target; link is the address after a
 * branch with link, else 0.
 */
static inline void etm_branch(struct etm *e, uint64_t link)
{
	etm_atom(e, true);
	if (link)
		etm_push(e, link);
}

static inline void etm_direct(struct etm *e, uint64_t target, uint64_t link)
{
	etm_branch(e, link);
	if (e->broadcast)
		etm_address(e, target);
}

/* Emits a taken indirect branch to target. */
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
