/* SPDX-License-Identifier: MIT */
/*
 * Parses the packets of an ETMv4 or ETE instruction trace (IHI0064, "Instruction trace packets") by a table of headers.
 * Addresses, timestamps and cycle counts, which packets encode as differences, are complete in struct packet.
 */
#ifndef CSIGHT_ETM_PACKET_H
#define CSIGHT_ETM_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/etm/engine.h"

/* Some fields have no limit; a packet that is longer than this is PACKET_BROKEN. */
enum { PACKET_MAX = 4096 };

/* The number of an exception that SVC, HVC or SMC caused (IHI0064, "Exception packets"). */
enum { EXCEPTION_CALL = 2 };

enum packet_kind {
	PACKET_RESERVED, /* a reserved header */
	PACKET_INVALID,  /* the header of a packet that a source with these registers cannot write */
	PACKET_BROKEN,   /* a valid header, followed by bytes that are not valid behind it */
	PACKET_ASYNC,
	PACKET_DISCARD,
	PACKET_OVERFLOW,
	PACKET_TRACE_INFO,
	PACKET_TIMESTAMP,
	PACKET_MARKER,
	PACKET_TRACE_ON,
	PACKET_EXCEPTION,
	PACKET_EXCEPTION_RETURN,
	PACKET_PE_RESET,
	PACKET_TRANSACTION_START,
	PACKET_TRANSACTION_COMMIT,
	PACKET_TRANSACTION_FAIL,
	PACKET_INSTRUMENTATION,
	PACKET_CYCLES,
	PACKET_COMMIT,
	PACKET_CANCEL, /* cancel and mispredict */
	PACKET_IGNORE,
	PACKET_EVENT,
	PACKET_CONTEXT,
	PACKET_ADDRESS,
	PACKET_ADDRESS_CONTEXT,
	PACKET_SOURCE,
	PACKET_Q,
	PACKET_ATOMS,
	PACKETS,
};

/* Without padding, as checkpoints compare it by memcmp(). */
struct packet_context {
	bool updated, has_vmid, has_ctxid; /* which fields the packet has */
	bool wide, nonsecure, nse;         /* SF, NS, NSE */
	uint8_t level;
	uint8_t unused;
	uint32_t vmid, ctxid;
};
_Static_assert(sizeof(struct packet_context) == 16, "padding is not comparable");

struct packet {
	enum packet_kind kind;
	uint32_t size;
	uint8_t header;
	uint64_t address;        /* address, context with address, source, Q */
	uint64_t value;          /* timestamp, instrumentation, event */
	uint32_t atoms;          /* bit 0 is the oldest; 1: taken */
	uint8_t n_atoms;         /* also of cancel and mispredict packets */
	bool mispredict;         /* cancel */
	bool target;             /* exception: its address is the last branch's target */
	bool has_address;        /* Q */
	uint8_t level;           /* instrumentation */
	uint32_t number;         /* exception; Q: instructions; trace info: elements not yet committed */
	uint32_t commit, cancel; /* P0 elements; commit: in two's complement, negative ones are malformed */
	uint32_t cycles;
	bool in_transaction; /* trace info */
	struct packet_context context;
};

/* By header byte: of atom packets, the number of atoms in the high byte and the pattern below. */
extern const uint32_t packet_atoms[256];

/* What packets update. Without padding, as checkpoints compare it by memcmp(). */
struct packet_state {
	uint64_t history[3]; /* addresses, the newest first */
	uint64_t timestamp;
	uint32_t threshold; /* of cycle counts */
	bool wide;          /* the last context is of AArch64 */
	bool timed;         /* a timestamp came since the last trace info */
	bool informed;      /* trace info came */
	uint8_t unused;
};
_Static_assert(sizeof(struct packet_state) == 40, "padding is not comparable");

struct packet_reader {
	uint8_t kinds[256]; /* by header, as this source writes them */
	uint8_t version;    /* 0x40 and up: ETMv4; 0x50 and up: ETE */
	bool commit_option, has_q, has_marker;
	uint8_t vmid_bytes, ctxid_bytes, cycle_bits;
	uint32_t max_depth;
	struct packet_state state;
	uint32_t blocks[3]; /* for the caller: a block number for each address of the history; 0: none yet */
};

void packet_reader_init(struct packet_reader *s, const struct engine_config *config);

/* Restores the state before the first byte. */
void packet_reader_reset(struct packet_reader *s);

/*
 * Parses the packet at the head of n bytes, n > 0, and updates the state. Returns false, with the state unchanged, if
 * the packet continues behind them.
 */
bool packet_next(struct packet_reader *s, const uint8_t *bytes, size_t n, struct packet *ret);

/*
 * Parses a common packet of an A64 address; at least 9 bytes are readable. *ret_size 0: the packet is of another kind.
 * newest: the newest address of the history.
 */
static inline uint64_t packet_parse_common_address(const uint8_t *p, uint64_t newest, size_t *ret_size)
{
	uint32_t low;

	switch (p[0]) {
	case 0x95:
		if (!(p[1] & 0x80)) {
			*ret_size = 2;
			return (newest & ~(uint64_t)0x1ff) | (uint64_t)p[1] << 2;
		}
		*ret_size = 3;
		return (newest & ~(uint64_t)0x1ffff) | (uint64_t)(p[1] & 0x7f) << 2 | (uint64_t)p[2] << 9;
	case 0x9a:
	case 0x9d:
		low = (uint32_t)(p[1] & 0x7f) << 2 | (uint32_t)(p[2] & 0x7f) << 9 | (uint32_t)p[3] << 16 |
		      (uint32_t)p[4] << 24;
		*ret_size = 5;
		if (p[0] == 0x9a)
			return (newest & ~(uint64_t)UINT32_MAX) | low;
		*ret_size = 9;
		return low | (uint64_t)p[5] << 32 | (uint64_t)p[6] << 40 | (uint64_t)p[7] << 48 | (uint64_t)p[8] << 56;
	default:
		*ret_size = 0;
		return 0;
	}
}

/* Returns the manual's name of the packet, in lower case. */
const char *packet_name(enum packet_kind kind);

static inline void packet_push_address(struct packet_reader *s, uint64_t address)
{
	s->state.history[2] = s->state.history[1];
	s->state.history[1] = s->state.history[0];
	s->state.history[0] = address;
	s->blocks[2] = s->blocks[1];
	s->blocks[1] = s->blocks[0];
	s->blocks[0] = 0;
}

#endif
