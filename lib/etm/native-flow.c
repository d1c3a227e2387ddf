/* SPDX-License-Identifier: MIT */
/* Follows control through the code by atoms, addresses and exceptions, and emits what ran. */
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-chunk.h"

static void lose_control(struct native *e)
{
	e->control.need = NEED_ADDRESS;
	e->control.block = 0;
	/* Above all addresses: no code is taken to have run up to an exception. */
	e->control.address = UINT64_MAX;
}

void native_flow_forget(struct native *e)
{
	e->control.has_context = false;
	lose_control(e);
}

void native_flow_address(struct native *e, uint64_t address)
{
	e->control.address = address;
	e->control.block = 0;
	e->control.need = NEED_NOTHING;
	e->control.stack_blocked = false;
}

/* Replaces numbers of blocks, which become invalid, by addresses. */
static void blocks_to_addresses(struct native *e)
{
	if (e->control.block)
		e->control.address = e->blocks.list[e->control.block].start;
	e->control.block = 0;
	for (unsigned i = 0; i < RETURN_STACK; i++)
		if (e->stack.slots[i].block) {
			e->stack.slots[i].address = block_end(&e->blocks.list[e->stack.slots[i].block]);
			e->stack.slots[i].block = e->stack.slots[i].open = 0;
		}
	memset(e->packets.blocks, 0, sizeof(e->packets.blocks));
}

/* Selects the code of a changed context. */
static int context_enter(struct native *e)
{
	int rc = blocks_enter(&e->blocks, &e->context);

	if (rc > 0)
		blocks_to_addresses(e);
	return MIN(rc, 0);
}

int native_flow_renew(struct native *e)
{
	struct basic_block last = { 0 };
	int rc;

	native_memo_clear(e);
	if (e->fold && e->fold->last)
		last = e->blocks.list[edge_block(e->fold->last)];
	blocks_to_addresses(e);
	blocks_clear(&e->blocks);
	rc = context_enter(e);
	/* The last block is part of the call that is emitted when its target is known. */
	return rc == 0 && e->fold ? native_fold_renew(e, &last) : rc;
}

int native_flow_time(struct native *e, uint64_t time)
{
	e->context.has_time = true;
	e->context.time = time;
	return context_enter(e);
}

static uint8_t space_of(const struct packet_context *c)
{
	static const uint8_t secure[] = { SPACE_EL1_SECURE, SPACE_EL1_SECURE, SPACE_EL2_SECURE, SPACE_EL3 };
	static const uint8_t normal[] = { SPACE_EL1, SPACE_EL1, SPACE_EL2, SPACE_EL3 };
	static const uint8_t realm[] = { SPACE_EL1_REALM, SPACE_EL1_REALM, SPACE_EL2_REALM, SPACE_ROOT };

	if (c->nse)
		return c->nonsecure ? realm[c->level] : SPACE_ROOT;
	return c->nonsecure ? normal[c->level] : secure[c->level];
}

int native_flow_context(struct native *e, const struct packet_context *c, uint64_t offset)
{
	struct native_control *control = &e->control;
	struct engine_context *code = &e->context;
	struct element to = { .kind = ELEM_CONTEXT, .isa = ISA_A64 };
	int rc;

	if (!c->wide)
		return -EOPNOTSUPP;
	if (c->has_vmid) {
		code->has_vmid = true;
		code->vmid = c->vmid;
	}
	if (c->has_ctxid) {
		code->has_ctxid = true;
		code->ctxid = c->ctxid;
	}
	code->spaces = space_of(c);
	control->has_context = true;
	control->isa = ISA_A64;
	control->level = to.context.level = c->level;
	control->security = to.context.security = "SNRr"[2 * c->nse + c->nonsecure];
	control->bits = to.context.bits = 64;
	to.context.has_vmid = code->has_vmid;
	to.context.vmid = code->vmid;
	to.context.has_ctxid = code->has_ctxid;
	to.context.ctxid = code->ctxid;
	rc = context_enter(e);
	return rc < 0 ? rc : native_batch_add_event(e, &to, offset);
}

void native_flow_info(struct native *e)
{
	e->control.stack_blocked = true;
	native_flow_empty_stack(e);
}

void native_flow_empty_stack(struct native *e)
{
	e->control.stack_holed = false;
	e->stack.n = 0;
}

static bool stack_is_used(const struct native *e)
{
	return e->stack.enabled && !e->control.stack_blocked;
}

/* Control was in code that is missing, and returned to where that is not known. */
static int lose_return(struct native *e, uint64_t offset)
{
	struct element unknown = { .kind = ELEM_UNKNOWN_ADDRESS, .isa = ISA_A64 };

	lose_control(e);
	return native_batch_add_event(e, &unknown, offset);
}

int native_flow_return(struct native *e, uint64_t offset)
{
	struct native_return_stack *s = &e->stack;
	struct native_control *c = &e->control;
	uint32_t from;
	int rc = 0;

	if (c->need != NEED_TARGET || !stack_is_used(e))
		return 0;
	if (!s->n)
		return c->stack_holed ? lose_return(e, offset) : NATIVE_BAD;
	from = s->slots[s->top].block;
	c->block = 0;
	if (return_stack_is_open(s, 0)) {
		lose_control(e);
		e->chunk->broken = true;
		return 0;
	}
	if (!from) {
		c->address = s->slots[s->top].address;
	} else {
		c->block = e->blocks.next[make_edge(from, false)];
		if (!c->block)
			rc = blocks_follow(&e->blocks, from, false, &c->block);
	}
	c->need = NEED_NOTHING;
	return_stack_pop(s);
	return rc;
}

/* Emits a range that is not a whole block; last: its last instruction. */
static int emit_range(struct native *e, uint64_t start, uint64_t end, const struct instr *last, uint64_t offset)
{
	struct element range = { .kind = ELEM_RANGE, .isa = ISA_A64, .taken = true };
	uint64_t successor = end;

	range.instr = last->kind;
	range.sub = last->sub;
	range.conditional = last->conditional;
	range.range.start = start;
	range.range.end = end;
	range.range.count = (uint32_t)(end - start) / 4;
	range.range.last_size = 4;
	if (last->kind == INSTR_BR)
		successor = end - 4 + (uint64_t)last->offset;
	else if (last->kind == INSTR_IBR)
		successor = NATIVE_UNKNOWN;
	return native_batch_add_range(e, &range, successor, offset);
}

/* What runs there pushes and pops entries of the trace unit's return stack. */
static int emit_no_image(struct native *e, uint64_t address, uint64_t offset)
{
	struct element missing = { .kind = ELEM_NO_IMAGE, .isa = ISA_A64, .address = address };

	e->control.stack_holed = true;
	e->stack.n = 0;
	return native_batch_add_event(e, &missing, offset);
}

/* Control runs into memory without code at the end of a block. */
static int emit_end_of_code(struct native *e, const struct basic_block *b, uint64_t offset)
{
	int rc = 0;

	e->control.address = block_end(b);
	e->control.block = 0;
	e->control.need = NEED_ADDRESS;
	if (b->count)
		rc = emit_range(e, b->start, e->control.address, &(struct instr){ 0 }, offset);
	return rc < 0 ? rc : emit_no_image(e, e->control.address, offset);
}

static int leave_by_indirect(struct native *e, const struct basic_block *b, uint64_t offset)
{
	struct element returned = { .kind = ELEM_EXCEPTION_RETURN, .isa = ISA_A64 };

	e->control.need = NEED_TARGET;
	e->control.address = block_end(b);
	e->control.block = 0;
	if (b->link && stack_is_used(e))
		return_stack_push_address(&e->stack, e->control.address);
	/* ETE has no packet for exception returns. */
	return e->ete && b->sub == SUB_ERET ? native_batch_add_event(e, &returned, offset) : 0;
}

int native_flow_atom(struct native *e, bool taken, uint64_t offset)
{
	const struct basic_block *b;
	uint32_t next;
	int rc = native_flow_return(e, offset);

	if (rc != 0 || e->control.need || !e->control.has_context)
		return rc;
	if (!e->control.block)
		rc = blocks_find(&e->blocks, e->control.address, &e->control.block);
	if (rc < 0)
		return rc;
	b = &e->blocks.list[e->control.block];
	if (b->missing)
		return emit_end_of_code(e, b, offset);
	rc = native_batch_add_edge(e, e->control.block, taken, offset);
	if (rc < 0)
		return rc;
	if (taken && b->kind == INSTR_IBR)
		return leave_by_indirect(e, b, offset);
	if (taken && b->link && stack_is_used(e))
		return_stack_push_block(&e->stack, e->control.block);
	next = e->blocks.next[make_edge(e->control.block, taken)];
	if (!next)
		rc = blocks_follow(&e->blocks, e->control.block, taken, &next);
	if (rc == 0)
		e->control.block = next;
	return rc;
}

/* Emits what ran from the current address up to end. */
static int emit_up_to(struct native *e, uint64_t end, uint64_t offset)
{
	uint64_t start = e->control.address, at;
	struct instr last = { 0 };
	uint32_t op = 0;
	int rc = blocks_extent(&e->blocks, start, end, &at);

	if (rc == 0 && at != start)
		rc = blocks_read(&e->blocks, at - 4, &op);
	if (rc < 0)
		return rc;
	instr_decode(&e->blocks.set, op, &last);
	e->control.address = at;
	rc = at != start ? emit_range(e, start, at, &last, offset) : 0;
	if (rc < 0 || at == end)
		return rc;
	e->control.need = NEED_ADDRESS;
	return emit_no_image(e, at, offset);
}

int native_flow_exception(struct native *e, const struct p0 *p, const struct p0 *address, const struct p0 *context)
{
	struct element exception = { .kind = ELEM_EXCEPTION, .isa = ISA_A64 };
	int rc = 0;

	if (e->control.block)
		e->control.address = e->blocks.list[e->control.block].start;
	e->control.block = 0;
	/* The address is the last branch's target, where nothing ran. */
	if (address && p->flag) {
		e->control.address = address->value;
		e->control.need = NEED_NOTHING;
	} else if (address) {
		rc = native_flow_return(e, p->offset);
		if (e->control.block)
			e->control.address = e->blocks.list[e->control.block].start;
		e->control.block = 0;
	}
	if (rc == 0 && context)
		rc = native_flow_context(e, &context->context, p->offset);
	if (rc == 0 && address && e->control.has_context && e->control.address < address->value)
		rc = emit_up_to(e, address->value, p->offset);
	if (rc != 0)
		return rc;
	exception.exception.number = p->number;
	exception.exception.syscall = p->number == EXCEPTION_CALL;
	exception.exception.has_ret = true;
	exception.exception.ret = address ? address->value : 0;
	exception.exception.target = address && p->flag;
	return native_batch_add_event(e, &exception, p->offset);
}

/* Where control is, popping the return stack if that is needed and possible. NATIVE_BAD. */
static int current_address(struct native *e, uint64_t *ret, uint64_t offset)
{
	int rc = e->stack.n ? native_flow_return(e, offset) : 0;

	*ret = e->control.block ? e->blocks.list[e->control.block].start : e->control.address;
	return rc;
}

int native_flow_q(struct native *e, const struct p0 *p, uint64_t address)
{
	struct element skipped = { .kind = ELEM_RANGE_NOPATH, .isa = ISA_A64 };
	struct instr last = { 0 };
	uint64_t start, at;
	uint32_t n = 0;
	int rc = current_address(e, &start, p->offset);

	if (rc != 0)
		return rc;
	at = start;
	rc = 1;
	while (n < p->number && rc > 0) {
		uint32_t op = 0;

		rc = n < BLOCKS_WALK_MAX / 4 ? blocks_read(&e->blocks, at, &op) : 0;
		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
		instr_decode(&e->blocks.set, op, &last);
		n++;
		at += 4;
		/* A Q packet does not say whether a branch was taken. */
		if (last.kind == INSTR_BR || last.kind == INSTR_IBR)
			break;
	}
	e->control.block = 0;
	e->control.address = address;
	e->control.need = NEED_NOTHING;
	if (n && n == p->number && (at == address || last.kind == INSTR_BR || last.kind == INSTR_IBR))
		return emit_range(e, start, at, &last, p->offset);
	skipped.range.start = start;
	skipped.range.end = address;
	skipped.range.count = p->number;
	return native_batch_add_event(e, &skipped, p->offset);
}

int native_flow_source(struct native *e, const struct p0 *p)
{
	uint64_t start;
	struct instr last;
	uint32_t op = 0;
	int rc = current_address(e, &start, p->offset);

	if (rc != 0 || !e->control.has_context)
		return rc;
	rc = blocks_read(&e->blocks, p->value, &op);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return emit_no_image(e, p->value, p->offset);
	instr_decode(&e->blocks.set, op, &last);
	if (e->control.need || start > p->value)
		start = p->value;
	rc = emit_range(e, start, p->value + 4, &last, p->offset);
	e->control.block = 0;
	e->control.need = last.kind == INSTR_IBR ? NEED_TARGET : NEED_NOTHING;
	e->control.address = last.kind == INSTR_BR ? p->value + (uint64_t)last.offset : p->value + 4;
	if (last.link && stack_is_used(e))
		return_stack_push_address(&e->stack, p->value + 4);
	return rc;
}
