/* SPDX-License-Identifier: MIT */
/* Builds the batches that the native engine emits. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-chunk.h"

enum {
	FIRST = 8192, /* edges, or calls */
	FIRST_EVENTS = 4096,
	BUFFER_EDGES = 32 << 10,
	BUFFER_CALLS = 16 << 10,
	BUFFER_EVENTS = 512,
	BUFFER_LEAST = 512, /* edges, or calls; with less space, the next buffer is used */
};

static bool is_of_calls(const struct native *e)
{
	return e->sink.outlet != NATIVE_EDGES;
}

static struct native_buffer *buffer_new(const struct native *e, size_t edges, size_t calls, size_t events)
{
	size_t size = calls * sizeof(struct native_call) + events * (sizeof(struct element) + 2 * sizeof(uint64_t)) +
		      edges * (sizeof(uint32_t) + (e->sink.offsets ? sizeof(uint64_t) : 0));
	struct native_buffer *r = malloc(sizeof(*r) + size);

	if (r)
		*r = (struct native_buffer){ NULL, edges, calls, events, size };
	return r;
}

/* Points the batch's lists into a buffer. */
static void batch_use_buffer(struct native *e, struct native_buffer *r)
{
	struct native_batch_builder *o = &e->batch;

	o->calls = (struct native_call *)r->memory;
	o->events = (struct element *)(o->calls + r->calls);
	o->successors = (uint64_t *)(o->events + r->events);
	o->ranges = o->successors + r->events;
	o->offsets = e->sink.offsets ? o->ranges + r->events : NULL;
	o->edges = (uint32_t *)(o->ranges + r->events + (e->sink.offsets ? r->edges : 0));
	o->capacity = r->edges;
	o->calls_capacity = r->calls;
	o->events_capacity = r->events;
}

static void copy_items(void *to, const void *from, size_t n, size_t size)
{
	if (n)
		memcpy(to, from, n * size);
}

int native_batch_next_buffer(struct native *e)
{
	struct native_chunk *p = e->chunk;
	struct native_batch_builder *o = &e->batch, old = *o;
	size_t edges = is_of_calls(e) ? FIRST : BUFFER_EDGES, calls = is_of_calls(e) ? BUFFER_CALLS : 0;
	struct native_buffer *r = p->spare;

	if (r && old.n <= r->edges / 2 && old.n_calls <= r->calls / 2 && old.n_events <= r->events / 2)
		p->spare = r->next;
	else
		r = buffer_new(e, MAX(edges, 2 * old.n), MAX(calls, 2 * old.n_calls),
			       MAX(2 * old.n_events, (size_t)BUFFER_EVENTS));
	if (!r)
		return -ENOMEM;
	r->next = p->buffers;
	p->buffers = r;
	p->buffered += r->size;
	batch_use_buffer(e, r);
	copy_items(o->edges, old.edges, old.n, sizeof(*o->edges));
	copy_items(o->offsets, old.offsets, o->offsets ? old.n : 0, sizeof(*o->offsets));
	copy_items(o->calls, old.calls, old.n_calls, sizeof(*o->calls));
	copy_items(o->events, old.events, old.n_events, sizeof(*o->events));
	copy_items(o->successors, old.successors, old.n_events, sizeof(*o->successors));
	copy_items(o->ranges, old.ranges, old.n_events, sizeof(*o->ranges));
	return 0;
}

void native_batch_leave(struct native *e)
{
	e->batch = (struct native_batch_builder){ 0 };
}

void native_batch_buffers_free(struct native_buffer *r)
{
	while (r) {
		struct native_buffer *next = r->next;

		free(r);
		r = next;
	}
}

static int grow_edges(struct native *e)
{
	struct native_batch_builder *o = &e->batch;
	size_t capacity = o->capacity ? o->capacity * 2 : FIRST;
	uint32_t *edges;
	uint64_t *offsets;

	if (e->chunk)
		return native_batch_next_buffer(e);
	edges = reallocarray(o->edges, capacity, sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	o->edges = edges;
	if (e->sink.offsets) {
		offsets = reallocarray(o->offsets, capacity, sizeof(*offsets));
		if (!offsets)
			return -ENOMEM;
		o->offsets = offsets;
	}
	o->capacity = capacity;
	return 0;
}

static int grow_events(struct native *e)
{
	struct native_batch_builder *o = &e->batch;
	size_t capacity = o->events_capacity ? o->events_capacity * 2 : FIRST_EVENTS;
	struct element *events;
	uint64_t *all;

	if (e->chunk)
		return native_batch_next_buffer(e);
	events = reallocarray(o->events, capacity, sizeof(*events));
	if (!events)
		return -ENOMEM;
	o->events = events;
	all = reallocarray(o->successors, capacity, sizeof(*all));
	if (!all)
		return -ENOMEM;
	o->successors = all;
	all = reallocarray(o->ranges, capacity, sizeof(*all));
	if (!all)
		return -ENOMEM;
	o->ranges = all;
	o->events_capacity = capacity;
	return 0;
}

int native_batch_grow_calls(struct native *e)
{
	struct native_batch_builder *o = &e->batch;
	size_t capacity = o->calls_capacity ? o->calls_capacity * 2 : FIRST;
	struct native_call *calls;

	if (e->chunk)
		return native_batch_next_buffer(e);
	calls = reallocarray(o->calls, capacity, sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	o->calls = calls;
	o->calls_capacity = capacity;
	return 0;
}

static int add_edge(struct native *e, uint32_t edge, uint64_t offset)
{
	struct native_batch_builder *o = &e->batch;

	if (o->n == o->capacity && grow_edges(e) < 0)
		return -ENOMEM;
	if (o->offsets)
		o->offsets[o->n] = offset;
	o->edges[o->n++] = edge;
	return 0;
}

int native_batch_add_edge(struct native *e, uint32_t block, bool taken, uint64_t offset)
{
	return add_edge(e, make_edge(block, taken), offset);
}

int native_batch_add_range(struct native *e, const struct element *event, uint64_t successor, uint64_t offset)
{
	struct native_batch_builder *o = &e->batch;

	if (o->n_events == o->events_capacity && grow_events(e) < 0)
		return -ENOMEM;
	o->successors[o->n_events] = successor;
	o->events[o->n_events] = *event;
	o->events[o->n_events++].offset = offset;
	return add_edge(e, NATIVE_EVENT, offset);
}

int native_batch_add_event(struct native *e, const struct element *event, uint64_t offset)
{
	return native_batch_add_range(e, event, NATIVE_UNKNOWN, offset);
}

/* Moves the lists behind what was emitted, which stays in the buffer. */
static void advance_lists(struct native *e)
{
	struct native_batch_builder *o = &e->batch;

	o->edges += o->committed.edges;
	o->offsets += o->offsets ? o->committed.edges : 0;
	o->capacity -= o->committed.edges;
	o->events += o->committed.events;
	o->successors += o->committed.events;
	o->ranges += o->committed.events;
	o->events_capacity -= o->committed.events;
	o->calls += o->n_calls;
	o->calls_capacity -= o->n_calls;
}

static void move_lists_down(struct native *e)
{
	struct native_batch_builder *o = &e->batch;
	size_t edges = o->committed.edges, events = o->committed.events;

	if (o->n && edges)
		memmove(o->edges, o->edges + edges, o->n * sizeof(*o->edges));
	if (o->n && edges && o->offsets)
		memmove(o->offsets, o->offsets + edges, o->n * sizeof(*o->offsets));
	if (o->n_events && events) {
		memmove(o->events, o->events + events, o->n_events * sizeof(*o->events));
		memmove(o->successors, o->successors + events, o->n_events * sizeof(*o->successors));
	}
}

int native_batch_drop_committed(struct native *e)
{
	struct native_batch_builder *o = &e->batch;
	bool stays = e->chunk && e->chunk->in_stretch;

	o->n -= o->committed.edges;
	o->n_events -= o->committed.events;
	if (stays)
		advance_lists(e);
	else
		move_lists_down(e);
	o->n_calls = 0;
	o->committed.edges = o->committed.events = 0;
	return stays && (is_of_calls(e) ? o->calls_capacity : o->capacity) < BUFFER_LEAST ? native_batch_next_buffer(e)
											  : 0;
}

void native_batch_free(struct native *e)
{
	struct native_batch_builder *o = &e->batch;

	free(o->calls);
	free(o->edges);
	free(o->offsets);
	free(o->events);
	free(o->successors);
	free(o->ranges);
}
