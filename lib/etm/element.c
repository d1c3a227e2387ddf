/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/element.h"

/*
 * A line that is being formatted. Numbers are formatted by hand because listings have millions of lines. Text beyond
 * the end is dropped; end leaves one byte for the NUL.
 */
struct line {
	char *at, *end;
};

static void put(struct line *l, const char *text)
{
	while (*text && l->at < l->end)
		*l->at++ = *text++;
}

static void put_number(struct line *l, uint64_t v, unsigned base)
{
	char digits[20];
	size_t n = 0;

	do {
		digits[n++] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v);
	while (n && l->at < l->end)
		*l->at++ = digits[--n];
}

static void put_hex(struct line *l, const char *before, uint64_t v)
{
	put(l, before);
	put_number(l, v, 16);
}

static void put_decimal(struct line *l, const char *before, uint64_t v)
{
	put(l, before);
	put_number(l, v, 10);
}

static const char *isa_str(uint8_t isa)
{
	static const char *const names[] = { "A32", "T32", "A64", "TEE", "JZL", "CST", "ISA" };

	return names[MIN(isa, ISA_UNKNOWN)];
}

/* Returns the name in the text form, where REASON_END_OF_TRACE is "end". */
static const char *reason_str(enum element_reason reason)
{
	static const char *const names[] = {
		[REASON_BEGIN] = "begin",
		[REASON_OVERFLOW] = "overflow",
		[REASON_DEBUG] = "debug",
		[REASON_INIT] = "init",
		[REASON_RESET] = "reset",
		[REASON_DISCARD] = "discard",
		[REASON_BAD_PACKET] = "bad-packet",
		[REASON_BAD_IMAGE] = "bad-image",
		[REASON_UNDEFINED] = "undefined",
		[REASON_END_OF_TRACE] = "end",
		[REASON_PAUSED] = "paused",
		[REASON_TRUNCATED] = "truncated",
		[REASON_LOST] = "lost",
		[REASON_OVERWRITTEN] = "overwritten",
		[REASON_UNTRACED] = "untraced",
	};

	return (size_t)reason < ELEMENTS(names) ? names[reason] : "undefined";
}

static void put_range(struct line *l, const struct element *e)
{
	static const char *const instrs[] = { "other", "br", "ibr", "isb", "dsb", "wfi", "tstart" };
	static const char *const subs[] = { "", "+link", "+ret", "+implret", "+eret" };

	put_hex(l, "range ", e->range.start);
	put_hex(l, " ", e->range.end);
	put_decimal(l, " ", e->range.count);
	put(l, " ");
	put(l, isa_str(e->isa));
	put(l, e->taken ? " E " : " N ");
	put(l, instrs[MIN(e->instr, INSTR_TSTART)]);
	put(l, subs[MIN(e->sub, SUB_ERET)]);
	if (e->conditional)
		put(l, " cond");
}

static void put_context(struct line *l, const struct element *e)
{
	put(l, "context ");
	put(l, isa_str(e->isa));
	if (e->context.level == 0xff)
		put(l, " -");
	else
		put_decimal(l, " EL", e->context.level);
	switch (e->context.security) {
	case 'S':
		put(l, " S");
		break;
	case 'R':
		put(l, " Root");
		break;
	case 'r':
		put(l, " Realm");
		break;
	default:
		put(l, " N");
	}
	put_decimal(l, " ", e->context.bits);
	if (e->context.has_vmid)
		put_hex(l, " vmid=", e->context.vmid);
	if (e->context.has_ctxid)
		put_hex(l, " ctxid=", e->context.ctxid);
}

static void put_exception(struct line *l, const struct element *e)
{
	put_hex(l, "exception ", e->exception.number);
	if (e->exception.has_ret)
		put_hex(l, " ret=", e->exception.ret);
	else
		put(l, " ret=-");
	if (e->exception.target)
		put(l, " target");
}

static void put_transaction(struct line *l, uint64_t what)
{
	static const char *const names[] = { "start", "commit", "fail", "init" };

	put(l, "transaction ");
	put(l, names[MIN(what, (uint64_t)3)]);
}

size_t element_format(const struct element *e, char *ret, size_t size)
{
	struct line l = { ret, ret + size - 1 };
	bool cycles = e->has_cycles;

	switch ((enum element_kind)e->kind) {
	case ELEM_RANGE:
		put_range(&l, e);
		break;
	case ELEM_RANGE_NOPATH:
		put_hex(&l, "range-nopath ", e->range.start);
		put_hex(&l, " ", e->range.end);
		put_decimal(&l, " ", e->range.count);
		cycles = false;
		break;
	case ELEM_NO_IMAGE:
		put_hex(&l, "no-image ", e->address);
		cycles = false;
		break;
	case ELEM_UNKNOWN_ADDRESS:
		put(&l, "unknown-address");
		cycles = false;
		break;
	case ELEM_CONTEXT:
		put_context(&l, e);
		break;
	case ELEM_EXCEPTION:
		put_exception(&l, e);
		break;
	case ELEM_EXCEPTION_RETURN:
		put(&l, "exception-return");
		cycles = false;
		break;
	case ELEM_TRACE_ON:
		put(&l, "trace-on ");
		put(&l, reason_str(e->reason));
		break;
	case ELEM_NO_SYNC:
		put(&l, "no-sync ");
		put(&l, reason_str(e->reason));
		if (e->reason == REASON_OVERWRITTEN && e->value)
			put_decimal(&l, " bytes=", e->value);
		cycles = false;
		break;
	case ELEM_END:
		put(&l, "end ");
		put(&l, reason_str(e->reason));
		cycles = false;
		break;
	case ELEM_TIMESTAMP:
		put_hex(&l, "timestamp ", e->value);
		break;
	case ELEM_CYCLES:
		put_decimal(&l, "cycles ", e->cycles);
		cycles = false;
		break;
	case ELEM_EVENT:
		if (e->value == UINT64_MAX)
			put(&l, "event trigger");
		else
			put_decimal(&l, "event ", e->value);
		cycles = false;
		break;
	case ELEM_MARKER:
		put_hex(&l, "marker ", e->value);
		cycles = false;
		break;
	case ELEM_TRANSACTION:
		put_transaction(&l, e->value);
		cycles = false;
		break;
	case ELEM_INSTRUMENTATION:
		put_decimal(&l, "instrumentation ", e->instrumentation.level);
		put_hex(&l, " ", e->instrumentation.value);
		cycles = false;
		break;
	case ELEM_SW:
		put(&l, "sw ");
		put(&l, e->text);
		cycles = false;
		break;
	}
	if (cycles)
		put_decimal(&l, " cc=", e->cycles);
	*l.at = 0;
	return (size_t)(l.at - ret);
}
