/* What ran, by what the stream says of branches. */
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-chunk.h"

static void lose_control(struct native *e)
{
	e->need = NEED_ADDRESS;
	e->block = 0;
	/* Whatever comes, nothing is known to have run up to there. */
	e->address = UINT64_MAX;
}

void native_flow_lost(struct native *e)
{
	e->has_context = false;
	lose_control(e);
}

void native_flow_address(struct native *e, uint64_t address)
{
	e->address = address;
	e->block = 0;
	e->need = NEED_NOTHING;
	e->stack_waits = false;
}

/* What is known by blocks of another world is known by its address. */
static void leave_blocks(struct native *e)
{
	if (e->block)
		e->address = e->blocks.list[e->block].start;
	e->block = 0;
	for (unsigned i = 0; i < RETURN_STACK; i++)
		if (e->stack[i].block) {
			e->stack[i].address = block_end(&e->blocks.list[e->stack[i].block]);
			e->stack[i].block = e->stack[i].open = 0;
		}
	memset(e->packets.places, 0, sizeof(e->packets.places));
}

/* The code may be other code from here on. */
static int enter(struct native *e)
{
	int rc = blocks_enter(&e->blocks, &e->context);

	if (rc > 0)
		leave_blocks(e);
	return MIN(rc, 0);
}

int native_flow_renew(struct native *e)
{
	struct basic_block last = { 0 };
	int rc = e->fold ? native_fold_finish(e) : 0;

	if (rc == 0)
		rc = native_memo_clear(e);
	if (rc < 0)
		return rc;
	if (e->fold && e->fold->last)
		last = e->blocks.list[edge_block(e->fold->last)];
	leave_blocks(e);
	blocks_clear(&e->blocks);
	rc = enter(e);
	/* What ran last is still to be told, when it is known where control came to. */
	return rc == 0 && e->fold ? native_fold_renew(e, &last) : rc;
}

int native_flow_time(struct native *e, uint64_t time)
{
	e->context.has_time = true;
	e->context.time = time;
	return enter(e);
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
	struct element *to = &e->told;
	int rc;

	if (!c->wide)
		return -EOPNOTSUPP;
	to->kind = ELEM_CONTEXT;
	to->isa = ISA_A64;
	to->context.level = c->level;
	to->context.bits = 64;
	to->context.security = "SNRr"[2 * c->nse + c->nonsecure];
	if (c->has_vmid) {
		to->context.has_vmid = e->context.has_vmid = true;
		to->context.vmid = e->context.vmid = c->vmid;
	}
	if (c->has_ctxid) {
		to->context.has_ctxid = e->context.has_ctxid = true;
		to->context.ctxid = e->context.ctxid = c->ctxid;
	}
	e->context.spaces = space_of(c);
	e->has_context = true;
	rc = enter(e);
	return rc < 0 ? rc : native_batch_add_event(e, to, offset);
}

void native_flow_call(struct native *e, uint32_t block, uint64_t address)
{
	if (!e->return_stack || e->stack_waits)
		return;
	e->top = (e->top + 1) % RETURN_STACK;
	e->stack[e->top].block = block;
	e->stack[e->top].address = address;
	e->stack[e->top].open = 0;
	e->entries = MIN(e->entries + 1, RETURN_STACK);
}

int native_flow_return(struct native *e)
{
	uint32_t from;
	int rc = 0;

	if (e->need != NEED_TARGET || !e->return_stack || e->stack_waits)
		return 0;
	if (!e->entries)
		return NATIVE_BAD;
	from = e->stack[e->top].block;
	e->block = 0;
	if (!from && e->stack[e->top].open) {
		lose_control(e);
		e->part->broken = true;
		return 0;
	}
	if (!from) {
		e->address = e->stack[e->top].address;
	} else {
		e->block = e->blocks.next[make_edge(from, false)];
		if (!e->block)
			rc = blocks_follow(&e->blocks, from, false, &e->block);
	}
	e->need = NEED_NOTHING;
	e->top = (e->top + RETURN_STACK - 1) % RETURN_STACK;
	e->entries--;
	return rc;
}

/* Instructions that end with no branch, as far as it is known. */
static int tell_range(struct native *e, uint64_t start, uint64_t end, const struct instr *last, uint64_t offset)
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

static int tell_missing(struct native *e, uint64_t address, uint64_t offset)
{
	struct element missing = { .kind = ELEM_NO_IMAGE, .isa = ISA_A64, .address = address };

	return native_batch_add_event(e, &missing, offset);
}

static int end_of_code(struct native *e, const struct basic_block *b, uint64_t offset)
{
	int rc = 0;

	e->address = block_end(b);
	e->block = 0;
	e->need = NEED_ADDRESS;
	if (b->count)
		rc = tell_range(e, b->start, e->address, &(struct instr){ 0 }, offset);
	return rc < 0 ? rc : tell_missing(e, e->address, offset);
}

static int indirect(struct native *e, const struct basic_block *b, uint64_t offset)
{
	struct element returned = { .kind = ELEM_EXCEPTION_RETURN, .isa = ISA_A64 };

	e->need = NEED_TARGET;
	e->address = block_end(b);
	e->block = 0;
	if (b->link)
		native_flow_call(e, 0, e->address);
	/* ETE has no packet for it. */
	return e->ete && b->sub == SUB_ERET ? native_batch_add_event(e, &returned, offset) : 0;
}

int native_flow_atom(struct native *e, bool taken, uint64_t offset)
{
	const struct basic_block *b;
	uint32_t next;
	int rc = native_flow_return(e);

	if (rc != 0 || e->need || !e->has_context)
		return rc;
	if (!e->block)
		rc = blocks_find(&e->blocks, e->address, &e->block);
	if (rc < 0)
		return rc;
	b = &e->blocks.list[e->block];
	if (b->missing)
		return end_of_code(e, b, offset);
	rc = native_batch_add_edge(e, e->block, taken, offset);
	if (rc < 0)
		return rc;
	if (taken && b->kind == INSTR_IBR)
		return indirect(e, b, offset);
	if (taken && b->link)
		native_flow_call(e, e->block, 0);
	next = e->blocks.next[make_edge(e->block, taken)];
	if (!next)
		rc = blocks_follow(&e->blocks, e->block, taken, &next);
	if (rc == 0)
		e->block = next;
	return rc;
}

/* What ran from where control is up to an address. */
static int run_to(struct native *e, uint64_t end, uint64_t offset)
{
	uint64_t start = e->address, at;
	struct instr last = { 0 };
	uint32_t op = 0;
	int rc = blocks_extent(&e->blocks, start, end, &at);

	if (rc == 0 && at != start)
		rc = blocks_read(&e->blocks, at - 4, &op);
	if (rc < 0)
		return rc;
	instr_decode(&e->blocks.set, op, &last);
	e->address = at;
	rc = at != start ? tell_range(e, start, at, &last, offset) : 0;
	if (rc < 0 || at == end)
		return rc;
	e->need = NEED_ADDRESS;
	return tell_missing(e, at, offset);
}

int native_flow_exception(struct native *e, const struct p0 *p, const struct p0 *address, const struct p0 *context)
{
	struct element told = { .kind = ELEM_EXCEPTION, .isa = ISA_A64 };
	int rc = 0;

	if (e->block)
		e->address = e->blocks.list[e->block].start;
	e->block = 0;
	/* Where the last branch went, nothing ran. */
	if (address && p->flag) {
		e->address = address->value;
		e->need = NEED_NOTHING;
	} else if (address) {
		rc = native_flow_return(e);
		if (e->block)
			e->address = e->blocks.list[e->block].start;
		e->block = 0;
	}
	if (rc == 0 && context)
		rc = native_flow_context(e, &context->context, p->offset);
	if (rc == 0 && address && e->has_context && e->address < address->value)
		rc = run_to(e, address->value, p->offset);
	if (rc != 0)
		return rc;
	told.exception.number = p->number;
	told.exception.syscall = p->number == EXCEPTION_CALL;
	told.exception.has_ret = true;
	told.exception.ret = address ? address->value : 0;
	told.exception.target = address && p->flag;
	return native_batch_add_event(e, &told, p->offset);
}

/* Where control is, as far as it can be known. */
static int arrive(struct native *e, uint64_t *ret)
{
	int rc = e->entries ? native_flow_return(e) : 0;

	*ret = e->block ? e->blocks.list[e->block].start : e->address;
	return rc;
}

int native_flow_q(struct native *e, const struct p0 *p, uint64_t address)
{
	struct element skipped = { .kind = ELEM_RANGE_NOPATH, .isa = ISA_A64 };
	struct instr last = { 0 };
	uint64_t start, at;
	uint32_t n = 0;
	int rc = arrive(e, &start);

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
		/* Nobody says where that goes. */
		if (last.kind == INSTR_BR || last.kind == INSTR_IBR)
			break;
	}
	e->block = 0;
	e->address = address;
	e->need = NEED_NOTHING;
	if (n && n == p->number && (at == address || last.kind == INSTR_BR || last.kind == INSTR_IBR))
		return tell_range(e, start, at, &last, p->offset);
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
	int rc = arrive(e, &start);

	if (rc != 0 || !e->has_context)
		return rc;
	rc = blocks_read(&e->blocks, p->value, &op);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return tell_missing(e, p->value, p->offset);
	instr_decode(&e->blocks.set, op, &last);
	if (e->need || start > p->value)
		start = p->value;
	rc = tell_range(e, start, p->value + 4, &last, p->offset);
	e->block = 0;
	e->need = last.kind == INSTR_IBR ? NEED_TARGET : NEED_NOTHING;
	e->address = last.kind == INSTR_BR ? p->value + (uint64_t)last.offset : p->value + 4;
	if (last.link)
		native_flow_call(e, 0, p->value + 4);
	return rc;
}
