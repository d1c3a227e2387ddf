/* SPDX-License-Identifier: MIT */
/* Folds edges into calls or counts, for the outlets that do not emit each range. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "lib/etm/native-chunk.h"

struct native_fold *native_fold_new(void)
{
	struct native_fold *f = calloc(1, sizeof(*f));

	if (f)
		f->successor = NATIVE_UNKNOWN;
	return f;
}

struct native_fold *native_fold_free(struct native_fold *f)
{
	if (!f)
		return NULL;
	free(f->regions);
	free(f->counts);
	free(f->targets);
	free(f);
	return NULL;
}

/* Makes the tables by block and edge as large as the list of blocks. */
static int tables_fit(struct native *e)
{
	struct native_fold *f = e->fold;
	uint32_t capacity = e->blocks.capacity;
	struct fold_regions *regions;
	uint64_t *counts;

	if (f->capacity >= capacity)
		return 0;
	if (e->sink.outlet == NATIVE_CALLS) {
		regions = reallocarray(f->regions, capacity, sizeof(*regions));
		if (!regions)
			return -ENOMEM;
		memset(regions + f->capacity, 0, (capacity - f->capacity) * sizeof(*regions));
		f->regions = regions;
	} else {
		counts = reallocarray(f->counts, capacity, 2 * sizeof(*counts));
		if (!counts)
			return -ENOMEM;
		memset(counts + 2 * f->capacity, 0, 2 * (capacity - f->capacity) * sizeof(*counts));
		f->counts = counts;
	}
	f->capacity = capacity;
	return 0;
}

static uint32_t region_at(struct native *e, uint64_t address)
{
	uint32_t number = e->sink.region(e->sink.region_user ? e->sink.region_user : e->sink.user, address);

	return number == ELEMENT_ALONE ? FOLD_ALWAYS : number + 1;
}

/* A block's regions, with FOLD_ALWAYS where it is in two. */
static const struct fold_regions *regions_of(struct native *e, uint32_t block)
{
	struct fold_regions *regions = &e->fold->regions[block];
	const struct basic_block *b = &e->blocks.list[block];

	if (!regions->first) {
		regions->first = region_at(e, b->start);
		regions->last = b->count > 1 ? region_at(e, block_end(b) - 4) : regions->first;
		if (regions->first != regions->last) {
			regions->first |= FOLD_ALWAYS;
			regions->last |= FOLD_ALWAYS;
		}
	}
	return regions;
}

uint32_t native_fold_left(struct native *e, uint32_t edge)
{
	uint32_t block = edge_block(edge);

	if (!edge || tables_fit(e) < 0)
		return FOLD_FRESH;
	return regions_of(e, block)->last |
	       (native_fold_is_call(&e->blocks.list[block], edge_is_taken(edge)) ? FOLD_ALWAYS : 0);
}

bool native_fold_torn(const struct native *e, uint32_t last, uint64_t address)
{
	uint64_t successor = last ? native_successor(e->blocks.list, last) : e->fold->successor;

	return successor != NATIVE_UNKNOWN && successor != address;
}

static int add_call(struct native *e, uint32_t edge, uint32_t to)
{
	struct native_batch_builder *o = &e->batch;

	if (o->n_calls == o->calls_capacity && native_batch_grow_calls(e) < 0)
		return -ENOMEM;
	o->calls[o->n_calls++] = (struct native_call){ edge, to, e->fold->instructions };
	return 0;
}

static size_t target_slot(const struct native_count *targets, size_t capacity, uint32_t edge, uint32_t to)
{
	size_t i = (size_t)(((uint64_t)edge << 32 | to) * 0x9e3779b97f4a7c15u >> 32) & (capacity - 1);

	while (targets[i].n && (targets[i].edge != edge || targets[i].to != to))
		i = (i + 1) & (capacity - 1);
	return i;
}

static int targets_grow(struct native_fold *f)
{
	size_t capacity = f->targets_capacity ? f->targets_capacity * 2 : 1024;
	struct native_count *targets = calloc(capacity, sizeof(*targets));

	if (!targets)
		return -ENOMEM;
	for (size_t i = 0; i < f->targets_capacity; i++)
		if (f->targets[i].n)
			targets[target_slot(targets, capacity, f->targets[i].edge, f->targets[i].to)] = f->targets[i];
	free(f->targets);
	f->targets = targets;
	f->targets_capacity = capacity;
	return 0;
}

int native_fold_count_target(struct native *e, uint32_t edge, uint32_t to)
{
	struct native_fold *f = e->fold;
	struct native_count *target;

	if (2 * f->n_targets >= f->targets_capacity && targets_grow(f) < 0)
		return -ENOMEM;
	target = &f->targets[target_slot(f->targets, f->targets_capacity, edge, to)];
	f->n_targets += !target->n;
	target->edge = edge;
	target->to = to;
	target->n++;
	return 0;
}

/* What a chunk decodes stepwise is decoded again, and counted, by the engine that stitches. */
static bool is_counted(const struct native *e)
{
	return e->sink.outlet == NATIVE_COUNTS && !(e->chunk && e->chunk->stepwise);
}

static int fold_edge(struct native *e, uint32_t edge)
{
	uint32_t block = edge_block(edge);
	const struct basic_block *b = &e->blocks.list[block];
	struct native_fold *f = e->fold;
	int rc = tables_fit(e);

	if (rc < 0)
		return rc;
	if (is_counted(e)) {
		if (f->last && is_indirect(e, f->last))
			rc = native_fold_count_target(e, f->last, block);
		f->counts[edge]++;
	} else if (e->sink.outlet == NATIVE_CALLS) {
		uint32_t left = native_fold_left(e, f->last), to = regions_of(e, block)->first;
		bool torn = native_fold_torn(e, f->last, b->start) || (b->always && !edge_is_taken(edge));

		if (left != to || to & FOLD_ALWAYS || torn || f->fresh)
			rc = add_call(e, f->last, block | (torn ? NATIVE_TORN : 0));
		f->instructions += b->count;
		f->ranges++;
		f->fresh = false;
	}
	f->last = edge;
	return rc;
}

/* edge: NATIVE_EVENT, or cycles. */
static int fold_event(struct native *e, uint32_t edge)
{
	struct native_fold *f = e->fold;
	struct element *event = NULL;
	uint32_t block;
	int rc = 0;

	if (e->sink.outlet == NATIVE_CALLS)
		rc = add_call(e, edge, f->last);
	if (edge != NATIVE_EVENT)
		return rc;
	event = &e->batch.events[f->events];
	e->batch.ranges[f->events] = f->ranges;
	f->fresh = f->fresh || event->kind != ELEM_CYCLES;
	f->events++;
	if (element_is_aside(event))
		return rc;
	if (event->kind == ELEM_RANGE && e->sink.outlet == NATIVE_CALLS)
		event->torn = native_fold_torn(e, f->last, event->range.start);
	/* A partial range may be an indirect branch's target, too. */
	if (rc == 0 && event->kind == ELEM_RANGE && is_counted(e) && f->last && is_indirect(e, f->last)) {
		rc = blocks_find(&e->blocks, event->range.start, &block);
		if (rc == 0)
			rc = native_fold_count_target(e, f->last, block);
	}
	if (event->kind == ELEM_RANGE)
		f->instructions += event->range.count;
	f->successor = event->kind == ELEM_RANGE ? e->batch.successors[f->events - 1] : NATIVE_UNKNOWN;
	f->last = 0;
	return rc;
}

/* NATIVE_COUNTS: events and cycles stay in the batch, as they are emitted there. */
int native_fold_edges(struct native *e)
{
	struct native_batch_builder *o = &e->batch;
	size_t kept = e->fold->kept, committed = o->committed.edges;
	int rc = 0;

	for (size_t i = kept; i < committed && rc == 0; i++) {
		if (!(o->edges[i] & NATIVE_CYCLES)) {
			rc = fold_edge(e, o->edges[i]);
			continue;
		}
		rc = fold_event(e, o->edges[i]);
		if (e->sink.outlet == NATIVE_COUNTS)
			o->edges[kept++] = o->edges[i];
	}
	if (o->n > committed)
		memmove(o->edges + kept, o->edges + committed, (o->n - committed) * sizeof(*o->edges));
	o->n -= committed - kept;
	o->committed.edges = e->fold->kept = kept;
	return rc;
}

int native_fold_entry(struct native *e, struct memo_entry *to, uint32_t *edges, unsigned *n)
{
	uint32_t calls[3 * 96], instructions = 0, left = 0, here;
	unsigned values = 0;

	if (tables_fit(e) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < *n; i++) {
		uint32_t block = edge_block(edges[i]);

		here = regions_of(e, block)->first;
		if (i && (left != here || here & FOLD_ALWAYS)) {
			calls[values++] = edges[i - 1];
			calls[values++] = block;
			calls[values++] = instructions;
		}
		instructions += e->blocks.list[block].count;
		left = native_fold_left(e, edges[i]);
	}
	to->calls.executed = instructions << ENTRY_RANGES_BITS | *n;
	to->calls.last_edge = edges[*n - 1];
	to->calls.entered = regions_of(e, edge_block(edges[0]))->first;
	to->calls.left = left;
	to->n = (uint8_t)(values / 3);
	memcpy(edges, calls, values * sizeof(*calls));
	*n = values;
	return 0;
}

int native_fold_count_entry(struct native *e, const struct memo_entry *entry)
{
	const uint32_t *edges = entry->pooled ? e->memo->pool + entry->counts.edges[0] : entry->counts.edges;
	uint32_t times = entry->counts.times;
	int rc = entry->key && times ? tables_fit(e) : 0;

	if (!entry->key || rc < 0)
		return rc;
	for (unsigned i = 0; i < entry->n && times; i++)
		e->fold->counts[edges[i]] += times;
	return 0;
}

static int add_count(struct native_count **list, size_t *n, size_t *capacity, struct native_count count)
{
	int rc = array_reserve(*list, *n, capacity);

	if (rc < 0)
		return rc;
	(*list)[(*n)++] = count;
	return 0;
}

int native_fold_finish(struct native *e)
{
	_cleanup_free_ struct native_count *list = NULL;
	struct native_fold *f = e->fold;
	struct native_batch batch = { .blocks = e->blocks.list };
	size_t n = 0, capacity = 0;
	int rc = e->sink.outlet == NATIVE_COUNTS ? native_memo_clear(e) : 0;

	if (e->sink.outlet != NATIVE_COUNTS || rc < 0)
		return rc;
	for (uint32_t i = make_edge(1, false); i < make_edge(MIN(f->capacity, e->blocks.n), false) && rc == 0; i++)
		if (f->counts[i])
			rc = add_count(&list, &n, &capacity, (struct native_count){ i, 0, f->counts[i] });
	for (size_t i = 0; i < f->targets_capacity && rc == 0; i++)
		if (f->targets[i].n)
			rc = add_count(&list, &n, &capacity, f->targets[i]);
	if (rc < 0)
		return rc;
	if (f->capacity)
		memset(f->counts, 0, 2 * f->capacity * sizeof(*f->counts));
	if (f->targets_capacity)
		memset(f->targets, 0, f->targets_capacity * sizeof(*f->targets));
	f->n_targets = 0;
	batch.counts = list;
	batch.n_counts = n;
	return n ? MIN(e->sink.batch(e->sink.user, &batch), 0) : 0;
}

int native_fold_renew(struct native *e, const struct basic_block *last)
{
	struct native_fold *f = e->fold;
	uint32_t number;
	int rc;

	if (f->regions)
		memset(f->regions, 0, f->capacity * sizeof(*f->regions));
	if (!f->last)
		return 0;
	rc = blocks_adopt(&e->blocks, last, &number);
	if (rc == 0)
		f->last = make_edge(number, edge_is_taken(f->last));
	return rc;
}
