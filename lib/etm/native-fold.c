/* Outlets that do not tell of every range. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "lib/etm/native-part.h"

struct fold *fold_new(void)
{
	struct fold *f = calloc(1, sizeof(*f));

	if (f)
		f->leads = NATIVE_NOWHERE;
	return f;
}

struct fold *fold_free(struct fold *f)
{
	if (!f)
		return NULL;
	free(f->regions);
	free(f->counts);
	free(f->edges);
	free(f);
	return NULL;
}

/* As large as the blocks are. */
static int fit(struct native *e)
{
	struct fold *f = e->fold;
	uint32_t room = e->blocks.room;
	uint32_t *regions;
	uint64_t *counts;

	if (f->room >= room)
		return 0;
	if (e->sink.outlet == NATIVE_CALLS) {
		regions = reallocarray(f->regions, room, 2 * sizeof(*regions));
		if (!regions)
			return -ENOMEM;
		memset(regions + 2 * f->room, 0, 2 * (room - f->room) * sizeof(*regions));
		f->regions = regions;
	} else {
		counts = reallocarray(f->counts, room, 2 * sizeof(*counts));
		if (!counts)
			return -ENOMEM;
		memset(counts + 2 * f->room, 0, 2 * (room - f->room) * sizeof(*counts));
		f->counts = counts;
	}
	f->room = room;
	return 0;
}

static uint32_t region_at(struct native *e, uint64_t address)
{
	uint32_t number = e->sink.region(e->sink.region_user ? e->sink.region_user : e->sink.user, address);

	return number == ELEMENT_ALONE ? FOLD_ALWAYS : number + 1;
}

/* The regions of a block's first and last instruction, with FOLD_ALWAYS where it is in two. */
static const uint32_t *regions_of(struct native *e, uint32_t block)
{
	uint32_t *regions = &e->fold->regions[2 * block];
	const struct block *b = &e->blocks.list[block];

	if (!regions[0]) {
		regions[0] = region_at(e, b->start);
		regions[1] = b->count > 1 ? region_at(e, block_end(b) - 4) : regions[0];
		if (regions[0] != regions[1]) {
			regions[0] |= FOLD_ALWAYS;
			regions[1] |= FOLD_ALWAYS;
		}
	}
	return regions;
}

uint32_t fold_left(struct native *e, uint32_t word)
{
	if (!word || fit(e) < 0)
		return FOLD_FRESH;
	return regions_of(e, word >> 1)[1] | (fold_told(&e->blocks.list[word >> 1], word & 1) ? FOLD_ALWAYS : 0);
}

bool fold_torn(const struct native *e, uint32_t last, uint64_t address)
{
	uint64_t leads = last ? native_leads(e->blocks.list, last) : e->fold->leads;

	return leads != NATIVE_NOWHERE && leads != address;
}

static int add_call(struct native *e, uint32_t word, uint32_t to)
{
	struct native_out *o = &e->out;

	if (o->n_calls == o->calls_room && out_more_calls(e) < 0)
		return -ENOMEM;
	o->calls[o->n_calls++] = (struct native_call){ word, to, e->fold->instructions };
	return 0;
}

static size_t edge_slot(const struct native_count *edges, size_t room, uint32_t word, uint32_t to)
{
	size_t i = (size_t)(((uint64_t)word << 32 | to) * 0x9e3779b97f4a7c15u >> 32) & (room - 1);

	while (edges[i].n && (edges[i].word != word || edges[i].to != to))
		i = (i + 1) & (room - 1);
	return i;
}

static int grow_edges(struct fold *f)
{
	size_t room = f->edges_room ? f->edges_room * 2 : 1024;
	struct native_count *edges = calloc(room, sizeof(*edges));

	if (!edges)
		return -ENOMEM;
	for (size_t i = 0; i < f->edges_room; i++)
		if (f->edges[i].n)
			edges[edge_slot(edges, room, f->edges[i].word, f->edges[i].to)] = f->edges[i];
	free(f->edges);
	f->edges = edges;
	f->edges_room = room;
	return 0;
}

int fold_edge(struct native *e, uint32_t word, uint32_t to)
{
	struct fold *f = e->fold;
	struct native_count *edge;

	if (2 * f->n_edges >= f->edges_room && grow_edges(f) < 0)
		return -ENOMEM;
	edge = &f->edges[edge_slot(f->edges, f->edges_room, word, to)];
	f->n_edges += !edge->n;
	edge->word = word;
	edge->to = to;
	edge->n++;
	return 0;
}

/* What is slow is not part's, but of whoever stitches. */
static bool is_counted(const struct native *e)
{
	return e->sink.outlet == NATIVE_COUNTS && !(e->part && e->part->slow);
}

static int fold_block(struct native *e, uint32_t word)
{
	const struct block *b = &e->blocks.list[word >> 1];
	struct fold *f = e->fold;
	int rc = fit(e);

	if (rc < 0)
		return rc;
	if (is_counted(e)) {
		if (f->last && is_indirect(e, f->last))
			rc = fold_edge(e, f->last, word >> 1);
		f->counts[word]++;
	} else if (e->sink.outlet == NATIVE_CALLS) {
		uint32_t left = fold_left(e, f->last), to = regions_of(e, word >> 1)[0];
		bool torn = fold_torn(e, f->last, b->start) || (b->always && !(word & 1));

		if (left != to || to & FOLD_ALWAYS || torn || f->fresh)
			rc = add_call(e, f->last, word >> 1 | (torn ? NATIVE_TORN : 0));
		f->instructions += b->count;
		f->ranges++;
		f->fresh = false;
	}
	f->last = word;
	return rc;
}

static int fold_event(struct native *e, uint32_t word)
{
	struct fold *f = e->fold;
	struct element *event = NULL;
	uint32_t block;
	int rc = 0;

	if (e->sink.outlet == NATIVE_CALLS)
		rc = add_call(e, word, f->last);
	if (word != NATIVE_EVENT)
		return rc;
	event = &e->out.events[f->events];
	e->out.ranges[f->events] = f->ranges;
	f->fresh = f->fresh || event->kind != ELEM_CYCLES;
	f->events++;
	if (element_is_aside(event))
		return rc;
	if (event->kind == ELEM_RANGE && e->sink.outlet == NATIVE_CALLS)
		event->torn = fold_torn(e, f->last, event->range.start);
	/* A piece of a block may be where an indirect branch went, too. */
	if (rc == 0 && event->kind == ELEM_RANGE && is_counted(e) && f->last && is_indirect(e, f->last)) {
		rc = blocks_find(&e->blocks, event->range.start, &block);
		if (rc == 0)
			rc = fold_edge(e, f->last, block);
	}
	if (event->kind == ELEM_RANGE)
		f->instructions += event->range.count;
	f->leads = event->kind == ELEM_RANGE ? e->out.leads[f->events - 1] : NATIVE_NOWHERE;
	f->last = 0;
	return rc;
}

/* Of the settled words, events and cycles stay where somebody is told of them. */
int fold_words(struct native *e)
{
	struct native_out *o = &e->out;
	size_t kept = e->fold->kept;
	int rc = 0;

	for (size_t i = kept; i < e->mark && rc == 0; i++) {
		if (!(o->words[i] & NATIVE_CYCLES)) {
			rc = fold_block(e, o->words[i]);
			continue;
		}
		rc = fold_event(e, o->words[i]);
		if (e->sink.outlet == NATIVE_COUNTS)
			o->words[kept++] = o->words[i];
	}
	if (o->n > e->mark)
		memmove(o->words + kept, o->words + e->mark, (o->n - e->mark) * sizeof(*o->words));
	o->n -= e->mark - kept;
	e->mark = e->fold->kept = kept;
	return rc;
}

/*
 * An entry's words as calls: what was executed and in how many blocks, the last word, where the first one is and where
 * the last one is left; then of each call from where, to where, and what was executed before.
 */
int fold_entry(struct native *e, struct entry *to, uint32_t *words, unsigned *n_words)
{
	uint32_t calls[3 * 96], instructions = 0, left = 0, here;
	unsigned n = 0;

	if (fit(e) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < *n_words; i++) {
		here = regions_of(e, words[i] >> 1)[0];
		if (i && (left != here || here & FOLD_ALWAYS)) {
			calls[n++] = words[i - 1];
			calls[n++] = words[i] >> 1;
			calls[n++] = instructions;
		}
		instructions += e->blocks.list[words[i] >> 1].count;
		left = fold_left(e, words[i]);
	}
	to->words[0] = instructions << ENTRY_RANGES_BITS | *n_words;
	to->words[1] = words[*n_words - 1];
	to->words[2] = regions_of(e, words[0] >> 1)[0];
	to->words[3] = left;
	to->n = (uint8_t)(n / 3);
	memcpy(words, calls, n * sizeof(*calls));
	*n_words = n;
	return 0;
}

int fold_count(struct native *e, const struct entry *entry)
{
	const uint32_t *words = entry->pooled ? e->memo->pool + entry->words[1] : entry->words + 1;
	int rc = entry->key && entry->words[0] ? fit(e) : 0;

	if (!entry->key || rc < 0)
		return rc;
	for (unsigned i = 0; i < entry->n && entry->words[0]; i++)
		e->fold->counts[words[i]] += entry->words[0];
	return 0;
}

static int add_count(struct native_count **list, size_t *n, size_t *room, struct native_count count)
{
	int rc = array_room(*list, *n, room);

	if (rc < 0)
		return rc;
	(*list)[(*n)++] = count;
	return 0;
}

int fold_finish(struct native *e)
{
	_cleanup_free_ struct native_count *list = NULL;
	struct fold *f = e->fold;
	struct native_batch batch = { .blocks = e->blocks.list };
	size_t n = 0, room = 0;
	int rc = e->sink.outlet == NATIVE_COUNTS ? memo_clear(e) : 0;

	if (e->sink.outlet != NATIVE_COUNTS || rc < 0)
		return rc;
	for (uint32_t i = 2; i < 2 * MIN(f->room, e->blocks.n) && rc == 0; i++)
		if (f->counts[i])
			rc = add_count(&list, &n, &room, (struct native_count){ i, 0, f->counts[i] });
	for (size_t i = 0; i < f->edges_room && rc == 0; i++)
		if (f->edges[i].n)
			rc = add_count(&list, &n, &room, f->edges[i]);
	if (rc < 0)
		return rc;
	if (f->room)
		memset(f->counts, 0, 2 * f->room * sizeof(*f->counts));
	if (f->edges_room)
		memset(f->edges, 0, f->edges_room * sizeof(*f->edges));
	f->n_edges = 0;
	batch.counts = list;
	batch.n_counts = n;
	return n ? MIN(e->sink.batch(e->sink.user, &batch), 0) : 0;
}

int fold_renew(struct native *e, const struct block *last)
{
	struct fold *f = e->fold;
	uint32_t number;
	int rc;

	if (f->regions)
		memset(f->regions, 0, 2 * f->room * sizeof(*f->regions));
	if (!f->last)
		return 0;
	rc = blocks_adopt(&e->blocks, last, &number);
	if (rc == 0)
		f->last = 2 * number + (f->last & 1);
	return rc;
}
