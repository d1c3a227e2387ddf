#include <stdlib.h>

#include "lib/base/buf.h"
#include "lib/code/space.h"

/*
 * A segment tree over the addresses at which anything begins or ends. Each place is noted in the few nodes that make
 * up its range, in the order of time; an address's answer is the best of the nodes above its leaf.
 */
struct space {
	struct buf places; /* struct place; sorted by time when sealed */
	uint64_t *cuts;
	size_t n_cuts;
	size_t leaves;   /* a power of two, at least n_cuts - 1 */
	uint32_t *first; /* of a node's notes; 2 * leaves + 1 */
	uint32_t *notes; /* indexes of places */
	uint32_t *next;  /* of a note: where the first at or behind it is that is not empty, in the same node */
};

int space_new(struct space **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct space *space_free(struct space *s)
{
	if (!s)
		return NULL;
	buf_done(&s->places);
	free(s->cuts);
	free(s->first);
	free(s->notes);
	free(s->next);
	free(s);
	return NULL;
}

size_t space_places(const struct space *s)
{
	return s->places.size / sizeof(struct place);
}

static const struct place *places_of(const struct space *s)
{
	return (const struct place *)s->places.data;
}

int space_add(struct space *s, const struct place *place)
{
	struct place p = *place;

	if (p.start >= p.end)
		return 0;
	p.order = (uint32_t)space_places(s);
	buf_add(&s->places, &p, sizeof(p));
	return buf_error(&s->places);
}

static int compare_places(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

static int compare_numbers(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/* The index of the last cut at or before addr; SIZE_MAX: none. */
static size_t find_cut(const struct space *s, uint64_t addr)
{
	size_t low = 0, high = s->n_cuts;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->cuts[middle] <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

/* Counts a place in its nodes, or notes it there where notes is set; first[] then moves on. */
static void note(struct space *s, const struct place *p, uint32_t index)
{
	size_t low = s->leaves + find_cut(s, p->start), high = s->leaves + find_cut(s, p->end);

	for (; low < high; low /= 2, high /= 2) {
		size_t nodes[2], n = 0;

		if (low & 1)
			nodes[n++] = low++;
		if (high & 1)
			nodes[n++] = --high;
		while (n--) {
			if (s->notes)
				s->notes[s->first[nodes[n]]] = index;
			s->first[nodes[n]]++;
		}
	}
}

static int make_cuts(struct space *s, const struct place *places, size_t n)
{
	size_t kept = 0;

	s->cuts = calloc(2 * n + 1, sizeof(*s->cuts));
	if (!s->cuts)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		s->cuts[2 * i] = places[i].start;
		s->cuts[2 * i + 1] = places[i].end;
	}
	qsort(s->cuts, 2 * n, sizeof(*s->cuts), compare_numbers);
	for (size_t i = 0; i < 2 * n; i++)
		if (!kept || s->cuts[kept - 1] != s->cuts[i])
			s->cuts[kept++] = s->cuts[i];
	s->n_cuts = kept;
	for (s->leaves = 1; s->leaves < kept;)
		s->leaves *= 2;
	return 0;
}

static int link_notes(struct space *s, size_t total)
{
	const struct place *places = places_of(s);

	s->next = calloc(total + 1, sizeof(*s->next));
	if (!s->next)
		return -ENOMEM;
	for (size_t node = 0; node < 2 * s->leaves; node++) {
		uint32_t next = s->first[node + 1];

		for (uint32_t i = s->first[node + 1]; i > s->first[node]; i--) {
			if (!places[s->notes[i - 1]].empty)
				next = i - 1;
			s->next[i - 1] = next;
		}
	}
	return 0;
}

int space_seal(struct space *s)
{
	struct place *places = (struct place *)s->places.data;
	size_t n = space_places(s), total = 0;
	int rc;

	if (!n || s->cuts)
		return 0;
	qsort(places, n, sizeof(*places), compare_places);
	rc = make_cuts(s, places, n);
	if (rc < 0)
		return rc;
	s->first = calloc(2 * s->leaves + 1, sizeof(*s->first));
	if (!s->first)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		note(s, &places[i], 0);
	for (size_t i = 0; i < 2 * s->leaves; i++) {
		uint32_t count = s->first[i];

		s->first[i] = (uint32_t)total;
		total += count;
		if (total > UINT32_MAX)
			return -ENOMEM;
	}
	s->notes = calloc(total + 1, sizeof(*s->notes));
	if (!s->notes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		note(s, &places[i], (uint32_t)i);
	/* Noting moved each node's first to the next one's. */
	for (size_t i = 2 * s->leaves; i > 0; i--)
		s->first[i] = s->first[i - 1];
	s->first[0] = 0;
	return link_notes(s, total);
}

size_t space_version(const struct space *s, uint64_t time)
{
	const struct place *places = places_of(s);
	size_t low = 0, high = space_places(s);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (places[middle].time <= time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct place *space_find(const struct space *s, uint64_t addr, uint64_t time, uint64_t *ret_end)
{
	/* Places stand in the order of time, so an index tells what is later. */
	uint32_t until = (uint32_t)space_version(s, time), best = UINT32_MAX, soonest = UINT32_MAX;
	const struct place *places = places_of(s);
	size_t leaf = s->n_cuts ? find_cut(s, addr) : SIZE_MAX;

	if (leaf == SIZE_MAX || leaf + 1 >= s->n_cuts)
		return NULL;
	for (size_t node = s->leaves + leaf; node; node /= 2) {
		uint32_t first = s->first[node], end = s->first[node + 1], low = first, high = end;

		while (low < high) {
			uint32_t middle = low + (high - low) / 2;

			if (s->notes[middle] < until)
				low = middle + 1;
			else
				high = middle;
		}
		if (low > first && (best == UINT32_MAX || s->notes[low - 1] > best))
			best = s->notes[low - 1];
		if (low < end && s->next[low] < end)
			soonest = MIN(soonest, s->notes[s->next[low]]);
	}
	if (best == UINT32_MAX || places[best].empty)
		best = soonest;
	if (best == UINT32_MAX || places[best].unknown)
		return NULL;
	*ret_end = s->cuts[leaf + 1];
	return &places[best];
}
