/*
 * The packets of an ETMv4 or ETE instruction trace (IHI0064, "Instruction trace packets"): bytes to fields, by a table
 * of headers. What packets say by difference (addresses, timestamps, cycle counts) is whole in the struct.
 */
#ifndef CSIGHT_ETM_PACKET_H
#define CSIGHT_ETM_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/etm/engine.h"

/* Packets may have fields without end; one that is longer is refused. */
enum { PACKET_MAX = 4096 };

/* The number of an exception that SVC, HVC or SMC caused (IHI0064, "Exception packets"). */
enum { EXCEPTION_CALL = 2 };

enum packet_kind {
	PACKET_RESERVED, /* no packet has this header */
	PACKET_INVALID,  /* no packet of a source with these registers has */
	PACKET_BROKEN,   /* the header is one of a packet's, what follows it is not */
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
	PACKET_CANCEL, /* and what mispredicts */
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

struct packet_context {
	bool updated, has_vmid, has_ctxid; /* what it tells */
	bool wide, nonsecure, nse;         /* SF, NS, NSE */
	uint8_t level;
	uint32_t vmid, ctxid;
};

struct packet {
	enum packet_kind kind;
	uint32_t size;
	uint8_t header;
	uint64_t address;        /* address, context with address, source, Q */
	uint64_t value;          /* timestamp, instrumentation, event */
	uint32_t atoms;          /* patterns: the oldest is bit 0, 1: taken */
	uint8_t n_atoms;         /* also of those that mispredict */
	bool mispredict;         /* cancel */
	bool target;             /* exception: its address is where the last branch went */
	bool has_address;        /* Q */
	uint8_t level;           /* instrumentation */
	uint32_t number;         /* exception; Q: instructions; trace info: elements not yet committed */
	uint32_t commit, cancel; /* P0 elements; commit: as the two's complement says it, negative ones are mistakes */
	uint32_t cycles;
	bool in_transaction; /* trace info */
	struct packet_context context;
};

/* By header byte: of atoms, the number in the high byte and the pattern below. */
extern const uint32_t packet_atoms[256];

struct packet_reader {
	uint8_t kinds[256]; /* by header, as this source may have them */
	uint8_t version;    /* 0x40 and up: ETMv4; 0x50 and up: ETE */
	bool commit_option, has_q, has_marker;
	uint8_t vmid_bytes, ctxid_bytes, cycle_bits;
	uint32_t max_depth;
	/* The state that packets update: */
	uint64_t history[3]; /* addresses, the newest first */
	uint32_t places[3];  /* the reader's own, one each; 0 where it is new */
	uint64_t timestamp;
	uint32_t threshold;
	bool wide; /* the last context is of AArch64 */
	bool timed, informed;
};

void packet_reader_init(struct packet_reader *s, const struct engine_config *config);

/* As it is before the first byte. */
void packet_reader_reset(struct packet_reader *s);

/*
 * The packet at the head of n bytes, n > 0; what it updates is updated. False: it goes on behind them, and nothing has
 * happened.
 */
bool packet_next(struct packet_reader *s, const uint8_t *bytes, size_t n, struct packet *ret);

/*
 * An address of A64 by one of the common packets, of which there are 9 bytes at least to look at; *ret_size 0: it is
 * none. newest: of the history.
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

/* As the manual calls it, in small letters. */
const char *packet_name(enum packet_kind kind);

static inline void packet_push_address(struct packet_reader *s, uint64_t address)
{
	s->history[2] = s->history[1];
	s->history[1] = s->history[0];
	s->history[0] = address;
	s->places[2] = s->places[1];
	s->places[1] = s->places[0];
	s->places[0] = 0;
}

#endif
