/*
 * The common packets, where nothing is held back: atoms, addresses, cycle counts. What the atoms of up to four packets
 * come to from a block on is remembered whole, and never walked again.
 *
 * Two things here look odd and are measured. How many packets there are is found out by branches, which lets the
 * processor's predictor run ahead of the loads; a computed length is slower. And GCC's vectorisation of straight-line code
 * keeps the address history in vector registers that it spills and reloads all the time.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-state.h"

enum {
	GROUP = 4,	     /* packets at once */
	ATOMS_MAX = 24 * GROUP,
	INLINE_WORDS = 10,
	PUSHES = 4,
	MEMO_FIRST = 12, /* entries, as powers of two */
	MEMO_LAST = 17,
	POOL_MAX = 1 << 20,
	LOOKAHEAD = 16,		 /* bytes that a packet and a look behind it take at most */
	SLACK = ATOMS_MAX + 16, /* words */
};

/* In place of the block where control is: it left this one by an indirect branch, and where to is not known yet. */
#define GONE (1u << 31)

struct entry {
	uint64_t key; /* block << 32 | packets, or | what is left of one */
	uint32_t end; /* block, or GONE and a block */
	uint32_t rest; /* atoms left when control was gone, as the low half of a key; 0: none */
	uint8_t n;
	uint8_t used;	  /* packets */
	uint8_t n_pushes; /* calls, whose blocks are at the end of words, the first one last */
	bool pooled;	  /* words[0] is where the words are */
	uint32_t words[INLINE_WORDS + 1];
};

struct memo {
	struct entry *entries;
	unsigned bits;
	uint32_t misses; /* since it was made or grew */
	uint32_t *pool;
	uint32_t n_pool, pool_room;
};

struct memo *memo_new(void)
{
	struct memo *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->bits = MEMO_FIRST;
	m->entries = calloc((size_t)1 << m->bits, sizeof(*m->entries));
	return m->entries ? m : memo_free(m);
}

void memo_clear(struct memo *m)
{
	memset(m->entries, 0, sizeof(*m->entries) << m->bits);
	m->n_pool = 0;
}

struct memo *memo_free(struct memo *m)
{
	if (!m)
		return NULL;
	free(m->entries);
	free(m->pool);
	free(m);
	return NULL;
}

static inline struct entry *slot(const struct memo *m, uint64_t key)
{
	return &m->entries[key * 0x9e3779b97f4a7c15u >> (64 - m->bits)];
}

/* Where an entry is that has been displaced from its slot. */
static inline struct entry *second_slot(const struct memo *m, const struct entry *first)
{
	return &m->entries[(size_t)(first - m->entries) ^ 1];
}

static struct entry *put(struct memo *m, const struct entry *entry)
{
	struct entry *to = slot(m, entry->key);

	if (to->key)
		*second_slot(m, to) = *to;
	*to = *entry;
	return to;
}

/* Atoms that are to be walked: of packets, or of what is left of one. */
struct run {
	uint32_t word;	/* packets, or the low half of a key of a rest */
	uint32_t atoms; /* of the packet at hand */
	unsigned n_atoms, packet;
};

/* A rest is a bit, and the atoms below it, above a byte that no atom packet is. */
static uint32_t rest_of(uint32_t atoms, unsigned n)
{
	return n ? ((1u << n) | (atoms & ((1u << n) - 1))) << 8 : 0;
}

static bool next_packet(struct run *r)
{
	uint32_t header = r->packet < GROUP ? r->word >> (8 * r->packet) & 0xff : 0;

	if (r->packet == 0 && header == 0) {
		r->n_atoms = 31 - (unsigned)__builtin_clz(r->word >> 8);
		r->atoms = r->word >> 8 & ((1u << r->n_atoms) - 1);
		r->packet = GROUP;
		return true;
	}
	if (!header)
		return false;
	r->n_atoms = packet_atoms[header] >> 24;
	r->atoms = packet_atoms[header] & 0xffffff;
	r->packet++;
	return true;
}

/* One atom more; 1: it cannot be remembered what happens. */
static int walk_atom(struct native *e, struct entry *to, uint32_t *words, uint32_t *pushes, bool taken)
{
	const struct block *b = &e->blocks.list[to->end];
	uint32_t next;
	int rc = 0;

	if (b->missing || (e->ete && b->sub == SUB_ERET))
		return 1;
	words[to->n++] = 2 * to->end + taken;
	if (taken && b->link && e->return_stack) {
		if (to->n_pushes == PUSHES)
			return 1;
		pushes[to->n_pushes++] = to->end;
	}
	if (taken && b->kind == INSTR_IBR) {
		to->end |= GONE;
		return 0;
	}
	next = e->blocks.next[2 * to->end + taken];
	if (!next)
		rc = blocks_follow(&e->blocks, to->end, taken, &next);
	to->end = next;
	return rc;
}

static int pool_words(struct memo *m, struct entry *to, const uint32_t *words)
{
	if (m->pool_room - m->n_pool < ATOMS_MAX) {
		uint32_t room = m->pool_room ? m->pool_room * 2 : 16 * ATOMS_MAX;
		uint32_t *pool = room > POOL_MAX ? NULL : reallocarray(m->pool, room, sizeof(*pool));

		if (!pool && room <= POOL_MAX)
			return -ENOMEM;
		if (!pool) {
			memo_clear(m);
		} else {
			m->pool = pool;
			m->pool_room = room;
		}
	}
	to->pooled = true;
	to->words[0] = m->n_pool;
	memcpy(m->pool + m->n_pool, words, to->n * sizeof(*words));
	m->n_pool += (to->n + 15u) & ~15u;
	return 0;
}

/* The table is as small as what runs allows: it is cold at first, and so are the caches. */
static void grow(struct memo *m)
{
	struct memo bigger = *m;
	size_t n = (size_t)1 << m->bits;

	if (++m->misses < n || m->bits == MEMO_LAST)
		return;
	m->misses = 0;
	bigger.bits++;
	bigger.entries = calloc(2 * n, sizeof(*bigger.entries));
	if (!bigger.entries)
		return;
	for (size_t i = 0; i < n; i++)
		if (m->entries[i].key)
			put(&bigger, &m->entries[i]);
	free(m->entries);
	m->entries = bigger.entries;
	m->bits = bigger.bits;
}

/* 1: it is not to be remembered; -ENOMEM. */
static int learn(struct native *e, uint64_t key, struct entry **ret)
{
	struct entry new = { .key = key, .end = (uint32_t)(key >> 32) };
	struct run run = { .word = (uint32_t)key };
	uint32_t words[ATOMS_MAX], pushes[PUSHES];
	int rc = blocks_full(&e->blocks);

	while (rc == 0 && !(new.end & GONE) && next_packet(&run)) {
		for (; run.n_atoms && rc == 0 && !(new.end & GONE); run.n_atoms--) {
			rc = walk_atom(e, &new, words, pushes, run.atoms & 1);
			run.atoms >>= 1;
		}
	}
	/* Without a return stack, atoms after such a branch are of nothing. */
	new.rest = rest_of(run.atoms, run.n_atoms);
	if (rc == 0 && new.rest && !e->return_stack)
		rc = 1;
	if (rc != 0)
		return rc;
	grow(e->memo);
	new.used = (uint8_t)run.packet;
	if (new.n + MAX(new.n_pushes, 1) - 1u > INLINE_WORDS)
		rc = pool_words(e->memo, &new, words);
	else
		memcpy(new.words, words, new.n * sizeof(*words));
	for (unsigned i = 0; i < new.n_pushes; i++)
		new.words[INLINE_WORDS - i] = pushes[i];
	*ret = put(e->memo, &new);
	return rc;
}

/* Where a loop stands; it is put back into the engine when the loop is left. */
struct place {
	uint32_t at; /* the block where control is, or GONE */
	size_t n;    /* words */
};

static bool begin(struct native *e, struct place *ret)
{
	if (e->sync != SYNC_DONE || e->n_queue || e->config.idr8 || e->depth || e->pending || !e->has_context ||
	    e->need == NEED_ADDRESS || e->stack_waits)
		return false;
	ret->at = e->need == NEED_TARGET ? GONE : e->block;
	if (!ret->at && blocks_find(&e->blocks, e->address, &ret->at) < 0)
		return false;
	ret->n = e->out.n;
	return true;
}

static void end(struct native *e, const struct place *p)
{
	e->out.n = p->n;
	e->block = p->at & GONE ? 0 : p->at;
	e->need = p->at & GONE ? NEED_TARGET : NEED_NOTHING;
	if (p->at & GONE && p->at != GONE)
		e->address = block_end(&e->blocks.list[p->at & ~GONE]);
}

/* 0: there is room for what one packet and those behind it come to. */
static int make_room(struct native *e, struct place *p)
{
	int rc = 0;

	e->out.n = p->n;
	if (e->out.room < 2 * SLACK)
		return 1;
	rc = native_flush(e);
	p->n = e->out.n;
	return rc < 0 ? rc : e->out.room - p->n < SLACK;
}

static inline void copy_words(const struct memo *m, const struct entry *from, uint32_t *to)
{
	const uint32_t *words = from->words;

	if (__builtin_expect(from->pooled, 0)) {
		memcpy(to, m->pool + words[0], from->n * sizeof(*to));
		return;
	}
	/* All of them, whether or not they count: that is cheaper than to ask. */
	memcpy(to, words, INLINE_WORDS * sizeof(*to));
	to[INLINE_WORDS] = words[INLINE_WORDS];
}

/* The target of an indirect branch, off the return stack; 0: not at hand. */
static inline uint32_t pop(struct native *e)
{
	uint32_t from = e->stack[e->top].block, to;

	if (!e->entries)
		return 0;
	to = from ? e->blocks.next[2 * from] : blocks_look(&e->blocks, e->stack[e->top].address);
	if (!to)
		return 0;
	e->top = (e->top + RETURN_STACK - 1) % RETURN_STACK;
	e->entries--;
	return to;
}

static inline void push(struct native *e, const struct entry *from)
{
	for (unsigned i = 0; i < from->n_pushes; i++) {
		e->top = (e->top + 1) % RETURN_STACK;
		e->stack[e->top].block = from->words[INLINE_WORDS - i];
		e->entries = (uint8_t)MIN(e->entries + 1, RETURN_STACK);
	}
}

static inline int find_entry(struct native *e, uint64_t key, struct entry **ret)
{
	*ret = slot(e->memo, key);
	if (__builtin_expect((*ret)->key == key, 1))
		return 0;
	*ret = second_slot(e->memo, *ret);
	return (*ret)->key == key ? 0 : learn(e, key, ret);
}

/* What is left of a packet in whose middle control returned to a caller. Atoms that no entry has go one by one. */
static int take_rest(struct native *e, struct place *p, uint32_t rest, uint64_t offset)
{
	struct entry *entry = NULL;
	int rc = 0;

	while (rest) {
		uint32_t to = pop(e);

		if (!to)
			break;
		p->at = to;
		rc = find_entry(e, (uint64_t)to << 32 | rest, &entry);
		if (rc != 0)
			break;
		copy_words(e->memo, entry, e->out.words + p->n);
		p->n += entry->n;
		push(e, entry);
		p->at = entry->end;
		rest = entry->rest;
	}
	if (!rest || rc < 0)
		return rc;
	end(e, p);
	rest >>= 8;
	/* The bit above the newest atom is no atom. */
	for (rc = 0; rest > 1 && rc == 0; rest >>= 1)
		rc = flow_atom(e, rest & 1, offset);
	p->n = e->out.n;
	p->at = 0;
	return rc == NATIVE_BAD ? -EBADMSG : rc;
}

/* An address packet's bytes; *ret_size 0: it is none. */
static inline uint64_t read_address(const uint8_t *p, uint64_t newest, size_t *ret_size)
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
		low = (uint32_t)(p[1] & 0x7f) << 2 | (uint32_t)(p[2] & 0x7f) << 9 | (uint32_t)p[3] << 16 | (uint32_t)p[4] << 24;
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

static inline __attribute__((always_inline)) int run_packets(struct native *e, const uint8_t *bytes, size_t n, uint64_t offset,
							     size_t *ret_used, const bool stack, const bool offsets)
{
	const uint8_t *at = bytes, *limit = bytes + n - LOOKAHEAD, *last = NULL;
	uint64_t h0 = e->packets.history[0], h1 = e->packets.history[1], h2 = e->packets.history[2];
	uint32_t p0 = e->packets.places[0], p1 = e->packets.places[1], p2 = e->packets.places[2];
	struct place p;
	size_t settled;
	int rc = 0;

	*ret_used = 0;
	if (n <= LOOKAHEAD || !begin(e, &p))
		return 0;
	settled = e->mark;
	while (at < limit) {
		size_t before = p.n, size;

		if (__builtin_expect(e->out.room - p.n < SLACK, 0)) {
			e->mark = settled;
			rc = make_room(e, &p);
			settled = e->mark;
			if (rc != 0)
				break;
			before = p.n;
		}
		if (at[0] >= 0xc0) {
			struct entry *entry;
			uint32_t word = at[0], to;
			unsigned packets = 1;

			if (p.at & GONE) {
				to = stack ? pop(e) : 0;
				if (!to)
					break;
				p.at = to;
			}
			if (!offsets && at[1] >= 0xc0) {
				if (at[2] < 0xc0) {
					packets = 2;
					word |= (uint32_t)at[1] << 8;
				} else if (at[3] < 0xc0) {
					packets = 3;
					word |= (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16;
				} else {
					packets = 4;
					memcpy(&word, at, sizeof(word));
					word = le32toh(word);
				}
			}
			rc = find_entry(e, (uint64_t)p.at << 32 | word, &entry);
			if (rc != 0)
				break;
			/* Control went elsewhere in between. */
			if (__builtin_expect(entry->used != packets, 0)) {
				if (!stack)
					break;
				packets = entry->used;
			}
			last = at + packets - 1;
			at += packets;
			copy_words(e->memo, entry, e->out.words + p.n);
			p.n += entry->n;
			p.at = entry->end;
			if (stack && entry->n_pushes)
				push(e, entry);
			/* Should the rest be bad, its packet is lost, and those before it are not. */
			if (stack && entry->rest)
				settled = p.n + 31 - (unsigned)__builtin_clz(entry->rest >> 8) - (packet_atoms[*last] >> 24);
			if (stack && entry->rest)
				rc = take_rest(e, &p, entry->rest, offset + (uint64_t)(last - bytes));
			if (offsets)
				for (size_t i = before; i < p.n; i++)
					e->out.offsets[i] = offset + (uint64_t)(last - bytes);
			if (stack && rc != 0)
				break;
			settled = p.n;
			if (stack && !p.at)
				break;
			continue;
		}
		if (at[0] >= 0x90) {
			uint32_t to = 0;
			uint64_t address;

			if (at[0] < 0x93) {
				address = at[0] == 0x90 ? h0 : at[0] == 0x91 ? h1 : h2;
				to = at[0] == 0x90 ? p0 : at[0] == 0x91 ? p1 : p2;
				size = 1;
			} else {
				address = read_address(at, h0, &size);
				if (!size)
					break;
			}
			if (!to)
				to = blocks_look(&e->blocks, address);
			if (__builtin_expect(!to, 0)) {
				rc = blocks_full(&e->blocks) ? 1 : blocks_find(&e->blocks, address, &to);
				if (rc != 0)
					break;
			}
			h2 = h1;
			h1 = h0;
			h0 = address;
			p2 = p1;
			p1 = p0;
			p0 = to;
			p.at = to;
		} else {
			uint32_t cycles;

			size = read_cycles(e, at, &cycles);
			if (!size)
				break;
			if (offsets)
				e->out.offsets[p.n] = offset + (uint64_t)(at - bytes);
			e->out.words[p.n++] = NATIVE_CYCLES | cycles;
		}
		last = at;
		at += size;
	}
	if (p.at)
		end(e, &p);
	e->mark = settled;
	e->packets.history[0] = h0;
	e->packets.history[1] = h1;
	e->packets.history[2] = h2;
	e->packets.places[0] = p0;
	e->packets.places[1] = p1;
	e->packets.places[2] = p2;
	if (last)
		e->offset = offset + (uint64_t)(last - bytes);
	*ret_used = (size_t)(at - bytes);
	e->stats.decoded += e->counted ? *ret_used : 0;
	if (rc == -EBADMSG)
		return NATIVE_BAD;
	e->mark_events = e->out.n_events;
	/* Of what is not to be remembered, the other way takes each packet. */
	return MIN(rc, 0);
}

int fast_packets(struct native *e, const uint8_t *bytes, size_t n, uint64_t offset, size_t *ret_used)
{
	if (e->sink.offsets)
		return e->return_stack ? run_packets(e, bytes, n, offset, ret_used, true, true)
				       : run_packets(e, bytes, n, offset, ret_used, false, true);
	return e->return_stack ? run_packets(e, bytes, n, offset, ret_used, true, false)
			       : run_packets(e, bytes, n, offset, ret_used, false, false);
}
