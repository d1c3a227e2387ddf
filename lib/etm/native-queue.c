/*
 * P0 elements: a packet adds some, and says of older ones that they were executed, or were not (IHI0064,
 * "Speculation"). What the queue holds is told when it is committed, in order.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-state.h"

static struct p0 *at(struct native *e, size_t i)
{
	return &e->queue[(e->first + i) & (e->queue_capacity - 1)];
}

static int grow(struct native *e)
{
	size_t capacity = e->queue_capacity ? e->queue_capacity * 2 : 64;
	struct p0 *queue = reallocarray(NULL, capacity, sizeof(*queue));

	if (!queue)
		return -ENOMEM;
	for (size_t i = 0; i < e->n_queue; i++)
		queue[i] = *at(e, i);
	free(e->queue);
	e->queue = queue;
	e->queue_capacity = capacity;
	e->first = 0;
	return 0;
}

static int add(struct native *e, const struct p0 *p)
{
	int rc = 0;

	if (e->n_queue == QUEUE_MAX)
		return NATIVE_BAD;
	if (e->n_queue == e->queue_capacity)
		rc = grow(e);
	if (rc < 0)
		return rc;
	*at(e, e->n_queue++) = *p;
	at(e, e->n_queue - 1)->offset = e->offset;
	return 0;
}

static void take_first(struct native *e)
{
	e->first = (e->first + 1) & (e->queue_capacity - 1);
	e->n_queue--;
}

void native_queue_clear(struct native *e)
{
	e->first = e->n_queue = 0;
	e->depth = 0;
	e->pending = false;
}

int native_queue_append(struct native *e, const struct p0 *list, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = e->n_queue == e->queue_capacity ? grow(e) : 0;
		if (rc == 0)
			*at(e, e->n_queue++) = list[i];
	}
	return rc;
}

static bool is_p0(const struct p0 *p)
{
	return p->kind <= P0_UNSEEN || (p->kind == P0_TRANSACTION && p->flag);
}

static int tell_time(struct native *e, const struct p0 *p)
{
	struct element told = { .kind = ELEM_TIMESTAMP, .isa = ISA_A64, .value = p->value };
	int rc = native_flow_time(e, p->value);

	/* IHI0064, "Timestamp packets": zero is an unknown time; the cycle count is not reset. */
	told.time_unknown = !p->value;
	told.has_cycles = told.cycles_repeated = e->config.configr & 1u << 4;
	told.cycles = p->cycles;
	return rc == 0 && e->timestamps ? native_batch_add_event(e, &told, p->offset) : rc;
}

/* Of what is no P0 element, what is told whether or not anything was executed. */
static int tell_lasting(struct native *e, const struct p0 *p)
{
	struct element told = { .isa = ISA_A64 };

	told.value = p->value;
	switch ((enum p0_kind)p->kind) {
	case P0_TIMESTAMP:
		return tell_time(e, p);
	case P0_CYCLES:
		told.kind = ELEM_CYCLES;
		told.has_cycles = true;
		told.cycles = p->cycles;
		break;
	case P0_EVENT:
		told.kind = ELEM_EVENT;
		break;
	case P0_MARKER:
		told.kind = ELEM_MARKER;
		e->timestamps = true;
		break;
	case P0_INSTRUMENTATION:
		told.kind = ELEM_INSTRUMENTATION;
		told.instrumentation.level = p->level;
		told.instrumentation.value = p->value;
		break;
	default:
		return 0;
	}
	return native_batch_add_event(e, &told, p->offset);
}

static int tell_transaction(struct native *e, const struct p0 *p)
{
	return native_batch_add_event(
	    e, &(struct element){ .kind = ELEM_TRANSACTION, .isa = ISA_A64, .value = p->number }, p->offset);
}

static int tell_trace_on(struct native *e, const struct p0 *p)
{
	struct element told = { .kind = ELEM_TRACE_ON, .isa = ISA_A64 };

	told.reason = e->overflow ? REASON_OVERFLOW : REASON_BEGIN;
	e->overflow = false;
	e->entries = 0;
	return native_batch_add_event(e, &told, p->offset);
}

/* An exception has its address, and maybe a context before it, behind it. */
static int commit_exception(struct native *e)
{
	struct p0 p = *at(e, 0), address, context;
	bool has_context = false;

	take_first(e);
	if (p.level)
		return native_flow_exception(e, &p, NULL, NULL);
	if (e->n_queue && at(e, 0)->kind == P0_CONTEXT) {
		has_context = at(e, 0)->context.updated;
		context = *at(e, 0);
		take_first(e);
	}
	if (!e->n_queue || at(e, 0)->kind != P0_ADDRESS)
		return NATIVE_BAD;
	address = *at(e, 0);
	take_first(e);
	return native_flow_exception(e, &p, &address, has_context ? &context : NULL);
}

static int commit_q(struct native *e)
{
	struct p0 p = *at(e, 0), context = { 0 };
	uint64_t address = p.value;

	take_first(e);
	if (p.flag)
		return native_flow_q(e, &p, address);
	if (e->n_queue && at(e, 0)->kind == P0_CONTEXT) {
		context = *at(e, 0);
		take_first(e);
	}
	if (!e->n_queue || at(e, 0)->kind != P0_ADDRESS)
		return NATIVE_BAD;
	address = at(e, 0)->value;
	/* The context is for what comes next; its place is free. */
	if (context.context.updated)
		*at(e, 0) = context;
	else
		take_first(e);
	return native_flow_q(e, &p, address);
}

static int commit_atoms(struct native *e, uint32_t *n)
{
	struct p0 *p = at(e, 0);
	int rc = 0;

	while (p->n_atoms && *n && rc == 0) {
		bool taken = p->number & 1;

		p->number >>= 1;
		p->n_atoms--;
		rc = native_flow_atom(e, taken, p->offset);
		(*n)--;
	}
	if (!p->n_atoms)
		take_first(e);
	return rc;
}

/* The oldest element, and all that belongs to it; what it is counted as goes off *n. */
static int commit_first(struct native *e, uint32_t *n)
{
	struct p0 p = *at(e, 0);
	struct element told = { .isa = ISA_A64 };

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
		at(e, 0)->number -= seen;
		if (!at(e, 0)->number)
			take_first(e);
		return 0;
	}
	take_first(e);
	switch ((enum p0_kind)p.kind) {
	case P0_SOURCE:
		return native_flow_source(e, &p);
	case P0_TRACE_ON:
		return tell_trace_on(e, &p);
	case P0_EXCEPTION_RETURN:
		told.kind = ELEM_EXCEPTION_RETURN;
		return native_batch_add_event(e, &told, p.offset);
	case P0_ADDRESS:
		native_flow_address(e, p.value);
		return 0;
	case P0_CONTEXT:
		return p.context.updated ? native_flow_context(e, &p.context, p.offset) : 0;
	case P0_INFO:
		e->stack_waits = true;
		e->entries = 0;
		return 0;
	case P0_TRANSACTION:
		return tell_transaction(e, &p);
	default:
		return tell_lasting(e, &p);
	}
}

static int commit(struct native *e, uint32_t n)
{
	uint32_t wanted = n;
	int rc = 0;

	while (n && rc == 0) {
		bool context = e->n_queue && at(e, 0)->kind == P0_CONTEXT;

		rc = e->n_queue ? commit_first(e, &n) : NATIVE_BAD;
		/* A context goes out at once, with what came before it. */
		if (context && rc == 0)
			native_batch_commit(e);
	}
	if (rc != 0)
		return rc;
	e->depth -= wanted;
	native_batch_commit(e);
	return 0;
}

/* Takes what a P0 element counts for off n, as far as it goes; true: nothing of it is left. */
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

/* The newest elements were not executed; what lasts stays, in its order. */
static int cancel(struct native *e, uint32_t n)
{
	size_t from = e->n_queue, to;
	uint32_t wanted = n;

	for (; n && from; from--) {
		struct p0 *p = at(e, from - 1);

		if (is_p0(p) ? cancel_element(p, &n) : p->kind < P0_TIMESTAMP)
			p->kind = P0_CANCELLED;
	}
	for (to = from; from < e->n_queue; from++)
		if (at(e, from)->kind != P0_CANCELLED)
			*at(e, to++) = *at(e, from);
	e->n_queue = to;
	if (n)
		return NATIVE_BAD;
	e->depth -= wanted;
	return 0;
}

/* The newest atom went the other way; an address after it was a guess. */
static int mispredict(struct native *e)
{
	for (size_t i = e->n_queue; i; i--) {
		struct p0 *p = at(e, i - 1);

		if (p->kind == P0_UNSEEN)
			return 0;
		if (p->kind == P0_ATOMS && p->n_atoms) {
			p->number ^= 1u << (p->n_atoms - 1);
			return 0;
		}
		if (p->kind != P0_ADDRESS)
			continue;
		for (size_t k = i; k < e->n_queue; k++)
			*at(e, k - 1) = *at(e, k);
		e->n_queue--;
	}
	return NATIVE_BAD;
}

static int discard(struct native *e)
{
	int rc = 0;

	while (e->n_queue && rc == 0) {
		struct p0 p = *at(e, 0);

		take_first(e);
		rc = tell_lasting(e, &p);
	}
	native_queue_clear(e);
	native_flow_lost(e);
	e->sync = SYNC_LOST;
	e->lost = e->overflow ? REASON_OVERFLOW : REASON_DISCARD;
	native_batch_commit(e);
	return rc;
}

static int add_context(struct native *e, const struct packet *p)
{
	return add(e, &(struct p0){ .kind = P0_CONTEXT, .context = p->context });
}

/* What comes of a packet; where it makes the queue deeper, so much of it goes to *depth. */
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
		*depth = e->pending;
		e->pending = false;
		/* The context is that of the address, so it comes first. */
		rc = p->kind == PACKET_ADDRESS_CONTEXT ? add_context(e, p) : 0;
		return rc == 0 ? add(e, &new) : rc;
	case PACKET_SOURCE:
		new.kind = P0_SOURCE;
		*depth = 1;
		break;
	case PACKET_EXCEPTION:
	case PACKET_PE_RESET:
		new.kind = P0_EXCEPTION;
		new.flag = p->target;
		/* A reset is without an address. */
		new.level = p->kind == PACKET_PE_RESET;
		*depth = new.level;
		e->pending = e->pending || p->kind == PACKET_EXCEPTION;
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
		e->pending = e->pending || !p->has_address;
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
	return add(e, &new);
}

int native_queue_packet(struct native *e, const struct packet *p)
{
	uint32_t commits = p->commit, added = 0;
	int rc;

	if (p->kind == PACKET_DISCARD || p->kind == PACKET_OVERFLOW) {
		e->overflow = e->overflow || p->kind == PACKET_OVERFLOW;
		return discard(e);
	}
	rc = add_packet(e, p, &added);
	e->depth += added;
	/* What is deeper than it can be was executed. */
	if (e->depth > (int64_t)e->config.idr8)
		commits = (uint32_t)MIN(e->depth - (int64_t)e->config.idr8, (int64_t)UINT32_MAX);
	if (rc == 0 && commits)
		rc = commit(e, commits);
	if (rc == 0 && p->cancel)
		rc = cancel(e, p->cancel);
	return rc == 0 && p->mispredict ? mispredict(e) : rc;
}

int native_queue_info(struct native *e, const struct packet *p)
{
	int rc = 0;

	e->depth = p->number;
	if (p->number)
		rc = add(e, &(struct p0){ .kind = P0_UNSEEN, .number = p->number });
	if (rc == 0)
		rc = add(e, &(struct p0){ .kind = P0_INFO });
	if (rc == 0 && p->in_transaction)
		rc = add(e, &(struct p0){ .kind = P0_TRANSACTION, .number = TRANSACTION_INIT });
	e->entries = 0;
	return rc;
}

/* What came before the first element of which nobody knows whether it was executed. */
int native_queue_finish(struct native *e)
{
	int rc = 0;

	while (e->n_queue && rc == 0) {
		struct p0 p = *at(e, 0);

		if (is_p0(&p) || p.kind == P0_TRACE_ON || p.kind == P0_EXCEPTION_RETURN)
			break;
		take_first(e);
		if (p.kind == P0_TRANSACTION && (p.number == TRANSACTION_COMMIT || p.number == TRANSACTION_FAIL) &&
		    (!e->config.idr8 || !e->depth))
			rc = tell_transaction(e, &p);
		else
			rc = tell_lasting(e, &p);
	}
	return rc;
}
