/* SPDX-License-Identifier: MIT */
/*
 * The code that a stream runs, as basic blocks: instructions in a row up to one that ends a range. Blocks are numbered
 * from 1 on, without gaps, and keep their numbers until blocks_clear(). Code is read once for each view, which is a
 * version of the code in one memory space; the owner calls blocks_enter() wherever either may have changed.
 */
#ifndef CSIGHT_ETM_BLOCKS_H
#define CSIGHT_ETM_BLOCKS_H

#include "lib/etm/instr.h"

enum {
	BLOCKS_WALK_MAX = 512 << 10, /* bytes of code, up to a branch or to an exception's address; see filler.h, too */
	BLOCKS_PAGE = 4096,
	BLOCKS_WORDS = BLOCKS_PAGE / 4,
	BLOCKS_TLB = 64,
};

struct basic_block {
	uint64_t start;
	uint64_t target; /* where control goes when the branch is taken; UINT64_MAX: an indirect branch */
	uint32_t count;  /* instructions */
	uint8_t kind, sub;
	bool link, conditional;
	bool always;  /* an unconditional branch */
	bool missing; /* there is no code behind it; no branch ends it */
};

/*
 * A page of code, and the blocks that begin in it. A malformed trace may have A64 addresses that are not aligned:
 * blocks there are in pages of their own, whose base is unaligned by as much, and which have no code.
 */
struct block_page {
	uint64_t base;
	bool asked;                                                  /* some word of it was read */
	uint64_t known[BLOCKS_WORDS / 64], there[BLOCKS_WORDS / 64]; /* bits by word: it was read; there is code */
	uint32_t starts[BLOCKS_WORDS]; /* numbers of the blocks that begin at each word, or 0 */
	uint32_t code[BLOCKS_WORDS];
};

/* The bits of an address that are its page's base. */
#define BLOCKS_BASE (~(uint64_t)(BLOCKS_PAGE - 4))

struct blocks {
	struct basic_block *list; /* by number; 0 is no block */
	uint32_t n, capacity;
	uint64_t numbering; /* changes where numbers become those of other blocks */
	uint32_t *next;     /* by edge: the block that control comes to; 0: not looked up yet */
	struct instr_set set;
	struct engine_memory memory;
	struct code_view **views, *view;    /* all, and the current one */
	struct block_page *tlb[BLOCKS_TLB]; /* of the current view, by address */
	size_t n_views;
	struct block_page **slabs; /* of pages */
	size_t n_slabs, n_pages;
	/* Other threads read the list, so lists that became too small are kept until blocks_done(). */
	bool keep;
	struct basic_block *kept[32];
	unsigned n_kept;
};

void blocks_init(struct blocks *b, const struct engine_config *config, const struct engine_memory *memory);
void blocks_done(struct blocks *b);

/* True if there are so many blocks, pages or views that they have to be cleared. */
bool blocks_full(const struct blocks *b);

/* True if there are nearly as many. */
bool blocks_nearly_full(const struct blocks *b);
void blocks_clear(struct blocks *b);

/* Selects the view of a context. Returns 1 if it is another one than before, 0 if not; -ENOMEM. */
int blocks_enter(struct blocks *b, const struct engine_context *context);

/* Returns the block that begins at an address, if its page is in the TLB and the block known; else 0. */
static inline uint32_t blocks_cached(const struct blocks *b, uint64_t address)
{
	const struct block_page *page = b->tlb[address / BLOCKS_PAGE % BLOCKS_TLB];

	return page && page->base == (address & BLOCKS_BASE) ? page->starts[address % BLOCKS_PAGE / 4] : 0;
}

/* Finds or creates the block that begins at an address. Where there is no code, it has no instructions. -ENOMEM. */
int blocks_find(struct blocks *b, uint64_t address, uint32_t *ret);

/* Creates a copy of a block of another list, which blocks_find() does not find; -ENOMEM. */
int blocks_adopt(struct blocks *b, const struct basic_block *block, uint32_t *ret);

/* Finds the block that control comes to by an edge, and sets it in next. Not by a taken indirect branch. -ENOMEM. */
int blocks_follow(struct blocks *b, uint32_t block, bool taken, uint32_t *ret);

/* Reads an instruction. Returns 1, or 0 where there is no code; -ENOMEM. */
int blocks_read(struct blocks *b, uint64_t address, uint32_t *ret);

/* Where contiguous code from start on ends, at most end, and at most BLOCKS_WALK_MAX behind start. -ENOMEM. */
int blocks_extent(struct blocks *b, uint64_t start, uint64_t end, uint64_t *ret);

/*
 * An edge: a block and whether its branch was taken, in one number. Edges index blocks.next, and 0 is no edge, as block
 * 0 is no block.
 */
static inline uint32_t edge_block(uint32_t edge)
{
	return edge >> 1;
}

static inline bool edge_is_taken(uint32_t edge)
{
	return edge & 1;
}

static inline uint32_t make_edge(uint32_t block, bool taken)
{
	return 2 * block + taken;
}

static inline uint64_t block_end(const struct basic_block *b)
{
	return b->start + 4 * (uint64_t)b->count;
}

static inline bool block_same(const struct basic_block *a, const struct basic_block *b)
{
	return a->start == b->start && a->target == b->target && a->count == b->count && a->kind == b->kind &&
	       a->sub == b->sub && a->link == b->link && a->conditional == b->conditional && a->always == b->always &&
	       a->missing == b->missing;
}
_Static_assert(sizeof(struct basic_block) == 32, "block_same() has all fields");

#endif
