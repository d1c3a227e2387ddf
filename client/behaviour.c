/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "client/behaviour.h"
#include "lib/base/array.h"
#include "lib/base/buf.h"

/* The number of calls along one edge that an open frame has made so far. */
struct pending_calls {
	uint32_t edge;
	uint64_t n;
};

struct open_call {
	uint32_t function, batch;
	uint32_t owner; /* index of this frame, or of the frame that it is a part of */
	bool inlined;
	size_t pending; /* the first of its pending calls */
	uint64_t callee_ns, callee_instructions;
	uint64_t bound, futexes; /* futexes: of the thread when the call began */
};

/* A call that has ended, or a piece of it. */
struct ended_call {
	uint32_t function, batch;
	uint64_t ns, instructions, callee_ns, callee_instructions;
	uint64_t bound; /* the largest of its times */
	bool waited;    /* the thread waited in it, or synchronised with others */
	bool whole;     /* it was traced from enter to leave */
	struct pending_calls *made;
	size_t n_made;
};

/* A call of an inlined function, of which more pieces may follow while the function that it is in is open. */
struct held_inlined {
	struct ended_call call; /* with a copy of the calls that it made */
	size_t place;           /* depth of the stack up to that function */
	size_t cap_made;
};

struct behaviour_reading {
	const struct store *store;
	struct behaviour *to;
	uint64_t futexes; /* system calls of the thread so far */
	struct open_call *stack;
	size_t depth, cap_stack;
	struct pending_calls *pending;
	size_t n_pending, cap_pending;
	struct held_inlined *held; /* by place */
	size_t n_held, cap_held;
};

static void reading_done(struct behaviour_reading *r)
{
	while (r->n_held)
		free(r->held[--r->n_held].call.made);
	free(r->held);
	free(r->stack);
	free(r->pending);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Returns the size of a file's name without its version: app-1.2, libx.so.1.2.3, python3.11. */
static size_t unversioned_size(const char *name)
{
	const char *so = strstr(name, ".so");
	size_t size = so && so != name && (so[3] == 0 || so[3] == '.') ? (size_t)(so - name) : strlen(name), end = size;
	bool dotted = false;

	while (end && (is_digit(name[end - 1]) || (name[end - 1] == '.' && end < size))) {
		dotted = dotted || name[end - 1] == '.';
		end--;
	}
	if (end && end < size && strchr("-_.", name[end - 1]))
		return end > 1 ? end - 1 : size;
	if (end > 1 && end < size && name[end - 1] == 'v' && strchr("-_.", name[end - 2]))
		return end > 2 ? end - 2 : size;
	return end && dotted ? end : size;
}

/* Finds or adds the number of a key; a new one is `next`. */
static int find_key(struct behaviour *b, const struct behaviour_function *f, uint32_t next, uint32_t *ret)
{
	_cleanup_buf_ struct buf key = { 0 };
	uint32_t text, *number;
	int rc;

	/* A newline separates them: it is in no name of a function that a compiler makes. */
	buf_printf(&key, "%s\n%.*s\n%d", f->name, (int)unversioned_size(f->image), f->image, f->inlined);
	buf_u8(&key, 0);
	rc = buf_error(&key);
	if (rc == 0)
		rc = texts_find(&b->keys, (const char *)key.data, &text);
	if (rc == 0)
		rc = hash_find(&b->by_key, text, 0, &number);
	if (rc < 0)
		return rc;
	if (rc == 1)
		*number = next;
	*ret = *number;
	return 0;
}

static int add_functions(const struct store *s, struct behaviour *b)
{
	int rc = 0;

	b->numbers = calloc(store_functions(s) + 1, sizeof(*b->numbers));
	if (!b->numbers)
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < store_functions(s); i++) {
		const struct store_function *f = store_function(s, i);
		const char *slash = strrchr(f->image, '/');
		struct behaviour_function to = { .name = f->name, .image = slash ? slash + 1 : f->image };

		to.inlined = f->kind == REGION_INLINED;
		rc = find_key(b, &to, (uint32_t)b->n_functions, &b->numbers[i]);
		if (rc == 0 && b->numbers[i] == b->n_functions) {
			rc = array_reserve(b->functions, b->n_functions, &b->cap_functions);
			if (rc == 0)
				b->functions[b->n_functions++] = to;
		}
		if (rc == 0)
			b->functions[b->numbers[i]].calls += f->calls;
	}
	return rc;
}

static int find_edge(struct behaviour *b, uint32_t caller, uint32_t callee, uint32_t *ret)
{
	uint32_t *number;
	int rc = hash_find(&b->by_edge, caller, callee, &number);

	if (rc == 0)
		*ret = *number;
	if (rc <= 0)
		return rc;
	if (array_reserve(b->edges, b->n_edges, &b->cap_edges) < 0)
		return -ENOMEM;
	*ret = *number = (uint32_t)b->n_edges;
	b->edges[b->n_edges++] = (struct behaviour_edge){ .caller = caller, .callee = callee };
	return 0;
}

/* Counts a call from the open frame. */
static int count_call(struct behaviour_reading *r, uint32_t callee)
{
	const struct open_call *caller = &r->stack[r->stack[r->depth - 1].owner];
	struct behaviour_edge *edge;
	uint32_t number;
	int rc = find_edge(r->to, caller->function, callee, &number);

	if (rc < 0)
		return rc;
	edge = &r->to->edges[number];
	if (edge->counted >= caller->pending && edge->counted < r->n_pending &&
	    r->pending[edge->counted].edge == number) {
		r->pending[edge->counted].n++;
		return 0;
	}
	if (array_reserve(r->pending, r->n_pending, &r->cap_pending) < 0)
		return -ENOMEM;
	edge->counted = r->n_pending;
	r->pending[r->n_pending++] = (struct pending_calls){ number, 1 };
	return 0;
}

/* Returns the batch of the next call. */
static uint32_t batch_of(struct behaviour_function *f)
{
	uint64_t batch = f->begun++ * SPREAD_BATCHES / MAX(f->calls, (uint64_t)1);

	return (uint32_t)MIN(batch, (uint64_t)SPREAD_BATCHES - 1);
}

static void note_futex(struct behaviour_reading *r)
{
	r->futexes++;
	if (r->depth)
		r->to->functions[r->stack[r->stack[r->depth - 1].owner].function].synchronises = true;
}

static int on_enter(struct behaviour_reading *r, const struct store_event *e)
{
	uint32_t number = r->to->numbers[e->frame.function], index = (uint32_t)r->depth;
	struct behaviour_function *f = &r->to->functions[number];
	struct open_call call = { .function = number,
				  .owner = index,
				  .inlined = e->frame.site != STORE_NO_SITE,
				  .bound = e->bound,
				  .futexes = r->futexes };
	bool piece = e->frame.piece && r->depth;
	int rc = r->depth && !piece && !calls_kind_is_resumed(e->kind) ? count_call(r, number) : 0;

	if (rc == 0)
		rc = array_reserve(r->stack, r->depth, &r->cap_stack);
	if (rc < 0)
		return rc;
	call.pending = r->n_pending;
	if (piece) {
		call.owner = r->stack[r->depth - 1].owner;
	} else {
		f->open++;
		f->waits = f->waits || e->kind == CALL_SYSCALL;
		if (e->kind == CALL_SYSCALL && strcmp(f->name, "futex") == 0)
			note_futex(r);
		if (e->kind != CALL_INFERRED && !calls_kind_is_resumed(e->kind))
			call.batch = batch_of(f);
	}
	r->stack[r->depth++] = call;
	return 0;
}

/* Counts a call of which no more pieces follow. */
static int count_ended(struct behaviour_reading *r, const struct ended_call *c)
{
	struct behaviour_function *f = &r->to->functions[c->function];
	int rc;

	f->longest_ns = MAX(f->longest_ns, c->ns);
	if (!c->whole)
		return 0;
	rc = histogram_add(&f->times, c->ns);
	f->whole++;
	f->whole_instructions += c->instructions;
	for (unsigned i = 0; i < (c->waited ? BEHAVIOUR_UNWAITED : BEHAVIOUR_SETS); i++) {
		struct behaviour_batches *b = &f->sets[i];

		b->whole++;
		b->n[c->batch]++;
		b->ns[c->batch] += c->ns - MIN(c->callee_ns, c->ns);
		b->instructions[c->batch] += c->instructions - MIN(c->callee_instructions, c->instructions);
		b->bounds[c->batch] = MAX(b->bounds[c->batch], c->bound);
	}
	for (size_t i = 0; i < c->n_made; i++) {
		struct behaviour_edge *edge = &r->to->edges[c->made[i].edge];

		edge->n[BEHAVIOUR_ALL][c->batch] += (uint32_t)c->made[i].n;
		edge->n[BEHAVIOUR_UNWAITED][c->batch] += c->waited ? 0 : (uint32_t)c->made[i].n;
		edge->calls += c->made[i].n;
		f->made += c->made[i].n;
	}
	return rc < 0 ? rc : histogram_add(&f->costs, c->instructions);
}

/* Counts a held call, and removes it. */
static int count_held(struct behaviour_reading *r, size_t index)
{
	struct held_inlined h = r->held[index];
	int rc;

	r->n_held--;
	memmove(&r->held[index], &r->held[index + 1], (r->n_held - index) * sizeof(*r->held));
	rc = count_ended(r, &h.call);
	free(h.call.made);
	return rc;
}

static int hold_made(struct held_inlined *h, const struct ended_call *c)
{
	for (size_t i = 0; i < c->n_made; i++) {
		if (array_reserve(h->call.made, h->call.n_made, &h->cap_made) < 0)
			return -ENOMEM;
		h->call.made[h->call.n_made++] = c->made[i];
	}
	return 0;
}

static int add_held_piece(struct held_inlined *h, const struct ended_call *c)
{
	struct ended_call *to = &h->call;

	to->ns += c->ns;
	to->instructions += c->instructions;
	to->callee_ns += c->callee_ns;
	to->callee_instructions += c->callee_instructions;
	to->bound = MAX(to->bound, c->bound);
	to->waited |= c->waited;
	to->whole &= c->whole;
	return hold_made(h, c);
}

/* Handles the end of an inlined call, or of a piece of one. */
static int end_inlined(struct behaviour_reading *r, const struct ended_call *c, bool resumed)
{
	size_t place = r->depth, i = r->n_held;
	struct held_inlined *h;
	int rc = 0;

	while (place && r->stack[place - 1].inlined)
		place--;
	while (i && r->held[i - 1].place >= place && r->held[i - 1].call.function != c->function)
		i--;
	if (i && r->held[i - 1].place < place)
		i = 0;
	if (resumed)
		return i ? add_held_piece(&r->held[i - 1], c) : 0;
	if (i)
		rc = count_held(r, i - 1);
	if (rc < 0 || !place)
		return rc < 0 ? rc : count_ended(r, c);
	if (array_reserve(r->held, r->n_held, &r->cap_held) < 0)
		return -ENOMEM;
	h = &r->held[r->n_held++];
	*h = (struct held_inlined){ .call = *c, .place = place };
	h->call.made = NULL;
	h->call.n_made = 0;
	return hold_made(h, c);
}

/* Counts the frame that is left. waited: time for which the thread had not run when it left the frame. */
static int on_leave(struct behaviour_reading *r, const struct store_event *e, uint64_t waited)
{
	uint64_t ns = e->time - e->frame.enter, instructions = e->instructions - e->frame.instructions, self_ns, self;
	const struct open_call *call;
	struct ended_call ended;
	struct open_call *caller;
	struct behaviour_function *f;
	struct store_event whole = *e;
	int rc = 0;

	if (!r->depth)
		return -EBADMSG;
	call = &r->stack[--r->depth];
	caller = r->depth ? &r->stack[r->depth - 1] : NULL;
	f = &r->to->functions[call->function];
	while (rc == 0 && !call->inlined && r->n_held && r->held[r->n_held - 1].place > r->depth)
		rc = count_held(r, r->n_held - 1);
	if (rc < 0)
		return rc;
	if (call->owner != r->depth) {
		/* The frame is a part of its caller, to which its callees belong. */
		caller->callee_ns += call->callee_ns;
		caller->callee_instructions += call->callee_instructions;
		return 0;
	}
	self_ns = ns - MIN(call->callee_ns, ns);
	self = instructions - MIN(call->callee_instructions, instructions);
	f->self_ns += self_ns;
	f->self_instructions += self;
	r->to->instructions += self;
	r->to->ns += f->waits ? 0 : self_ns;
	if (!--f->open)
		f->total_ns += ns;
	if (caller) {
		caller->callee_ns += ns;
		caller->callee_instructions += instructions;
	}
	/* A piece is whole if it is left; whether the call is depends on the first one, too. */
	if (call->inlined && e->frame.kind == CALL_RESUMED)
		whole.frame.kind = CALL_INLINED;
	ended = (struct ended_call){ .function = call->function,
				     .batch = call->batch,
				     .ns = ns,
				     .instructions = instructions,
				     .callee_ns = call->callee_ns,
				     .callee_instructions = call->callee_instructions,
				     .bound = MAX(call->bound, e->bound),
				     .waited = waited > e->frame.waited || r->futexes > call->futexes,
				     .whole = store_is_whole(&whole),
				     .made = r->pending + call->pending,
				     .n_made = r->n_pending - call->pending };
	rc = call->inlined ? end_inlined(r, &ended, e->frame.kind == CALL_RESUMED) : count_ended(r, &ended);
	r->n_pending = call->pending;
	return rc;
}

static int read_thread(struct behaviour_reading *r, size_t thread)
{
	const struct store_thread *t = store_thread(r->store, thread);
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	struct store_event e;
	int rc = store_iter_new(r->store, thread, &it), next;

	r->depth = r->n_pending = r->futexes = 0;
	if (t->events) {
		r->to->first = MIN(r->to->first, t->first);
		r->to->last = MAX(r->to->last, t->last);
	}
	while (rc == 0 && (next = store_iter_next(it, &e)) != 0) {
		if (next < 0)
			return next;
		if (e.type == STORE_ENTER)
			rc = on_enter(r, &e);
		else if (e.type == STORE_LEAVE)
			rc = on_leave(r, &e, store_iter_waited(it, e.time));
	}
	while (rc == 0 && r->n_held)
		rc = count_held(r, r->n_held - 1);
	return rc;
}

int behaviour_read(const struct store *s, struct behaviour *ret)
{
	_cleanup_(reading_done) struct behaviour_reading r = { .store = s, .to = ret };
	int rc;

	*ret = (struct behaviour){ .first = UINT64_MAX };
	rc = add_functions(s, ret);
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++)
		rc = read_thread(&r, i);
	ret->first = MIN(ret->first, ret->last);
	return rc;
}

void behaviour_done(struct behaviour *b)
{
	for (size_t i = 0; i < b->n_functions; i++) {
		histogram_done(&b->functions[i].times);
		histogram_done(&b->functions[i].costs);
	}
	free(b->functions);
	free(b->edges);
	free(b->numbers);
	texts_done(&b->keys);
	hash_done(&b->by_key);
	hash_done(&b->by_edge);
	*b = (struct behaviour){ 0 };
}

const struct behaviour_function *behaviour_find(struct behaviour *b, const struct behaviour_function *like)
{
	uint32_t number;

	return find_key(b, like, UINT32_MAX, &number) < 0 || number >= b->n_functions ? NULL : &b->functions[number];
}

const struct behaviour_edge *behaviour_find_edge(const struct behaviour *b, size_t caller, size_t callee)
{
	const uint32_t *number = hash_get(&b->by_edge, caller, callee);

	return number ? &b->edges[*number] : NULL;
}
