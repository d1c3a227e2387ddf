/* What runs of atoms come to, remembered. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/huge.h"
#include "lib/base/util.h"
#include "lib/etm/native-state.h"

enum {
	GROUP = 4, /* packets at once */
	ATOMS_MAX = 24 * GROUP,
	EDGES_MAX = 3 * ATOMS_MAX,
	PUSHES = 4,
	BITS_FIRST = 12,  /* entries, as powers of two: of what runs little, */
	BITS_SECOND = 15, /* of what is worth a huge page */
	BITS_LAST = 17,
	POOL_FIRST = 1 << 16,
	POOL_MAX = 1 << 20,
};

static struct memo_entry *new_entries(unsigned bits)
{
	return bits < BITS_SECOND ? calloc((size_t)1 << bits, sizeof(struct memo_entry))
				  : huge_map(sizeof(struct memo_entry) << bits);
}

static void free_entries(struct memo_entry *entries, unsigned bits)
{
	if (bits < BITS_SECOND)
		free(entries);
	else
		huge_unmap(entries, sizeof(*entries) << bits);
}

struct native_memo *native_memo_new(void)
{
	struct native_memo *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->bits = BITS_FIRST;
	m->entries = new_entries(m->bits);
	m->tried = calloc((size_t)1 << MEMO_TRIED_BITS, sizeof(*m->tried));
	return m->entries && m->tried ? m : native_memo_free(m);
}

int native_memo_clear(struct native *e)
{
	struct native_memo *m = e->memo;
	int rc = 0;

	for (size_t i = 0; e->sink.outlet == NATIVE_COUNTS && rc == 0 && i < (size_t)1 << m->bits; i++)
		rc = native_fold_count_entry(e, &m->entries[i]);
	memset(m->entries, 0, sizeof(*m->entries) << m->bits);
	m->n_pool = 0;
	return rc;
}

struct native_memo *native_memo_free(struct native_memo *m)
{
	if (!m)
		return NULL;
	free_entries(m->entries, m->bits);
	free(m->tried);
	free(m->pool);
	free(m);
	return NULL;
}

static int put(struct native *e, struct native_memo *m, const struct memo_entry *entry, struct memo_entry **ret)
{
	struct memo_entry *to = native_memo_slot(m, entry->key), *second = native_memo_second(m, to);
	int rc = 0;

	if (to->key) {
		if (e->sink.outlet == NATIVE_COUNTS)
			rc = native_fold_count_entry(e, second);
		*second = *to;
	}
	*to = *entry;
	*ret = to;
	return rc;
}

/* Atoms that are to be walked: of packets, or of what is left of one. */
struct memo_atoms {
	uint32_t edge;  /* packets, or the low half of a key of a rest */
	uint32_t atoms; /* of the packet at hand */
	unsigned n_atoms, packet;
};

/* A rest is a bit, and the atoms below it, above a byte that no atom packet is. */
static uint32_t rest_of(uint32_t atoms, unsigned n)
{
	return n ? ((1u << n) | (atoms & ((1u << n) - 1))) << 8 : 0;
}

static bool next_packet(struct memo_atoms *r)
{
	uint32_t header = r->packet < GROUP ? r->edge >> (8 * r->packet) & 0xff : 0;

	if (r->packet == 0 && header == 0) {
		r->n_atoms = 31 - (unsigned)__builtin_clz(r->edge >> 8);
		r->atoms = r->edge >> 8 & ((1u << r->n_atoms) - 1);
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

/* What is learnt. */
struct memo_draft {
	uint32_t edges[EDGES_MAX], pushes[PUSHES];
	unsigned n;
};

/* One atom more; 1: it cannot be remembered what happens. */
static int walk_atom(struct native *e, struct memo_entry *to, struct memo_draft *l, bool taken)
{
	const struct basic_block *b = &e->blocks.list[to->end];
	uint32_t next;
	int rc = 0;

	if (b->missing || (e->ete && b->sub == SUB_ERET) || (e->fold && b->always && !taken))
		return 1;
	l->edges[l->n++] = make_edge(to->end, taken);
	if (taken && b->link && e->return_stack) {
		if (to->n_pushes == PUSHES)
			return 1;
		l->pushes[to->n_pushes++] = to->end;
	}
	if (taken && b->kind == INSTR_IBR) {
		to->end |= GONE;
		return 0;
	}
	next = e->blocks.next[make_edge(to->end, taken)];
	if (!next)
		rc = blocks_follow(&e->blocks, to->end, taken, &next);
	to->end = next;
	return rc;
}

static int make_room(struct native *e)
{
	struct native_memo *m = e->memo;
	uint32_t capacity = m->pool_capacity ? m->pool_capacity * 2 : POOL_FIRST, *pool;

	if (m->pool_capacity - m->n_pool >= EDGES_MAX)
		return 0;
	if (capacity > POOL_MAX)
		return native_memo_clear(e);
	pool = reallocarray(m->pool, capacity, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	m->pool = pool;
	m->pool_capacity = capacity;
	return 0;
}

/* Words go behind the first ones of the entry, and before the calls; or to the pool. */
static int put_edges(struct native *e, struct memo_entry *to, const struct memo_draft *l, unsigned first)
{
	struct native_memo *m = e->memo;
	int rc = 0;

	if (first + l->n + to->n_pushes > ENTRY_EDGES) {
		rc = make_room(e);
		to->pooled = true;
		to->edges[first] = m->n_pool;
		memcpy(m->pool + m->n_pool, l->edges, l->n * sizeof(*l->edges));
		m->n_pool += l->n;
	} else {
		memcpy(to->edges + first, l->edges, l->n * sizeof(*l->edges));
	}
	for (unsigned i = 0; i < to->n_pushes; i++)
		to->edges[ENTRY_EDGES - 1 - i] = l->pushes[i];
	return rc;
}

/* The table is as small as what runs allows, half of it at most in use: it is cold at first, and so are the caches. */
static int grow(struct native *e)
{
	struct native_memo *m = e->memo, bigger = *m;
	size_t n = (size_t)1 << m->bits;
	struct memo_entry *placed;
	int rc = 0;

	if (++m->misses < n / 2 || m->bits == BITS_LAST)
		return 0;
	m->misses = 0;
	bigger.bits = MAX(m->bits + 1, (unsigned)BITS_SECOND);
	bigger.entries = new_entries(bigger.bits);
	if (!bigger.entries)
		return 0;
	for (size_t i = 0; i < n && rc == 0; i++)
		if (m->entries[i].key)
			rc = put(e, &bigger, &m->entries[i], &placed);
	free_entries(m->entries, m->bits);
	m->entries = bigger.entries;
	m->bits = bigger.bits;
	return rc;
}

int native_memo_learn(struct native *e, uint64_t key, struct memo_entry **ret)
{
	struct memo_entry new = { .key = key, .end = (uint32_t)(key >> 32) };
	struct memo_atoms run = { .edge = (uint32_t)key };
	struct memo_draft l;
	unsigned first = e->sink.outlet == NATIVE_CALLS ? ENTRY_CALLS : e->sink.outlet == NATIVE_COUNTS ? 1 : 0;
	int rc = blocks_full(&e->blocks);

	l.n = 0;
	while (rc == 0 && !(new.end &GONE) && next_packet(&run)) {
		for (; run.n_atoms && rc == 0 && !(new.end &GONE); run.n_atoms--) {
			rc = walk_atom(e, &new, &l, run.atoms & 1);
			run.atoms >>= 1;
		}
	}
	/* Without a return stack, atoms after such a branch are of nothing. */
	new.rest = rest_of(run.atoms, run.n_atoms);
	if (rc == 0 && new.rest && !e->return_stack)
		rc = 1;
	new.used = (uint8_t)run.packet;
	new.n = (uint8_t)l.n;
	if (rc == 0 && e->sink.outlet == NATIVE_CALLS)
		rc = native_fold_entry(e, &new, l.edges, &l.n);
	if (rc == 0)
		rc = grow(e);
	if (rc == 0)
		rc = put_edges(e, &new, &l, first);
	return rc == 0 ? put(e, e->memo, &new, ret) : rc;
}
