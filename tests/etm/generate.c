/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "tests/etm/generate-parts.h"

static const uint64_t nowhere = 0x50000000;

static void lose(struct gen *g)
{
	bool overflow = gen_below(g, 2);

	g->used |= GENERATE_LOSS;
	gen_flush(g);
	gen_put(g, 0);
	gen_put(g, overflow ? 5 : 3);
	gen_drop_uncommitted(g, true);
	/* An overflow that no trace-on followed yet is emitted once more. */
	g->wants_overflow = g->wants_overflow || overflow;
	gen_emit(g, ELEM_NO_SYNC, 0)->reason = g->wants_overflow ? REASON_OVERFLOW : REASON_DISCARD;
	g->pc = gen_anywhere(g);
	gen_put_sync(g, 0);
	gen_trace_on(g);
}

/* Takes an exception. target: its preferred return address is the target of the last branch. */
static void exception(struct gen *g, unsigned type, bool target, bool context)
{
	struct element *e;

	gen_flush(g);
	gen_put(g, 0x06);
	if (type > 31 || gen_below(g, 8) == 0) {
		gen_put(g, 0x80 | (target ? 0x40 : 0x01) | (type & 31) << 1);
		gen_put(g, type >> 5);
	} else {
		gen_put(g, (target ? 0x40 : 0x01) | type << 1);
	}
	if (context && gen_below(g, 2)) {
		bool near = !((g->pc ^ g->history[0]) >> 32);

		gen_put(g, near ? 0x82 : 0x85);
		gen_put_long(g, g->pc, near ? 4 : 8);
		gen_remember(g, g->pc);
		gen_put_context(g, true);
		g->stack_waits = false;
	} else {
		if (context) {
			gen_put(g, 0x81);
			gen_put_context(g, true);
		}
		gen_put_address(g, g->pc);
	}
	if (target)
		g->start = g->pc;
	g->made++;
	gen_emit_range(g, true, g->made);
	e = gen_emit(g, ELEM_EXCEPTION, g->made);
	e->exception.number = type;
	e->exception.has_ret = true;
	e->exception.ret = g->pc;
	e->exception.target = target;
	gen_deepen(g, 1);
	/* The handler, which may be excluded from the trace. */
	g->level = (uint8_t)MIN(g->level + 1, 2 + (gen_below(g, 4) == 0));
	if (g->nse && g->level == 3)
		g->nonsecure = false;
	g->pc = gen_anywhere(g);
	if (gen_below(g, 3) == 0)
		gen_trace_on(g);
	else
		gen_put_address_and_context(g, g->pc);
	g->start = g->pc;
}

static unsigned exception_type(struct gen *g)
{
	static const uint8_t types[] = { 1, 2, 3, 4, 6, 7, 10, 11, 12, 14, 15, 40 };

	return types[gen_below(g, ELEMENTS(types))];
}

/* Writes up to most P0 elements that are cancelled later, and returns their number. Lasting elements stay. */
static unsigned wrong_way(struct gen *g, unsigned most)
{
	unsigned n = 0, wanted = 1 + gen_below(g, most);
	uint32_t bits;

	while (n < wanted) {
		unsigned packet = 0xc0 + gen_below(g, 64), k = gen_atoms_of(packet, &bits);

		switch (gen_below(g, 8)) {
		case 0:
			/* In front of the first one it would be the target of the last branch. */
			if (n)
				gen_put_address(g, gen_anywhere(g));
			break;
		case 1:
			gen_put_event(g);
			break;
		case 2:
			gen_put(g, 0x06);
			gen_put(g, 0x01 | 14 << 1);
			gen_put_address(g, gen_anywhere(g));
			n++;
			break;
		default:
			if (n + k > wanted)
				packet = 0xf6 + gen_below(g, 2), k = 1;
			gen_put(g, packet);
			n += k;
		}
	}
	g->depth += n;
	return n;
}

static void put_cancel(struct gen *g, unsigned n, bool mispredict)
{
	g->depth -= n;
	if (mispredict && n == 1 && gen_below(g, 2))
		gen_put(g, 0x34);
	else if (mispredict && n >= 2 && n <= 5 && gen_below(g, 2))
		gen_put(g, 0x38 | (n - 2) << 1);
	else {
		gen_put(g, 0x2e | mispredict);
		gen_put_field(g, n);
	}
}

/* Speculates from here on and cancels all of it. */
static void speculate(struct gen *g)
{
	unsigned room, n;

	gen_flush(g);
	room = g->spec - g->depth;
	if (room < 2)
		gen_put_commit(g, gen_below(g, 2));
	room = g->spec - g->depth;
	if (!room)
		return;
	g->used |= GENERATE_SPECULATION;
	n = wrong_way(g, MIN(room, 30u));
	put_cancel(g, n, false);
}

/* Writes an atom with the wrong outcome, and corrects it by a mispredict packet. */
static void mispredict(struct gen *g, bool taken)
{
	unsigned n = 0;

	gen_flush(g);
	if (g->spec - g->depth < 2)
		gen_put_commit(g, true);
	g->used |= GENERATE_SPECULATION;
	g->made++;
	g->depth++;
	/* The mispredict packet may carry the atom itself, as its only one. */
	if (gen_below(g, 3) == 0) {
		gen_put(g, taken ? 0x33 : 0x31);
		return;
	}
	gen_put(g, 0xf6 | !taken);
	if (g->spec > g->depth && gen_below(g, 2))
		n = wrong_way(g, MIN(g->spec - g->depth, 8u));
	if (n)
		put_cancel(g, n, true);
	else
		gen_put(g, 0x30);
}

static void push_return(struct gen *g, uint64_t address)
{
	if (!(g->config.configr >> 12 & 1) || g->stack_waits)
		return;
	g->top = (g->top + 1) % GEN_STACK;
	g->stack[g->top] = address;
	g->entries = MIN(g->entries + 1, GEN_STACK);
	g->known = MIN(g->known + 1, GEN_STACK);
}

static bool pops(struct gen *g, uint64_t target)
{
	if (!g->entries || g->config.configr >> 3 & 1 || g->stack[g->top] != target)
		return false;
	g->top = (g->top + GEN_STACK - 1) % GEN_STACK;
	g->entries--;
	g->used |= GENERATE_RETURN_STACK;
	return true;
}

static void visit_unknown(struct gen *g)
{
	for (unsigned n = 1 + gen_below(g, 4); n; n--)
		gen_atom(g, gen_below(g, 2));
	gen_flush(g);
}

/* Executes code that is unavailable: a decoder emits one no-image element, at its first branch. */
static void visit_nowhere(struct gen *g)
{
	g->used |= GENERATE_MISSING;
	gen_put_address(g, nowhere);
	gen_emit(g, ELEM_NO_IMAGE, g->made + 1)->address = nowhere;
	visit_unknown(g);
	g->known = 0;
	/* Code that pops all entries. */
	if (g->without & GENERATE_HIDDEN_RETURNS)
		g->entries = 0;
}

/* Returns by the return stack to where a decoder cannot follow; it emits an element at the next branch. */
static void return_unknown(struct gen *g, uint64_t next)
{
	g->used |= GENERATE_HIDDEN_RETURNS;
	gen_emit(g, ELEM_UNKNOWN_ADDRESS, g->made + 1);
	visit_unknown(g);
	gen_put_address(g, next);
}

static void return_from_exception(struct gen *g, uint64_t next)
{
	gen_flush(g);
	gen_emit(g, ELEM_EXCEPTION_RETURN, g->version < 0x50 ? g->made + 1 : g->made);
	if (g->version < 0x50)
		gen_put(g, 0x07);
	g->level = g->level ? g->level - 1 : 0;
	if (!(g->without & GENERATE_REALMS) && g->version >= 0x50 && g->nse)
		g->nonsecure = true;
	g->pc = g->start = next;
	gen_put_address_and_context(g, next);
}

static void indirect(struct gen *g, const struct instruction *i, uint64_t after)
{
	uint64_t next = gen_anywhere(g);

	if (i->sub == SUB_RET && g->entries && gen_below(g, 4))
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
		if (g->known)
			g->known--;
		else
			return_unknown(g, next);
		return;
	}
	gen_flush(g);
	if (g->spec > g->depth && gen_rarely(g, GENERATE_SPECULATION, 8)) {
		/* Speculation at a predicted target. */
		gen_put_address(g, gen_anywhere(g));
		if (gen_below(g, 2))
			put_cancel(g, wrong_way(g, MIN(g->spec - g->depth, 8u)), false);
	}
	if (gen_below(g, 20) == 0) {
		exception(g, exception_type(g), true, gen_below(g, 2));
		return;
	}
	if (gen_rarely(g, GENERATE_MISSING, 40))
		visit_nowhere(g);
	gen_put_address(g, next);
}

static void put_source(struct gen *g, uint64_t address)
{
	static const struct gen_headers headers = { 0xb0, 0xb4, 0xb6, 0xb8 };

	gen_flush(g);
	gen_put_address_as(g, address, &headers);
	g->made++;
	gen_deepen(g, 1);
}

/* Executes the P0 instruction at g->pc. */
static void branch(struct gen *g, const struct instruction *i)
{
	/* Compare-and-branch instructions are conditional as well. */
	bool direct = i->kind == INSTR_BR, taken, cond = i->conditional || (direct && (i->op >> 26 & 0x1f) != 5);
	uint64_t at = g->pc, target = at + 4 * (uint64_t)(int64_t)i->words;

	taken = !cond || gen_below(g, 2);
	g->pc += 4;
	g->last = i;
	/* This range is older than the elements of the speculation behind it. */
	gen_emit_range(g, taken, g->made + 1);
	if (cond && g->spec > 1 && gen_rarely(g, GENERATE_SPECULATION, 6)) {
		mispredict(g, taken);
	} else if (taken && g->version >= 0x50 && i->kind != INSTR_TSTART && !i->returns &&
		   gen_rarely(g, GENERATE_SOURCES, 6)) {
		put_source(g, at);
	} else {
		gen_atom(g, taken);
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
		gen_flush(g);
		gen_put_address(g, g->pc);
		g->used |= GENERATE_BROADCAST;
	}
}

/* Writes a Q packet: a number of instructions without their branches, and the address behind them. */
static void put_q(struct gen *g)
{
	static const struct instruction none;
	unsigned n = 0, wanted = 1 + gen_below(g, 12);

	gen_flush(g);
	while (n < wanted && generate_instruction(g->code, g->pc)->kind == INSTR_OTHER)
		g->pc += 4, n++;
	if (!n)
		return;
	g->used |= GENERATE_Q;
	g->last = &none;
	g->made++;
	gen_emit_range(g, true, g->made);
	if ((g->pc ^ g->history[0]) >> 17) {
		gen_put(g, 0xac);
		gen_put_field(g, n);
		gen_put_address(g, g->pc);
	} else {
		gen_put(g, 0xa5);
		gen_put_short(g, g->pc, true);
		gen_put_field(g, n);
		gen_remember(g, g->pc);
	}
	gen_deepen(g, 1);
}

static void reset(struct gen *g)
{
	struct element *e;

	g->used |= GENERATE_RESETS;
	gen_flush(g);
	gen_put(g, 0x06);
	gen_put(g, 0x00);
	gen_put(g, 0x00);
	e = gen_emit(g, ELEM_EXCEPTION, ++g->made);
	e->exception.has_ret = true;
	gen_deepen(g, 1);
	gen_put_commit(g, true);
	g->pc = gen_anywhere(g);
	g->level = 3;
	g->nse = g->nonsecure = false;
	/* The architecture leaves open whether a Q address enters the history: the next address packet is complete. */
	memset(g->history, 0xff, sizeof(g->history));
	gen_trace_on(g);
}

static void transaction(struct gen *g)
{
	unsigned what = gen_below(g, 2);
	bool p0 = !what && !(g->config.idr0 >> 30 & 1);

	g->used |= GENERATE_TRANSACTIONS;
	gen_flush(g);
	gen_put(g, 0x0a + what);
	g->made += p0;
	gen_emit(g, ELEM_TRANSACTION, p0 ? g->made : g->made + 1)->value = what;
	if (p0)
		gen_deepen(g, 1);
}

static void instrumentation(struct gen *g)
{
	struct element *e;

	g->used |= GENERATE_INSTRUMENTATION;
	gen_flush(g);
	e = gen_emit(g, ELEM_INSTRUMENTATION, g->made + 1);
	e->instrumentation.level = (uint8_t)gen_below(g, 4);
	e->instrumentation.value = gen_draw(g);
	gen_put(g, 0x09);
	gen_put(g, e->instrumentation.level);
	gen_put_bytes(g, e->instrumentation.value, 8);
}

/* Writes any of the packets that may stand between two instructions, when all ranges are emitted. */
static void between(struct gen *g)
{
	const struct engine_config *c = &g->config;
	bool ete = g->version >= 0x50;

	if (g->depth && gen_below(g, 6) == 0)
		gen_flush(g), gen_put_commit(g, false);
	if (g->spec && gen_rarely(g, GENERATE_SPECULATION, 12))
		speculate(g);
	if (c->configr >> 4 & 1 && gen_below(g, 4) == 0)
		gen_flush(g), gen_put_cycles(g);
	if (c->configr >> 11 & 1 && gen_below(g, 30) == 0)
		gen_flush(g), gen_put_timestamp(g, false);
	if (c->idr0 >> 23 & 1 && gen_rarely(g, GENERATE_MARKERS, 50))
		gen_flush(g), gen_put_marker(g);
	if (gen_below(g, 50) == 0)
		gen_flush(g), gen_put_event(g);
	if (g->version >= 0x43 && gen_below(g, 60) == 0)
		gen_flush(g), gen_put(g, 0x70);
	if (gen_below(g, 60) == 0)
		gen_flush(g), gen_put(g, 0x80);
	if (ete && gen_rarely(g, GENERATE_TRANSACTIONS, 60))
		transaction(g);
	if (g->version >= 0x53 && gen_rarely(g, GENERATE_INSTRUMENTATION, 60))
		instrumentation(g);
	if (gen_below(g, 80) == 0) {
		gen_flush(g);
		gen_put(g, 0x81);
		gen_put_context(g, true);
	}
	if (gen_below(g, 150) == 0) {
		gen_flush(g);
		gen_put_sync(g, g->depth);
		/* The address may come later. */
		if (gen_below(g, 2))
			gen_put_address_and_context(g, g->pc);
	}
	if (c->idr0 >> 15 & 3 && gen_rarely(g, GENERATE_Q, 12))
		put_q(g);
	if (gen_below(g, 200) == 0) {
		gen_flush(g);
		g->pc = gen_anywhere(g);
		gen_trace_on(g);
	}
	if (gen_rarely(g, GENERATE_LOSS, 300))
		lose(g);
	if (ete && gen_rarely(g, GENERATE_RESETS, 300))
		reset(g);
}

static void step(struct gen *g)
{
	const struct instruction *i = generate_instruction(g->code, g->pc);

	if (gen_below(g, 150) == 0) {
		exception(g, exception_type(g), false, gen_below(g, 4) == 0);
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
		exception(g, 2, false, gen_below(g, 4) == 0);
}

static void configure(struct gen *g)
{
	struct engine_config *c = &g->config;
	bool ete = gen_below(g, 2), cycles = gen_rarely(g, GENERATE_CYCLES, 2);
	unsigned minor = gen_below(g, ete ? 4 : 7);
	static const uint8_t vmids[] = { 0, 1, 2, 4 };
	unsigned vmid = vmids[gen_below(g, ete || minor ? 4 : 2)];

	c->protocol = ete ? PROTOCOL_ETE : PROTOCOL_ETMV4;
	c->trace_id = 0x10;
	c->traceidr = 0x10;
	g->version = (ete ? 0x50 : 0x40) + minor;
	c->idr1 = ete ? 0x4100fff0 : 0x4100f403 | minor << 4;
	c->devarch = ete ? 0x47705a13 | minor << 16 : 0;
	c->core_aa64 = !ete && gen_below(g, 2);
	g->modern = ete || minor >= 4 || c->core_aa64;
	g->spec = gen_rarely(g, GENERATE_SPECULATION, 2) ? 1 + gen_below(g, 40) : 0;
	c->idr8 = g->spec;
	c->idr0 = 0x08000ea1;
	/* Without speculation, cycle counts do not commit. */
	c->idr0 |= !g->spec || gen_below(g, 2) ? 1u << 29 : 0;
	c->idr0 |= gen_below(g, 2) << 30;
	c->idr0 |= g->version >= 0x50 && gen_rarely(g, GENERATE_MARKERS, 3) ? 1u << 23 : 0;
	c->idr0 |= gen_rarely(g, GENERATE_Q, 4) ? 1u << 15 : 0;
	c->idr2 = 0x10000088 | vmid << 10;
	g->waits = g->version >= 0x43 && gen_rarely(g, GENERATE_WAITS, 2);
	c->idr2 |= (uint32_t)g->waits << 31;
	c->configr = 1 | (uint32_t)cycles << 4 | gen_below(g, 2) << 6 | (vmid ? gen_below(g, 2) << 7 : 0) |
		     gen_below(g, 2) << 11;
	c->configr |= gen_rarely(g, GENERATE_RETURN_STACK, 2) ? 1u << 12 : 0;
	c->configr |= gen_rarely(g, GENERATE_BROADCAST, 4) ? 1u << 3 : 0;
	c->configr |= c->idr0 >> 15 & 1 ? 1u << 13 : 0;
	g->threshold = cycles ? gen_below(g, 400) : 0;
	g->nonsecure = gen_below(g, 2);
	g->nse = ete && gen_rarely(g, GENERATE_REALMS, 4);
	g->ctxid = (uint32_t)gen_draw(g);
}

void generate(uint64_t seed, size_t size, unsigned without, struct generated *ret)
{
	struct gen g = { .random = seed * 0x2545f4914f6cdd1d, .without = without };
	const struct truth *truth;

	g.code = calloc(1, sizeof(*g.code));
	if (!g.code)
		abort();
	configure(&g);
	gen_make_code(&g);
	gen_emit(&g, ELEM_NO_SYNC, 0)->reason = REASON_INIT;
	g.pc = gen_anywhere(&g);
	gen_put_sync(&g, 0);
	gen_trace_on(&g);
	while (g.bytes.size < size)
		step(&g);
	gen_flush(&g);
	if (gen_below(&g, 2))
		gen_put_commit(&g, true);
	gen_drop_uncommitted(&g, false);
	/* Trace may continue behind an overflow, but no trace-on shows that yet. */
	gen_emit(&g, ELEM_END, 0)->reason = g.wants_overflow ? REASON_OVERFLOW : REASON_END_OF_TRACE;
	if (buf_error(&g.bytes) || buf_error(&g.truths))
		abort();
	*ret = (struct generated){
		.config = g.config, .bytes = g.bytes.data, .size = g.bytes.size, .used = g.used, .code = g.code
	};
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
	static const char *const names[GENERATE_FEATURES] = {
		"speculation",     "cycles",  "return-stack",     "broadcast", "transactions", "q",      "sources",
		"instrumentation", "markers", "compare-branches", "pauth-lr",  "realms",       "resets", "loss",
		"missing",         "waits",   "hidden-returns"
	};

	return bit < GENERATE_FEATURES ? names[bit] : "?";
}
