/* SPDX-License-Identifier: MIT */
/* Folds edges into calls, for NATIVE_CALLS and NATIVE_SUMS, which do not emit each range. */
#include <stdlib.h>
#include <string.h>

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
	free(f);
	return NULL;
}

/* Sums have no regions. */
static bool has_regions(const struct native *e)
{
	return e->sink.outlet == NATIVE_CALLS;
}

/* Makes the table by block as large as the list of blocks. */
static int regions_fit(struct native *e)
{
	struct native_fold *f = e->fold;
	uint32_t capacity = e->blocks.capacity;
	struct fold_regions *regions;

	if (f->capacity >= capacity)
		return 0;
	regions = reallocarray(f->regions, capacity, sizeof(*regions));
	if (!regions)
		return -ENOMEM;
	memset(regions + f->capacity, 0, (capacity - f->capacity) * sizeof(*regions));
	f->regions = regions;
	f->capacity = capacity;
	return 0;
}

static uint32_t region_at(struct native *e, uint64_t address)
{
	uint32_t number = e->sink.region(e->sink.region_user ? e->sink.region_user : e->sink.user, address);

	return number == ELEMENT_ALONE ? FOLD_ALWAYS : number + 1;
}

/* Returns a block's regions, with FOLD_ALWAYS where it is in two. */
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

	if (!edge || !has_regions(e) || regions_fit(e) < 0)
		return FOLD_FRESH;
	return regions_of(e, block)->last |
	       (native_fold_always_emits(&e->blocks.list[block], edge_is_taken(edge)) ? FOLD_ALWAYS : 0);
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

static int fold_edge(struct native *e, uint32_t edge)
{
	uint32_t block = edge_block(edge);
	const struct basic_block *b = &e->blocks.list[block];
	struct native_fold *f = e->fold;
	bool torn = native_fold_torn(e, f->last, b->start) || (b->always && !edge_is_taken(edge)), is_call = torn;
	int rc = has_regions(e) ? regions_fit(e) : 0;

	if (rc < 0)
		return rc;
	if (!torn && has_regions(e)) {
		uint32_t left = native_fold_left(e, f->last), to = regions_of(e, block)->first;

		is_call = left != to || to & FOLD_ALWAYS || f->fresh;
	}
	if (is_call)
		rc = add_call(e, f->last, block | (torn ? NATIVE_TORN : 0));
	f->instructions += b->count;
	f->ranges++;
	f->fresh = false;
	f->last = edge;
	return rc;
}

/* edge: NATIVE_EVENT, or cycles. */
static int fold_event(struct native *e, uint32_t edge)
{
	struct native_fold *f = e->fold;
	struct element *event = NULL;
	int rc = edge != NATIVE_EVENT || has_regions(e) ? add_call(e, edge, f->last) : 0;

	if (edge != NATIVE_EVENT)
		return rc;
	event = &e->batch.events[f->events];
	e->batch.ranges[f->events] = f->ranges;
	f->fresh = f->fresh || event->kind != ELEM_CYCLES;
	f->events++;
	if (element_is_aside(event))
		return rc;
	if (event->kind == ELEM_RANGE) {
		event->torn = native_fold_torn(e, f->last, event->range.start);
		f->instructions += event->range.count;
	}
	f->successor = event->kind == ELEM_RANGE ? e->batch.successors[f->events - 1] : NATIVE_UNKNOWN;
	f->last = 0;
	return rc;
}

int native_fold_edges(struct native *e)
{
	struct native_batch_builder *o = &e->batch;
	size_t committed = o->committed.edges;
	int rc = 0;

	for (size_t i = 0; i < committed && rc == 0; i++)
		rc = o->edges[i] & NATIVE_CYCLES ? fold_event(e, o->edges[i]) : fold_edge(e, o->edges[i]);
	if (o->n > committed)
		memmove(o->edges, o->edges + committed, (o->n - committed) * sizeof(*o->edges));
	o->n -= committed;
	o->committed.edges = 0;
	return rc;
}

int native_fold_entry(struct native *e, struct memo_entry *to, uint32_t *edges, unsigned *n)
{
	uint32_t calls[3 * 96], instructions = 0, left = 0;
	unsigned values = 0;

	if (has_regions(e) && regions_fit(e) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < *n; i++) {
		uint32_t block = edge_block(edges[i]), here = has_regions(e) ? regions_of(e, block)->first : left;

		if (i && (left != here || here & FOLD_ALWAYS)) {
			calls[values++] = edges[i - 1];
			calls[values++] = block;
			calls[values++] = instructions;
		}
		to->calls.entered = i ? to->calls.entered : here;
		instructions += e->blocks.list[block].count;
		left = has_regions(e) ? native_fold_left(e, edges[i]) : left;
	}
	to->calls.executed = instructions << ENTRY_RANGES_BITS | *n;
	to->calls.last_edge = edges[*n - 1];
	to->calls.left = left;
	to->n = (uint8_t)(values / 3);
	memcpy(edges, calls, values * sizeof(*calls));
	*n = values;
	return 0;
}

int native_emit_stop(const struct native *e, const struct native_sink *sink)
{
	const struct native_fold *f = e->fold;
	const struct native_call stop = { NATIVE_EVENT, f->last, f->instructions };

	return sink->batch(sink->user, &(struct native_batch){ .calls = &stop,
							       .n_calls = 1,
							       .executed = f->instructions,
							       .executed_blocks = f->ranges,
							       .blocks = e->blocks.list,
							       .n_blocks = e->blocks.n,
							       .numbering = e->blocks.numbering });
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
