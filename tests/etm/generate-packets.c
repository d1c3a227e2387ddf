/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "tests/etm/generate-parts.h"

/* Elements that a decoder must emit. */
struct element *gen_emit(struct gen *g, enum element_kind kind, uint64_t p0)
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

void gen_emit_range(struct gen *g, bool taken, uint64_t p0)
{
	struct element *e;

	if (g->start != g->pc) {
		e = gen_emit(g, ELEM_RANGE, p0);
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
void gen_put(struct gen *g, unsigned byte)
{
	buf_u8(&g->bytes, (uint8_t)byte);
}

void gen_put_field(struct gen *g, uint32_t value)
{
	for (; value > 0x7f; value >>= 7)
		gen_put(g, 0x80 | (value & 0x7f));
	gen_put(g, value);
}

void gen_put_bytes(struct gen *g, uint64_t value, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		gen_put(g, (uint8_t)(value >> (8 * i)));
}

/* More speculative P0 elements: beyond the largest depth the oldest ones are committed implicitly. */
void gen_deepen(struct gen *g, unsigned n)
{
	g->depth += n;
	if (g->depth > g->spec) {
		g->committed += g->depth - g->spec;
		g->depth = g->spec;
	}
}

/* The atoms of an atom packet, the oldest in bit 0 (IHI0064, "Atom instruction trace packets"). */
unsigned gen_atoms_of(unsigned packet, uint32_t *ret)
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

void gen_flush(struct gen *g)
{
	while (g->n_atoms) {
		unsigned fits[64], n = 0;
		uint32_t bits;

		for (unsigned packet = 0xc0; packet < 0x100; packet++) {
			unsigned k = gen_atoms_of(packet, &bits);

			if (k <= g->n_atoms && !((g->atoms ^ bits) & ((1u << k) - 1)))
				fits[n++] = packet;
		}
		n = fits[gen_below(g, n)];
		gen_put(g, n);
		n = gen_atoms_of(n, &bits);
		g->atoms >>= n;
		g->n_atoms -= n;
		gen_deepen(g, n);
	}
}

void gen_atom(struct gen *g, bool taken)
{
	g->atoms |= (uint32_t)taken << g->n_atoms++;
	g->made++;
	if (g->n_atoms == GEN_ATOMS_MAX || gen_below(g, 6) == 0)
		gen_flush(g);
}

void gen_remember(struct gen *g, uint64_t address)
{
	g->history[2] = g->history[1];
	g->history[1] = g->history[0];
	g->history[0] = address;
}

void gen_put_short(struct gen *g, uint64_t address, bool two)
{
	gen_put(g, (two ? 0x80u : 0) | (unsigned)(address >> 2 & 0x7f));
	if (two)
		gen_put(g, (unsigned)(address >> 9 & 0xff));
}

void gen_put_long(struct gen *g, uint64_t address, unsigned size)
{
	gen_put(g, address >> 2 & 0x7f);
	gen_put(g, address >> 9 & 0x7f);
	gen_put_bytes(g, address >> 16, size - 2);
}

void gen_put_address_as(struct gen *g, uint64_t address, const struct gen_headers *h)
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
	n = n && gen_below(g, 8) ? forms[gen_below(g, n)] : h->long64 ? 6 : forms[n - 1];
	if (n < 3) {
		gen_put(g, h->match + n);
	} else if (n < 5) {
		gen_put(g, h->one);
		gen_put_short(g, address, n == 4);
	} else {
		gen_put(g, n == 5 ? h->long32 : h->long64);
		gen_put_long(g, address, n == 5 ? 4 : 8);
	}
	gen_remember(g, address);
}

void gen_put_address(struct gen *g, uint64_t address)
{
	gen_put_address_as(g, address, &(struct gen_headers){ 0x90, 0x95, 0x9a, 0x9d });
	g->stack_waits = false;
}

/* emits: a decoder emits a context element, with the next P0 element. */
void gen_put_context(struct gen *g, bool emits)
{
	unsigned vmid_bytes = g->config.idr2 >> 10 & 31;
	bool ctxid = g->config.configr >> 6 & 1, vmid = g->config.configr >> 7 & 1;
	struct element *e;

	/* IDs that did not change since they were written may be left out. */
	ctxid = ctxid && (!g->ctxid_emitted || gen_below(g, 4));
	vmid = vmid && (!g->vmid_emitted || gen_below(g, 4));
	if (ctxid && gen_below(g, 3) == 0)
		g->ctxid = (uint32_t)gen_draw(g);
	if (vmid && gen_below(g, 3) == 0)
		g->vmid = (uint32_t)(gen_draw(g) & (UINT32_MAX >> (32 - 8 * vmid_bytes)));
	gen_put(g, g->level | g->nse << 3 | 0x10 | g->nonsecure << 5 | vmid << 6 | ctxid << 7);
	if (vmid)
		gen_put_bytes(g, g->vmid, vmid_bytes);
	if (ctxid)
		gen_put_bytes(g, g->ctxid, 4);
	g->ctxid_emitted |= ctxid;
	g->vmid_emitted |= vmid;
	if (!emits)
		return;
	e = gen_emit(g, ELEM_CONTEXT, g->made + 1);
	e->context.level = g->level;
	e->context.bits = 64;
	e->context.security = "SNRr"[2 * g->nse + g->nonsecure];
	e->context.has_ctxid = g->ctxid_emitted;
	e->context.ctxid = g->ctxid_emitted ? g->ctxid : 0;
	e->context.has_vmid = g->vmid_emitted;
	e->context.vmid = g->vmid_emitted ? g->vmid : 0;
}

void gen_put_address_and_context(struct gen *g, uint64_t address)
{
	bool near = !((address ^ g->history[0]) >> 32) && gen_below(g, 8);

	if (gen_below(g, 4) == 0) {
		bool first = gen_below(g, 2);

		if (first)
			gen_put_address(g, address);
		gen_put(g, 0x81);
		gen_put_context(g, true);
		if (!first)
			gen_put_address(g, address);
		return;
	}
	gen_put(g, near ? 0x82 : 0x85);
	gen_put_long(g, address, near ? 4 : 8);
	gen_remember(g, address);
	gen_put_context(g, true);
	g->stack_waits = false;
}

static void commit(struct gen *g, uint32_t n)
{
	g->committed += n;
	g->depth -= n;
}

void gen_put_cycles(struct gen *g)
{
	uint32_t n = 0, above = gen_below(g, 4) ? gen_below(g, 20) : gen_below(g, 0x10000);
	bool commits = !(g->config.idr0 >> 29 & 1), unknown = gen_below(g, 8) == 0;
	struct element *e;

	if (commits && !g->depth)
		return;
	if (commits)
		n = 1 + gen_below(g, g->depth);
	g->used |= GENERATE_CYCLES;
	e = gen_emit(g, ELEM_CYCLES, g->made + 1);
	e->has_cycles = true;
	e->cycles = unknown ? 0 : g->threshold + above;
	if (!unknown && above < 4 && (!commits || n <= 4)) {
		gen_put(g, 0x10 | above | (commits ? (n - 1) << 2 : 0));
	} else if (!unknown && above < 16 && (!commits || n <= 16)) {
		gen_put(g, 0x0c);
		gen_put(g, above | (commits ? (n - 1) << 4 : 0));
	} else {
		gen_put(g, 0x0e | unknown);
		if (commits)
			gen_put_field(g, n);
		if (!unknown)
			gen_put_field(g, above);
	}
	if (commits)
		commit(g, n);
}

void gen_put_timestamp(struct gen *g, bool whole)
{
	uint64_t time = g->stamp + (gen_below(g, 4) ? gen_below(g, 1000) : gen_draw(g) >> gen_below(g, 64)),
		 changed = whole ? time : time ^ g->stamp;
	bool cycles = g->config.configr >> 4 & 1, counted = cycles && gen_below(g, 2);
	uint32_t count = counted ? gen_below(g, 0x10000) : 0;
	unsigned bytes = 1;

	while (bytes < 9 && changed >> (7 * bytes))
		bytes++;
	gen_put(g, 0x02 | counted);
	for (unsigned i = 0; i < bytes - 1; i++)
		gen_put(g, 0x80 | (time >> (7 * i) & 0x7f));
	gen_put(g, (unsigned)(bytes == 9 ? time >> 56 : time >> (7 * (bytes - 1)) & 0x7f));
	if (counted)
		gen_put_field(g, count);
	g->stamp = time;
	/* With timestamp markers, timestamps before the first marker have no known position and are not emitted. */
	if (g->config.idr0 >> 23 & 1 && !g->marked)
		return;
	*gen_emit(g, ELEM_TIMESTAMP, g->made + 1) = (struct element){
		.kind = ELEM_TIMESTAMP, .isa = ISA_A64, .value = time, .has_cycles = cycles, .cycles = count
	};
}

void gen_put_marker(struct gen *g)
{
	gen_put(g, 0x88);
	gen_emit(g, ELEM_MARKER, g->made + 1);
	g->marked = true;
	g->used |= GENERATE_MARKERS;
}

void gen_put_event(struct gen *g)
{
	unsigned which = 1 + gen_below(g, 15);

	gen_put(g, 0x70 | which);
	gen_emit(g, ELEM_EVENT, g->made + 1)->value = which;
}

/* Commits all speculative P0 elements, or some. */
void gen_put_commit(struct gen *g, bool all)
{
	uint32_t n = all ? g->depth : g->depth ? 1 + gen_below(g, g->depth) : 0;

	if (!n)
		return;
	gen_put(g, 0x2d);
	gen_put_field(g, n);
	commit(g, n);
}

/* Writes a sync point: A-sync and trace info. Packets behind it do not depend on those before it. */
void gen_put_sync(struct gen *g, uint32_t unseen)
{
	bool cycles = g->config.configr >> 4 & 1;

	gen_put_bytes(g, 0, 8);
	gen_put_bytes(g, 0, 3);
	gen_put(g, 0x80);
	gen_put(g, 0x01);
	gen_put(g, 0x01 | (unseen ? 0x04 : 0) | (cycles ? 0x08 : 0));
	gen_put_field(g, cycles);
	if (unseen)
		gen_put_field(g, unseen);
	if (cycles)
		gen_put_field(g, g->threshold);
	memset(g->history, 0, sizeof(g->history));
	g->entries = g->known = 0;
	g->stack_waits = true;
	/* A decoder that starts here has seen no IDs. */
	g->ctxid_emitted = g->vmid_emitted = false;
	if (g->config.configr >> 11 & 1)
		gen_put_timestamp(g, true);
	if (g->config.idr0 >> 23 & 1 && (!g->marked || gen_below(g, 2)))
		gen_put_marker(g);
}

void gen_trace_on(struct gen *g)
{
	gen_put(g, 0x04);
	gen_emit(g, ELEM_TRACE_ON, g->made + 1)->reason = g->wants_overflow ? REASON_OVERFLOW : REASON_BEGIN;
	g->wants_overflow = false;
	g->entries = g->known = 0;
	gen_put_address_and_context(g, g->pc);
	g->start = g->pc;
}

/* Removes the expected elements of P0 elements that are not committed; lasting ones stay if lasting is true. */
void gen_drop_uncommitted(struct gen *g, bool lasting)
{
	struct truth *all = (struct truth *)g->truths.data;
	size_t n = g->truths.size / sizeof(*all), to = 0;
	bool blocked = false;

	for (size_t i = 0; i < n; i++) {
		bool gone = !all[i].always && all[i].p0 > g->committed;

		/* The end of a committed transaction is not speculative. */
		if (!lasting && all[i].element.kind == ELEM_TRANSACTION && all[i].element.value == 1 && !g->depth)
			all[i].lasting = true;

		if (gone && all[i].element.kind == ELEM_TRACE_ON && all[i].element.reason == REASON_OVERFLOW)
			g->wants_overflow = true;
		/*
		 * A P0 element counts even if it emits nothing. A transaction's start may be one, its end is none.
		 */
		if (gone && !all[i].lasting && all[i].element.kind != ELEM_CONTEXT)
			blocked = blocked || all[i].element.kind != ELEM_TRANSACTION ||
				  (!all[i].element.value && !(g->config.idr0 >> 30 & 1));
		blocked = blocked || (gone && all[i].p0 > g->committed + 1);
		if (!gone || (all[i].lasting && (lasting || !blocked)))
			all[to++] = all[i];
	}
	/* The remaining ones are final. */
	for (size_t i = 0; i < to; i++)
		all[i].always = true;
	g->truths.size = to * sizeof(*all);
	g->made = g->committed;
	g->depth = 0;
}
