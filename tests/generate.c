#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "tests/generate.h"

enum { REGIONS = 3, WORDS = 1024, STACK = 16, ATOMS_MAX = 24 };
static const uint64_t region_at[REGIONS] = { 0x400000, 0xffff80400000, 0x7f8000000000 };
static const uint64_t nowhere = 0x50000000;

/* An instruction, and what a trace unit makes of it; kind is INSTR_OTHER where nothing. */
struct instruction {
	uint32_t op;
	uint8_t kind, sub;
	bool link, conditional, returns; /* returns: from an exception */
	int32_t words;			 /* to a direct branch's target */
};

struct generate_code {
	struct instruction words[REGIONS][WORDS];
};

/* An element, and the P0 element with which it is told; lasting ones are told whatever is executed. */
struct truth {
	struct element element;
	uint64_t p0;
	bool lasting, always; /* always: of the stream itself */
};

struct gen {
	uint64_t random;
	unsigned without, used;
	struct engine_config config;
	struct generate_code *code;
	unsigned version; /* 0x40.., 0x50.. */
	bool modern, waits;
	/* The processor. */
	uint64_t pc, start; /* start: of what has not been told */
	const struct instruction *last;
	uint8_t level;
	bool nonsecure, nse;
	uint32_t ctxid, vmid;
	bool told_ctxid, told_vmid;
	/* The trace unit. */
	struct buf bytes, truths;
	uint32_t atoms;
	unsigned n_atoms;
	uint64_t history[3], stamp, stack[STACK];
	unsigned entries, top;
	bool stack_waits, marked, wants_overflow;
	uint32_t threshold, depth, spec;
	uint64_t made, committed; /* P0 elements, those of atoms held back, too */
};

static uint64_t draw(struct gen *g)
{
	uint64_t z = g->random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static unsigned below(struct gen *g, unsigned n)
{
	return (unsigned)(draw(g) % n);
}

/* Once in n times, where the feature is on. */
static bool now_and_then(struct gen *g, unsigned feature, unsigned n)
{
	if (g->without & feature || below(g, n))
		return false;
	g->used |= feature;
	return true;
}

/* The program. Opcodes are those of the Arm ARM, C4.1, with fields drawn at random. */
static struct instruction plain_instruction(struct gen *g)
{
	/* Some look much like branches, or are hints around them. */
	static const uint32_t ops[] = { 0xd503201f, 0xd503245f, 0xd503233f, 0xd50323bf, 0xd50330ff, 0xd5033f9f, 0xd5033bbf, 0xd503305f,
					0x91000400, 0xf9400021, 0xf9000021, 0xa9bf7bfd, 0xa8c17bfd, 0xd5380000, 0xd51b4200, 0x52800000,
					0x1e602800, 0x4e20e400, 0x58000040, 0x10000000, 0xdac10000, 0xd50320df, 0xd5032080 };

	return (struct instruction){ .op = ops[below(g, ELEMENTS(ops))] };
}

static struct instruction indirect_instruction(struct gen *g)
{
	static const struct instruction modern[] = {
		{ 0xd71f0800, INSTR_IBR, SUB_NONE, .link = false }, /* BRAA, BRAB */
		{ 0xd61f081f, INSTR_IBR, SUB_NONE, .link = false }, /* BRAAZ, BRABZ */
		{ 0xd73f0800, INSTR_IBR, SUB_LINK, .link = true },
		{ 0xd63f081f, INSTR_IBR, SUB_LINK, .link = true },
		{ 0xd65f0bff, INSTR_IBR, SUB_RET, .link = false }, /* RETAA, RETAB */
		{ 0xd69f0bff, INSTR_IBR, SUB_ERET, .returns = true },
	};
	uint32_t n = below(g, 31) << 5;
	struct instruction i;

	if (g->modern && below(g, 2)) {
		i = modern[below(g, ELEMENTS(modern))];
		if ((i.op & 0x3e0) == 0)
			i.op |= n | ((i.op & 0x1f) ? 0 : below(g, 32));
		i.op |= below(g, 2) << 10;
		return i;
	}
	switch (below(g, 8)) {
	case 0:
	case 1:
		return (struct instruction){ 0xd61f0000 | n, INSTR_IBR, SUB_NONE };
	case 2:
	case 3:
		return (struct instruction){ 0xd63f0000 | n, INSTR_IBR, SUB_LINK, .link = true };
	case 4:
		return (struct instruction){ 0xd69f03e0, INSTR_IBR, SUB_ERET, .returns = true };
	default:
		return (struct instruction){ 0xd65f0000 | (below(g, 4) ? 30u << 5 : n), INSTR_IBR, SUB_RET };
	}
}

static struct instruction direct_instruction(struct gen *g, int32_t far, int32_t near)
{
	struct instruction i = { .kind = INSTR_BR, .conditional = true, .words = near };
	uint32_t imm19 = ((uint32_t)near & 0x7ffff) << 5, imm14 = ((uint32_t)near & 0x3fff) << 5;

	switch (below(g, 12)) {
	case 0:
	case 1:
		return (struct instruction){ 0x14000000 | ((uint32_t)far & 0x3ffffff), INSTR_BR, .words = far };
	case 2:
	case 3:
	case 4:
		return (struct instruction){ 0x94000000 | ((uint32_t)far & 0x3ffffff), INSTR_BR, SUB_LINK, .link = true, .words = far };
	case 5:
	case 6:
	case 7:
		i.op = 0x54000000 | imm19 | below(g, g->modern ? 32 : 16);
		break;
	case 8:
	case 9:
		i.op = 0x34000000 | below(g, 2) << 31 | below(g, 2) << 24 | imm19 | below(g, 32);
		break;
	default:
		i.op = 0x36000000 | below(g, 2) << 31 | below(g, 2) << 24 | below(g, 32) << 19 | imm14 | below(g, 32);
		break;
	}
	return i;
}

static struct instruction rare_instruction(struct gen *g, int32_t near)
{
	if (now_and_then(g, GENERATE_COMPARE_BRANCHES, 6)) {
		/* CB of registers, CBB, CBH, CB of an immediate; not called conditional, as OpenCSD has it. */
		static const uint32_t ops[] = { 0x74000000, 0xf4000000, 0x74008000, 0x7400c000, 0x75000000, 0xf5000000 };

		return (struct instruction){ ops[below(g, ELEMENTS(ops))] | below(g, 8) << 16 | ((uint32_t)near & 0x1ff) << 5 | below(g, 32),
					     INSTR_BR, .words = near };
	}
	if (g->modern && now_and_then(g, GENERATE_PAUTH_LR, 6))
		/* RETAASPPC label, RETAASPPCR; and B key. */
		return below(g, 2) ? (struct instruction){ 0x5500001f | below(g, 2) << 21 | below(g, 0x10000) << 5, INSTR_IBR, SUB_RET }
				   : (struct instruction){ 0xd65f0be0 | below(g, 2) << 10 | below(g, 31), INSTR_IBR, SUB_RET };
	if (g->modern && now_and_then(g, GENERATE_TRANSACTIONS, 4))
		return (struct instruction){ 0xd5233060 | below(g, 32), INSTR_TSTART };
	if (below(g, 3) == 0)
		return (struct instruction){ 0xd503205f | below(g, 2) << 5, g->waits ? INSTR_WFI : INSTR_OTHER };
	if (g->modern && below(g, 3) == 0)
		return (struct instruction){ 0xd5031000 | below(g, 64), g->waits ? INSTR_WFI : INSTR_OTHER };
	return (struct instruction){ 0xd5033fdf, INSTR_ISB };
}

static void make_code(struct gen *g)
{
	static const uint32_t traps[] = { 0xd4000001, 0xd4000002, 0xd4000003 };

	for (unsigned r = 0; r < REGIONS; r++)
		for (int32_t i = 0; i < WORDS; i++) {
			struct instruction *to = &g->code->words[r][i];
			int32_t near = (int32_t)below(g, 64) - 32, far = (int32_t)below(g, WORDS) - i;

			if (i + near < 0 || i + near >= WORDS - 1 || !near)
				near = -MIN(i, 3);
			switch (below(g, 16)) {
			case 0:
			case 1:
			case 2:
				*to = direct_instruction(g, far, near);
				break;
			case 3:
			case 4:
				*to = indirect_instruction(g);
				break;
			case 5:
				*to = rare_instruction(g, near);
				break;
			case 6:
				*to = (struct instruction){ .op = traps[below(g, ELEMENTS(traps))] | below(g, 0x10000) << 5 };
				break;
			default:
				*to = plain_instruction(g);
			}
			if (i == WORDS - 1)
				*to = (struct instruction){ 0xd61f0000, INSTR_IBR };
		}
}

static const struct instruction *instruction_at(const struct generate_code *code, uint64_t address)
{
	for (unsigned r = 0; r < REGIONS; r++)
		if (address >= region_at[r] && address - region_at[r] < 4 * WORDS)
			return &code->words[r][(address - region_at[r]) / 4];
	return NULL;
}

size_t generate_read(void *code, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	uint8_t *to = ret;
	size_t n = 0;

	for (; n < size; n++) {
		const struct instruction *i = instruction_at(code, address + n);

		if (!i)
			break;
		to[n] = (uint8_t)(i->op >> (8 * ((address + n) & 3)));
	}
	return n;
}

static uint64_t anywhere(struct gen *g)
{
	return region_at[below(g, REGIONS)] + 4 * below(g, WORDS);
}

/* What a decoder has to tell. */
static struct element *tell(struct gen *g, enum element_kind kind, uint64_t p0)
{
	struct truth t = { .element = { .kind = kind, .isa = ISA_A64 }, .p0 = p0 };
	struct truth *to;

	t.lasting = kind == ELEM_TIMESTAMP || kind == ELEM_CYCLES || kind == ELEM_EVENT || kind == ELEM_MARKER ||
		    kind == ELEM_INSTRUMENTATION;
	buf_add(&g->truths, &t, sizeof(t));
	if (buf_error(&g->truths))
		abort();
	to = (struct truth *)g->truths.data + g->truths.size / sizeof(t) - 1;
	to->always = kind == ELEM_NO_SYNC || kind == ELEM_END;
	return &to->element;
}

static void tell_range(struct gen *g, bool taken, uint64_t p0)
{
	struct element *e;

	if (g->start != g->pc) {
		e = tell(g, ELEM_RANGE, p0);
		e->taken = taken;
		e->instr = g->last->kind;
		e->sub = g->last->sub;
		e->conditional = g->last->conditional;
		e->range.start = g->start;
		e->range.end = g->pc;
		e->range.count = (uint32_t)(g->pc - g->start) / 4;
	}
	g->start = g->pc;
}

/* Bytes. */
static void put(struct gen *g, unsigned byte)
{
	buf_u8(&g->bytes, (uint8_t)byte);
}

static void put_field(struct gen *g, uint32_t value)
{
	for (; value > 0x7f; value >>= 7)
		put(g, 0x80 | (value & 0x7f));
	put(g, value);
}

static void put_bytes(struct gen *g, uint64_t value, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		put(g, (uint8_t)(value >> (8 * i)));
}

/* P0 elements that went out: what is deeper than can be is committed by that. */
static void deepen(struct gen *g, unsigned n)
{
	g->depth += n;
	if (g->depth > g->spec) {
		g->committed += g->depth - g->spec;
		g->depth = g->spec;
	}
}

/* The atoms that a packet says, the oldest in bit 0 (IHI0064, "Atom instruction trace packets"). */
static unsigned atoms_of(unsigned packet, uint32_t *ret)
{
	static const uint8_t five[] = { 0x00, 0x0a, 0x15 }, four[] = { 0xe, 0x0, 0xa, 0x5 };

	if (packet >= 0xf8)
		return *ret = packet & 7, 3;
	if (packet >= 0xf6)
		return *ret = packet & 1, 1;
	if (packet == 0xf5)
		return *ret = 0x1e, 5;
	if (packet >= 0xdc && packet <= 0xdf)
		return *ret = four[packet & 3], 4;
	if (packet >= 0xd8 && packet <= 0xdb)
		return *ret = packet & 3, 2;
	if (packet >= 0xd5 && packet <= 0xd7)
		return *ret = five[packet - 0xd5], 5;
	*ret = (1u << ((packet & 31) + 3)) - 1;
	if (!(packet & 32))
		*ret |= 1u << ((packet & 31) + 3);
	return (packet & 31) + 4;
}

static void flush(struct gen *g)
{
	while (g->n_atoms) {
		unsigned fits[64], n = 0;
		uint32_t bits;

		for (unsigned packet = 0xc0; packet < 0x100; packet++) {
			unsigned k = atoms_of(packet, &bits);

			if (k <= g->n_atoms && !((g->atoms ^ bits) & ((1u << k) - 1)))
				fits[n++] = packet;
		}
		n = fits[below(g, n)];
		put(g, n);
		n = atoms_of(n, &bits);
		g->atoms >>= n;
		g->n_atoms -= n;
		deepen(g, n);
	}
}

static void atom(struct gen *g, bool taken)
{
	g->atoms |= (uint32_t)taken << g->n_atoms++;
	g->made++;
	if (g->n_atoms == ATOMS_MAX || below(g, 6) == 0)
		flush(g);
}

static void remember(struct gen *g, uint64_t address)
{
	g->history[2] = g->history[1];
	g->history[1] = g->history[0];
	g->history[0] = address;
}

static void put_short(struct gen *g, uint64_t address, bool two)
{
	put(g, (two ? 0x80u : 0) | (unsigned)(address >> 2 & 0x7f));
	if (two)
		put(g, (unsigned)(address >> 9 & 0xff));
}

static void put_long(struct gen *g, uint64_t address, unsigned size)
{
	put(g, address >> 2 & 0x7f);
	put(g, address >> 9 & 0x7f);
	put_bytes(g, address >> 16, size - 2);
}

/* In any form that says it: what headers each has, of which only some have some. */
struct address_headers {
	uint8_t match, one, long32, long64;
};

static void put_address_as(struct gen *g, uint64_t address, const struct address_headers *h)
{
	uint64_t differs = address ^ g->history[0];
	unsigned forms[6], n = 0;

	for (unsigned i = 0; i < 3; i++)
		if (g->history[i] == address)
			forms[n++] = i;
	if (!(differs >> 9))
		forms[n++] = 3;
	if (!(differs >> 17))
		forms[n++] = 4;
	if (!(differs >> 32))
		forms[n++] = 5;
	n = n && below(g, 8) ? forms[below(g, n)] : h->long64 ? 6 : forms[n - 1];
	if (n < 3) {
		put(g, h->match + n);
	} else if (n < 5) {
		put(g, h->one);
		put_short(g, address, n == 4);
	} else {
		put(g, n == 5 ? h->long32 : h->long64);
		put_long(g, address, n == 5 ? 4 : 8);
	}
	remember(g, address);
}

static void put_address(struct gen *g, uint64_t address)
{
	put_address_as(g, address, &(struct address_headers){ 0x90, 0x95, 0x9a, 0x9d });
	g->stack_waits = false;
}

/* tells: it is one that a decoder tells of, with the next P0 element. */
static void put_context(struct gen *g, bool tells)
{
	unsigned vmid_bytes = g->config.idr2 >> 10 & 31;
	bool ctxid = g->config.configr >> 6 & 1, vmid = g->config.configr >> 7 & 1;
	struct element *e;

	/* IDs that have been told need not be again. */
	ctxid = ctxid && (!g->told_ctxid || below(g, 4));
	vmid = vmid && (!g->told_vmid || below(g, 4));
	if (ctxid && below(g, 3) == 0)
		g->ctxid = (uint32_t)draw(g);
	if (vmid && below(g, 3) == 0)
		g->vmid = (uint32_t)(draw(g) & (UINT32_MAX >> (32 - 8 * vmid_bytes)));
	put(g, g->level | g->nse << 3 | 0x10 | g->nonsecure << 5 | vmid << 6 | ctxid << 7);
	if (vmid)
		put_bytes(g, g->vmid, vmid_bytes);
	if (ctxid)
		put_bytes(g, g->ctxid, 4);
	g->told_ctxid |= ctxid;
	g->told_vmid |= vmid;
	if (!tells)
		return;
	e = tell(g, ELEM_CONTEXT, g->made + 1);
	e->context.level = g->level;
	e->context.bits = 64;
	e->context.security = "SNRr"[2 * g->nse + g->nonsecure];
	e->context.has_ctxid = g->told_ctxid;
	e->context.ctxid = g->told_ctxid ? g->ctxid : 0;
	e->context.has_vmid = g->told_vmid;
	e->context.vmid = g->told_vmid ? g->vmid : 0;
}

static void put_address_and_context(struct gen *g, uint64_t address)
{
	bool near = !((address ^ g->history[0]) >> 32) && below(g, 8);

	if (below(g, 4) == 0) {
		bool first = below(g, 2);

		if (first)
			put_address(g, address);
		put(g, 0x81);
		put_context(g, true);
		if (!first)
			put_address(g, address);
		return;
	}
	put(g, near ? 0x82 : 0x85);
	put_long(g, address, near ? 4 : 8);
	remember(g, address);
	put_context(g, true);
	g->stack_waits = false;
}

static void commit(struct gen *g, uint32_t n)
{
	g->committed += n;
	g->depth -= n;
}

static void put_cycles(struct gen *g)
{
	uint32_t n = 0, above = below(g, 4) ? below(g, 20) : below(g, 0x10000);
	bool commits = !(g->config.idr0 >> 29 & 1), unknown = below(g, 8) == 0;
	struct element *e;

	if (commits && !g->depth)
		return;
	if (commits)
		n = 1 + below(g, g->depth);
	g->used |= GENERATE_CYCLES;
	e = tell(g, ELEM_CYCLES, g->made + 1);
	e->has_cycles = true;
	e->cycles = unknown ? 0 : g->threshold + above;
	if (!unknown && above < 4 && (!commits || n <= 4)) {
		put(g, 0x10 | above | (commits ? (n - 1) << 2 : 0));
	} else if (!unknown && above < 16 && (!commits || n <= 16)) {
		put(g, 0x0c);
		put(g, above | (commits ? (n - 1) << 4 : 0));
	} else {
		put(g, 0x0e | unknown);
		if (commits)
			put_field(g, n);
		if (!unknown)
			put_field(g, above);
	}
	if (commits)
		commit(g, n);
}

static void put_timestamp(struct gen *g, bool whole)
{
	uint64_t time = g->stamp + (below(g, 4) ? below(g, 1000) : draw(g) >> below(g, 64)), changed = whole ? time : time ^ g->stamp;
	bool cycles = g->config.configr >> 4 & 1, counted = cycles && below(g, 2);
	uint32_t count = counted ? below(g, 0x10000) : 0;
	unsigned bytes = 1;

	while (bytes < 9 && changed >> (7 * bytes))
		bytes++;
	put(g, 0x02 | counted);
	for (unsigned i = 0; i < bytes - 1; i++)
		put(g, 0x80 | (time >> (7 * i) & 0x7f));
	put(g, (unsigned)(bytes == 9 ? time >> 56 : time >> (7 * (bytes - 1)) & 0x7f));
	if (counted)
		put_field(g, count);
	g->stamp = time;
	/* Where there are markers, the first timestamps are of nobody knows when. */
	if (g->config.idr0 >> 23 & 1 && !g->marked)
		return;
	*tell(g, ELEM_TIMESTAMP, g->made + 1) =
	    (struct element){ .kind = ELEM_TIMESTAMP, .isa = ISA_A64, .value = time, .has_cycles = cycles, .cycles = count };
}

static void put_marker(struct gen *g)
{
	put(g, 0x88);
	tell(g, ELEM_MARKER, g->made + 1);
	g->marked = true;
	g->used |= GENERATE_MARKERS;
}

static void put_event(struct gen *g)
{
	unsigned which = 1 + below(g, 15);

	put(g, 0x70 | which);
	tell(g, ELEM_EVENT, g->made + 1)->value = which;
}

/* Commits all that went out, or some of it. */
static void put_commit(struct gen *g, bool all)
{
	uint32_t n = all ? g->depth : g->depth ? 1 + below(g, g->depth) : 0;

	if (!n)
		return;
	put(g, 0x2d);
	put_field(g, n);
	commit(g, n);
}

/* The beginning of what can be decoded: alignment, trace info. Nothing before it is known to who begins here. */
static void put_sync(struct gen *g, uint32_t unseen)
{
	bool cycles = g->config.configr >> 4 & 1;

	put_bytes(g, 0, 8);
	put_bytes(g, 0, 3);
	put(g, 0x80);
	put(g, 0x01);
	put(g, 0x01 | (unseen ? 0x04 : 0) | (cycles ? 0x08 : 0));
	put_field(g, cycles);
	if (unseen)
		put_field(g, unseen);
	if (cycles)
		put_field(g, g->threshold);
	memset(g->history, 0, sizeof(g->history));
	g->entries = 0;
	g->stack_waits = true;
	/* Who begins here knows none of them. */
	g->told_ctxid = g->told_vmid = false;
	if (g->config.configr >> 11 & 1)
		put_timestamp(g, true);
	if (g->config.idr0 >> 23 & 1 && (!g->marked || below(g, 2)))
		put_marker(g);
}

static void trace_on(struct gen *g)
{
	put(g, 0x04);
	tell(g, ELEM_TRACE_ON, g->made + 1)->reason = g->wants_overflow ? REASON_OVERFLOW : REASON_BEGIN;
	g->wants_overflow = false;
	g->entries = 0;
	put_address_and_context(g, g->pc);
	g->start = g->pc;
}

/* What is not committed was not executed, for all that anybody knows; what lasts is told. */
static void drop_uncommitted(struct gen *g, bool lasting)
{
	struct truth *all = (struct truth *)g->truths.data;
	size_t n = g->truths.size / sizeof(*all), to = 0;
	bool blocked = false;

	for (size_t i = 0; i < n; i++) {
		bool gone = !all[i].always && all[i].p0 > g->committed;

		/* A transaction that has committed was no speculation. */
		if (!lasting && all[i].element.kind == ELEM_TRANSACTION && all[i].element.value == 1 && !g->depth)
			all[i].lasting = true;

		if (gone && all[i].element.kind == ELEM_TRACE_ON && all[i].element.reason == REASON_OVERFLOW)
			g->wants_overflow = true;
		/* Where nothing came of a P0 element it is one all the same. */
		blocked = blocked || (gone && all[i].p0 > g->committed + 1) || (gone && !all[i].lasting && all[i].element.kind != ELEM_CONTEXT);
		if (!gone || (all[i].lasting && (lasting || !blocked)))
			all[to++] = all[i];
	}
	/* What is left of it has been told. */
	for (size_t i = 0; i < to; i++)
		all[i].always = true;
	g->truths.size = to * sizeof(*all);
	g->made = g->committed;
	g->depth = 0;
}

static void lose(struct gen *g)
{
	bool overflow = below(g, 2);

	g->used |= GENERATE_LOSS;
	flush(g);
	put(g, 0);
	put(g, overflow ? 5 : 3);
	drop_uncommitted(g, true);
	/* An overflow of which tracing has not been told to go on is told once more. */
	g->wants_overflow = g->wants_overflow || overflow;
	tell(g, ELEM_NO_SYNC, 0)->reason = g->wants_overflow ? REASON_OVERFLOW : REASON_DISCARD;
	g->pc = anywhere(g);
	put_sync(g, 0);
	trace_on(g);
}

/* An exception: the address where it returns to; target: the last branch went there, too. */
static void exception(struct gen *g, unsigned type, bool target, bool context)
{
	struct element *e;

	flush(g);
	put(g, 0x06);
	if (type > 31 || below(g, 8) == 0) {
		put(g, 0x80 | (target ? 0x40 : 0x01) | (type & 31) << 1);
		put(g, type >> 5);
	} else {
		put(g, (target ? 0x40 : 0x01) | type << 1);
	}
	if (context && below(g, 2)) {
		bool near = !((g->pc ^ g->history[0]) >> 32);

		put(g, near ? 0x82 : 0x85);
		put_long(g, g->pc, near ? 4 : 8);
		remember(g, g->pc);
		put_context(g, true);
		g->stack_waits = false;
	} else {
		if (context) {
			put(g, 0x81);
			put_context(g, true);
		}
		put_address(g, g->pc);
	}
	if (target)
		g->start = g->pc;
	g->made++;
	tell_range(g, true, g->made);
	e = tell(g, ELEM_EXCEPTION, g->made);
	e->exception.number = type;
	e->exception.has_ret = true;
	e->exception.ret = g->pc;
	e->exception.target = target;
	deepen(g, 1);
	/* To its handler, which is traced or not. */
	g->level = (uint8_t)MIN(g->level + 1, 2 + (below(g, 4) == 0));
	if (g->nse && g->level == 3)
		g->nonsecure = false;
	g->pc = anywhere(g);
	if (below(g, 3) == 0)
		trace_on(g);
	else
		put_address_and_context(g, g->pc);
	g->start = g->pc;
}

static unsigned exception_type(struct gen *g)
{
	static const uint8_t types[] = { 1, 2, 3, 4, 6, 7, 10, 11, 12, 14, 15, 40 };

	return types[below(g, ELEMENTS(types))];
}

/* P0 elements that are not executed. Returns how many; what lasts among them is told. */
static unsigned wrong_way(struct gen *g, unsigned most)
{
	unsigned n = 0, wanted = 1 + below(g, most);
	uint32_t bits;

	while (n < wanted) {
		unsigned packet = 0xc0 + below(g, 64), k = atoms_of(packet, &bits);

		switch (below(g, 8)) {
		case 0:
			/* Before the first of them it would be where the last branch went. */
			if (n)
				put_address(g, anywhere(g));
			break;
		case 1:
			put_event(g);
			break;
		case 2:
			put(g, 0x06);
			put(g, 0x01 | 14 << 1);
			put_address(g, anywhere(g));
			n++;
			break;
		default:
			if (n + k > wanted)
				packet = 0xf6 + below(g, 2), k = 1;
			put(g, packet);
			n += k;
		}
	}
	g->depth += n;
	return n;
}

static void put_cancel(struct gen *g, unsigned n, bool mispredict)
{
	g->depth -= n;
	if (mispredict && n == 1 && below(g, 2))
		put(g, 0x34);
	else if (mispredict && n >= 2 && n <= 5 && below(g, 2))
		put(g, 0x38 | (n - 2) << 1);
	else {
		put(g, 0x2e | mispredict);
		put_field(g, n);
	}
}

/* Runs ahead from here, in vain. */
static void speculate(struct gen *g)
{
	unsigned room, n;

	flush(g);
	room = g->spec - g->depth;
	if (room < 2)
		put_commit(g, below(g, 2));
	room = g->spec - g->depth;
	if (!room)
		return;
	g->used |= GENERATE_SPECULATION;
	n = wrong_way(g, MIN(room, 30u));
	put_cancel(g, n, false);
}

/* An atom that is first told the wrong way. */
static void mispredict(struct gen *g, bool taken)
{
	unsigned n = 0;

	flush(g);
	if (g->spec - g->depth < 2)
		put_commit(g, true);
	g->used |= GENERATE_SPECULATION;
	g->made++;
	g->depth++;
	/* The packet itself may have it, as its only one. */
	if (below(g, 3) == 0) {
		put(g, taken ? 0x33 : 0x31);
		return;
	}
	put(g, 0xf6 | !taken);
	if (g->spec > g->depth && below(g, 2))
		n = wrong_way(g, MIN(g->spec - g->depth, 8u));
	if (n)
		put_cancel(g, n, true);
	else
		put(g, 0x30);
}

static void push_return(struct gen *g, uint64_t address)
{
	if (!(g->config.configr >> 12 & 1) || g->stack_waits)
		return;
	g->top = (g->top + 1) % STACK;
	g->stack[g->top] = address;
	g->entries = MIN(g->entries + 1, STACK);
}

static bool pops(struct gen *g, uint64_t target)
{
	if (!g->entries || g->config.configr >> 3 & 1 || g->stack[g->top] != target)
		return false;
	g->top = (g->top + STACK - 1) % STACK;
	g->entries--;
	g->used |= GENERATE_RETURN_STACK;
	return true;
}

/* Code that nobody has: a decoder tells so once, at the first of its branches. */
static void visit_nowhere(struct gen *g)
{
	g->used |= GENERATE_MISSING;
	put_address(g, nowhere);
	tell(g, ELEM_NO_IMAGE, g->made + 1)->address = nowhere;
	for (unsigned n = 1 + below(g, 4); n; n--)
		atom(g, below(g, 2));
	flush(g);
}

static void return_from_exception(struct gen *g, uint64_t next)
{
	flush(g);
	tell(g, ELEM_EXCEPTION_RETURN, g->version < 0x50 ? g->made + 1 : g->made);
	if (g->version < 0x50)
		put(g, 0x07);
	g->level = g->level ? g->level - 1 : 0;
	if (!(g->without & GENERATE_REALMS) && g->version >= 0x50 && g->nse)
		g->nonsecure = true;
	g->pc = g->start = next;
	put_address_and_context(g, next);
}

static void indirect(struct gen *g, const struct instruction *i, uint64_t after)
{
	uint64_t next = anywhere(g);

	if (i->sub == SUB_RET && g->entries && below(g, 4))
		next = g->stack[g->top];
	g->pc = next;
	g->start = next;
	if (i->returns) {
		return_from_exception(g, next);
		return;
	}
	if (i->link) {
		push_return(g, after);
	} else if (pops(g, next)) {
		return;
	}
	flush(g);
	if (g->spec > g->depth && now_and_then(g, GENERATE_SPECULATION, 8)) {
		/* Ran on where it was thought to go. */
		put_address(g, anywhere(g));
		if (below(g, 2))
			put_cancel(g, wrong_way(g, MIN(g->spec - g->depth, 8u)), false);
	}
	if (below(g, 20) == 0) {
		exception(g, exception_type(g), true, below(g, 2));
		return;
	}
	if (now_and_then(g, GENERATE_MISSING, 40))
		visit_nowhere(g);
	put_address(g, next);
}

static void put_source(struct gen *g, uint64_t address)
{
	static const struct address_headers headers = { 0xb0, 0xb4, 0xb6, 0xb8 };

	flush(g);
	put_address_as(g, address, &headers);
	g->made++;
	deepen(g, 1);
}

/* A P0 instruction at g->pc. */
static void branch(struct gen *g, const struct instruction *i)
{
	/* What compares and branches chooses, too. */
	bool direct = i->kind == INSTR_BR, taken, cond = i->conditional || (direct && (i->op >> 26 & 0x1f) != 5);
	uint64_t at = g->pc, target = at + 4 * (uint64_t)(int64_t)i->words;

	taken = !cond || below(g, 2);
	g->pc += 4;
	g->last = i;
	/* Older than what may be told of what it ran ahead to. */
	tell_range(g, taken, g->made + 1);
	if (cond && g->spec > 1 && now_and_then(g, GENERATE_SPECULATION, 6)) {
		mispredict(g, taken);
	} else if (taken && g->version >= 0x50 && i->kind != INSTR_TSTART && !i->returns && now_and_then(g, GENERATE_SOURCES, 6)) {
		put_source(g, at);
	} else {
		atom(g, taken);
	}
	if (i->kind == INSTR_IBR) {
		indirect(g, i, at + 4);
		return;
	}
	if (direct && taken) {
		if (i->link)
			push_return(g, at + 4);
		g->pc = g->start = target;
	}
	if (taken && i->kind != INSTR_TSTART && i->kind != INSTR_WFI && g->config.configr >> 3 & 1) {
		flush(g);
		put_address(g, g->pc);
		g->used |= GENERATE_BROADCAST;
	}
}

/* Some instructions without any word of their branches: how many, and where they led. */
static void put_q(struct gen *g)
{
	static const struct instruction none;
	unsigned n = 0, wanted = 1 + below(g, 12);

	flush(g);
	while (n < wanted && instruction_at(g->code, g->pc)->kind == INSTR_OTHER)
		g->pc += 4, n++;
	if (!n)
		return;
	g->used |= GENERATE_Q;
	g->last = &none;
	g->made++;
	tell_range(g, true, g->made);
	if ((g->pc ^ g->history[0]) >> 17) {
		put(g, 0xac);
		put_field(g, n);
		put_address(g, g->pc);
	} else {
		put(g, 0xa5);
		put_short(g, g->pc, true);
		put_field(g, n);
		remember(g, g->pc);
	}
	deepen(g, 1);
}

static void reset(struct gen *g)
{
	struct element *e;

	g->used |= GENERATE_RESETS;
	flush(g);
	put(g, 0x06);
	put(g, 0x00);
	put(g, 0x00);
	e = tell(g, ELEM_EXCEPTION, ++g->made);
	e->exception.has_ret = true;
	deepen(g, 1);
	put_commit(g, true);
	g->pc = anywhere(g);
	g->level = 3;
	g->nse = g->nonsecure = false;
	/* Whether it counts as an address is not said: the next one is whole. */
	memset(g->history, 0xff, sizeof(g->history));
	trace_on(g);
}

static void transaction(struct gen *g)
{
	unsigned what = below(g, 2);
	bool p0 = !what && !(g->config.idr0 >> 30 & 1);

	g->used |= GENERATE_TRANSACTIONS;
	flush(g);
	put(g, 0x0a + what);
	g->made += p0;
	tell(g, ELEM_TRANSACTION, p0 ? g->made : g->made + 1)->value = what;
	if (p0)
		deepen(g, 1);
}

static void instrumentation(struct gen *g)
{
	struct element *e;

	g->used |= GENERATE_INSTRUMENTATION;
	flush(g);
	e = tell(g, ELEM_INSTRUMENTATION, g->made + 1);
	e->instrumentation.level = (uint8_t)below(g, 4);
	e->instrumentation.value = draw(g);
	put(g, 0x09);
	put(g, e->instrumentation.level);
	put_bytes(g, e->instrumentation.value, 8);
}

/* Where all that ran has been told, anything may come. */
static void between(struct gen *g)
{
	const struct engine_config *c = &g->config;
	bool ete = g->version >= 0x50;

	if (g->depth && below(g, 6) == 0)
		flush(g), put_commit(g, false);
	if (g->spec && now_and_then(g, GENERATE_SPECULATION, 12))
		speculate(g);
	if (c->configr >> 4 & 1 && below(g, 4) == 0)
		flush(g), put_cycles(g);
	if (c->configr >> 11 & 1 && below(g, 30) == 0)
		flush(g), put_timestamp(g, false);
	if (c->idr0 >> 23 & 1 && now_and_then(g, GENERATE_MARKERS, 50))
		flush(g), put_marker(g);
	if (below(g, 50) == 0)
		flush(g), put_event(g);
	if (g->version >= 0x43 && below(g, 60) == 0)
		flush(g), put(g, 0x70);
	if (below(g, 60) == 0)
		flush(g), put(g, 0x80);
	if (ete && now_and_then(g, GENERATE_TRANSACTIONS, 60))
		transaction(g);
	if (g->version >= 0x53 && now_and_then(g, GENERATE_INSTRUMENTATION, 60))
		instrumentation(g);
	if (below(g, 80) == 0) {
		flush(g);
		put(g, 0x81);
		put_context(g, true);
	}
	if (below(g, 150) == 0) {
		flush(g);
		put_sync(g, g->depth);
		/* The address may come later. */
		if (below(g, 2))
			put_address_and_context(g, g->pc);
	}
	if (c->idr0 >> 15 & 3 && now_and_then(g, GENERATE_Q, 12))
		put_q(g);
	if (below(g, 200) == 0) {
		flush(g);
		g->pc = anywhere(g);
		trace_on(g);
	}
	if (now_and_then(g, GENERATE_LOSS, 300))
		lose(g);
	if (ete && now_and_then(g, GENERATE_RESETS, 300))
		reset(g);
}

static void step(struct gen *g)
{
	const struct instruction *i = instruction_at(g->code, g->pc);

	if (below(g, 150) == 0) {
		exception(g, exception_type(g), false, below(g, 4) == 0);
		return;
	}
	if (i->kind != INSTR_OTHER) {
		branch(g, i);
		between(g);
		return;
	}
	g->last = i;
	g->pc += 4;
	/* SVC, HVC, SMC. */
	if ((i->op & 0xffe00000) == 0xd4000000)
		exception(g, 2, false, below(g, 4) == 0);
}

static void configure(struct gen *g)
{
	struct engine_config *c = &g->config;
	bool ete = below(g, 2), cycles = now_and_then(g, GENERATE_CYCLES, 2);
	unsigned minor = below(g, ete ? 4 : 7);
	static const uint8_t vmids[] = { 0, 1, 2, 4 };
	unsigned vmid = vmids[below(g, ete || minor ? 4 : 2)];

	c->protocol = ete ? PROTOCOL_ETE : PROTOCOL_ETMV4;
	c->trace_id = 0x10;
	c->traceidr = 0x10;
	g->version = (ete ? 0x50 : 0x40) + minor;
	c->idr1 = ete ? 0x4100fff0 : 0x4100f403 | minor << 4;
	c->devarch = ete ? 0x47705a13 | minor << 16 : 0;
	c->core_aa64 = !ete && below(g, 2);
	g->modern = ete || minor >= 4 || c->core_aa64;
	g->spec = now_and_then(g, GENERATE_SPECULATION, 2) ? 1 + below(g, 40) : 0;
	c->idr8 = g->spec;
	c->idr0 = 0x08000ea1;
	/* Without speculation cycle counts cannot commit anything. */
	c->idr0 |= !g->spec || below(g, 2) ? 1u << 29 : 0;
	c->idr0 |= below(g, 2) << 30;
	c->idr0 |= g->version >= 0x50 && now_and_then(g, GENERATE_MARKERS, 3) ? 1u << 23 : 0;
	c->idr0 |= now_and_then(g, GENERATE_Q, 4) ? 1u << 15 : 0;
	c->idr2 = 0x10000088 | vmid << 10;
	g->waits = g->version >= 0x43 && now_and_then(g, GENERATE_WAITS, 2);
	c->idr2 |= (uint32_t)g->waits << 31;
	c->configr = 1 | (uint32_t)cycles << 4 | below(g, 2) << 6 | (vmid ? below(g, 2) << 7 : 0) | below(g, 2) << 11;
	c->configr |= now_and_then(g, GENERATE_RETURN_STACK, 2) ? 1u << 12 : 0;
	c->configr |= now_and_then(g, GENERATE_BROADCAST, 4) ? 1u << 3 : 0;
	c->configr |= c->idr0 >> 15 & 1 ? 1u << 13 : 0;
	g->threshold = cycles ? below(g, 400) : 0;
	g->nonsecure = below(g, 2);
	g->nse = ete && now_and_then(g, GENERATE_REALMS, 4);
	g->ctxid = (uint32_t)draw(g);
}

void generate(uint64_t seed, size_t size, unsigned without, struct generated *ret)
{
	struct gen g = { .random = seed * 0x2545f4914f6cdd1d, .without = without };
	const struct truth *truth;

	g.code = calloc(1, sizeof(*g.code));
	if (!g.code)
		abort();
	configure(&g);
	make_code(&g);
	tell(&g, ELEM_NO_SYNC, 0)->reason = REASON_INIT;
	g.pc = anywhere(&g);
	put_sync(&g, 0);
	trace_on(&g);
	while (g.bytes.size < size)
		step(&g);
	flush(&g);
	if (below(&g, 2))
		put_commit(&g, true);
	drop_uncommitted(&g, false);
	/* It goes on after an overflow, and nothing of that is known yet. */
	tell(&g, ELEM_END, 0)->reason = g.wants_overflow ? REASON_OVERFLOW : REASON_END_OF_TRACE;
	if (buf_error(&g.bytes) || buf_error(&g.truths))
		abort();
	*ret = (struct generated){ .config = g.config, .bytes = g.bytes.data, .size = g.bytes.size, .used = g.used, .code = g.code };
	truth = (const struct truth *)g.truths.data;
	ret->n_truth = g.truths.size / sizeof(*truth);
	ret->truth = calloc(ret->n_truth, sizeof(*ret->truth));
	if (!ret->truth)
		abort();
	for (size_t i = 0; i < ret->n_truth; i++)
		ret->truth[i] = truth[i].element;
	buf_done(&g.truths);
}

void generated_done(struct generated *g)
{
	free(g->bytes);
	free(g->truth);
	free(g->code);
	*g = (struct generated){ 0 };
}

const char *generate_feature_str(unsigned bit)
{
	static const char *const names[GENERATE_FEATURES] = { "speculation", "cycles", "return-stack", "broadcast", "transactions", "q",
							      "sources", "instrumentation", "markers", "compare-branches", "pauth-lr",
							      "realms", "resets", "loss", "missing", "waits" };

	return bit < GENERATE_FEATURES ? names[bit] : "?";
}
