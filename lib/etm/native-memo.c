/* SPDX-License-Identifier: MIT */
/* A memo of what sequences of atoms amount to. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/huge.h"
#include "lib/base/util.h"
#include "lib/etm/native-state.h"

enum {
	GROUP = 4, /* packets of an entry, at most */
	ATOMS_MAX = 24 * GROUP,
	LIST_MAX = 3 * ATOMS_MAX, /* values of an entry's list: each edge may become a call, of three values */
	PUSHES = 4,
	BITS_FIRST = 12,  /* log2 of the number of entries: at first, */
	BITS_SECOND = 15, /* when it is worth a huge page, */
	BITS_LAST = 17,   /* and at most */
	POOL_FIRST = 1 << 16,
	POOL_MAX = 1 << 20,
};

static struct memo_entry *entries_new(unsigned bits)
{
	return bits < BITS_SECOND ? calloc((size_t)1 << bits, sizeof(struct memo_entry))
				  : huge_map(sizeof(struct memo_entry) << bits);
}

static void entries_free(struct memo_entry *entries, unsigned bits)
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
	m->entries = entries_new(m->bits);
	m->tried = calloc((size_t)1 << MEMO_TRIED_BITS, sizeof(*m->tried));
	return m->entries && m->tried ? m : native_memo_free(m);
}

void native_memo_clear(struct native *e)
{
	struct native_memo *m = e->memo;

	memset(m->entries, 0, sizeof(*m->entries) << m->bits);
	m->n_pool = 0;
}

struct native_memo *native_memo_free(struct native_memo *m)
{
	if (!m)
		return NULL;
	entries_free(m->entries, m->bits);
	free(m->tried);
	free(m->pool);
	free(m);
	return NULL;
}

/* Puts an entry into its first slot, and the one that was there into the second. */
static struct memo_entry *entry_insert(struct native_memo *m, const struct memo_entry *entry)
{
	struct memo_entry *to = native_memo_slot(m, entry->key);

	if (to->key)
		*native_memo_second(m, to) = *to;
	*to = *entry;
	return to;
}

/* The atoms of a key: of packets, or the remaining ones of one packet. */
struct key_atoms {
	uint32_t low;   /* the low half of the key */
	uint32_t atoms; /* of the current packet */
	unsigned n_atoms, packet;
};

/* Remaining atoms are encoded above a byte of zeros, which is no atom packet: the atoms, and a bit set above them. */
static uint32_t encode_rest(uint32_t atoms, unsigned n)
{
	return n ? ((1u << n) | (atoms & ((1u << n) - 1))) << 8 : 0;
}

static bool atoms_next_packet(struct key_atoms *r)
{
	uint32_t header = r->packet < GROUP ? r->low >> (8 * r->packet) & 0xff : 0;

	if (r->packet == 0 && header == 0) {
		r->n_atoms = 31 - (unsigned)__builtin_clz(r->low >> 8);
		r->atoms = r->low >> 8 & ((1u << r->n_atoms) - 1);
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

/* The edges of the entry that is being created; then what its list holds. */
struct memo_draft {
	uint32_t list[LIST_MAX], pushes[PUSHES];
	unsigned n;
};

/* Follows one more atom. NATIVE_STEP: what happens there cannot be in an entry. */
static int draft_atom(struct native *e, struct memo_entry *to, struct memo_draft *l, bool taken)
{
	const struct basic_block *b = &e->blocks.list[to->end];
	uint32_t next;
	int rc = 0;

	if (b->missing || (e->ete && b->sub == SUB_ERET) || (e->fold && b->always && !taken))
		return NATIVE_STEP;
	l->list[l->n++] = make_edge(to->end, taken);
	if (taken && b->link && e->stack.enabled) {
		if (to->n_pushes == PUSHES)
			return NATIVE_STEP;
		l->pushes[to->n_pushes++] = to->end;
	}
	if (taken && b->kind == INSTR_IBR) {
		to->end |= UNRESOLVED;
		return 0;
	}
	next = e->blocks.next[make_edge(to->end, taken)];
	if (!next)
		rc = blocks_follow(&e->blocks, to->end, taken, &next);
	to->end = next;
	return rc;
}

static int pool_reserve(struct native *e)
{
	struct native_memo *m = e->memo;
	uint32_t capacity = m->pool_capacity ? m->pool_capacity * 2 : POOL_FIRST, *pool;

	if (m->pool_capacity - m->n_pool >= LIST_MAX)
		return 0;
	if (capacity > POOL_MAX) {
		native_memo_clear(e);
		return 0;
	}
	pool = reallocarray(m->pool, capacity, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	m->pool = pool;
	m->pool_capacity = capacity;
	return 0;
}

/* Where the list of an entry begins in raw. */
#define LIST_INDEX(member) ((offsetof(struct memo_entry, member) - offsetof(struct memo_entry, raw)) / sizeof(uint32_t))

static size_t list_index(enum native_outlet outlet)
{
	return outlet == NATIVE_EDGES ? LIST_INDEX(edges) : LIST_INDEX(calls.list);
}

/* Puts the list and the pushes into the entry; the list into the pool if the entry has no space for both. */
static int entry_fill(struct native *e, struct memo_entry *to, const struct memo_draft *l)
{
	struct native_memo *m = e->memo;
	size_t first = list_index(e->sink.outlet);
	uint32_t *list = to->raw + first;
	int rc = 0;

	if (first + l->n + to->n_pushes > ENTRY_SIZE) {
		rc = pool_reserve(e);
		if (rc < 0)
			return rc;
		to->pooled = true;
		list[0] = m->n_pool;
		memcpy(m->pool + m->n_pool, l->list, l->n * sizeof(*l->list));
		m->n_pool += l->n;
	} else {
		memcpy(list, l->list, l->n * sizeof(*l->list));
	}
	for (unsigned i = 0; i < to->n_pushes; i++)
		*entry_pushed(to, i) = l->pushes[i];
	return rc;
}

/* Counts a miss, and grows the table when misses fill half of it: a small table is warm in the caches sooner. */
static void entries_grow(struct native *e)
{
	struct native_memo *m = e->memo, bigger = *m;
	size_t n = (size_t)1 << m->bits;

	if (++m->misses < n / 2 || m->bits == BITS_LAST)
		return;
	m->misses = 0;
	bigger.bits = MAX(m->bits + 1, (unsigned)BITS_SECOND);
	bigger.entries = entries_new(bigger.bits);
	if (!bigger.entries)
		return;
	for (size_t i = 0; i < n; i++)
		if (m->entries[i].key)
			entry_insert(&bigger, &m->entries[i]);
	entries_free(m->entries, m->bits);
	m->entries = bigger.entries;
	m->bits = bigger.bits;
}

int native_memo_learn(struct native *e, uint64_t key, struct memo_entry **ret)
{
	struct memo_entry new = { .key = key, .end = (uint32_t)(key >> 32) };
	struct key_atoms atoms = { .low = (uint32_t)key };
	struct memo_draft l;
	int rc = blocks_full(&e->blocks) ? NATIVE_STEP : 0;

	l.n = 0;
	while (rc == 0 && !(new.end &UNRESOLVED) && atoms_next_packet(&atoms)) {
		for (; atoms.n_atoms && rc == 0 && !(new.end &UNRESOLVED); atoms.n_atoms--) {
			rc = draft_atom(e, &new, &l, atoms.atoms & 1);
			atoms.atoms >>= 1;
		}
	}
	/* Without a return stack, the target of atoms behind an indirect branch is unknown. */
	new.rest = encode_rest(atoms.atoms, atoms.n_atoms);
	if (rc == 0 && new.rest && !e->stack.enabled)
		rc = NATIVE_STEP;
	new.used = (uint8_t)atoms.packet;
	new.n = (uint8_t)l.n;
	if (rc == 0 && e->fold)
		rc = native_fold_entry(e, &new, l.list, &l.n);
	if (rc == 0) {
		entries_grow(e);
		rc = entry_fill(e, &new, &l);
	}
	if (rc == 0)
		*ret = entry_insert(e->memo, &new);
	return rc;
}
