/*
 * The code that a stream runs, as blocks: instructions in a row up to one that ends a range. A block has a number, the
 * same as long as blocks_clear() is not called, and numbers are dense. Code is read once for each world, which is what
 * a version of the code and a kind of memory are; the owner asks for the world again wherever either may be another
 * one.
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
	uint64_t target; /* where control goes when it is taken; UINT64_MAX: the code does not tell */
	uint32_t count;  /* instructions */
	uint8_t kind, sub;
	bool link, conditional;
	bool always;  /* a branch that is never passed over */
	bool missing; /* there is no code behind it: no branch ends it */
};

/*
 * Addresses of A64 that are not aligned are mistakes, and possible: blocks there are in pages of their own, whose base
 * is as far off. Those have no code.
 */
struct block_page {
	uint64_t base;
	bool asked;                                                  /* for any word of it */
	uint64_t known[BLOCKS_WORDS / 64], there[BLOCKS_WORDS / 64]; /* words that were asked for; that are there */
	uint32_t starts[BLOCKS_WORDS];                               /* blocks */
	uint32_t code[BLOCKS_WORDS];
};

/* What of an address is its page's base. */
#define BLOCKS_BASE (~(uint64_t)(BLOCKS_PAGE - 4))

struct blocks {
	struct basic_block *list; /* by number; 0 is none */
	uint32_t n, capacity;
	uint32_t *next; /* two for each: where control goes when not taken, and when taken; 0: not looked up yet */
	struct instr_set set;
	struct engine_memory memory;
	struct code_view **worlds, *world;
	struct block_page *tlb[BLOCKS_TLB]; /* of this world */
	size_t n_worlds;
	struct block_page **slabs; /* of pages, of which some are in use */
	size_t n_slabs, n_pages;
	/* Lists stay until blocks_done(), for other threads read them: those that were too small. */
	bool keep;
	struct basic_block *kept[32];
	unsigned n_kept;
};

void blocks_init(struct blocks *b, const struct engine_config *config, const struct engine_memory *memory);
void blocks_done(struct blocks *b);

/* So much is kept that nothing more should be: numbers are of no use afterwards. */
bool blocks_full(const struct blocks *b);

/* Little more is to be kept. */
bool blocks_nearly_full(const struct blocks *b);
void blocks_clear(struct blocks *b);

/* What is asked for next is as of this context. 1: in another world than before; 0: in the same; -ENOMEM. */
int blocks_enter(struct blocks *b, const struct engine_context *context);

/* The block that begins there, where it is at hand; else 0. */
static inline uint32_t blocks_cached(const struct blocks *b, uint64_t address)
{
	const struct block_page *page = b->tlb[address / BLOCKS_PAGE % BLOCKS_TLB];

	return page && page->base == (address & BLOCKS_BASE) ? page->starts[address % BLOCKS_PAGE / 4] : 0;
}

/* The block that begins there; -ENOMEM. It may be of no instructions, where there is no code. */
int blocks_find(struct blocks *b, uint64_t address, uint32_t *ret);

/* A number for a block as it was, which nothing leads to any more; -ENOMEM. */
int blocks_adopt(struct blocks *b, const struct basic_block *block, uint32_t *ret);

/* The block that control goes to when that one's branch is taken, its target being known, or is not. -ENOMEM. */
int blocks_follow(struct blocks *b, uint32_t block, bool taken, uint32_t *ret);

/* An instruction: 1; 0: there is no code; -ENOMEM. */
int blocks_read(struct blocks *b, uint64_t address, uint32_t *ret);

/* Up to where there is code in one piece from start on, at most to end, and at most BLOCKS_WALK_MAX of it. -ENOMEM. */
int blocks_extent(struct blocks *b, uint64_t start, uint64_t end, uint64_t *ret);

/*
 * An edge: a block and whether its branch was taken, in one number. Edges index blocks.next, and 0 is no edge, as block
 * 0 is no block.
 */
static inline uint32_t edge_block(uint32_t edge)
{
	return edge >> 1;
}

static inline bool edge_taken(uint32_t edge)
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

#endif
