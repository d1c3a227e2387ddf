/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/emu/etm-encode.h"

enum {
	HEADER_TRACE_INFO = 0x01,
	HEADER_TIMESTAMP = 0x02,
	HEADER_TRACE_ON = 0x04,
	HEADER_EXCEPTION = 0x06,
	HEADER_EXCEPTION_RETURN = 0x07,
	HEADER_CYCLES_1 = 0x0e,
	HEADER_CYCLES_2 = 0x0c,
	HEADER_CYCLES_3 = 0x10,
	HEADER_LONG32_CONTEXT = 0x82,
	HEADER_LONG64_CONTEXT = 0x85,
	HEADER_EVENT = 0x70,
	HEADER_EXACT = 0x90,
	HEADER_SHORT = 0x95,
	HEADER_LONG32 = 0x9a,
	HEADER_LONG64 = 0x9d,
};

/* An invalid entry of the address history. It matches no instruction address, since these are not odd. */
#define NO_ADDRESS UINT64_MAX

static inline void put(struct etm *e, uint8_t byte)
{
	e->ring[e->head++ & e->mask] = byte;
}

void etm_regs(bool return_stack, struct emu_regs *ret)
{
	*ret = (struct emu_regs){
		.configr = ETM_CONFIGR_CID | ETM_CONFIGR_TS | (return_stack ? ETM_CONFIGR_RS : 0),
		.traceidr = 0x10,
		.idr0 = 0x28000ea1, /* 64-bit timestamps, return stack, branch broadcast, cycle counts, commit option */
		.idr1 = 0x4100f403, /* ETMv4.0 */
		.idr2 = 0x10000488, /* 64-bit addresses, 32-bit context IDs, 20-bit cycle counts */
		.authstatus = 0xcc,
	};
}

void etm_init(struct etm *e, uint8_t *ring, uint64_t size, bool return_stack, uint32_t context)
{
	if (!etm_atoms[0][0])
		etm_atoms_init();
	memset(e, 0, sizeof(*e));
	e->ring = ring;
	e->mask = size - 1;
	e->return_stack = return_stack;
	e->context = context;
}

void etm_configure(struct etm *e, uint32_t configr, uint16_t threshold)
{
	e->return_stack = configr & ETM_CONFIGR_RS;
	e->untimed = !(configr & ETM_CONFIGR_TS);
	e->nameless = !(configr & ETM_CONFIGR_CID);
	e->broadcast = configr & ETM_CONFIGR_BB;
	e->cycles = configr & ETM_CONFIGR_CCI;
	e->threshold = threshold;
}

void etm_flush(struct etm *e)
{
	if (e->atoms)
		put(e, e->atoms);
	e->atoms = 0;
}

static void put_address_bytes(struct etm *e, uint64_t address, int size)
{
	put(e, (uint8_t)(address >> 2 & 0x7f));
	put(e, (uint8_t)(address >> 9 & 0x7f));
	for (int shift = 16; shift < size; shift += 8)
		put(e, (uint8_t)(address >> shift));
}

static void remember(struct etm *e, uint64_t address)
{
	e->history[2] = e->history[1];
	e->history[1] = e->history[0];
	e->history[0] = address;
}

/* Writes the shortest address packet. The pending atoms must have been written. */
static void put_address(struct etm *e, uint64_t address)
{
	uint64_t differs = address ^ e->history[0];

	for (int i = 0; i < 3; i++)
		if (e->history[i] == address) {
			put(e, (uint8_t)(HEADER_EXACT + i));
			remember(e, address);
			return;
		}
	if (e->history[0] == NO_ADDRESS || differs >> 32) {
		put(e, HEADER_LONG64);
		put_address_bytes(e, address, 64);
	} else if (differs >> 17) {
		put(e, HEADER_LONG32);
		put_address_bytes(e, address, 32);
	} else {
		put(e, HEADER_SHORT);
		if (differs >> 9) {
			put(e, (uint8_t)(0x80 | (address >> 2 & 0x7f)));
			put(e, (uint8_t)(address >> 9));
		} else {
			put(e, (uint8_t)(address >> 2 & 0x7f));
		}
	}
	remember(e, address);
}

void etm_address(struct etm *e, uint64_t address)
{
	etm_flush(e);
	put_address(e, address);
}

/* Writes the context: the level, AArch64, non-secure, with the context ID. */
static void put_context(struct etm *e)
{
	put(e, (uint8_t)(e->level | 0x10 | 0x20 | (e->nameless ? 0 : 0x80)));
	for (int shift = 0; shift < 32 && !e->nameless; shift += 8)
		put(e, (uint8_t)(e->context >> shift));
}

static void put_address_and_context(struct etm *e, uint64_t address)
{
	bool near = e->history[0] != NO_ADDRESS && !((address ^ e->history[0]) >> 32);

	put(e, near ? HEADER_LONG32_CONTEXT : HEADER_LONG64_CONTEXT);
	put_address_bytes(e, address, near ? 32 : 64);
	put_context(e);
	remember(e, address);
}

void etm_context(struct etm *e, uint64_t address)
{
	etm_flush(e);
	put_address_and_context(e, address);
}

static void put_timestamp(struct etm *e, uint64_t time, bool whole)
{
	uint64_t changed = whole ? UINT64_MAX : time ^ e->timestamp;
	int bytes = 1;

	if (e->untimed)
		return;
	while (bytes < 9 && changed >> (7 * bytes))
		bytes++;
	put(e, HEADER_TIMESTAMP);
	for (int i = 0; i < bytes - 1; i++)
		put(e, (uint8_t)(0x80 | (time >> (7 * i) & 0x7f)));
	/* The ninth byte has eight bits and no continuation. */
	put(e, (uint8_t)(bytes == 9 ? time >> 56 : time >> (7 * (bytes - 1)) & 0x7f));
	e->timestamp = time;
}

void etm_timestamp(struct etm *e, uint64_t time)
{
	etm_flush(e);
	put_timestamp(e, time, false);
}

void etm_event(struct etm *e, unsigned events)
{
	etm_flush(e);
	put(e, (uint8_t)(HEADER_EVENT | events));
}

/* Emits one INFO byte, with cycle counting enabled or not; then the threshold of cycle counts, seven bits a byte. */
static void put_trace_info(struct etm *e)
{
	put(e, HEADER_TRACE_INFO);
	put(e, e->cycles ? 0x09 : 0x01);
	put(e, e->cycles);
	if (e->cycles && e->threshold > 0x7f)
		put(e, (uint8_t)(0x80 | (e->threshold & 0x7f)));
	if (e->cycles)
		put(e, (uint8_t)(e->threshold > 0x7f ? e->threshold >> 7 : e->threshold));
}

void etm_sync(struct etm *e, uint64_t time, uint64_t address, bool begins)
{
	etm_flush(e);
	for (int i = 0; i < 11; i++)
		put(e, 0);
	put(e, 0x80);
	put_trace_info(e);
	e->history[0] = e->history[1] = e->history[2] = NO_ADDRESS;
	e->depth = 0;
	put_timestamp(e, time, true);
	if (begins)
		put(e, HEADER_TRACE_ON);
	put_address_and_context(e, address);
}

void etm_pause(struct etm *e)
{
	etm_flush(e);
	put(e, HEADER_TRACE_ON);
}

void etm_trace_on(struct etm *e, uint64_t address)
{
	etm_flush(e);
	e->depth = 0;
	put(e, HEADER_TRACE_ON);
	put_address_and_context(e, address);
}

void etm_exception(struct etm *e, enum etm_exception type, uint64_t to, bool target)
{
	etm_flush(e);
	put(e, HEADER_EXCEPTION);
	/* E1:E0 01: the address is the preferred return address; 10: it is also the target of the last branch. */
	put(e, (uint8_t)((target ? 0x40 : 0x01) | type << 1));
	put_address(e, to);
	e->depth = 0;
}

void etm_exception_return(struct etm *e)
{
	etm_flush(e);
	put(e, HEADER_EXCEPTION_RETURN);
}

void etm_cycles(struct etm *e, uint64_t now)
{
	uint64_t count = now - e->counted, above = count - e->threshold;

	if (!count || count < e->threshold)
		return;
	etm_flush(e);
	e->counted = now;
	if (above < 4) {
		put(e, (uint8_t)(HEADER_CYCLES_3 | above));
	} else if (above < 16) {
		put(e, HEADER_CYCLES_2);
		put(e, (uint8_t)above);
	} else {
		put(e, HEADER_CYCLES_1);
		for (; above > 0x7f; above >>= 7)
			put(e, (uint8_t)(0x80 | (above & 0x7f)));
		put(e, (uint8_t)above);
	}
}
