/*
 * Branch-broadcast trace without the program's code: every target that control went to, and what came with it. It is
 * what a decoder in hardware gives. Of trace that is not broadcast it has the targets of indirect branches alone.
 */
#ifndef CSIGHT_ETM_BRANCHES_H
#define CSIGHT_ETM_BRANCHES_H

#include "lib/etm/engine.h"

enum branch_type {
	BRANCH_TAKEN,     /* value: where to */
	BRANCH_AT,        /* value: where control is, as tracing begins or says so */
	BRANCH_EXCEPTION, /* value: where it was taken, number: which */
	BRANCH_EXCEPTION_RETURN,
	BRANCH_CYCLES, /* value: so many went by */
	BRANCH_TIME,   /* value: timestamp */
	BRANCH_EVENT,  /* number */
	BRANCH_TRACE_ON,
	BRANCH_LOST, /* nothing is known up to the next one */
};

struct branch {
	uint64_t value;
	uint64_t what; /* from the top: cycles in all, when it was, in 48 bits; number, in 12; type */
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

/* -EOPNOTSUPP: no ETMv4 or ETE, or one that may take back what it said; -ENOMEM. */
int branches_open(const struct engine_config *config, const struct branches_sink *sink, struct branches **ret);

/* Any chunking. What the sink returned where that was negative. */
int branches_push(struct branches *b, const void *data, size_t size);
int branches_finish(struct branches *b);
struct branches *branches_close(struct branches *b);

/* The line of one, without ID; returns its length. */
size_t branch_format(const struct branch *branch, char *ret, size_t size);

/* The same as an engine, whose packets are these, as lines; elements there are none. */
extern const struct engine_ops engine_branches;

#endif
