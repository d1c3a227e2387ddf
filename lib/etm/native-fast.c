/* SPDX-License-Identifier: MIT */
/*
 * The fast path: decodes the common packets, atoms, addresses and cycle counts, while the queue is empty. What up to
 * four atom packets amount to from a block on is walked the first time, and becomes a memo entry when it occurs again:
 * entries for what never recurs would only evict others.
 *
 * Two things here look odd and are measured. The number of packets is found by branches, so that the processor's branch
 * predictor runs ahead of the loads; computing a length is slower. And GCC's vectorization of straight-line code keeps
 * the address history in vector registers that it spills and reloads all the time.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-chunk.h"

enum {
	LOOKAHEAD = 16,           /* bytes that one packet and the check behind it read at most */
	CYCLES_MAX = 8,           /* cycle counts that wait for a P0 element */
	GROUP_EDGES = 96,         /* edges of a group of packets, at most */
	SLACK = GROUP_EDGES + 16, /* edges or calls that one step of the loop writes, with some that do not count */
	PUSHES = 8,
};

/* A loop is compiled for each mode, without the code that the mode does not need: an outlet and flags. */
enum {
	MODE_OUTLET = 3,  /* mask: enum native_outlet */
	MODE_STACK = 4,   /* with a return stack */
	MODE_OFFSETS = 8, /* NATIVE_EDGES with offsets of packets */
};

/* The engine's state during the loop. It is stored to the engine when the loop ends. */
struct fast_state {
	uint32_t at; /* the block where control is, or UNRESOLVED */
	size_t n;    /* edges, or calls, in the batch */
	bool stored;
	/* Of NATIVE_CALLS and NATIVE_SUMS: */
	uint32_t last, left; /* the last edge, and the region that it left; of sums: FOLD_TORN, or another value */
	uint64_t instructions, ranges;
};

/* True if one of the next n returns may pop an entry from before the chunk, whose address is unknown. */
static inline bool returns_may_break(const struct native *e, int n)
{
	/* Entries from before the chunk are the oldest ones. */
	return e->chunk && n > 0 && e->stack.n && return_stack_is_open(&e->stack, MIN((unsigned)n, e->stack.n) - 1u);
}

/* Returns false where the fast path cannot run. */
static bool state_load(struct native *e, struct fast_state *ret)
{
	if (e->chunk && e->chunk->stepwise)
		return false;
	if (e->sync.state != SYNC_DONE || e->queue.n || e->config.idr8 || e->queue.state.depth ||
	    e->queue.state.pending || !e->control.has_context || e->control.need == NEED_ADDRESS ||
	    e->control.stack_blocked)
		return false;
	ret->at = e->control.need == NEED_TARGET ? UNRESOLVED : e->control.block;
	if (!ret->at && blocks_find(&e->blocks, e->control.address, &ret->at) < 0)
		return false;
	ret->n = e->batch.n;
	ret->stored = false;
	if (!e->fold)
		return true;
	/* What is not committed yet has to be folded first. */
	if (e->batch.committed.edges != e->batch.n || native_fold_edges(e) < 0)
		return false;
	ret->last = e->fold->last;
	if (!(ret->at & UNRESOLVED) && native_fold_torn(e, ret->last, e->blocks.list[ret->at].start))
		ret->left = FOLD_TORN;
	else
		ret->left = e->fold->fresh ? FOLD_FRESH : native_fold_left(e, ret->last);
	ret->instructions = e->fold->instructions;
	ret->ranges = e->fold->ranges;
	ret->n = e->batch.n_calls;
	return true;
}

static void state_store(struct native *e, struct fast_state *p)
{
	p->stored = true;
	if (!e->fold) {
		e->batch.n = p->n;
	} else {
		e->fold->last = p->last;
		e->fold->fresh = e->fold->fresh && p->ranges == e->fold->ranges;
		e->fold->instructions = p->instructions;
		e->fold->ranges = p->ranges;
		e->batch.n_calls = p->n;
	}
	e->control.block = p->at & UNRESOLVED ? 0 : p->at;
	e->control.need = p->at & UNRESOLVED ? NEED_TARGET : NEED_NOTHING;
	if (p->at & UNRESOLVED && p->at != UNRESOLVED)
		e->control.address = block_end(&e->blocks.list[p->at & ~UNRESOLVED]);
}

/* Flushes the batch, so that it has room for another step. NATIVE_STEP: it has not, even so. */
static int batch_reserve(struct native *e, struct fast_state *p)
{
	const size_t *capacity = e->fold ? &e->batch.calls_capacity : &e->batch.capacity;
	int rc;

	if (e->fold) {
		e->batch.n_calls = p->n;
	} else {
		e->batch.n = p->n;
	}
	/* The list of calls has no memory before the first one; sums have few or none. */
	if (!*capacity && e->fold)
		return native_batch_grow_calls(e);
	if (*capacity < 2 * SLACK)
		return NATIVE_STEP;
	rc = native_flush(e);
	p->n = e->fold ? e->batch.n_calls : e->batch.n;
	if (rc < 0)
		return rc;
	return *capacity - p->n < SLACK ? NATIVE_STEP : 0;
}

static inline void copy_edges(const struct native_memo *m, const struct memo_entry *from, uint32_t *to)
{
	/* All of the list, also what is behind its end: that is cheaper than a variable length. */
	if (__builtin_expect(!from->pooled, 1))
		memcpy(to, from->edges, sizeof(from->edges));
	else
		memcpy(to, m->pool + from->edges[0], from->n * sizeof(*to));
}

static inline void copy_calls(const struct native_memo *m, const struct memo_entry *from, struct fast_state *p,
			      struct native_call *to)
{
	const uint32_t *call = from->pooled ? m->pool + from->calls.list[0] : from->calls.list;

	for (unsigned i = 0; i < from->n; i++, call += 3)
		to[i] = (struct native_call){ call[0], call[1], p->instructions + call[2] };
	p->n += from->n;
}

/* Returns whether control that enters a region is emitted as a call. */
static inline __attribute__((always_inline)) bool is_call(const struct fast_state *p, uint32_t entered,
							  const unsigned mode)
{
	if ((mode & MODE_OUTLET) == NATIVE_SUMS)
		return __builtin_expect(p->left == FOLD_TORN, 0);
	return p->left != entered || entered & FOLD_ALWAYS;
}

/* Emits what an entry holds, and goes to where it ends. */
static inline __attribute__((always_inline)) void entry_emit(struct native *e, struct fast_state *p,
							     struct memo_entry *entry, const unsigned mode)
{
	if ((mode & MODE_OUTLET) == NATIVE_EDGES) {
		copy_edges(e->memo, entry, e->batch.edges + p->n);
		p->n += entry->n;
	} else {
		if (is_call(p, entry->calls.entered, mode))
			e->batch.calls[p->n++] =
			    (struct native_call){ p->last, p->at | (p->left == FOLD_TORN ? NATIVE_TORN : 0),
						  p->instructions };
		if ((mode & MODE_OUTLET) == NATIVE_CALLS && entry->n)
			copy_calls(e->memo, entry, p, e->batch.calls + p->n);
		p->instructions += entry->calls.executed >> ENTRY_RANGES_BITS;
		p->ranges += entry->calls.executed & ((1 << ENTRY_RANGES_BITS) - 1);
		p->last = entry->calls.last_edge;
		p->left = entry->calls.left;
	}
	p->at = entry->end;
}

/* Pops the return stack and returns its block. 0, and nothing is popped: it is empty, or the block is not cached. */
static inline uint32_t stack_pop(struct native *e)
{
	const struct native_return_stack *s = &e->stack;
	uint32_t from = s->slots[s->top].block, to;

	if (!s->n)
		return 0;
	to = from                    ? e->blocks.next[make_edge(from, false)]
	     : s->slots[s->top].open ? 0
				     : blocks_cached(&e->blocks, s->slots[s->top].address);
	if (to)
		return_stack_pop(&e->stack);
	return to;
}

static inline void stack_push_entry(struct native *e, struct memo_entry *from)
{
	for (unsigned i = 0; i < from->n_pushes; i++)
		return_stack_push_block(&e->stack, *entry_pushed(from, i));
}

static inline struct memo_entry *entry_look_up(const struct native *e, uint64_t key)
{
	struct memo_entry *entry = native_memo_slot(e->memo, key);

	if (__builtin_expect(entry->key == key, 1))
		return entry;
	entry = native_memo_second(e->memo, entry);
	return entry->key == key ? entry : NULL;
}

static inline int entry_find(struct native *e, uint64_t key, struct memo_entry **ret)
{
	*ret = entry_look_up(e, key);
	return *ret ? 0 : native_memo_learn(e, key, ret);
}

/*
 * Decodes the remaining atoms of a packet in whose middle control returned to a caller. NATIVE_STEPPED: some of them
 * have no entry, and were decoded one by one. NATIVE_BAD.
 */
static inline __attribute__((always_inline)) int rest_decode(struct native *e, struct fast_state *p, uint32_t rest,
							     uint64_t offset, const unsigned mode)
{
	struct memo_entry *entry = NULL;
	int rc = 0;

	while (rest) {
		uint32_t to = stack_pop(e);

		if (!to)
			break;
		p->at = to;
		rc = entry_find(e, (uint64_t)to << 32 | rest, &entry);
		if (rc != 0)
			break;
		rest = entry->rest;
		stack_push_entry(e, entry);
		entry_emit(e, p, entry, mode);
	}
	if (!rest || rc < 0)
		return rc;
	state_store(e, p);
	rest >>= 8;
	/* The bit above the newest atom is not an atom. */
	for (rc = 0; rest > 1 && rc == 0; rest >>= 1)
		rc = native_flow_atom(e, rest & 1, offset);
	if ((mode & MODE_OUTLET) != NATIVE_EDGES && rc == 0)
		e->batch.committed.edges = e->batch.n;
	p->n = e->batch.n;
	return rc == 0 ? NATIVE_STEPPED : rc;
}

/* Returns the number of remaining atoms. */
static inline unsigned rest_atoms(uint32_t rest)
{
	return 31 - (unsigned)__builtin_clz(rest >> 8);
}

/* For calls and sums: commits the cycle counts that waited for the P0 element after them. */
static inline void cycles_commit(struct native *e, struct fast_state *p)
{
	for (size_t i = e->batch.committed.edges; i < e->batch.n; i++)
		e->batch.calls[p->n++] = (struct native_call){ e->batch.edges[i], p->last, p->instructions };
	e->batch.n = e->batch.committed.edges;
}

/* Parses a common packet with a cycle count. Returns its size, or 0 for any other packet. */
static inline size_t cycles_parse(const struct native *e, const uint8_t *p, uint32_t *ret)
{
	uint32_t threshold = e->packets.state.threshold, count;
	size_t size = 2;

	if (!e->packets.commit_option || threshold > 1 << 20)
		return 0;
	if ((p[0] & 0xf0) == 0x10) {
		*ret = threshold + (p[0] & 3);
		return 1;
	}
	if ((p[0] & 0xfe) == 0x0c) {
		*ret = threshold + (p[1] & 15);
		return 2;
	}
	if (p[0] != 0x0e)
		return 0;
	count = p[1] & 0x7f;
	if (p[1] & 0x80) {
		count |= (uint32_t)(p[2] & 0x7f) << 7;
		size = 3;
	}
	if (size == 3 && p[2] & 0x80) {
		count |= (uint32_t)(p[3] & 0x7f) << 14;
		size = p[3] & 0x80 ? 0 : 4;
	}
	*ret = threshold + count;
	return size;
}

/* The loop's copy of the address history, with a block for each: in scalar registers, not in vectors. */
struct fast_addresses {
	uint64_t a0, a1, a2;
	uint32_t b0, b1, b2;
};

/* Returns how many atom packets follow each other, at most four, and their bytes, the first one lowest. */
static inline unsigned atoms_gather(const uint8_t *at, uint32_t *ret_headers)
{
	*ret_headers = at[0];
	if (at[1] < 0xc0)
		return 1;
	*ret_headers |= (uint32_t)at[1] << 8;
	if (at[2] < 0xc0)
		return 2;
	if (at[3] < 0xc0) {
		*ret_headers |= (uint32_t)at[2] << 16;
		return 3;
	}
	memcpy(ret_headers, at, sizeof(*ret_headers));
	*ret_headers = le32toh(*ret_headers);
	return 4;
}

/* Sets the offsets of the edges from and up to end, which packets gave, one edge for each atom. */
static inline void offsets_fill(struct native *e, const uint8_t *at, unsigned packets, uint64_t offset, size_t from,
				size_t end)
{
	uint64_t *to = e->batch.offsets + from;

	for (unsigned i = 0; i + 1 < packets; i++) {
		unsigned n = packet_atoms[at[i]] >> 24;

		/* Most packets have three atoms or fewer. */
		to[0] = to[1] = to[2] = offset;
		for (unsigned k = 3; k < n; k++)
			to[k] = offset;
		to += n;
		offset++;
	}
	for (uint64_t *last = e->batch.offsets + end; to < last; to++)
		*to = offset;
}

/* Commits the edges that the loop has emitted. Calls and sums are emitted as committed; only cycle counts wait. */
static inline __attribute__((always_inline)) void step_commit(struct native *e, const struct fast_state *p,
							      const unsigned mode)
{
	if ((mode & MODE_OUTLET) == NATIVE_EDGES)
		e->batch.committed.edges = p->n;
}

/* What some packets amount to. */
struct fast_walk {
	uint32_t *edges; /* of GROUP_EDGES */
	unsigned n, n_pushes;
	uint32_t end, pushes[PUSHES];
};

/* Follows packets by what is known of blocks. Returns false where that is not enough. */
static inline __attribute__((always_inline)) bool walk_packets(const struct native *e, uint32_t from, const uint8_t *at,
							       unsigned packets, struct fast_walk *w,
							       const unsigned mode)
{
	const uint32_t *next = e->blocks.next;
	const struct basic_block *list = e->blocks.list, *b;
	uint32_t here = from, edge = 0;

	w->n = w->n_pushes = 0;
	for (unsigned i = 0; i < packets; i++) {
		uint32_t atoms = packet_atoms[at[i]];

		for (unsigned left = atoms >> 24; left; left--, atoms >>= 1) {
			if (!here)
				return false;
			edge = make_edge(here, atoms & 1);
			w->edges[w->n++] = edge;
			here = next[edge];
			if (mode & MODE_STACK && edge_is_taken(edge) && list[edge_block(edge)].link) {
				if (w->n_pushes == PUSHES)
					return false;
				w->pushes[w->n_pushes++] = edge_block(edge);
			}
		}
	}
	w->end = here;
	if (!here) {
		b = &list[edge_block(edge)];
		if (b->missing || !edge_is_taken(edge) || b->kind != INSTR_IBR || (e->ete && b->sub == SUB_ERET))
			return false;
		w->end = edge_block(edge) | UNRESOLVED;
	}
	for (unsigned i = 0; (mode & MODE_OUTLET) != NATIVE_EDGES && i < w->n; i++) {
		uint32_t block = edge_block(w->edges[i]);

		if (list[block].always && !edge_is_taken(w->edges[i]))
			return false;
		if ((mode & MODE_OUTLET) == NATIVE_CALLS &&
		    (block >= e->fold->capacity || !e->fold->regions[block].first))
			return false;
	}
	return true;
}

/* Emits what was walked, and goes to where it ends. */
static inline __attribute__((always_inline)) void walk_emit(struct native *e, struct fast_state *p,
							    const struct fast_walk *w, const unsigned mode)
{
	const struct basic_block *list = e->blocks.list;
	struct native_call *calls = e->batch.calls;
	const struct fold_regions none = { 0 };

	if ((mode & MODE_OUTLET) == NATIVE_EDGES) {
		p->n += w->n;
	} else {
		for (unsigned i = 0; i < w->n; i++) {
			uint32_t edge = w->edges[i], block = edge_block(edge);
			const struct fold_regions *regions =
			    (mode & MODE_OUTLET) == NATIVE_CALLS ? &e->fold->regions[block] : &none;

			if (is_call(p, regions->first, mode))
				calls[p->n++] =
				    (struct native_call){ p->last, block | (p->left == FOLD_TORN ? NATIVE_TORN : 0),
							  p->instructions };
			p->instructions += list[block].count;
			p->last = edge;
			p->left = regions->last |
				  (native_fold_always_emits(&list[block], edge_is_taken(edge)) ? FOLD_ALWAYS : 0);
		}
		p->ranges += w->n;
	}
	for (unsigned i = 0; i < w->n_pushes; i++)
		return_stack_push_block(&e->stack, w->pushes[i]);
	p->at = w->end;
}

/*
 * Decodes atom packets, *ret_used of them. Besides negative errno: NATIVE_STEP, NATIVE_STEPPED or NATIVE_BAD, which end
 * the loop.
 */
static inline __attribute__((always_inline)) int atoms_decode(struct native *e, struct fast_state *p, const uint8_t *at,
							      uint64_t offset, unsigned *ret_used, const unsigned mode)
{
	uint32_t edges[GROUP_EDGES], headers, to;
	struct fast_walk w = { .edges = (mode & MODE_OUTLET) == NATIVE_EDGES ? e->batch.edges + p->n : edges };
	size_t before = p->n;
	struct memo_entry *entry;
	uint64_t key;
	unsigned packets;
	int rc;

	if (p->at & UNRESOLVED) {
		to = mode & MODE_STACK ? stack_pop(e) : 0;
		if (!to)
			return NATIVE_STEP;
		p->at = to;
	}
	packets = atoms_gather(at, &headers);
	key = (uint64_t)p->at << 32 | headers;
	entry = entry_look_up(e, key);
	if (__builtin_expect(!entry, 0)) {
		if (!native_memo_tried(e->memo, key) && walk_packets(e, p->at, at, packets, &w, mode)) {
			*ret_used = packets;
			if ((mode & MODE_OUTLET) != NATIVE_EDGES && e->batch.n != e->batch.committed.edges)
				cycles_commit(e, p);
			walk_emit(e, p, &w, mode);
			if (mode & MODE_OFFSETS)
				offsets_fill(e, at, packets, offset, before, p->n);
			step_commit(e, p, mode);
			return 0;
		}
		rc = native_memo_learn(e, key, &entry);
		if (rc != 0)
			return rc;
	}
	/* Control became unresolved before the last packet. */
	if (__builtin_expect(entry->used != packets, 0)) {
		if (!(mode & MODE_STACK))
			return NATIVE_STEP;
		packets = entry->used;
	}
	/* What has been folded cannot be undone, so it must be known that the remaining atoms can be decoded. */
	if (mode & MODE_STACK && entry->rest && returns_may_break(e, (int)rest_atoms(entry->rest) - entry->n_pushes))
		return NATIVE_STEP;
	if (mode & MODE_STACK && (mode & MODE_OUTLET) != NATIVE_EDGES && entry->rest &&
	    rest_atoms(entry->rest) > (unsigned)e->stack.n + entry->n_pushes)
		return NATIVE_STEP;
	*ret_used = packets;
	if ((mode & MODE_OUTLET) != NATIVE_EDGES && e->batch.n != e->batch.committed.edges)
		cycles_commit(e, p);
	if (mode & MODE_STACK && entry->n_pushes)
		stack_push_entry(e, entry);
	entry_emit(e, p, entry, mode);
	/* If the remaining atoms are malformed, their packet is dropped with the cycle counts ahead of it, but not the
	 * atom packets before it. */
	rc = 0;
	if (mode & MODE_STACK && entry->rest) {
		if (packets > 1 && (mode & MODE_OUTLET) == NATIVE_EDGES)
			e->batch.committed.edges =
			    p->n + rest_atoms(entry->rest) - (packet_atoms[at[packets - 1]] >> 24);
		rc = rest_decode(e, p, entry->rest, offset + packets - 1, mode);
	}
	if (mode & MODE_OFFSETS)
		offsets_fill(e, at, packets, offset, before, p->n);
	if (rc == 0 || rc == NATIVE_STEPPED)
		step_commit(e, p, mode);
	return rc;
}

/* Handles an address packet of which the target is not needed: notes whether the code leads elsewhere, so control is
 * torn. */
static __attribute__((noinline)) void note_torn(struct native *e, struct fast_state *p, uint64_t address)
{
	if (native_fold_torn(e, p->last, address))
		p->left = FOLD_TORN;
	else if (p->left == FOLD_TORN)
		p->left = FOLD_FRESH;
}

/* Decodes a common address packet; *ret_size 0: the packet is of another kind. NATIVE_STEP. */
static inline __attribute__((always_inline)) int address_decode(struct native *e, struct fast_state *p,
								const uint8_t *at, struct fast_addresses *r,
								size_t *ret_size, const unsigned mode)
{
	uint64_t address;
	uint32_t to = 0;
	int rc;

	if (at[0] < 0x93) {
		address = at[0] == 0x90 ? r->a0 : at[0] == 0x91 ? r->a1 : r->a2;
		to = at[0] == 0x90 ? r->b0 : at[0] == 0x91 ? r->b1 : r->b2;
		*ret_size = 1;
	} else {
		address = packet_parse_common_address(at, r->a0, ret_size);
		if (!*ret_size)
			return 0;
	}
	if (!to)
		to = blocks_cached(&e->blocks, address);
	if (__builtin_expect(!to, 0)) {
		rc = blocks_full(&e->blocks) ? NATIVE_STEP : blocks_find(&e->blocks, address, &to);
		if (rc != 0)
			return rc;
	}
	*r = (struct fast_addresses){ address, r->a0, r->a1, to, r->b0, r->b1 };
	if ((mode & MODE_OUTLET) != NATIVE_EDGES && __builtin_expect(!(p->at & UNRESOLVED), 0) && p->at != to)
		note_torn(e, p, address);
	p->at = to;
	return 0;
}

/* Adds a common cycle count to the batch. Returns the packet's size, or 0 for any other packet. */
static inline __attribute__((always_inline)) size_t
cycles_decode(struct native *e, struct fast_state *p, const uint8_t *at, uint64_t offset, const unsigned mode)
{
	uint32_t cycles;
	size_t size = cycles_parse(e, at, &cycles);

	if (mode & MODE_OFFSETS)
		e->batch.offsets[p->n] = offset;
	if (size && (mode & MODE_OUTLET) == NATIVE_EDGES)
		e->batch.edges[p->n++] = NATIVE_CYCLES | cycles;
	else if (size && e->batch.n < e->batch.capacity && e->batch.n - e->batch.committed.edges < CYCLES_MAX)
		e->batch.edges[e->batch.n++] = NATIVE_CYCLES | cycles;
	else
		size = 0;
	return size;
}

static inline __attribute__((always_inline)) int packets_run(struct native *e, const uint8_t *bytes, size_t n,
							     uint64_t offset, size_t *ret_used, const unsigned mode)
{
	const uint8_t *at = bytes, *limit = bytes + n - LOOKAHEAD, *last = NULL;
	uint64_t *history = e->packets.state.history;
	uint32_t *blocks = e->packets.blocks;
	struct fast_addresses recent = { history[0], history[1], history[2], blocks[0], blocks[1], blocks[2] };
	struct fast_state p;
	int rc = 0;

	*ret_used = 0;
	if (n <= LOOKAHEAD || !state_load(e, &p))
		return 0;
	while (at < limit) {
		size_t size = 0;

		if (__builtin_expect(
			((mode & MODE_OUTLET) == NATIVE_EDGES ? e->batch.capacity : e->batch.calls_capacity) - p.n <
			    SLACK,
			0)) {
			rc = batch_reserve(e, &p);
			if (rc != 0)
				break;
		}
		if (at[0] >= 0xc0) {
			unsigned packets = 0;

			rc = atoms_decode(e, &p, at, offset + (uint64_t)(at - bytes), &packets, mode);
			last = packets ? at + packets - 1 : last;
			at += packets;
			if (rc != 0)
				break;
			continue;
		}
		if (at[0] >= 0x90)
			rc = address_decode(e, &p, at, &recent, &size, mode);
		else
			size = cycles_decode(e, &p, at, offset + (uint64_t)(at - bytes), mode);
		if (rc != 0 || !size)
			break;
		last = at;
		at += size;
	}
	if (!p.stored)
		state_store(e, &p);
	memcpy(history, (const uint64_t[]){ recent.a0, recent.a1, recent.a2 }, sizeof(e->packets.state.history));
	memcpy(blocks, (const uint32_t[]){ recent.b0, recent.b1, recent.b2 }, sizeof(e->packets.blocks));
	if (last)
		e->offset = offset + (uint64_t)(last - bytes);
	*ret_used = (size_t)(at - bytes);
	/* A malformed packet is an atom packet, of one byte, and does not count as decoded. */
	e->stats.decoded += e->sync.counted ? *ret_used - (rc == NATIVE_BAD) : 0;
	if (rc == NATIVE_BAD)
		return rc;
	e->batch.committed.events = e->batch.n_events;
	/* After NATIVE_STEP, the caller decodes the next packet by itself. */
	return MIN(rc, 0);
}

int native_fast_packets(struct native *e, const uint8_t *bytes, size_t n, uint64_t offset, size_t *ret_used)
{
	unsigned mode = (unsigned)e->sink.outlet | (e->stack.enabled ? MODE_STACK : 0) |
			(e->sink.outlet == NATIVE_EDGES && e->sink.offsets ? MODE_OFFSETS : 0);

	/* The compiler makes a loop of each call, as its mode is constant. */
	switch (mode) {
	case NATIVE_EDGES:
		return packets_run(e, bytes, n, offset, ret_used, NATIVE_EDGES);
	case NATIVE_EDGES | MODE_STACK:
		return packets_run(e, bytes, n, offset, ret_used, NATIVE_EDGES | MODE_STACK);
	case NATIVE_EDGES | MODE_OFFSETS:
		return packets_run(e, bytes, n, offset, ret_used, NATIVE_EDGES | MODE_OFFSETS);
	case NATIVE_EDGES | MODE_STACK | MODE_OFFSETS:
		return packets_run(e, bytes, n, offset, ret_used, NATIVE_EDGES | MODE_STACK | MODE_OFFSETS);
	case NATIVE_CALLS:
		return packets_run(e, bytes, n, offset, ret_used, NATIVE_CALLS);
	case NATIVE_CALLS | MODE_STACK:
		return packets_run(e, bytes, n, offset, ret_used, NATIVE_CALLS | MODE_STACK);
	case NATIVE_SUMS:
		return packets_run(e, bytes, n, offset, ret_used, NATIVE_SUMS);
	default:
		return packets_run(e, bytes, n, offset, ret_used, NATIVE_SUMS | MODE_STACK);
	}
}
