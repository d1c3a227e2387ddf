/* SPDX-License-Identifier: MIT */
/*
 * Decodes branch-broadcast trace without the program's code, as a hardware decoder does: the target of every taken
 * branch, exceptions, times and cycle counts. Of trace without branch broadcast it emits the targets of indirect
 * branches only.
 */
#ifndef CSIGHT_ETM_BRANCHES_H
#define CSIGHT_ETM_BRANCHES_H

#include "lib/etm/engine.h"

enum branch_type {
	BRANCH_TAKEN,     /* value: target */
	BRANCH_AT,        /* value: address of control, at the start of trace or without a branch */
	BRANCH_EXCEPTION, /* value: preferred return address; number: exception number */
	BRANCH_EXCEPTION_RETURN,
	BRANCH_CYCLES, /* value: cycles since the last count */
	BRANCH_TIME,   /* value: timestamp */
	BRANCH_EVENT,  /* number: event */
	BRANCH_TRACE_ON,
	BRANCH_LOST,    /* a gap: trace is missing before the next entry */
	BRANCH_CONTEXT, /* value: the context ID, and above it the VMID; number: enum branch_context */
};

/* Bits of a context's number. The lowest two are the exception level. */
enum branch_context {
	BRANCH_CONTEXT_WIDE = 1 << 2, /* AArch64 */
	BRANCH_CONTEXT_NONSECURE = 1 << 3,
	BRANCH_CONTEXT_NSE = 1 << 4, /* with NONSECURE: Realm; without: Root */
	BRANCH_CONTEXT_HAS_ID = 1 << 5,
	BRANCH_CONTEXT_HAS_VMID = 1 << 6,
};

struct branch {
	uint64_t value;
	uint64_t what; /* bits 63-16: cycles counted so far; 15-4: number; 3-0: type */
};

static inline uint64_t branch_cycles(const struct branch *b)
{
	return b->what >> 16;
}

static inline uint32_t branch_number(const struct branch *b)
{
	return b->what >> 4 & 0xfff;
}

static inline enum branch_type branch_type(const struct branch *b)
{
	return (enum branch_type)(b->what & 15);
}

struct branches_sink {
	int (*batch)(void *user, const struct branch *list, size_t n);
	void *user;
};

struct branches;

/* -EOPNOTSUPP: not ETMv4 or ETE, or a trace unit that speculates (TRCIDR8 is not 0); -ENOMEM. */
int branches_open(const struct engine_config *config, const struct branches_sink *sink, struct branches **ret);

/* Accepts bytes in pieces of any size. Returns 0, or what the sink returned where that was negative. */
int branches_push(struct branches *b, const void *data, size_t size);
int branches_finish(struct branches *b);
struct branches *branches_close(struct branches *b);

enum { BRANCHES_LINE_MAX = 64 };

/*
 * Formats an entry as a line without ID and newline. Returns its length, less than BRANCHES_LINE_MAX, or 0 for a
 * context, which has no line.
 */
size_t branches_format(const struct branch *branch, char *ret);

/* The reader of branches as an engine. It calls branches() of its sink, and emits no elements. */
extern const struct engine_ops branches_engine_ops;

#endif
