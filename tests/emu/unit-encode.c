/* SPDX-License-Identifier: MIT */
/*
 * lib/emu/etm-encode: the bytes of each packet, as defined by IHI0064 ("Instruction trace packets"); atoms in the
 * fewest packets; random walks through random code, of which OpenCSD must decode each instruction.
 */
#include "config.h"

#include <stdlib.h>

#include "lib/base/util.h"
#include "lib/emu/etm-encode.h"
#include "lib/etm/engine.h"
#include "tests/unit.h"

enum { RING = 1 << 22 };

static uint8_t ring[RING];
static struct etm e;

static void begin(bool return_stack, uint32_t context)
{
	memset(ring, 0xaa, sizeof(ring));
	etm_init(&e, ring, RING, return_stack, context);
}

/* The bytes written since the last call, in hexadecimal. */
static const char *written(void)
{
	static uint64_t from;
	static char text[1024];
	size_t n = 0;

	if (from > e.head)
		from = 0;
	text[0] = 0;
	for (; from < e.head; from++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%02x", n ? " " : "", ring[from & (RING - 1)]);
	return text;
}

static void test_sync(void)
{
	begin(true, 0x01020304);
	written();
	etm_sync(&e, 0x0123456789abcdef, 0x0000aaaabbbb1234, true);
	CHECK_STR(written(), "00 00 00 00 00 00 00 00 00 00 00 80 " /* A-sync */
			     "01 01 00 "                            /* trace info: one INFO byte, nothing enabled */
			     "02 ef 9b af cd f8 ac d1 91 01 "       /* a whole timestamp */
			     "04 "                                  /* trace on */
			     "85 0d 09 bb bb aa aa 00 00 b0 04 03 02 01"); /* address and context, EL0 */
	etm_sync(&e, 0x80, 0x0000aaaabbbb1234, false);
	CHECK_STR(written(), "00 00 00 00 00 00 00 00 00 00 00 80 01 01 00 02 80 81 80 80 80 80 80 80 00 "
			     "85 0d 09 bb bb aa aa 00 00 b0 04 03 02 01");
}

static void test_addresses(void)
{
	begin(false, 7);
	etm_sync(&e, 1, 0x0000aaaabbbb1234, true);
	written();
	etm_address(&e, 0x0000aaaabbbb1234);
	CHECK_STR(written(), "90");
	etm_address(&e, 0x0000aaaabbbb1200); /* bits 8:2 differ */
	CHECK_STR(written(), "95 00");
	etm_address(&e, 0x0000aaaabbba1200); /* bit 16 too: two bytes */
	CHECK_STR(written(), "95 80 09");
	etm_address(&e, 0x0000aaaabbbb1200);
	CHECK_STR(written(), "91");
	etm_address(&e, 0x0000aaaabbbb1234); /* the third: 1200, a1200, 1200, 1234, 1234 */
	CHECK_STR(written(), "95 0d");
	etm_address(&e, 0x0000aaaabbba1200);
	CHECK_STR(written(), "92");
	etm_address(&e, 0x0000aaaa3bbb1200);
	CHECK_STR(written(), "9a 00 09 bb 3b");
	etm_address(&e, 0x0000aaab3bbb1200);
	CHECK_STR(written(), "9d 00 09 bb 3b ab aa 00 00");
	etm_address(&e, 0xffffffffffffff00); /* near the value of an invalid entry */
	CHECK_STR(written(), "9d 40 7f ff ff ff ff ff ff");
}

static void test_timestamps(void)
{
	begin(false, 7);
	etm_sync(&e, 0x10000, 0x1000, true);
	written();
	etm_timestamp(&e, 0x10001);
	CHECK_STR(written(), "02 01");
	etm_timestamp(&e, 0x10081); /* bit 7 changes: two bytes */
	CHECK_STR(written(), "02 81 01");
	etm_timestamp(&e, 0x10081);
	CHECK_STR(written(), "02 01");
	etm_timestamp(&e, 0x0100000000010081);
	CHECK_STR(written(), "02 81 81 84 80 80 80 80 80 01");
	etm_timestamp(&e, 0x0080000000010081); /* bits 55 and 56 change */
	CHECK_STR(written(), "02 81 81 84 80 80 80 80 c0 00");
}

static void test_exceptions(void)
{
	begin(false, 0x11);
	etm_sync(&e, 1, 0x1000, true);
	written();
	etm_exception(&e, ETM_CALL, 0x1004, false);
	CHECK_STR(written(), "06 05 95 01");
	etm_trace_on(&e, 0x1004);
	CHECK_STR(written(), "04 82 01 08 00 00 b0 11 00 00 00");
	etm_exception(&e, ETM_DATA_FAULT, 0x1004, false);
	CHECK_STR(written(), "06 19 90");
	etm_exception(&e, ETM_IRQ, 0x1004, true);
	CHECK_STR(written(), "06 5c 90");
	etm_exception_return(&e);
	CHECK_STR(written(), "07");
	etm_atom(&e, false);
	etm_exception(&e, ETM_TRAP, 0x1004, false); /* pending atoms come first */
	CHECK_STR(written(), "f6 06 07 90");
}

/* Threshold 5: counts in each of the three formats, and none below the threshold. */
static void test_cycles(void)
{
	begin(false, 1);
	etm_configure(&e, ETM_CONFIGR_CCI, 5);
	etm_sync(&e, 1, 0x1000, true);
	CHECK_EQ(ring[12] << 24 | ring[13] << 16 | ring[14] << 8 | ring[15],
		 0x01090105); /* trace info, with its threshold */
	written();
	etm_atom(&e, true);
	etm_cycles(&e, 4);
	CHECK_STR(written(), "");
	etm_cycles(&e, 5);
	CHECK_STR(written(), "f7 10");
	etm_cycles(&e, 13); /* 8 */
	CHECK_STR(written(), "13");
	etm_cycles(&e, 22); /* 9 */
	CHECK_STR(written(), "0c 04");
	etm_cycles(&e, 42); /* 20 */
	CHECK_STR(written(), "0c 0f");
	etm_cycles(&e, 63); /* 21 */
	CHECK_STR(written(), "0e 10");
	etm_cycles(&e, 0x1000 + 63);
	CHECK_STR(written(), "0e fb 1f");
	begin(false, 1);
	etm_configure(&e, ETM_CONFIGR_CCI, 0x123);
	etm_sync(&e, 1, 0x1000, true);
	CHECK_EQ(ring[15] << 8 | ring[16], 0xa302);
}

static void test_broadcast(void)
{
	begin(false, 1);
	etm_configure(&e, ETM_CONFIGR_BB | ETM_CONFIGR_RS, 0);
	etm_sync(&e, 1, 0x1000, true);
	written();
	etm_direct(&e, 0x1010, 0x1004);
	CHECK_STR(written(), "f7 95 04");
	etm_atom(&e, false);
	etm_indirect(&e, 0x1004, 0); /* with the return stack, no address would be needed */
	CHECK_STR(written(), "da 95 01");
}

/* E and N, the oldest first. */
static const char *atoms(const char *text)
{
	begin(false, 1);
	written();
	for (; *text; text++)
		etm_atom(&e, *text == 'E');
	etm_flush(&e);
	return written();
}

static void test_atoms(void)
{
	CHECK_STR(atoms("N"), "f6");
	CHECK_STR(atoms("E"), "f7");
	CHECK_STR(atoms("NE"), "da");
	CHECK_STR(atoms("EN"), "d9");
	CHECK_STR(atoms("EEN"), "fb");
	CHECK_STR(atoms("NNE"), "fc");
	CHECK_STR(atoms("NEEE"), "dc");
	CHECK_STR(atoms("NNNN"), "dd");
	CHECK_STR(atoms("NENE"), "de");
	CHECK_STR(atoms("ENEN"), "df");
	CHECK_STR(atoms("NNNNN"), "d5");
	CHECK_STR(atoms("NENEN"), "d6");
	CHECK_STR(atoms("ENENE"), "d7");
	CHECK_STR(atoms("NEEEE"), "f5");
	CHECK_STR(atoms("EEEE"), "c0");
	CHECK_STR(atoms("EEEN"), "e0");
	CHECK_STR(atoms("EEEEEEEEEEEEEEEEEEEEEEEE"), "d4");
	CHECK_STR(atoms("EEEEEEEEEEEEEEEEEEEEEEEN"), "f4");
	CHECK_STR(atoms("EEEEEEEEEEEEEEEEEEEEEEEEE"), "d4 f7");
}

/* The number of atoms in a packet, by the table in the manual; 0: not an atom packet. */
static unsigned atoms_of(uint8_t packet, uint32_t *ret)
{
	if (packet >= 0xf8)
		return *ret = packet & 7, 3;
	if (packet >= 0xf6)
		return *ret = packet & 1, 1;
	switch (packet) {
	case 0xd5:
		return *ret = 0x00, 5;
	case 0xd6:
		return *ret = 0x0a, 5;
	case 0xd7:
		return *ret = 0x15, 5;
	case 0xf5:
		return *ret = 0x1e, 5;
	case 0xdc:
		return *ret = 0xe, 4;
	case 0xdd:
		return *ret = 0x0, 4;
	case 0xde:
		return *ret = 0xa, 4;
	case 0xdf:
		return *ret = 0x5, 4;
	}
	if (packet >= 0xd8 && packet <= 0xdb)
		return *ret = packet & 3, 2;
	if (packet < 0xc0)
		return 0;
	*ret = (1u << ((packet & 31) + 3)) - 1;
	if (!(packet & 32))
		*ret |= 1u << ((packet & 31) + 3);
	return (packet & 31) + 4u;
}

/* The least number of packets for n atoms, by trying all partitions. */
static unsigned fewest(const bool *atom, unsigned n)
{
	static uint16_t best[4096 + 1];

	best[0] = 0;
	for (unsigned i = 1; i <= n; i++) {
		best[i] = UINT16_MAX;
		for (unsigned packet = 0xc0; packet < 0x100; packet++) {
			uint32_t bits;
			unsigned k = atoms_of((uint8_t)packet, &bits);
			bool fits = k && k <= i;

			for (unsigned j = 0; fits && j < k; j++)
				fits = atom[i - k + j] == (bits >> j & 1);
			if (fits)
				best[i] = (uint16_t)MIN(best[i], best[i - k] + 1);
		}
	}
	return best[n];
}

static bool packed(const bool *atom, unsigned n)
{
	unsigned at = 0;

	begin(false, 1);
	for (unsigned i = 0; i < n; i++)
		etm_atom(&e, atom[i]);
	etm_flush(&e);
	for (uint64_t i = 0; i < e.head; i++) {
		uint32_t bits;
		unsigned k = atoms_of(ring[i], &bits);

		if (!k || k > n - at)
			return false;
		for (unsigned j = 0; j < k; j++)
			if (atom[at++] != (bits >> j & 1))
				return false;
	}
	return at == n && e.head == fewest(atom, n);
}

static void test_fewest(void)
{
	static bool atom[4096];
	unsigned wrong = 0;

	for (unsigned n = 1; n <= 12; n++)
		for (unsigned bits = 0; bits < 1u << n; bits++) {
			for (unsigned i = 0; i < n; i++)
				atom[i] = bits >> i & 1;
			wrong += !packed(atom, n);
		}
	CHECK_EQ(wrong, 0); /* every sequence of up to 12 */
	srandom(1);
	for (unsigned round = 0; round < 40; round++) {
		/* The share of E atoms grows from nearly none to nearly all. */
		for (unsigned i = 0; i < ELEMENTS(atom); i++)
			atom[i] = (unsigned)random() % 40 < round;
		wrong += !packed(atom, ELEMENTS(atom));
	}
	CHECK_EQ(wrong, 0); /* long ones */
}

/* Random code in three places, so that the trace needs addresses of each length. */
enum { WORDS = 4096, REGIONS = 3, STEPS = 200000 };
static const uint64_t region_at[REGIONS] = { 0x400000, 0x40400000, 0x7f8000000000 };
static uint32_t code[REGIONS][WORDS];

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	for (unsigned i = 0; i < REGIONS; i++)
		if (address >= region_at[i] && address < region_at[i] + sizeof(code[i])) {
			size = MIN(size, region_at[i] + sizeof(code[i]) - address);
			memcpy(ret, (uint8_t *)code[i] + (address - region_at[i]), size);
			return size;
		}
	return 0;
}

static uint64_t same_version(void *user, const struct engine_context *context)
{
	return 0;
}

static void make_code(void)
{
	for (unsigned r = 0; r < REGIONS; r++)
		for (unsigned i = 0; i < WORDS; i++) {
			uint32_t far = (uint32_t)random() % WORDS, near = (uint32_t)((int)(random() % 64) - 32);
			uint32_t op = 0xd503201f; /* NOP */

			if (i + near >= WORDS)
				near = 2;
			switch (random() % 24) {
			case 0:
				op = 0x14000000 | ((far - i) & 0x3ffffff); /* B */
				break;
			case 1:
			case 2:
				op = 0x94000000 | ((far - i) & 0x3ffffff); /* BL */
				break;
			case 3:
			case 4:
				op = 0x54000000 | (near & 0x7ffff) << 5; /* B.EQ */
				break;
			case 5:
				op = 0xb4000000 | (near & 0x7ffff) << 5; /* CBZ */
				break;
			case 6:
				op = 0x37000000 | (near & 0x3fff) << 5; /* TBNZ */
				break;
			case 7:
			case 8:
				op = 0xd65f03c0; /* RET */
				break;
			case 9:
				op = 0xd61f0000; /* BR */
				break;
			case 10:
				op = 0xd63f0000; /* BLR */
				break;
			case 11:
				op = 0xd5033fdf; /* ISB */
				break;
			case 12:
				op = 0xd4000001; /* SVC */
				break;
			}
			code[r][i] = i == WORDS - 1 ? 0xd61f0000 : op;
		}
}

static uint64_t anywhere(void)
{
	return region_at[random() % REGIONS] + 4 * ((uint64_t)random() % WORDS);
}

static uint64_t walked[STEPS * 2];
static size_t n_walked, n_seen, n_counted, n_counts, n_torn, first_wrong;

static void conditional(bool taken, uint64_t next)
{
	if (taken)
		etm_direct(&e, next, 0);
	else
		etm_atom(&e, false);
}

/*
 * Executes a random walk through the code, with calls and returns, and passes it to the encoder. Exceptions occur
 * before some instructions; tracing continues elsewhere after each.
 */
static void walk(uint32_t configr, uint16_t threshold, uint64_t sync)
{
	static uint64_t calls[64];
	unsigned depth = 0;
	uint64_t pc = anywhere(), next_sync, time = 1000;
	uint32_t op;

	begin(false, 0x1234);
	etm_configure(&e, configr, threshold);
	etm_sync(&e, time, pc, true);
	next_sync = e.head + sync;
	for (n_walked = 0; n_walked < STEPS;) {
		bool taken = random() % 2;
		uint64_t next = pc + 4;

		if (random() % 300 == 0) {
			etm_exception(&e, random() % 2 ? ETM_DATA_FAULT : ETM_IRQ, pc, false);
			pc = anywhere();
			if (random() % 2)
				etm_exception_return(&e);
			etm_trace_on(&e, pc);
			continue;
		}
		read_code(NULL, NULL, pc, &op, sizeof(op));
		walked[n_walked++] = pc;
		if (op == 0xd4000001) {
			etm_exception(&e, ETM_CALL, next, false);
			etm_exception_return(&e);
			etm_trace_on(&e, next);
			etm_timestamp(&e, time += (uint64_t)random() % 100000);
		} else if (op >> 26 == 5 || op >> 26 == 0x25) {
			next = pc + (uint64_t)((int64_t)((uint64_t)op << 38) >> 36);
			etm_direct(&e, next, op >> 31 ? pc + 4 : 0);
			if (op >> 31)
				calls[depth++ % 64] = pc + 4;
		} else if (op >> 24 == 0x54 || op >> 24 == 0xb4) {
			if (taken)
				next = pc + (uint64_t)((int64_t)((uint64_t)(op >> 5 & 0x7ffff) << 45) >> 43);
			conditional(taken, next);
		} else if (op >> 24 == 0x37) {
			if (taken)
				next = pc + (uint64_t)((int64_t)((uint64_t)(op >> 5 & 0x3fff) << 50) >> 48);
			conditional(taken, next);
		} else if (op == 0xd65f03c0 && depth && random() % 8) {
			next = calls[--depth % 64];
			etm_indirect(&e, next, 0);
		} else if (op == 0xd65f03c0 || op == 0xd61f0000 || op == 0xd63f0000) {
			next = anywhere();
			etm_indirect(&e, next, op == 0xd63f0000 ? pc + 4 : 0);
			if (op == 0xd63f0000)
				calls[depth++ % 64] = pc + 4;
		} else if (op == 0xd5033fdf) {
			etm_direct(&e, next, 0);
		}
		if (e.cycles && op != 0xd503201f)
			etm_cycles(&e, n_walked);
		/* The decoder has walked to the same instruction here. */
		if (op != 0xd503201f && op != 0xd4000001) {
			if (e.head >= next_sync) {
				etm_sync(&e, time += 50, next, false);
				next_sync = e.head + sync;
			} else if (random() % 100 == 0) {
				etm_timestamp(&e, time += (uint64_t)random() % 1000);
			}
		}
		pc = next;
	}
	etm_exception(&e, ETM_IRQ, pc, false);
}

static int compare(void *user, const struct element *el)
{
	if (el->kind == ELEM_NO_IMAGE ||
	    (el->kind == ELEM_NO_SYNC && el->reason != REASON_INIT && el->reason != REASON_RESET))
		first_wrong = MIN(first_wrong, n_seen);
	if (el->kind == ELEM_CYCLES) {
		if (el->cycles != n_seen - n_counted)
			first_wrong = MIN(first_wrong, n_seen);
		n_counted = n_seen;
		n_counts++;
	}
	if (el->kind != ELEM_RANGE)
		return 0;
	n_torn += el->torn;
	for (uint64_t pc = el->range.start; pc < el->range.end; pc += 4, n_seen++)
		if (n_seen >= n_walked || walked[n_seen] != pc)
			first_wrong = MIN(first_wrong, n_seen);
	return 0;
}

/* Decodes the trace with OpenCSD. Returns the engine, which the caller closes, or NULL. */
static struct engine *decode(uint32_t configr)
{
	struct engine_config config = { .protocol = PROTOCOL_ETMV4 };
	struct engine_memory memory = { .read = read_code, .version = same_version };
	struct element_sink sink = { .element = compare };
	struct engine *engine;
	struct emu_regs regs;

	etm_regs(false, &regs);
	config.trace_id = (uint8_t)regs.traceidr;
	config.configr = configr;
	config.traceidr = regs.traceidr;
	config.idr0 = regs.idr0;
	config.idr1 = regs.idr1;
	config.idr2 = regs.idr2;
	config.idr8 = regs.idr8;
	n_seen = n_counted = n_counts = n_torn = 0;
	first_wrong = SIZE_MAX;
	if (!CHECK_EQ(opencsd_engine_ops.open(&config, &memory, &sink, &engine), 0))
		return NULL;
	CHECK_EQ(opencsd_engine_ops.push(engine, ring, e.head), 0);
	CHECK_EQ(opencsd_engine_ops.finish(engine), 0);
	return engine;
}

static void follow(uint32_t configr, uint16_t threshold, uint64_t sync)
{
	struct engine_stats stats;
	struct engine *engine;

	walk(configr, threshold, sync);
	engine = decode(configr);
	if (!engine)
		return;
	opencsd_engine_ops.stats(engine, &stats);
	CHECK_EQ(n_torn, 0);
	CHECK_EQ(stats.restarts, 0);
	CHECK_EQ(first_wrong, SIZE_MAX);
	CHECK_EQ(n_seen, n_walked);
	CHECK_EQ(n_counts > 0, (configr & ETM_CONFIGR_CCI) != 0);
	printf("# TRCCONFIGR %x, synchronised every %" PRIu64 " bytes: %zu instructions in %" PRIu64
	       " bytes, %zu counts of cycles\n",
	       configr, sync, n_seen, e.head, n_counts);
	opencsd_engine_ops.close(engine);
}

static void test_walks(void)
{
	srandom(2);
	make_code();
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t configr = 1 | ETM_CONFIGR_CID | ETM_CONFIGR_TS | (i ? ETM_CONFIGR_RS : 0);

		follow(configr, 0, 1 << 20);
		follow(configr, 0, 4096);
		follow(configr, 0, 100);
		follow(configr | ETM_CONFIGR_BB, 0, 4096);
		follow(configr | ETM_CONFIGR_CCI, 0, 4096);
		follow(configr | ETM_CONFIGR_CCI, 4, 4096);
		follow(configr | ETM_CONFIGR_CCI | ETM_CONFIGR_BB, 300, 4096);
		follow((configr | ETM_CONFIGR_CCI) & ~(uint32_t)(ETM_CONFIGR_TS | ETM_CONFIGR_CID), 4095, 4096);
	}
}

/* An address packet that contradicts the target of the branch before it. */
static void test_torn(void)
{
	uint64_t pc;
	uint32_t op;

	do {
		pc = anywhere();
		read_code(NULL, NULL, pc, &op, sizeof(op));
	} while (op >> 26 != 5 || !(op & 0x3ffffff));
	begin(false, 0x1234);
	etm_sync(&e, 1000, pc, true);
	etm_branch(&e, 0);
	etm_flush(&e);
	etm_address(&e, pc);
	etm_branch(&e, 0);
	etm_flush(&e);
	n_walked = 0;
	opencsd_engine_ops.close(decode(false));
	CHECK_EQ(n_seen, 2);
	CHECK_EQ(n_torn, 1);
}

/* A small ring holds the newest bytes at their offsets modulo its size. */
static void test_wrap(void)
{
	static uint8_t small[256];
	struct etm s;

	begin(false, 3);
	etm_init(&s, small, sizeof(small), false, 3);
	etm_sync(&e, 5, 0x1000, true);
	etm_sync(&s, 5, 0x1000, true);
	srandom(3);
	for (unsigned i = 0; i < 500; i++) {
		uint64_t to = (uint64_t)random() << 2;

		etm_address(&e, to);
		etm_address(&s, to);
	}
	CHECK_EQ(s.head, e.head);
	for (uint64_t i = e.head - sizeof(small); i < e.head; i++)
		if (small[i % sizeof(small)] != ring[i]) {
			CHECK_EQ(i, e.head);
			return;
		}
	CHECK(e.head > sizeof(small));
}

/* The pending atoms of a thread that died are written once; invalid values write nothing. */
static void test_finish(void)
{
	uint8_t end[EMU_PENDING_MAX];
	uint64_t pending;

	begin(false, 1);
	etm_sync(&e, 1, 0x1000, true);
	CHECK_EQ(etm_finish_stream(e.head, etm_pending(&e), end), 0);
	etm_atom(&e, true);
	etm_atom(&e, false);
	pending = etm_pending(&e);
	CHECK_EQ(etm_finish_stream(e.head, pending, end), 1);
	CHECK_EQ(end[0], 0xd9);
	etm_flush(&e);
	CHECK_EQ(etm_finish_stream(e.head, pending, end), 0);
	CHECK_EQ(etm_finish_stream(0, UINT64_MAX, end), 0);
	CHECK_EQ(etm_finish_stream(UINT64_MAX, 0, end), 0);
}

static void test_registers(void)
{
	struct emu_regs off, on;

	etm_regs(false, &off);
	etm_regs(true, &on);
	CHECK_EQ(on.configr ^ off.configr, 1 << 12); /* RS */
	CHECK_EQ(off.configr >> 6 & 1, 1);           /* CID */
	CHECK_EQ(off.configr >> 11 & 1, 1);          /* TS */
	CHECK_EQ(off.configr & ~(1u | 1 << 6 | 1 << 11), 0);
	CHECK_EQ(on.idr0 >> 9 & 1, 1);   /* RETSTACK */
	CHECK_EQ(on.idr0 >> 24 & 31, 8); /* TSSIZE: 64 bits */
	CHECK_EQ(on.idr1 >> 8 & 15, 4);  /* ETMv4 */
	CHECK_EQ(on.idr2 & 31, 8);       /* IASIZE: 64 bits */
	CHECK_EQ(on.idr2 >> 5 & 31, 4);  /* CIDSIZE: 32 bits */
	CHECK_EQ(on.idr8, 0);            /* MAXSPEC */
}

int main(void)
{
	test_registers();
	test_sync();
	test_addresses();
	test_timestamps();
	test_exceptions();
	test_cycles();
	test_broadcast();
	test_atoms();
	test_fewest();
	test_walks();
	test_torn();
	test_wrap();
	test_finish();
	return unit_end();
}
