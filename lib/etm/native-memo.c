/* What runs of atoms come to, remembered. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/huge.h"
#include "lib/base/util.h"
#include "lib/etm/native-state.h"

enum {
	GROUP = 4, /* packets at once */
	ATOMS_MAX = 24 * GROUP,
	WORDS_MAX = 3 * ATOMS_MAX,
	PUSHES = 4,
	BITS_FIRST = 12,  /* entries, as powers of two: of what runs little, */
	BITS_SECOND = 15, /* of what is worth a huge page */
	BITS_LAST = 17,
	POOL_FIRST = 1 << 16,
	POOL_MAX = 1 << 20,
};

static struct entry *new_entries(unsigned bits)
{
	return bits < BITS_SECOND ? calloc((size_t)1 << bits, sizeof(struct entry))
				  : huge_map(sizeof(struct entry) << bits);
}

static void free_entries(struct entry *entries, unsigned bits)
{
	if (bits < BITS_SECOND)
		free(entries);
	else
		huge_unmap(entries, sizeof(*entries) << bits);
}

struct memo *memo_new(void)
{
	struct memo *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->bits = BITS_FIRST;
	m->entries = new_entries(m->bits);
	m->tried = calloc((size_t)1 << MEMO_TRIED_BITS, sizeof(*m->tried));
	return m->entries && m->tried ? m : memo_free(m);
}

int memo_clear(struct native *e)
{
	struct memo *m = e->memo;
	int rc = 0;

	for (size_t i = 0; e->sink.outlet == NATIVE_COUNTS && rc == 0 && i < (size_t)1 << m->bits; i++)
		rc = fold_count(e, &m->entries[i]);
	memset(m->entries, 0, sizeof(*m->entries) << m->bits);
	m->n_pool = 0;
	return rc;
}

struct memo *memo_free(struct memo *m)
{
	if (!m)
		return NULL;
	free_entries(m->entries, m->bits);
	free(m->tried);
	free(m->pool);
	free(m);
	return NULL;
}

static int put(struct native *e, struct memo *m, const struct entry *entry, struct entry **ret)
{
	struct entry *to = memo_slot(m, entry->key), *second = memo_second(m, to);
	int rc = 0;

	if (to->key) {
		if (e->sink.outlet == NATIVE_COUNTS)
			rc = fold_count(e, second);
		*second = *to;
	}
	*to = *entry;
	*ret = to;
	return rc;
}

/* Atoms that are to be walked: of packets, or of what is left of one. */
struct run {
	uint32_t word;  /* packets, or the low half of a key of a rest */
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

/* What is learnt. */
struct lesson {
	uint32_t words[WORDS_MAX], pushes[PUSHES];
	unsigned n;
};

/* One atom more; 1: it cannot be remembered what happens. */
static int walk_atom(struct native *e, struct entry *to, struct lesson *l, bool taken)
{
	const struct block *b = &e->blocks.list[to->end];
	uint32_t next;
	int rc = 0;

	if (b->missing || (e->ete && b->sub == SUB_ERET) || (e->fold && b->always && !taken))
		return 1;
	l->words[l->n++] = 2 * to->end + taken;
	if (taken && b->link && e->return_stack) {
		if (to->n_pushes == PUSHES)
			return 1;
		l->pushes[to->n_pushes++] = to->end;
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

static int make_room(struct native *e)
{
	struct memo *m = e->memo;
	uint32_t room = m->pool_room ? m->pool_room * 2 : POOL_FIRST, *pool;

	if (m->pool_room - m->n_pool >= WORDS_MAX)
		return 0;
	if (room > POOL_MAX)
		return memo_clear(e);
	pool = reallocarray(m->pool, room, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	m->pool = pool;
	m->pool_room = room;
	return 0;
}

/* Words go behind the first ones of the entry, and before the calls; or to the pool. */
static int put_words(struct native *e, struct entry *to, const struct lesson *l, unsigned first)
{
	struct memo *m = e->memo;
	int rc = 0;

	if (first + l->n + to->n_pushes > ENTRY_WORDS) {
		rc = make_room(e);
		to->pooled = true;
		to->words[first] = m->n_pool;
		memcpy(m->pool + m->n_pool, l->words, l->n * sizeof(*l->words));
		m->n_pool += l->n;
	} else {
		memcpy(to->words + first, l->words, l->n * sizeof(*l->words));
	}
	for (unsigned i = 0; i < to->n_pushes; i++)
		to->words[ENTRY_WORDS - 1 - i] = l->pushes[i];
	return rc;
}

/* The table is as small as what runs allows, half of it at most in use: it is cold at first, and so are the caches. */
static int grow(struct native *e)
{
	struct memo *m = e->memo, bigger = *m;
	size_t n = (size_t)1 << m->bits;
	struct entry *placed;
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

int memo_learn(struct native *e, uint64_t key, struct entry **ret)
{
	struct entry new = { .key = key, .end = (uint32_t)(key >> 32) };
	struct run run = { .word = (uint32_t)key };
	struct lesson l;
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
		rc = fold_entry(e, &new, l.words, &l.n);
	if (rc == 0)
		rc = grow(e);
	if (rc == 0)
		rc = put_words(e, &new, &l, first);
	return rc == 0 ? put(e, e->memo, &new, ret) : rc;
}
