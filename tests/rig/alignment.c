/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "tests/rig/alignment.h"

/* Alignments of one thread that are followed at once; a decode that allows more is not compared. */
enum { CANDIDATES_MAX = 1 << 14 };

/* An alignment of the end of the decode. */
struct candidate {
	uint64_t left;   /* decoded instructions before it */
	uint32_t closed; /* bit mask of CPUs that have nothing earlier */
	struct alignment a;
};

struct candidates {
	struct candidate *all;
	size_t n, room;
	bool too_many;
};

bool alignment_is_open(const struct thread *t, uint64_t at)
{
	size_t low = 0, high = t->n_holes;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->holes[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return at == 0 || at == t->decode.total || (low < t->n_holes && t->holes[low] == at);
}

static void add_candidate(struct candidates *to, const struct candidate *c)
{
	if (to->n == CANDIDATES_MAX) {
		to->too_many = true;
		return;
	}
	if (array_reserve(to->all, to->n, &to->room) < 0)
		abort();
	to->all[to->n++] = *c;
}

/* The candidate with the CPU's cut in this piece, of which the last `kept` instructions are decoded. */
static void close_cpu(struct candidates *to, const struct candidate *c, const struct piece *p, uint64_t kept)
{
	struct candidate closed = *c;
	struct span *cut = &closed.a.cuts[p->cpu];

	closed.left -= kept;
	closed.closed |= 1u << p->cpu;
	cut->from = p->at + p->n - kept;
	if (kept)
		cut->to = cut->from;
	closed.a.missing += p->n - kept;
	add_candidate(to, &closed);
}

/* Adds what may become of a candidate at the piece before those that it covers. */
static void extend(const struct thread *t, bool wrapped, const struct candidate *c, const struct piece *p,
		   struct candidates *to)
{
	struct candidate more = *c;
	uint64_t alike;

	if (p->untraced && !alignment_is_open(t, c->left))
		return;
	if (p->n == 0) {
		add_candidate(to, c);
		return;
	}
	if (c->closed >> p->cpu & 1) {
		more.a.missing += p->n;
		if (alignment_is_open(t, c->left))
			add_candidate(to, &more);
		return;
	}
	alike = runs_common_end(&t->decode, c->left, &t->truth, p->from + p->n, p->n);
	if (alike == p->n) {
		more.left -= p->n;
		more.a.cuts[p->cpu].to = p->at;
		add_candidate(to, &more);
	}
	if (!wrapped)
		return;
	if (alignment_is_open(t, c->left))
		close_cpu(to, c, p, 0);
	for (size_t i = t->n_holes; i-- > 0 && t->holes[i] + alike >= c->left;)
		if (t->holes[i] < c->left && c->left - t->holes[i] < p->n)
			close_cpu(to, c, p, c->left - t->holes[i]);
	if (c->left && c->left <= alike && c->left < p->n)
		close_cpu(to, c, p, c->left);
}

static int by_future(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->left != y->left ? (x->left < y->left ? -1 : 1) : (x->closed > y->closed) - (x->closed < y->closed);
}

/* Of candidates that may become the same, keeps one. */
static void keep_one_of_each(struct candidates *c)
{
	size_t kept = 0;

	if (!c->n)
		return;
	qsort(c->all, c->n, sizeof(*c->all), by_future);
	for (size_t i = 1; i < c->n; i++)
		if (by_future(&c->all[kept], &c->all[i]) != 0)
			c->all[++kept] = c->all[i];
	c->n = kept + 1;
}

static void add_alignment(struct alignments *to, const struct alignment *a)
{
	if (array_reserve(to->all, to->n, &to->room) < 0)
		abort();
	to->all[to->n++] = *a;
}

/* Adds the alignments in which the first n pieces ran before the freeze of their CPUs, and all others after it. */
static void align_first(const struct thread *t, const struct alignment_options *o, size_t n, struct alignments *ret)
{
	struct candidates now = { 0 }, next = { 0 };
	struct candidate whole = { .left = t->decode.total };

	for (size_t i = 0; i < RIG_CPUS; i++)
		whole.a.cuts[i].to = whole.a.frozen[i].to = UINT64_MAX;
	for (size_t i = 0; i < t->n_pieces; i++) {
		const struct piece *p = &t->pieces[i];
		struct span *frozen = &whole.a.frozen[p->cpu];

		if (p->n && i < n)
			frozen->from = p->ended;
		else if (p->n)
			frozen->to = MIN(frozen->to, p->begun);
		if (frozen->from > frozen->to)
			return;
	}
	add_candidate(&now, &whole);
	for (size_t i = n; i-- > 0 && now.n;) {
		struct candidates used = now;

		next.n = 0;
		for (size_t k = 0; k < now.n; k++)
			extend(t, o->wrapped, &now.all[k], &t->pieces[i], &next);
		if (o->alone)
			keep_one_of_each(&next);
		next.too_many |= now.too_many;
		now = next;
		next = used;
	}
	ret->too_many |= now.too_many;
	for (size_t k = 0; k < now.n; k++)
		if (now.all[k].left == 0)
			add_alignment(ret, &now.all[k].a);
	free(now.all);
	free(next.all);
}

void alignment_find(const struct thread *t, const struct alignment_options *o, struct alignments *ret)
{
	uint64_t ran_until = 0;

	*ret = (struct alignments){ 0 };
	for (size_t n = 0; o->windowed && n < t->n_pieces; n++) {
		const struct piece *next = &t->pieces[n];

		/* What ended before the window ran before the freeze. */
		if (next->ended >= o->frozen_from && next->n)
			align_first(t, o, n, ret);
		if (next->n)
			ran_until = next->ended;
		if (ran_until > o->frozen_to)
			return;
	}
	align_first(t, o, t->n_pieces, ret);
}

static bool meet(struct span *a, const struct span *b)
{
	*a = (struct span){ MAX(a->from, b->from), MIN(a->to, b->to) };
	return a->from <= a->to;
}

static bool agree(struct alignment *a, const struct alignment *b)
{
	bool good = true;

	for (size_t i = 0; i < RIG_CPUS && good; i++)
		good = meet(&a->cuts[i], &b->cuts[i]) && meet(&a->frozen[i], &b->frozen[i]);
	return good;
}

/* There may be thousands of threads: what is chosen so far is on the heap, not on a stack of calls. */
static bool choose(const struct alignments *of_threads, size_t n, const struct alignment *any,
		   const struct alignment **ret)
{
	struct alignment *so_far = calloc(n + 1, sizeof(*so_far));
	size_t *tried = calloc(n + 1, sizeof(*tried)), at = 0;
	bool found = true;

	if (!so_far || !tried)
		abort();
	so_far[0] = *any;
	while (at < n && found) {
		if (tried[at] == of_threads[at].n) {
			tried[at] = 0;
			found = at-- > 0;
			continue;
		}
		ret[at] = &of_threads[at].all[tried[at]++];
		so_far[at + 1] = so_far[at];
		at += agree(&so_far[at + 1], ret[at]);
	}
	free(so_far);
	free(tried);
	return found;
}

bool alignment_agree(const struct alignments *of_threads, size_t n, const struct alignment_options *o,
		     const struct alignment **ret)
{
	struct alignment any = { .missing = 0 };

	for (size_t i = 0; i < RIG_CPUS; i++) {
		any.cuts[i].to = any.frozen[i].to = UINT64_MAX;
		if (o->windowed)
			any.frozen[i] = (struct span){ o->frozen_from, o->frozen_to };
	}
	return choose(of_threads, n, &any, ret);
}
