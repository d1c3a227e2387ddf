#include "lib/etm/native-chunk.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"

enum { MARKS_SLOW = 4, MARK_FIRST = 256 /* bytes to the next one, which doubles */ };

static void take_stack(const struct native *e, struct native_checkpoint *p)
{
	p->n_stack = e->entries;
	for (unsigned i = 0; i < e->entries; i++) {
		unsigned slot = (e->top + RETURN_STACK - i) % RETURN_STACK;
		uint32_t block = e->stack[slot].block;

		p->stack[i].open = block ? 0 : e->stack[slot].open;
		p->stack[i].address = block ? block_end(&e->blocks.list[block]) : e->stack[slot].address;
	}
}

static void take_fold(const struct native *e, struct native_checkpoint *p)
{
	const struct native_fold *f = e->fold;

	p->successor = NATIVE_UNKNOWN;
	if (!f)
		return;
	/* Nothing else of it is counted. */
	if (e->sink.outlet == NATIVE_COUNTS) {
		p->has_last = p->last_taken = f->last && is_indirect(e, f->last);
		if (p->has_last)
			p->last = e->blocks.list[edge_block(f->last)];
		return;
	}
	p->has_last = f->last;
	if (f->last) {
		p->last = e->blocks.list[edge_block(f->last)];
		p->last_taken = edge_taken(f->last);
	} else {
		p->successor = f->successor;
	}
	p->fresh = f->fresh;
	p->instructions = f->instructions;
	p->ranges = f->ranges;
}

bool native_checkpoint_take(struct native *e, struct native_checkpoint *p)
{
	if (e->n_carry || !e->framed || e->error < 0 || e->n_queue > PLACE_QUEUE ||
	    (e->fold && native_fold_edges(e) < 0) || e->out.n != e->mark || e->out.n_events != e->mark_events)
		return false;
	memset(p, 0, offsetof(struct native_checkpoint, queue));
	memcpy(p->history, e->packets.history, sizeof(p->history));
	p->timed = e->packets.timed;
	p->informed = e->packets.informed;
	/* The next one has all its bits. */
	p->timestamp = !p->timed && p->informed ? 0 : e->packets.timestamp;
	p->threshold = e->packets.threshold;
	p->wide = e->packets.wide;
	p->context = e->context;
	p->told = e->told;
	p->sync = e->sync;
	p->lost = e->lost;
	p->overflow = e->overflow;
	p->timestamps = e->timestamps;
	p->counted = e->counted;
	p->offset = e->offset;
	p->bytes = e->stats.bytes;
	p->decoded = e->stats.decoded;
	p->n_queue = (uint32_t)e->n_queue;
	p->depth = e->depth;
	p->pending = e->pending;
	for (uint32_t i = 0; i < p->n_queue; i++)
		p->queue[i] = e->queue[(e->first + i) & (e->queue_capacity - 1)];
	p->has_context = e->has_context;
	p->stack_waits = e->stack_waits;
	p->need = e->need;
	p->address = e->block ? e->blocks.list[e->block].start : e->address;
	take_stack(e, p);
	take_fold(e, p);
	return true;
}

static bool same_packets(const struct native_checkpoint *a, const struct native_checkpoint *b)
{
	return memcmp(a->history, b->history, sizeof(a->history)) == 0 && a->timestamp == b->timestamp &&
	       a->threshold == b->threshold && a->wide == b->wide && a->timed == b->timed && a->informed == b->informed;
}

static bool same_context(const struct native_checkpoint *x, const struct native_checkpoint *y)
{
	const struct engine_context *a = &x->context, *b = &y->context;
	const struct element *s = &x->told, *t = &y->told;

	return a->has_time == b->has_time && a->time == b->time && a->has_ctxid == b->has_ctxid &&
	       a->ctxid == b->ctxid && a->has_vmid == b->has_vmid && a->vmid == b->vmid && a->spaces == b->spaces &&
	       s->isa == t->isa && s->context.level == t->context.level && s->context.security == t->context.security &&
	       s->context.bits == t->context.bits && s->context.has_vmid == t->context.has_vmid &&
	       s->context.vmid == t->context.vmid && s->context.has_ctxid == t->context.has_ctxid &&
	       s->context.ctxid == t->context.ctxid;
}

static bool same_p0(const struct p0 *a, const struct p0 *b)
{
	const struct packet_context *s = &a->context, *t = &b->context;

	return a->kind == b->kind && a->n_atoms == b->n_atoms && a->flag == b->flag && a->level == b->level &&
	       a->number == b->number && a->cycles == b->cycles && a->value == b->value && a->offset == b->offset &&
	       s->updated == t->updated && s->has_vmid == t->has_vmid && s->has_ctxid == t->has_ctxid &&
	       s->wide == t->wide && s->nonsecure == t->nonsecure && s->nse == t->nse && s->level == t->level &&
	       s->vmid == t->vmid && s->ctxid == t->ctxid;
}

static bool same_queue(const struct native_checkpoint *a, const struct native_checkpoint *b)
{
	bool same = a->n_queue == b->n_queue && a->depth == b->depth && a->pending == b->pending;

	for (uint32_t i = 0; i < a->n_queue && same; i++)
		same = same_p0(&a->queue[i], &b->queue[i]);
	return same;
}

/* What is open may be anything, and nothing. */
static bool same_stack(const struct native_checkpoint *here, const struct native_checkpoint *there)
{
	unsigned i = 0;

	while (i < there->n_stack && !there->stack[i].open) {
		if (i >= here->n_stack || here->stack[i].address != there->stack[i].address)
			return false;
		i++;
	}
	return i < there->n_stack || here->n_stack == there->n_stack;
}

static bool same_fold(const struct native_checkpoint *a, const struct native_checkpoint *b)
{
	const struct basic_block *s = &a->last, *t = &b->last;

	if (a->has_last != b->has_last || a->last_taken != b->last_taken || a->fresh != b->fresh ||
	    a->successor != b->successor)
		return false;
	return !a->has_last || (s->start == t->start && s->target == t->target && s->count == t->count &&
				s->kind == t->kind && s->sub == t->sub && s->link == t->link &&
				s->conditional == t->conditional && s->always == t->always && s->missing == t->missing);
}

bool native_checkpoint_same(const struct native_checkpoint *here, const struct native_checkpoint *there)
{
	return here->sync == there->sync && here->overflow == there->overflow &&
	       here->timestamps == there->timestamps && here->counted == there->counted &&
	       here->has_context == there->has_context && here->stack_waits == there->stack_waits &&
	       here->need == there->need && here->address == there->address && same_packets(here, there) &&
	       same_context(here, there) && same_queue(here, there) && same_stack(here, there) &&
	       same_fold(here, there);
}

static void put_stack(struct native *e, const struct native_checkpoint *p)
{
	e->entries = p->n_stack;
	e->top = RETURN_STACK - 1;
	for (unsigned i = 0; i < p->n_stack; i++) {
		e->stack[e->top - i].block = 0;
		e->stack[e->top - i].address = p->stack[i].address;
		e->stack[e->top - i].open = p->stack[i].open;
	}
}

static int put_fold(struct native *e, const struct native_checkpoint *p)
{
	struct native_fold *f = e->fold;
	uint32_t number = 0;
	int rc = 0;

	if (!f)
		return 0;
	if (p->has_last)
		rc = blocks_adopt(&e->blocks, &p->last, &number);
	f->last = p->has_last ? make_edge(number, p->last_taken) : 0;
	f->successor = p->successor;
	f->fresh = p->fresh;
	f->instructions = p->instructions;
	f->ranges = p->ranges;
	f->events = f->kept = 0;
	return rc;
}

int native_checkpoint_restore(struct native *e, const struct native_checkpoint *p)
{
	int rc;

	memcpy(e->packets.history, p->history, sizeof(p->history));
	memset(e->packets.places, 0, sizeof(e->packets.places));
	e->packets.timestamp = p->timestamp;
	e->packets.timed = p->timed;
	e->packets.informed = p->informed;
	e->packets.threshold = p->threshold;
	e->packets.wide = p->wide;
	e->context = p->context;
	e->told = p->told;
	e->sync = p->sync;
	e->lost = p->lost;
	e->overflow = p->overflow;
	e->timestamps = p->timestamps;
	e->counted = p->counted;
	e->offset = p->offset;
	e->stats.bytes = p->bytes;
	e->stats.decoded = p->decoded;
	e->framed = true;
	e->zeros = 0;
	e->n_carry = 0;
	e->error = 0;
	e->out.n = e->out.n_events = e->out.n_calls = e->mark = e->mark_events = 0;
	native_queue_clear(e);
	e->depth = p->depth;
	e->pending = p->pending;
	e->has_context = p->has_context;
	e->stack_waits = p->stack_waits;
	e->need = p->need;
	e->block = 0;
	e->address = p->address;
	put_stack(e, p);
	rc = native_queue_append(e, p->queue, p->n_queue);
	if (rc == 0)
		rc = MIN(blocks_enter(&e->blocks, &e->context), 0);
	return rc == 0 ? put_fold(e, p) : rc;
}

static size_t marks_of(const struct native_chunk *p)
{
	return p->marks.size / sizeof(struct chunk_checkpoint);
}

static size_t batches_of(const struct native_chunk *p)
{
	return p->batches.size / sizeof(struct native_batch);
}

int native_chunk_batch(void *user, const struct native_batch *b)
{
	struct native_chunk *p = *(struct native_chunk **)user;

	if (p->stretch)
		buf_add(&p->batches, b, sizeof(*b));
	return buf_error(&p->batches);
}

static void add_mark(struct native_chunk *p, const struct native_checkpoint *place, bool ends)
{
	struct chunk_checkpoint *m = (struct chunk_checkpoint *)buf_reserve(&p->marks, sizeof(*m));

	if (!m)
		return;
	m->at = (size_t)(place->bytes - p->begin);
	m->batch = batches_of(p);
	m->ends = ends;
	m->counted = !ends && p->n + 1 >= MARKS_SLOW;
	m->stop = m->at;
	/* The queue is short, as a rule. */
	memcpy(&m->place, place, offsetof(struct native_checkpoint, queue) + place->n_queue * sizeof(place->queue[0]));
	buf_grew(&p->marks, sizeof(*m));
	p->n++;
}

/* The stretch ends at the last place that was marked, whatever came after, up to stop. */
static void end_early(struct native_chunk *p, uint64_t stop)
{
	size_t n = marks_of(p);

	if (p->stretch && n) {
		struct chunk_checkpoint *m = &((struct chunk_checkpoint *)p->marks.data)[n - 1];

		m->ends = true;
		m->stop = (size_t)(stop - p->begin);
	}
	p->stretch = false;
}

static void open_stack(struct native *e)
{
	e->entries = RETURN_STACK;
	e->top = RETURN_STACK - 1;
	for (unsigned i = 0; i < RETURN_STACK; i++) {
		e->stack[RETURN_STACK - 1 - i].block = 0;
		e->stack[RETURN_STACK - 1 - i].address = UINT64_MAX;
		e->stack[RETURN_STACK - 1 - i].open = (uint8_t)(i + 1);
	}
}

static bool may_break(const struct native *e)
{
	unsigned oldest = (e->top + RETURN_STACK + 1u - e->entries) % RETURN_STACK;

	return e->return_stack && e->entries && !e->stack[oldest].block && e->stack[oldest].open;
}

int native_chunk_before(struct native *e, uint64_t at)
{
	struct native_chunk *p = e->part;

	p->has_before = p->stretch && may_break(e) && native_checkpoint_take(e, &p->before);
	if (!p->has_before)
		return 0;
	p->before.bytes = at;
	p->before_edges = e->out.n;
	p->before_events = e->out.n_events;
	p->before_batches = batches_of(p);
	return 0;
}

/* What the packet said is dropped; what came before it is not. */
static int break_off(struct native *e, uint64_t next)
{
	struct native_chunk *p = e->part;
	int rc = 0;

	p->broken = false;
	if (p->stretch && p->has_before && p->before_batches == batches_of(p)) {
		e->out.n = e->mark = p->before_edges;
		e->out.n_events = e->mark_events = p->before_events;
		rc = native_flush(e);
		add_mark(p, &p->before, true);
		p->stretch = false;
	} else if (e->sink.outlet == NATIVE_COUNTS) {
		/* Some of it may have been counted already. */
		rc = native_fold_edges(e);
	}
	end_early(p, next);
	e->out.n = e->out.n_events = e->out.n_calls = e->mark = e->mark_events = 0;
	if (e->fold) {
		e->fold->events = e->fold->kept = 0;
		e->fold->last = 0;
		e->fold->successor = NATIVE_UNKNOWN;
		e->fold->fresh = true;
	}
	open_stack(e);
	p->slow = true;
	p->next = 0;
	return rc;
}

static bool is_known(const struct native *e)
{
	return !e->part->cold && e->sync == SYNC_DONE && e->has_context && e->need != NEED_ADDRESS;
}

/* next: where the next packet begins. */
int native_chunk_after(struct native *e, uint64_t next)
{
	struct native_chunk *p = e->part;
	struct native_checkpoint place;
	int rc;

	if (p->broken) {
		rc = break_off(e, next);
		if (rc < 0)
			return rc;
	}
	if (p->again || next < p->next || !is_known(e))
		return 0;
	rc = native_flush(e);
	if (rc < 0 || !native_checkpoint_take(e, &place))
		return rc;
	if (!p->stretch) {
		p->stretch = true;
		p->n = 0;
	}
	place.bytes = next;
	add_mark(p, &place, false);
	p->slow = p->n < MARKS_SLOW;
	if (!p->slow)
		p->next = next + ((uint64_t)MARK_FIRST << MIN(p->n - MARKS_SLOW, 20u));
	return buf_error(&p->marks);
}

/* As at the first synchronisation: elements that are not committed yet. */
int native_chunk_info(struct native *e, const struct packet *p)
{
	e->part->cold = false;
	e->depth = p->number;
	return p->number ? native_queue_append(
			       e, &(struct p0){ .kind = P0_UNSEEN, .number = p->number, .offset = e->offset }, 1)
			 : 0;
}

static int begin(struct native *e, struct native_chunk *p, uint64_t at)
{
	static const struct native_checkpoint cold = {
		.wide = true,
		.informed = true,
		.context.spaces = SPACES_SECURE,
		.told.isa = ISA_UNKNOWN,
		.sync = SYNC_DONE,
		.timestamps = true,
		.counted = true,
		.need = NEED_ADDRESS,
		.address = UINT64_MAX,
		.fresh = true,
		.successor = NATIVE_UNKNOWN,
	};
	int rc = native_checkpoint_restore(e, &cold);

	e->stats.bytes = p->begin = at;
	e->part = p;
	p->cold = p->slow = true;
	if (e->return_stack)
		open_stack(e);
	return rc < 0 ? rc : native_batch_next_buffer(e);
}

int native_chunk_decode(struct native *e, struct native_chunk *p, const uint8_t *bytes, size_t size, uint64_t at)
{
	struct native_checkpoint place;
	int rc = begin(e, p, at);

	if (rc == 0)
		rc = native_push(e, bytes, size);
	if (rc == 0 && p->stretch && native_checkpoint_take(e, &place)) {
		add_mark(p, &place, true);
		rc = buf_error(&p->marks);
	} else {
		end_early(p, e->stats.bytes);
	}
	p->stretch = false;
	if (e->sink.outlet == NATIVE_COUNTS && native_fold_edges(e) < 0)
		rc = -ENOMEM;
	native_batch_leave(e);
	return rc == -ENOMEM ? rc : 0;
}

int native_chunk_recount(struct native *e, const struct native_checkpoint *from, const uint8_t *bytes, size_t size)
{
	struct native_chunk p = { .begin = from->bytes, .again = true };
	int rc = native_checkpoint_restore(e, from);

	e->part = &p;
	if (rc == 0)
		rc = native_batch_next_buffer(e);
	if (rc == 0)
		rc = native_push(e, bytes, size);
	if (rc != -ENOMEM)
		rc = native_fold_edges(e);
	native_batch_leave(e);
	e->part = NULL;
	native_chunk_done(&p);
	return rc;
}

void native_chunk_done(struct native_chunk *p)
{
	native_batch_buffers_free(p->buffers);
	native_batch_buffers_free(p->spare);
	buf_done(&p->batches);
	buf_done(&p->marks);
}
