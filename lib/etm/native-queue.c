/* SPDX-License-Identifier: MIT */
/*
 * The queue of P0 elements. A packet adds elements, and commits the oldest or cancels the newest ones (IHI0064,
 * "Speculation"). Elements leave the queue in order when they are committed, and are emitted then.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-state.h"

/* Returns the i-th oldest element. */
static struct p0 *queue_at(struct native *e, size_t i)
{
	return &e->queue.list[(e->queue.first + i) & (e->queue.capacity - 1)];
}

static int queue_grow(struct native *e)
{
	size_t capacity = e->queue.capacity ? e->queue.capacity * 2 : 64;
	struct p0 *queue = reallocarray(NULL, capacity, sizeof(*queue));

	if (!queue)
		return -ENOMEM;
	for (size_t i = 0; i < e->queue.n; i++)
		queue[i] = *queue_at(e, i);
	free(e->queue.list);
	e->queue.list = queue;
	e->queue.capacity = capacity;
	e->queue.first = 0;
	return 0;
}

static int queue_add(struct native *e, const struct p0 *p)
{
	int rc = 0;

	if (e->queue.n == QUEUE_MAX)
		return NATIVE_BAD;
	if (e->queue.n == e->queue.capacity)
		rc = queue_grow(e);
	if (rc < 0)
		return rc;
	*queue_at(e, e->queue.n++) = *p;
	queue_at(e, e->queue.n - 1)->offset = e->offset;
	return 0;
}

static void queue_drop_first(struct native *e)
{
	e->queue.first = (e->queue.first + 1) & (e->queue.capacity - 1);
	e->queue.n--;
}

void native_queue_clear(struct native *e)
{
	e->queue.first = e->queue.n = 0;
	e->queue.state.depth = 0;
	e->queue.state.pending = false;
}

void native_queue_reset(struct native *e)
{
	native_queue_clear(e);
	e->queue.state.overflow = false;
	e->queue.state.timestamps = !e->packets.has_marker;
}

int native_queue_append(struct native *e, const struct p0 *list, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = e->queue.n == e->queue.capacity ? queue_grow(e) : 0;
		if (rc == 0)
			*queue_at(e, e->queue.n++) = list[i];
	}
	return rc;
}

static bool is_p0(const struct p0 *p)
{
	return p->kind <= P0_UNSEEN || (p->kind == P0_TRANSACTION && p->flag);
}

static int emit_time(struct native *e, const struct p0 *p)
{
	struct element element = { .kind = ELEM_TIMESTAMP, .isa = ISA_A64, .value = p->value };
	int rc = native_flow_time(e, p->value);

	/* IHI0064, "Timestamp packets": zero is an unknown time; the cycle count is not reset. */
	element.time_unknown = !p->value;
	element.has_cycles = element.cycles_repeated = e->config.configr & 1u << 4;
	element.cycles = p->cycles;
	return rc == 0 && e->queue.state.timestamps ? native_batch_add_event(e, &element, p->offset) : rc;
}

/* Emits elements that are not P0 and do not depend on whether anything was executed. */
static int emit_lasting(struct native *e, const struct p0 *p)
{
	struct element element = { .isa = ISA_A64 };

	element.value = p->value;
	switch ((enum p0_kind)p->kind) {
	case P0_TIMESTAMP:
		return emit_time(e, p);
	case P0_CYCLES:
		element.kind = ELEM_CYCLES;
		element.has_cycles = true;
		element.cycles = p->cycles;
		break;
	case P0_EVENT:
		element.kind = ELEM_EVENT;
		break;
	case P0_MARKER:
		element.kind = ELEM_MARKER;
		e->queue.state.timestamps = true;
		break;
	case P0_INSTRUMENTATION:
		element.kind = ELEM_INSTRUMENTATION;
		element.instrumentation.level = p->level;
		element.instrumentation.value = p->value;
		break;
	default:
		return 0;
	}
	return native_batch_add_event(e, &element, p->offset);
}

static int emit_transaction(struct native *e, const struct p0 *p)
{
	return native_batch_add_event(
	    e, &(struct element){ .kind = ELEM_TRANSACTION, .isa = ISA_A64, .value = p->number }, p->offset);
}

static int emit_trace_on(struct native *e, const struct p0 *p)
{
	struct element element = { .kind = ELEM_TRACE_ON, .isa = ISA_A64 };

	element.reason = e->queue.state.overflow ? REASON_OVERFLOW : REASON_BEGIN;
	e->queue.state.overflow = false;
	native_flow_empty_stack(e);
	return native_batch_add_event(e, &element, p->offset);
}

/* Commits an exception, with the optional context and the address that follow it unless it is a reset. NATIVE_BAD. */
static int commit_exception(struct native *e)
{
	struct p0 p = *queue_at(e, 0), address, context;
	bool has_context = false;

	queue_drop_first(e);
	if (p.level)
		return native_flow_exception(e, &p, NULL, NULL);
	if (e->queue.n && queue_at(e, 0)->kind == P0_CONTEXT) {
		has_context = queue_at(e, 0)->context.updated;
		context = *queue_at(e, 0);
		queue_drop_first(e);
	}
	if (!e->queue.n || queue_at(e, 0)->kind != P0_ADDRESS)
		return NATIVE_BAD;
	address = *queue_at(e, 0);
	queue_drop_first(e);
	return native_flow_exception(e, &p, &address, has_context ? &context : NULL);
}

static int commit_q(struct native *e)
{
	struct p0 p = *queue_at(e, 0), context = { 0 };
	uint64_t address = p.value;

	queue_drop_first(e);
	if (p.flag)
		return native_flow_q(e, &p, address);
	if (e->queue.n && queue_at(e, 0)->kind == P0_CONTEXT) {
		context = *queue_at(e, 0);
		queue_drop_first(e);
	}
	if (!e->queue.n || queue_at(e, 0)->kind != P0_ADDRESS)
		return NATIVE_BAD;
	address = queue_at(e, 0)->value;
	/* The context applies behind the Q element, and takes the address's place in the queue. */
	if (context.context.updated)
		*queue_at(e, 0) = context;
	else
		queue_drop_first(e);
	return native_flow_q(e, &p, address);
}

static int commit_atoms(struct native *e, uint32_t *n)
{
	struct p0 *p = queue_at(e, 0);
	int rc = 0;

	while (p->n_atoms && *n && rc == 0) {
		bool taken = p->number & 1;

		p->number >>= 1;
		p->n_atoms--;
		rc = native_flow_atom(e, taken, p->offset);
		(*n)--;
	}
	if (!p->n_atoms)
		queue_drop_first(e);
	return rc;
}

/*
 * Commits the oldest element in the queue and those that are emitted with it; subtracts its P0 elements from *n.
 * Returns NATIVE_BAD for a malformed stream.
 */
static int commit_first(struct native *e, uint32_t *n)
{
	struct p0 p = *queue_at(e, 0);
	struct element element = { .isa = ISA_A64 };

	if (p.kind == P0_ATOMS)
		return commit_atoms(e, n);
	if (is_p0(&p) && p.kind != P0_UNSEEN)
		(*n)--;
	if (p.kind == P0_EXCEPTION)
		return commit_exception(e);
	if (p.kind == P0_Q)
		return commit_q(e);
	if (p.kind == P0_UNSEEN) {
		uint32_t seen = MIN(*n, p.number);

		*n -= seen;
		queue_at(e, 0)->number -= seen;
		if (!queue_at(e, 0)->number)
			queue_drop_first(e);
		return 0;
	}
	queue_drop_first(e);
	switch ((enum p0_kind)p.kind) {
	case P0_SOURCE:
		return native_flow_source(e, &p);
	case P0_TRACE_ON:
		return emit_trace_on(e, &p);
	case P0_EXCEPTION_RETURN:
		element.kind = ELEM_EXCEPTION_RETURN;
		return native_batch_add_event(e, &element, p.offset);
	case P0_ADDRESS:
		native_flow_address(e, p.value);
		return 0;
	case P0_CONTEXT:
		return p.context.updated ? native_flow_context(e, &p.context, p.offset) : 0;
	case P0_INFO:
		native_flow_info(e);
		return 0;
	case P0_TRANSACTION:
		return emit_transaction(e, &p);
	default:
		return emit_lasting(e, &p);
	}
}

/* Commits n P0 elements. NATIVE_BAD: there are fewer. */
static int queue_commit(struct native *e, uint32_t n)
{
	uint32_t wanted = n;
	int rc = 0;

	while (n && rc == 0) {
		enum p0_kind kind = e->queue.n ? (enum p0_kind)queue_at(e, 0)->kind : P0_ATOMS;

		rc = e->queue.n ? commit_first(e, &n) : NATIVE_BAD;
		/*
		 * A context or trace on is committed at once, with what precedes it: an atom that follows trace on
		 * without an address is malformed, but tracing did begin.
		 */
		if ((kind == P0_CONTEXT || kind == P0_TRACE_ON) && rc == 0)
			native_batch_commit(e);
	}
	if (rc != 0)
		return rc;
	e->queue.state.depth -= wanted;
	native_batch_commit(e);
	return 0;
}

/* Cancels up to *n of what a P0 element counts, and subtracts that from *n. True: nothing of the element is left. */
static bool cancel_element(struct p0 *p, uint32_t *n)
{
	uint32_t whole = p->kind == P0_UNSEEN ? p->number : p->kind == P0_ATOMS ? p->n_atoms : 1;
	uint32_t off = MIN(*n, whole);

	*n -= off;
	if (p->kind == P0_UNSEEN)
		p->number -= off;
	else if (p->kind == P0_ATOMS)
		p->n_atoms = (uint8_t)(p->n_atoms - off);
	return off == whole;
}

/* Cancels the n newest P0 elements; other elements stay, in order. NATIVE_BAD: there are fewer. */
static int queue_cancel(struct native *e, uint32_t n)
{
	size_t from = e->queue.n, to;
	uint32_t wanted = n;

	for (; n && from; from--) {
		struct p0 *p = queue_at(e, from - 1);

		if (is_p0(p) ? cancel_element(p, &n) : p->kind < P0_TIMESTAMP)
			p->kind = P0_CANCELLED;
	}
	for (to = from; from < e->queue.n; from++)
		if (queue_at(e, from)->kind != P0_CANCELLED)
			*queue_at(e, to++) = *queue_at(e, from);
	e->queue.n = to;
	if (n)
		return NATIVE_BAD;
	e->queue.state.depth -= wanted;
	return 0;
}

/* Inverts the newest atom, and drops addresses behind it, which were predicted. NATIVE_BAD: there is no atom. */
static int queue_mispredict(struct native *e)
{
	for (size_t i = e->queue.n; i; i--) {
		struct p0 *p = queue_at(e, i - 1);

		if (p->kind == P0_UNSEEN)
			return 0;
		if (p->kind == P0_ATOMS && p->n_atoms) {
			p->number ^= 1u << (p->n_atoms - 1);
			return 0;
		}
		if (p->kind != P0_ADDRESS)
			continue;
		for (size_t k = i; k < e->queue.n; k++)
			*queue_at(e, k - 1) = *queue_at(e, k);
		e->queue.n--;
	}
	return NATIVE_BAD;
}

/* Handles a discard or overflow packet: no queued P0 element was executed, and synchronization is lost. */
static int queue_discard(struct native *e)
{
	int rc = 0;

	while (e->queue.n && rc == 0) {
		struct p0 p = *queue_at(e, 0);

		queue_drop_first(e);
		rc = emit_lasting(e, &p);
	}
	native_queue_clear(e);
	native_flow_forget(e);
	e->sync.state = SYNC_LOST;
	e->sync.reason = e->queue.state.overflow ? REASON_OVERFLOW : REASON_DISCARD;
	native_batch_commit(e);
	return rc;
}

static int add_context(struct native *e, const struct packet *p)
{
	return queue_add(e, &(struct p0){ .kind = P0_CONTEXT, .context = p->context });
}

/* Adds the elements of a packet. *depth: the number of P0 elements that are added. NATIVE_BAD. */
static int add_packet(struct native *e, const struct packet *p, uint32_t *depth)
{
	struct p0 new = { .value = p->address, .number = p->number, .cycles = p->cycles };
	int rc;

	switch (p->kind) {
	case PACKET_TRACE_ON:
		new.kind = P0_TRACE_ON;
		break;
	case PACKET_ATOMS:
	case PACKET_CANCEL:
		new.kind = P0_ATOMS;
		new.n_atoms = p->n_atoms;
		new.number = p->atoms;
		*depth = p->n_atoms;
		if (!p->n_atoms)
			return 0;
		break;
	case PACKET_CONTEXT:
		return add_context(e, p);
	case PACKET_ADDRESS:
	case PACKET_ADDRESS_CONTEXT:
		new.kind = P0_ADDRESS;
		*depth = e->queue.state.pending;
		e->queue.state.pending = false;
		/* The context applies at the address, so it precedes it. */
		rc = p->kind == PACKET_ADDRESS_CONTEXT ? add_context(e, p) : 0;
		return rc == 0 ? queue_add(e, &new) : rc;
	case PACKET_SOURCE:
		new.kind = P0_SOURCE;
		*depth = 1;
		break;
	case PACKET_EXCEPTION:
	case PACKET_PE_RESET:
		new.kind = P0_EXCEPTION;
		new.flag = p->target;
		/* A reset has no address. */
		new.level = p->kind == PACKET_PE_RESET;
		*depth = new.level;
		e->queue.state.pending = e->queue.state.pending || p->kind == PACKET_EXCEPTION;
		break;
	case PACKET_EXCEPTION_RETURN:
		new.kind = P0_EXCEPTION_RETURN;
		break;
	case PACKET_EVENT:
		new.kind = P0_EVENT;
		new.value = p->value;
		break;
	case PACKET_CYCLES:
		new.kind = P0_CYCLES;
		break;
	case PACKET_TIMESTAMP:
		new.kind = P0_TIMESTAMP;
		new.value = p->value;
		break;
	case PACKET_MARKER:
		new.kind = P0_MARKER;
		new.value = 0;
		break;
	case PACKET_Q:
		new.kind = P0_Q;
		new.flag = p->has_address;
		*depth = p->has_address;
		e->queue.state.pending = e->queue.state.pending || !p->has_address;
		break;
	case PACKET_TRANSACTION_START:
		new.kind = P0_TRANSACTION;
		new.number = TRANSACTION_START;
		new.flag = !(e->config.idr0 & 1u << 30);
		*depth = new.flag;
		break;
	case PACKET_TRANSACTION_COMMIT:
	case PACKET_TRANSACTION_FAIL:
		new.kind = P0_TRANSACTION;
		new.number = p->kind == PACKET_TRANSACTION_FAIL ? TRANSACTION_FAIL : TRANSACTION_COMMIT;
		break;
	case PACKET_INSTRUMENTATION:
		new.kind = P0_INSTRUMENTATION;
		new.value = p->value;
		new.level = p->level;
		break;
	default:
		return 0;
	}
	return queue_add(e, &new);
}

int native_queue_packet(struct native *e, const struct packet *p)
{
	uint32_t commits = p->commit, added = 0;
	int rc;

	if (p->kind == PACKET_DISCARD || p->kind == PACKET_OVERFLOW) {
		e->queue.state.overflow = e->queue.state.overflow || p->kind == PACKET_OVERFLOW;
		return queue_discard(e);
	}
	rc = add_packet(e, p, &added);
	e->queue.state.depth += added;
	/* Elements beyond the maximum depth (TRCIDR8) are committed. */
	if (e->queue.state.depth > (int64_t)e->config.idr8)
		commits = (uint32_t)MIN(e->queue.state.depth - (int64_t)e->config.idr8, (int64_t)UINT32_MAX);
	if (rc == 0 && commits)
		rc = queue_commit(e, commits);
	if (rc == 0 && p->cancel)
		rc = queue_cancel(e, p->cancel);
	return rc == 0 && p->mispredict ? queue_mispredict(e) : rc;
}

int native_queue_info(struct native *e, const struct packet *p)
{
	int rc = 0;

	e->queue.state.depth = p->number;
	if (p->number)
		rc = queue_add(e, &(struct p0){ .kind = P0_UNSEEN, .number = p->number });
	if (rc == 0)
		rc = queue_add(e, &(struct p0){ .kind = P0_INFO });
	if (rc == 0 && p->in_transaction)
		rc = queue_add(e, &(struct p0){ .kind = P0_TRANSACTION, .number = TRANSACTION_INIT });
	native_flow_empty_stack(e);
	return rc;
}

int native_queue_settle(struct native *e)
{
	int rc = 0;

	while (e->queue.n && queue_at(e, 0)->kind >= P0_TIMESTAMP && rc == 0) {
		struct p0 p = *queue_at(e, 0);

		queue_drop_first(e);
		rc = emit_lasting(e, &p);
	}
	native_batch_commit(e);
	return rc;
}

int native_queue_finish(struct native *e)
{
	int rc = 0;

	while (e->queue.n && rc == 0) {
		struct p0 p = *queue_at(e, 0);

		if (is_p0(&p) || p.kind == P0_TRACE_ON || p.kind == P0_EXCEPTION_RETURN)
			break;
		queue_drop_first(e);
		if (p.kind == P0_TRANSACTION && (p.number == TRANSACTION_COMMIT || p.number == TRANSACTION_FAIL) &&
		    (!e->config.idr8 || !e->queue.state.depth))
			rc = emit_transaction(e, &p);
		else
			rc = emit_lasting(e, &p);
	}
	return rc;
}
