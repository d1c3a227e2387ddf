/* SPDX-License-Identifier: MIT */
#include "lib/etm/native-chunk.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"

enum {
	STEPWISE_CHECKPOINTS = 4, /* at the begin of a stretch, one behind each packet */
	INTERVAL_FIRST = 256,     /* bytes from there to the next checkpoint, which double each time */
};

static void stack_take(const struct native *e, struct native_checkpoint *p)
{
	p->stack.n = e->stack.n;
	for (unsigned i = 0; i < e->stack.n; i++) {
		unsigned slot = return_stack_slot(&e->stack, i);
		uint32_t block = e->stack.slots[slot].block;

		p->stack.entries[i].open = block ? 0 : (uint8_t)e->stack.slots[slot].open;
		p->stack.entries[i].address = block ? block_end(&e->blocks.list[block]) : e->stack.slots[slot].address;
	}
}

static void fold_take(const struct native *e, struct native_checkpoint *p)
{
	const struct native_fold *f = e->fold;

	p->fold.successor = NATIVE_UNKNOWN;
	if (!f)
		return;
	p->fold.has_last = f->last;
	if (f->last) {
		p->fold.last = e->blocks.list[edge_block(f->last)];
		p->fold.last_taken = edge_is_taken(f->last);
	} else {
		p->fold.successor = f->successor;
	}
	p->fold.fresh = f->fresh;
	p->fold.instructions = f->instructions;
	p->fold.ranges = f->ranges;
}

bool native_checkpoint_take(struct native *e, struct native_checkpoint *p)
{
	if (e->framing.n_carry || !e->framing.framed || e->error < 0 || e->queue.n > CHECKPOINT_QUEUE ||
	    (e->fold && native_fold_edges(e) < 0) || e->batch.n != e->batch.committed.edges ||
	    e->batch.n_events != e->batch.committed.events)
		return false;
	memset(p, 0, offsetof(struct native_checkpoint, queued));
	p->packets = e->packets.state;
	/* The next timestamp has all its bits, so this one does not matter. */
	if (!p->packets.timed && p->packets.informed)
		p->packets.timestamp = 0;
	p->sync = e->sync;
	/* The reason matters only until it is reported. */
	if (p->sync.state != SYNC_LOST)
		p->sync.reason = 0;
	p->control = e->control;
	if (p->control.block)
		p->control.address = e->blocks.list[p->control.block].start;
	p->control.block = 0;
	p->context = e->context;
	stack_take(e, p);
	fold_take(e, p);
	p->position.offset = e->offset;
	p->position.bytes = e->stats.bytes;
	p->position.decoded = e->stats.decoded;
	p->queue = e->queue.state;
	p->n_queued = (uint32_t)e->queue.n;
	for (uint32_t i = 0; i < p->n_queued; i++)
		p->queued[i] = e->queue.list[(e->queue.first + i) & (e->queue.capacity - 1)];
	return true;
}

/* Returns whether the stacks may be the same. An open entry of `there` may be any address, or the end of the stack. */
static bool stack_same(const struct native_checkpoint *here, const struct native_checkpoint *there)
{
	unsigned i = 0;

	while (i < there->stack.n && !there->stack.entries[i].open) {
		if (i >= here->stack.n || here->stack.entries[i].address != there->stack.entries[i].address)
			return false;
		i++;
	}
	return i < there->stack.n || here->stack.n == there->stack.n;
}

static bool fold_same(const struct native_checkpoint *a, const struct native_checkpoint *b)
{
	if (a->fold.has_last != b->fold.has_last || a->fold.last_taken != b->fold.last_taken ||
	    a->fold.fresh != b->fold.fresh || a->fold.successor != b->fold.successor)
		return false;
	return !a->fold.has_last || block_same(&a->fold.last, &b->fold.last);
}

bool native_checkpoint_same(const struct native_checkpoint *here, const struct native_checkpoint *there)
{
	return memcmp(&here->packets, &there->packets, sizeof(here->packets)) == 0 &&
	       memcmp(&here->sync, &there->sync, sizeof(here->sync)) == 0 &&
	       memcmp(&here->control, &there->control, sizeof(here->control)) == 0 &&
	       memcmp(&here->queue, &there->queue, sizeof(here->queue)) == 0 && here->n_queued == there->n_queued &&
	       memcmp(here->queued, there->queued, here->n_queued * sizeof(here->queued[0])) == 0 &&
	       engine_context_same(&here->context, &there->context) && stack_same(here, there) &&
	       fold_same(here, there);
}

static void stack_restore(struct native *e, const struct native_checkpoint *p)
{
	e->stack.n = p->stack.n;
	e->stack.top = RETURN_STACK - 1;
	for (unsigned i = 0; i < p->stack.n; i++) {
		unsigned slot = return_stack_slot(&e->stack, i);

		e->stack.slots[slot].block = 0;
		e->stack.slots[slot].address = p->stack.entries[i].address;
		e->stack.slots[slot].open = p->stack.entries[i].open;
	}
}

static int fold_restore(struct native *e, const struct native_checkpoint *p)
{
	struct native_fold *f = e->fold;
	uint32_t number = 0;
	int rc = 0;

	if (!f)
		return 0;
	if (p->fold.has_last)
		rc = blocks_adopt(&e->blocks, &p->fold.last, &number);
	f->last = p->fold.has_last ? make_edge(number, p->fold.last_taken) : 0;
	f->successor = p->fold.successor;
	f->fresh = p->fold.fresh;
	f->instructions = p->fold.instructions;
	f->ranges = p->fold.ranges;
	f->events = 0;
	return rc;
}

int native_checkpoint_restore(struct native *e, const struct native_checkpoint *p)
{
	int rc;

	e->packets.state = p->packets;
	memset(e->packets.blocks, 0, sizeof(e->packets.blocks));
	e->sync = p->sync;
	e->control = p->control;
	e->context = p->context;
	e->offset = p->position.offset;
	e->stats.bytes = p->position.bytes;
	e->stats.decoded = p->position.decoded;
	e->framing.framed = true;
	e->framing.zeros = 0;
	e->framing.n_carry = 0;
	e->error = 0;
	native_batch_clear(e);
	stack_restore(e, p);
	native_queue_clear(e);
	e->queue.state = p->queue;
	rc = native_queue_append(e, p->queued, p->n_queued);
	if (rc == 0)
		rc = MIN(blocks_enter(&e->blocks, &e->context), 0);
	return rc == 0 ? fold_restore(e, p) : rc;
}

static size_t checkpoint_count(const struct native_chunk *p)
{
	return p->checkpoints.size / sizeof(struct chunk_checkpoint);
}

static size_t batch_count(const struct native_chunk *p)
{
	return p->batches.size / sizeof(struct native_batch);
}

int native_chunk_batch(void *user, const struct native_batch *b)
{
	struct native_chunk *p = *(struct native_chunk **)user;

	if (p->in_stretch)
		buf_add(&p->batches, b, sizeof(*b));
	return buf_error(&p->batches);
}

static void add_checkpoint(struct native_chunk *p, const struct native_checkpoint *state, bool ends)
{
	struct chunk_checkpoint *m = (struct chunk_checkpoint *)buf_reserve(&p->checkpoints, sizeof(*m));

	if (!m)
		return;
	m->at = (size_t)(state->position.bytes - p->begin);
	m->batch = batch_count(p);
	m->ends = ends;
	/* Without the unused entries of the queue, which is short as a rule. */
	memcpy(&m->state, state,
	       offsetof(struct native_checkpoint, queued) + state->n_queued * sizeof(state->queued[0]));
	buf_grew(&p->checkpoints, sizeof(*m));
	p->n++;
}

/* Ends the stretch at its last checkpoint. */
static void end_stretch_early(struct native_chunk *p)
{
	size_t n = checkpoint_count(p);

	if (p->in_stretch && n)
		((struct chunk_checkpoint *)p->checkpoints.data)[n - 1].ends = true;
	p->in_stretch = false;
}

/* Fills the return stack with open entries. */
static void stack_open(struct native *e)
{
	e->stack.n = RETURN_STACK;
	e->stack.top = RETURN_STACK - 1;
	for (unsigned i = 0; i < RETURN_STACK; i++) {
		unsigned slot = return_stack_slot(&e->stack, i);

		e->stack.slots[slot].block = 0;
		e->stack.slots[slot].address = UINT64_MAX;
		e->stack.slots[slot].open = i + 1;
	}
}

/* True if the return stack has open entries: if any is, the oldest one is. */
static bool stack_has_open(const struct native *e)
{
	return e->stack.enabled && e->stack.n && return_stack_is_open(&e->stack, e->stack.n - 1u);
}

int native_chunk_before(struct native *e, uint64_t at)
{
	struct native_chunk *p = e->chunk;

	p->before.valid = p->in_stretch && stack_has_open(e) && native_checkpoint_take(e, &p->before.state);
	if (!p->before.valid)
		return 0;
	p->before.state.position.bytes = at;
	p->before.edges = e->batch.n;
	p->before.events = e->batch.n_events;
	p->before.batches = batch_count(p);
	return 0;
}

/* Control was lost: drops what the current packet emitted, and ends the stretch before it. */
static int break_stretch(struct native *e)
{
	struct native_chunk *p = e->chunk;
	int rc = 0;

	p->broken = false;
	if (p->in_stretch && p->before.valid && p->before.batches == batch_count(p)) {
		e->batch.n = p->before.edges;
		e->batch.n_events = p->before.events;
		native_batch_commit(e);
		rc = native_flush(e);
		add_checkpoint(p, &p->before.state, true);
		p->in_stretch = false;
	}
	end_stretch_early(p);
	native_batch_clear(e);
	if (e->fold) {
		e->fold->events = 0;
		e->fold->last = 0;
		e->fold->successor = NATIVE_UNKNOWN;
		e->fold->fresh = true;
	}
	stack_open(e);
	p->stepwise = true;
	p->next_checkpoint = 0;
	return rc;
}

/* Returns true if all of the state is known, except entries of the return stack that were pushed before the chunk. */
static bool is_complete(const struct native *e)
{
	return !e->chunk->awaits_info && e->sync.state == SYNC_DONE && e->control.has_context &&
	       e->control.need != NEED_ADDRESS;
}

/* next: where the next packet begins. */
int native_chunk_after(struct native *e, uint64_t next)
{
	struct native_chunk *p = e->chunk;
	struct native_checkpoint state;
	int rc;

	if (p->broken) {
		rc = break_stretch(e);
		if (rc < 0)
			return rc;
	}
	if (next < p->next_checkpoint || !is_complete(e))
		return 0;
	rc = native_flush(e);
	if (rc < 0 || !native_checkpoint_take(e, &state))
		return rc;
	if (!p->in_stretch) {
		p->in_stretch = true;
		p->n = 0;
	}
	state.position.bytes = next;
	add_checkpoint(p, &state, false);
	p->stepwise = p->n < STEPWISE_CHECKPOINTS;
	if (!p->stepwise)
		p->next_checkpoint = next + ((uint64_t)INTERVAL_FIRST << MIN(p->n - STEPWISE_CHECKPOINTS, 20u));
	return buf_error(&p->checkpoints);
}

/* As at the first synchronization point, uncommitted elements from before it are of unknown kind. */
int native_chunk_info(struct native *e, const struct packet *p)
{
	struct p0 unseen = { .kind = P0_UNSEEN, .number = p->number, .offset = e->offset };

	e->chunk->awaits_info = false;
	e->queue.state.depth = p->number;
	return p->number ? native_queue_append(e, &unseen, 1) : 0;
}

/* Sets the state in which a chunk is begun: as known as an A-sync packet allows, and open else. */
static int chunk_begin(struct native *e, struct native_chunk *p, uint64_t at)
{
	static const struct native_checkpoint open = {
		.packets = { .wide = true, .informed = true },
		.sync = { .state = SYNC_DONE, .counted = true },
		.control = { .isa = ISA_UNKNOWN, .need = NEED_ADDRESS, .address = UINT64_MAX },
		.context.spaces = SPACES_SECURE,
		.fold = { .fresh = true, .successor = NATIVE_UNKNOWN },
		.queue.timestamps = true,
	};
	int rc = native_checkpoint_restore(e, &open);

	e->stats.bytes = p->begin = at;
	e->chunk = p;
	p->awaits_info = p->stepwise = true;
	if (e->stack.enabled)
		stack_open(e);
	return rc < 0 ? rc : native_batch_next_buffer(e);
}

int native_chunk_decode(struct native *e, struct native_chunk *p, const uint8_t *bytes, size_t size, uint64_t at)
{
	struct native_checkpoint state;
	int rc = chunk_begin(e, p, at);

	if (rc == 0)
		rc = native_push(e, bytes, size);
	if (rc == 0 && p->in_stretch && native_checkpoint_take(e, &state)) {
		add_checkpoint(p, &state, true);
		rc = buf_error(&p->checkpoints);
	} else {
		end_stretch_early(p);
	}
	p->in_stretch = false;
	native_batch_leave(e);
	return rc == -ENOMEM ? rc : 0;
}

void native_chunk_done(struct native_chunk *p)
{
	native_batch_buffers_free(p->buffers);
	native_batch_buffers_free(p->spare);
	buf_done(&p->batches);
	buf_done(&p->checkpoints);
}
