/*
 * The common packets, where nothing is held back: atoms, addresses, cycle counts. What the atoms of up to four packets
 * come to from a block on is walked at first, and when it comes again remembered whole: what never does would only push
 * out what is remembered.
 *
 * Two things here look odd and are measured. How many packets there are is found out by branches, which lets the
 * processor's predictor run ahead of the loads; a computed length is slower. And GCC's vectorisation of straight-line
 * code keeps the address history in vector registers that it spills and reloads all the time.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-chunk.h"

enum {
	LOOKAHEAD = 16,           /* bytes that a packet and a look behind it take at most */
	CYCLES_MAX = 8,           /* cycle counts that wait */
	GROUP_EDGES = 96,         /* that a group of packets comes to at most; */
	SLACK = GROUP_EDGES + 16, /* or calls, and some that do not count */
	PUSHES = 8,
};

/* Where the loop stands; it is put back into the engine when the loop is left. */
struct fast_state {
	uint32_t at; /* the block where control is, or GONE */
	size_t n;    /* words, or calls */
	/* Of outlets that fold: */
	uint32_t last, left; /* the last word, and the region in which it was left */
	uint64_t instructions, ranges;
};

/* Of so many returns, one might be to where only the engine knows that was at work before this part. */
static inline bool may_break(const struct native *e, int n)
{
	unsigned slot = (e->top + RETURN_STACK + 1u - (unsigned)n) % RETURN_STACK;

	return e->part && n > 0 && n <= e->entries && !e->stack[slot].block && e->stack[slot].open;
}

static bool begin(struct native *e, struct fast_state *ret)
{
	if (e->part && e->part->slow)
		return false;
	if (e->sync != SYNC_DONE || e->n_queue || e->config.idr8 || e->depth || e->pending || !e->has_context ||
	    e->need == NEED_ADDRESS || e->stack_waits)
		return false;
	ret->at = e->need == NEED_TARGET ? GONE : e->block;
	if (!ret->at && blocks_find(&e->blocks, e->address, &ret->at) < 0)
		return false;
	ret->n = e->out.n;
	if (!e->fold)
		return true;
	/* What is not settled yet comes first. */
	if (e->mark != e->out.n || native_fold_edges(e) < 0)
		return false;
	ret->last = e->fold->last;
	ret->left = 0;
	if (e->sink.outlet == NATIVE_CALLS && !(ret->at & GONE) &&
	    native_fold_torn(e, ret->last, e->blocks.list[ret->at].start))
		ret->left = FOLD_TORN;
	else if (e->sink.outlet == NATIVE_CALLS)
		ret->left = e->fold->fresh ? FOLD_FRESH : native_fold_left(e, ret->last);
	else if (ret->last && !(edge_taken(ret->last) && e->blocks.list[edge_block(ret->last)].kind == INSTR_IBR))
		ret->last = 0;
	ret->instructions = e->fold->instructions;
	ret->ranges = e->fold->ranges;
	ret->n = e->out.n_calls;
	return true;
}

static void end(struct native *e, const struct fast_state *p)
{
	if (!e->fold) {
		e->out.n = p->n;
	} else {
		e->fold->last = p->last;
		e->fold->fresh = e->fold->fresh && p->ranges == e->fold->ranges;
		e->fold->instructions = p->instructions;
		e->fold->ranges = p->ranges;
		e->out.n_calls = e->sink.outlet == NATIVE_CALLS ? p->n : 0;
	}
	e->block = p->at & GONE ? 0 : p->at;
	e->need = p->at & GONE ? NEED_TARGET : NEED_NOTHING;
	if (p->at & GONE && p->at != GONE)
		e->address = block_end(&e->blocks.list[p->at & ~GONE]);
}

/* 0: there is capacity for what one packet and those behind it come to. */
static int make_room(struct native *e, struct fast_state *p, size_t *settled)
{
	const size_t *capacity = e->fold ? &e->out.calls_capacity : &e->out.capacity;
	int rc;

	if (e->fold) {
		e->out.n_calls = p->n;
	} else {
		e->out.n = p->n;
		e->mark = *settled;
	}
	if (*capacity < 2 * SLACK)
		return 1;
	rc = native_flush(e);
	*settled = e->mark;
	p->n = e->fold ? e->out.n_calls : e->out.n;
	return rc < 0 ? rc : *capacity - p->n < SLACK;
}

static inline void copy_edges(const struct native_memo *m, const struct memo_entry *from, uint32_t *to)
{
	/* All of them, whether or not they count: that is cheaper than to ask. */
	if (__builtin_expect(!from->pooled, 1))
		memcpy(to, from->edges, ENTRY_EDGES * sizeof(*to));
	else
		memcpy(to, m->pool + from->edges[0], from->n * sizeof(*to));
}

static inline void copy_calls(const struct native_memo *m, const struct memo_entry *from, struct fast_state *p,
			      struct native_call *to)
{
	const uint32_t *call = from->pooled ? m->pool + from->edges[ENTRY_CALLS] : from->edges + ENTRY_CALLS;

	for (unsigned i = 0; i < from->n; i++, call += 3)
		to[i] = (struct native_call){ call[0], call[1], p->instructions + call[2] };
	p->n += from->n;
}

/* What ran by an entry is told, in the outlet's way. */
static inline __attribute__((always_inline)) int take_entry(struct native *e, struct fast_state *p,
							    struct memo_entry *entry, const enum native_outlet outlet)
{
	int rc = 0;

	if (outlet == NATIVE_EDGES) {
		copy_edges(e->memo, entry, e->out.edges + p->n);
		p->n += entry->n;
	} else if (outlet == NATIVE_CALLS) {
		if (p->left != entry->edges[2] || entry->edges[2] >> 31)
			e->out.calls[p->n++] =
			    (struct native_call){ p->last, p->at | (p->left == FOLD_TORN ? NATIVE_TORN : 0),
						  p->instructions };
		if (entry->n)
			copy_calls(e->memo, entry, p, e->out.calls + p->n);
		p->instructions += entry->edges[0] >> ENTRY_RANGES_BITS;
		p->ranges += entry->edges[0] & ((1 << ENTRY_RANGES_BITS) - 1);
		p->last = entry->edges[1];
		p->left = entry->edges[3];
	} else {
		if (p->last)
			rc = native_fold_count_target(e, p->last, p->at);
		p->last = entry->end & GONE ? make_edge(entry->end & ~GONE, true) : 0;
		if (!++entry->edges[0]) {
			/* It is 2^32 times now. */
			entry->edges[0] = UINT32_MAX;
			rc = native_fold_count_entry(e, entry);
			entry->edges[0] = 1;
		}
	}
	p->at = entry->end;
	return rc;
}

/* The target of an indirect branch, off the return stack; 0: not at hand. */
static inline uint32_t pop(struct native *e)
{
	uint32_t from = e->stack[e->top].block, to;

	if (!e->entries)
		return 0;
	to = from                    ? e->blocks.next[make_edge(from, false)]
	     : e->stack[e->top].open ? 0
				     : blocks_cached(&e->blocks, e->stack[e->top].address);
	if (!to)
		return 0;
	e->top = (e->top + RETURN_STACK - 1) % RETURN_STACK;
	e->entries--;
	return to;
}

static inline void push(struct native *e, const struct memo_entry *from)
{
	for (unsigned i = 0; i < from->n_pushes; i++) {
		e->top = (e->top + 1) % RETURN_STACK;
		e->stack[e->top].block = from->edges[ENTRY_EDGES - 1 - i];
		e->entries = (uint8_t)MIN(e->entries + 1, RETURN_STACK);
	}
}

static inline struct memo_entry *look_up(const struct native *e, uint64_t key)
{
	struct memo_entry *entry = native_memo_slot(e->memo, key);

	if (__builtin_expect(entry->key == key, 1))
		return entry;
	entry = native_memo_second(e->memo, entry);
	return entry->key == key ? entry : NULL;
}

static inline int find_entry(struct native *e, uint64_t key, struct memo_entry **ret)
{
	*ret = look_up(e, key);
	return *ret ? 0 : native_memo_learn(e, key, ret);
}

/*
 * What is left of a packet in whose middle control returned to a caller. Atoms that no entry has go one by one; *p says
 * nothing any more then, and p->at is 0.
 */
static inline __attribute__((always_inline)) int take_rest(struct native *e, struct fast_state *p, uint32_t rest,
							   uint64_t offset, const enum native_outlet outlet)
{
	struct memo_entry *entry = NULL;
	int rc = 0;

	while (rest) {
		uint32_t to = pop(e);

		if (!to)
			break;
		p->at = to;
		rc = find_entry(e, (uint64_t)to << 32 | rest, &entry);
		if (rc != 0)
			break;
		rest = entry->rest;
		push(e, entry);
		rc = take_entry(e, p, entry, outlet);
		if (rc < 0)
			break;
	}
	if (!rest || rc < 0)
		return rc;
	end(e, p);
	rest >>= 8;
	/* The bit above the newest atom is no atom. */
	for (rc = 0; rest > 1 && rc == 0; rest >>= 1)
		rc = native_flow_atom(e, rest & 1, offset);
	if (outlet != NATIVE_EDGES && rc == 0)
		e->mark = e->out.n;
	p->n = e->out.n;
	p->at = 0;
	return rc == NATIVE_BAD ? -EBADMSG : rc;
}

static inline unsigned atoms_of(uint32_t rest)
{
	return 31 - (unsigned)__builtin_clz(rest >> 8);
}

/* Of outlets that fold: cycle counts that wait for the P0 element behind them. */
static inline void settle_cycles(struct native *e, struct fast_state *p, const enum native_outlet outlet)
{
	if (outlet == NATIVE_CALLS) {
		for (size_t i = e->mark; i < e->out.n; i++)
			e->out.calls[p->n++] = (struct native_call){ e->out.edges[i], p->last, p->instructions };
		e->out.n = e->mark;
	} else {
		e->mark = e->fold->kept = e->out.n;
	}
}

/* A cycle count; its size, or 0: not one that is common. */
static inline size_t read_cycles(const struct native *e, const uint8_t *p, uint32_t *ret)
{
	uint32_t count;
	size_t size = 2;

	if (!e->packets.commit_option || e->packets.threshold > 1 << 20)
		return 0;
	if ((p[0] & 0xf0) == 0x10) {
		*ret = e->packets.threshold + (p[0] & 3);
		return 1;
	}
	if ((p[0] & 0xfe) == 0x0c) {
		*ret = e->packets.threshold + (p[1] & 15);
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
	*ret = e->packets.threshold + count;
	return size;
}

/* The loop's own copy of the address history, with a block for each; a register each, and no vectors. */
struct fast_addresses {
	uint64_t a0, a1, a2;
	uint32_t b0, b1, b2;
};

/* How many atom packets follow each other, at most four, and their bytes. */
static inline unsigned count_atoms(const uint8_t *at, uint32_t *ret_word)
{
	*ret_word = at[0];
	if (at[1] < 0xc0)
		return 1;
	*ret_word |= (uint32_t)at[1] << 8;
	if (at[2] < 0xc0)
		return 2;
	if (at[3] < 0xc0) {
		*ret_word |= (uint32_t)at[2] << 16;
		return 3;
	}
	memcpy(ret_word, at, sizeof(*ret_word));
	*ret_word = le32toh(*ret_word);
	return 4;
}

/* An atom is a word: of packets, and of what is left of the last one. */
static inline void emit_offsets(struct native *e, const uint8_t *at, unsigned packets, uint64_t offset, size_t from,
				size_t end)
{
	uint64_t *to = e->out.offsets + from;

	for (unsigned i = 0; i + 1 < packets; i++) {
		unsigned n = packet_atoms[at[i]] >> 24;

		/* Most have three at most. */
		to[0] = to[1] = to[2] = offset;
		for (unsigned k = 3; k < n; k++)
			to[k] = offset;
		to += n;
		offset++;
	}
	for (uint64_t *last = e->out.offsets + end; to < last; to++)
		*to = offset;
}

/* What ran by some packets. */
struct fast_walk {
	uint32_t *edges; /* capacity for GROUP_EDGES */
	unsigned n, n_pushes;
	uint32_t end, pushes[PUSHES];
};

/* False: it is not as easy as that. */
static inline __attribute__((always_inline)) bool walk(const struct native *e, uint32_t from, const uint8_t *at,
						       unsigned packets, struct fast_walk *w, const bool stack,
						       const enum native_outlet outlet)
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
			if (stack && edge_taken(edge) && list[edge_block(edge)].link) {
				if (w->n_pushes == PUSHES)
					return false;
				w->pushes[w->n_pushes++] = edge_block(edge);
			}
		}
	}
	w->end = here;
	if (!here) {
		b = &list[edge_block(edge)];
		if (b->missing || !(edge_taken(edge)) || b->kind != INSTR_IBR || (e->ete && b->sub == SUB_ERET))
			return false;
		w->end = edge_block(edge) | GONE;
	}
	for (unsigned i = 0; outlet != NATIVE_EDGES && i < w->n; i++) {
		uint32_t block = edge_block(w->edges[i]);

		if (block >= e->fold->capacity || (list[block].always && !(edge_taken(w->edges[i]))) ||
		    (outlet == NATIVE_CALLS && !e->fold->regions[2 * block]))
			return false;
	}
	return true;
}

/* It is told, in the outlet's way. */
static inline __attribute__((always_inline)) int take_walk(struct native *e, struct fast_state *p,
							   const struct fast_walk *w, const enum native_outlet outlet)
{
	const struct basic_block *list = e->blocks.list;
	struct native_call *calls = e->out.calls;
	int rc = 0;

	if (outlet == NATIVE_EDGES) {
		p->n += w->n;
	} else if (outlet == NATIVE_CALLS) {
		for (unsigned i = 0; i < w->n; i++) {
			uint32_t edge = w->edges[i], block = edge_block(edge), to = e->fold->regions[2 * block];

			if (p->left != to || to & FOLD_ALWAYS)
				calls[p->n++] =
				    (struct native_call){ p->last, block | (p->left == FOLD_TORN ? NATIVE_TORN : 0),
							  p->instructions };
			p->instructions += list[block].count;
			p->last = edge;
			p->left = e->fold->regions[2 * block + 1] |
				  (native_fold_is_call(&list[block], edge_taken(edge)) ? FOLD_ALWAYS : 0);
		}
		p->ranges += w->n;
	} else {
		if (p->last)
			rc = native_fold_count_target(e, p->last, p->at);
		for (unsigned i = 0; i < w->n; i++)
			e->fold->counts[w->edges[i]]++;
		p->last = w->end & GONE ? make_edge(w->end & ~GONE, true) : 0;
	}
	for (unsigned i = 0; i < w->n_pushes; i++) {
		e->top = (e->top + 1) % RETURN_STACK;
		e->stack[e->top].block = w->pushes[i];
		e->entries = (uint8_t)MIN(e->entries + 1, RETURN_STACK);
	}
	p->at = w->end;
	return rc;
}

/* Packets of atoms, as many as *ret_used says. 1: the other way has to take them; as p->at 0, it has taken them. */
static inline __attribute__((always_inline)) int take_atoms(struct native *e, struct fast_state *p, const uint8_t *at,
							    size_t *settled, uint64_t offset, unsigned *ret_used,
							    const bool stack, const bool offsets,
							    const enum native_outlet outlet)
{
	uint32_t edges[GROUP_EDGES], headers, to;
	struct fast_walk w = { .edges = outlet == NATIVE_EDGES ? e->out.edges + p->n : edges };
	size_t before = p->n;
	struct memo_entry *entry;
	uint64_t key;
	unsigned packets;
	int rc;

	if (p->at & GONE) {
		to = stack ? pop(e) : 0;
		if (!to)
			return 1;
		p->at = to;
	}
	packets = count_atoms(at, &headers);
	key = (uint64_t)p->at << 32 | headers;
	entry = look_up(e, key);
	if (__builtin_expect(!entry, 0)) {
		if (!native_memo_tried(e->memo, key) && walk(e, p->at, at, packets, &w, stack, outlet)) {
			*ret_used = packets;
			if (outlet != NATIVE_EDGES && e->out.n != e->mark)
				settle_cycles(e, p, outlet);
			rc = take_walk(e, p, &w, outlet);
			if (offsets)
				emit_offsets(e, at, packets, offset, before, p->n);
			*settled = p->n;
			return rc;
		}
		rc = native_memo_learn(e, key, &entry);
		if (rc != 0)
			return rc;
	}
	/* Control went elsewhere in between. */
	if (__builtin_expect(entry->used != packets, 0)) {
		if (!stack)
			return 1;
		packets = entry->used;
	}
	/* What has been folded cannot be taken back. */
	if (stack && entry->rest && may_break(e, (int)atoms_of(entry->rest) - entry->n_pushes))
		return 1;
	if (stack && outlet != NATIVE_EDGES && entry->rest &&
	    atoms_of(entry->rest) > (unsigned)e->entries + entry->n_pushes)
		return 1;
	*ret_used = packets;
	if (outlet != NATIVE_EDGES && e->out.n != e->mark)
		settle_cycles(e, p, outlet);
	if (stack && entry->n_pushes)
		push(e, entry);
	rc = take_entry(e, p, entry, outlet);
	/* Should the rest be bad, its packet is lost with the cycle counts ahead of it; packets of atoms before it are
	 * not. */
	if (stack && entry->rest && rc == 0) {
		if (packets > 1)
			*settled = p->n + atoms_of(entry->rest) - (packet_atoms[at[packets - 1]] >> 24);
		rc = take_rest(e, p, entry->rest, offset + packets - 1, outlet);
	}
	if (offsets)
		emit_offsets(e, at, packets, offset, before, p->n);
	if (rc == 0)
		*settled = p->n;
	return rc;
}

/* An address where none was waited for: as the code has it, or not. */
static __attribute__((noinline)) void note_torn(struct native *e, struct fast_state *p, uint64_t address)
{
	if (native_fold_torn(e, p->last, address))
		p->left = FOLD_TORN;
	else if (p->left == FOLD_TORN)
		p->left = FOLD_FRESH;
}

/* An address packet; *ret_size 0: it is none, or not common. */
static inline __attribute__((always_inline)) int take_address(struct native *e, struct fast_state *p, const uint8_t *at,
							      struct fast_addresses *r, size_t *ret_size,
							      const enum native_outlet outlet)
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
		rc = blocks_full(&e->blocks) ? 1 : blocks_find(&e->blocks, address, &to);
		if (rc != 0)
			return rc;
	}
	*r = (struct fast_addresses){ address, r->a0, r->a1, to, r->b0, r->b1 };
	if (outlet == NATIVE_CALLS && __builtin_expect(!(p->at & GONE), 0) && p->at != to)
		note_torn(e, p, address);
	p->at = to;
	return 0;
}

static inline __attribute__((always_inline)) int run_packets(struct native *e, const uint8_t *bytes, size_t n,
							     uint64_t offset, size_t *ret_used, const bool stack,
							     const bool offsets, const enum native_outlet outlet)
{
	const uint8_t *at = bytes, *limit = bytes + n - LOOKAHEAD, *last = NULL;
	uint64_t *history = e->packets.history;
	uint32_t *places = e->packets.places;
	struct fast_addresses recent = { history[0], history[1], history[2], places[0], places[1], places[2] };
	struct fast_state p;
	size_t settled;
	int rc = 0;

	*ret_used = 0;
	if (n <= LOOKAHEAD || !begin(e, &p))
		return 0;
	settled = e->mark;
	while (at < limit) {
		size_t size = 0;

		if (__builtin_expect((outlet == NATIVE_EDGES ? e->out.capacity : e->out.calls_capacity) - p.n < SLACK,
				     0) &&
		    outlet != NATIVE_COUNTS) {
			rc = make_room(e, &p, &settled);
			if (rc != 0)
				break;
		}
		if (at[0] >= 0xc0) {
			unsigned packets = 0;

			rc = take_atoms(e, &p, at, &settled, offset + (uint64_t)(at - bytes), &packets, stack, offsets,
					outlet);
			last = packets ? at + packets - 1 : last;
			at += packets;
			if (rc != 0 || (stack && !p.at))
				break;
			continue;
		}
		if (at[0] >= 0x90) {
			rc = take_address(e, &p, at, &recent, &size, outlet);
		} else {
			uint32_t cycles;

			size = read_cycles(e, at, &cycles);
			if (offsets)
				e->out.offsets[p.n] = offset + (uint64_t)(at - bytes);
			if (size && outlet == NATIVE_EDGES)
				e->out.edges[p.n++] = NATIVE_CYCLES | cycles;
			else if (size && e->out.n < e->out.capacity && e->out.n - e->mark < CYCLES_MAX)
				e->out.edges[e->out.n++] = NATIVE_CYCLES | cycles;
			else
				size = 0;
		}
		if (rc != 0 || !size)
			break;
		last = at;
		at += size;
	}
	if (p.at)
		end(e, &p);
	if (outlet == NATIVE_EDGES)
		e->mark = settled;
	memcpy(history, (const uint64_t[]){ recent.a0, recent.a1, recent.a2 }, sizeof(e->packets.history));
	memcpy(places, (const uint32_t[]){ recent.b0, recent.b1, recent.b2 }, sizeof(e->packets.places));
	if (last)
		e->offset = offset + (uint64_t)(last - bytes);
	*ret_used = (size_t)(at - bytes);
	/* What is bad is a packet of atoms, of one byte, and not understood. */
	e->stats.decoded += e->counted ? *ret_used - (rc == -EBADMSG) : 0;
	if (rc == -EBADMSG)
		return NATIVE_BAD;
	e->mark_events = e->out.n_events;
	/* Of what is not to be remembered, the other way takes each packet. */
	return MIN(rc, 0);
}

int native_fast_packets(struct native *e, const uint8_t *bytes, size_t n, uint64_t offset, size_t *ret_used)
{
	/* Each is a loop of its own, without what it does not need. */
	switch (e->sink.outlet) {
	case NATIVE_CALLS:
		return e->return_stack ? run_packets(e, bytes, n, offset, ret_used, true, false, NATIVE_CALLS)
				       : run_packets(e, bytes, n, offset, ret_used, false, false, NATIVE_CALLS);
	case NATIVE_COUNTS:
		return e->return_stack ? run_packets(e, bytes, n, offset, ret_used, true, false, NATIVE_COUNTS)
				       : run_packets(e, bytes, n, offset, ret_used, false, false, NATIVE_COUNTS);
	case NATIVE_EDGES:
		break;
	}
	if (e->sink.offsets)
		return e->return_stack ? run_packets(e, bytes, n, offset, ret_used, true, true, NATIVE_EDGES)
				       : run_packets(e, bytes, n, offset, ret_used, false, true, NATIVE_EDGES);
	return e->return_stack ? run_packets(e, bytes, n, offset, ret_used, true, false, NATIVE_EDGES)
			       : run_packets(e, bytes, n, offset, ret_used, false, false, NATIVE_EDGES);
}
