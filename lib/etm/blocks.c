/* SPDX-License-Identifier: MIT */
#include "lib/etm/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/huge.h"
#include "lib/base/util.h"
#include "lib/etm/filler.h"

enum {
	PAGES_MAX = 4096,
	VIEWS_MAX = 256,
	BLOCKS_MAX = 1 << 20,
	BLOCKS_FIRST = 4096,
	WALK_MAX = BLOCKS_WALK_MAX / 4,
	SLAB_PAGES = HUGE_SIZE / sizeof(struct block_page),
};

struct code_view {
	uint64_t version;
	struct engine_context context; /* to read code with */
	struct hash pages;             /* numbers of pages, by base */
};

void blocks_init(struct blocks *b, const struct engine_config *config, const struct engine_memory *memory)
{
	*b = (struct blocks){ .set = instr_set_of(config), .memory = *memory, .n = 1 };
}

static void view_free(struct code_view *v)
{
	hash_done(&v->pages);
	free(v);
}

void blocks_clear(struct blocks *b)
{
	for (size_t i = 0; i < b->n_views; i++)
		view_free(b->views[i]);
	b->n_views = 0;
	b->n_pages = 0;
	b->view = NULL;
	memset(b->tlb, 0, sizeof(b->tlb));
	b->n = 1;
	b->numbering++;
}

void blocks_done(struct blocks *b)
{
	blocks_clear(b);
	for (size_t i = 0; i < b->n_slabs; i++)
		huge_unmap(b->slabs[i], HUGE_SIZE);
	free(b->slabs);
	free(b->views);
	for (unsigned i = 0; i < b->n_kept; i++)
		free(b->kept[i]);
	free(b->list);
	free(b->next);
}

bool blocks_full(const struct blocks *b)
{
	return b->n >= BLOCKS_MAX || b->n_pages >= PAGES_MAX || b->n_views >= VIEWS_MAX;
}

bool blocks_nearly_full(const struct blocks *b)
{
	return b->n >= BLOCKS_MAX / 8 * 7 || b->n_pages >= PAGES_MAX / 8 * 7 || b->n_views >= VIEWS_MAX / 8 * 7;
}

static bool view_matches(const struct blocks *b, const struct code_view *v, uint64_t version, uint8_t spaces)
{
	return v->version == version && (!b->memory.by_space || v->context.spaces == spaces);
}

int blocks_enter(struct blocks *b, const struct engine_context *context)
{
	uint64_t version = b->memory.version ? b->memory.version(b->memory.user, context) : 0;
	struct code_view **views;

	if (b->view && view_matches(b, b->view, version, context->spaces))
		return 0;
	memset(b->tlb, 0, sizeof(b->tlb));
	for (size_t i = 0; i < b->n_views; i++)
		if (view_matches(b, b->views[i], version, context->spaces)) {
			b->view = b->views[i];
			return 1;
		}
	views = reallocarray(b->views, b->n_views + 1, sizeof(struct code_view *));
	if (!views)
		return -ENOMEM;
	b->views = views;
	b->view = calloc(1, sizeof(*b->view));
	if (!b->view)
		return -ENOMEM;
	*b->view = (struct code_view){ .version = version, .context = *context };
	b->views[b->n_views++] = b->view;
	return 1;
}

static struct block_page *page_at(const struct blocks *b, size_t number)
{
	return &b->slabs[number / SLAB_PAGES][number % SLAB_PAGES];
}

static struct block_page *page_new(struct blocks *b, uint64_t base)
{
	size_t slab = b->n_pages / SLAB_PAGES;
	struct block_page *page;

	if (slab == b->n_slabs) {
		struct block_page **slabs = reallocarray(b->slabs, slab + 1, sizeof(*slabs));

		if (!slabs)
			return NULL;
		b->slabs = slabs;
		slabs[slab] = huge_map(HUGE_SIZE);
		if (!slabs[slab])
			return NULL;
		b->n_slabs++;
	}
	page = page_at(b, b->n_pages++);
	/* The page may have been in use before. Its code is not read where it is not known. */
	memset(page, 0, offsetof(struct block_page, code));
	page->base = base;
	return page;
}

static int page_find(struct blocks *b, uint64_t address, struct block_page **ret)
{
	struct code_view *v = b->view;
	uint64_t base = address & BLOCKS_BASE;
	struct block_page **cached = &b->tlb[address / BLOCKS_PAGE % BLOCKS_TLB], *page;
	uint32_t *number;

	if (*cached && (*cached)->base == base) {
		*ret = *cached;
		return 0;
	}
	number = hash_get(&v->pages, base, 0);
	if (number) {
		page = page_at(b, *number);
	} else {
		page = page_new(b, base);
		if (!page || hash_find(&v->pages, base, 0, &number) < 0)
			return -ENOMEM;
		*number = (uint32_t)b->n_pages - 1;
	}
	*cached = page;
	*ret = page;
	return 0;
}

/* Behind filler there is no code (filler.h). */
static void drop_word_after_filler(struct blocks *b, struct block_page *page)
{
	if (page->there[0] & 1 && page->base % FILLER_SIZE == 0 &&
	    filler_before(&b->set, &b->memory, &b->view->context, page->base))
		page->there[0] &= ~(uint64_t)1;
}

/* Reads contiguous code from a word on. Returns the number of whole words; a partial one is not code. */
static size_t read_words(struct blocks *b, struct block_page *page, size_t word)
{
	size_t n = b->memory.read(b->memory.user, &b->view->context, page->base + 4 * word, &page->code[word],
				  4 * (BLOCKS_WORDS - word)) /
		   4;

	n = MIN(n, BLOCKS_WORDS - word);
	if (n == BLOCKS_WORDS) {
		memset(page->known, 0xff, sizeof(page->known));
		memset(page->there, 0xff, sizeof(page->there));
	}
	for (size_t i = word; i < word + n && n < BLOCKS_WORDS; i++) {
		page->known[i / 64] |= (uint64_t)1 << i % 64;
		page->there[i / 64] |= (uint64_t)1 << i % 64;
	}
	if (word == 0)
		drop_word_after_filler(b, page);
	return n;
}

static bool read_word(struct blocks *b, struct block_page *page, size_t word, uint32_t *ret)
{
	if (!(page->known[word / 64] >> word % 64 & 1)) {
		/* Of most pages, all code is there, so read the whole page first. */
		if (page->asked || read_words(b, page, 0) <= word)
			read_words(b, page, word);
		page->asked = true;
		page->known[word / 64] |= (uint64_t)1 << word % 64;
	}
	/* A64 code is little-endian, also where data are big-endian. */
	*ret = page->code[word];
	return page->there[word / 64] >> word % 64 & 1;
}

int blocks_read(struct blocks *b, uint64_t address, uint32_t *ret)
{
	struct block_page *page;
	uint32_t low, high = 0;
	int rc = page_find(b, address & ~(uint64_t)3, &page);

	if (rc < 0)
		return rc;
	if (!read_word(b, page, address % BLOCKS_PAGE / 4, &low))
		return 0;
	*ret = low;
	if (address % 4 == 0)
		return 1;
	rc = blocks_read(b, (address & ~(uint64_t)3) + 4, &high);
	*ret = (uint32_t)(((uint64_t)high << 32 | low) >> (8 * (address % 4)));
	return rc;
}

/* Adds instructions of one page that cannot end a range to a block. */
static int block_extend(struct blocks *b, struct basic_block *block)
{
	struct block_page *page;
	uint64_t at = block_end(block);
	size_t word = at % BLOCKS_PAGE / 4, end = MIN((size_t)BLOCKS_WORDS, word + WALK_MAX - block->count);
	uint32_t op;
	int rc = at % 4 ? 1 : page_find(b, at, &page);

	if (rc != 0)
		return MIN(rc, 0);
	while (word < end && read_word(b, page, word, &op) && !instr_may_end(op)) {
		block->count++;
		word++;
	}
	return 0;
}

/* Reads a block's instructions up to its end. */
static int block_read(struct blocks *b, struct basic_block *block)
{
	struct instr i = { 0 };
	uint64_t at;

	while (i.kind == INSTR_OTHER) {
		uint32_t op = 0;
		int there = block_extend(b, block);

		if (there == 0 && block->count < WALK_MAX)
			there = blocks_read(b, block_end(block), &op);
		if (there < 0)
			return there;
		if (!there) {
			block->missing = true;
			return 0;
		}
		instr_decode(&b->set, op, &i);
		block->count++;
	}
	at = block_end(block);
	block->kind = i.kind;
	block->sub = i.sub;
	block->link = i.link;
	block->conditional = i.conditional;
	block->always = (i.kind == INSTR_BR || i.kind == INSTR_IBR) && !i.conditional;
	block->target = i.kind == INSTR_BR ? at - 4 + (uint64_t)i.offset : i.kind == INSTR_IBR ? UINT64_MAX : at;
	return 0;
}

static int list_grow(struct blocks *b)
{
	uint32_t capacity = b->capacity ? b->capacity * 2 : BLOCKS_FIRST;
	struct basic_block *list = reallocarray(b->keep ? NULL : b->list, capacity, sizeof(*list));
	uint32_t *next;

	if (!list)
		return -ENOMEM;
	if (b->keep && b->list) {
		memcpy(list, b->list, b->n * sizeof(*list));
		b->kept[b->n_kept++] = b->list;
	}
	b->list = list;
	next = reallocarray(b->next, capacity, 2 * sizeof(*next));
	if (!next)
		return -ENOMEM;
	b->next = next;
	b->capacity = capacity;
	return 0;
}

int blocks_adopt(struct blocks *b, const struct basic_block *block, uint32_t *ret)
{
	int rc = b->n >= b->capacity ? list_grow(b) : 0;

	if (rc < 0)
		return rc;
	b->list[b->n] = *block;
	b->next[make_edge(b->n, false)] = b->next[make_edge(b->n, true)] = 0;
	*ret = b->n++;
	return 0;
}

int blocks_find(struct blocks *b, uint64_t address, uint32_t *ret)
{
	struct block_page *page;
	struct basic_block block = { .start = address };
	uint32_t *start;
	int rc = page_find(b, address, &page);

	if (rc < 0)
		return rc;
	start = &page->starts[address % BLOCKS_PAGE / 4];
	if (!*start) {
		rc = block_read(b, &block);
		if (rc == 0)
			rc = blocks_adopt(b, &block, start);
		if (rc < 0)
			return rc;
	}
	*ret = *start;
	return 0;
}

int blocks_follow(struct blocks *b, uint32_t block, bool taken, uint32_t *ret)
{
	const struct basic_block *from = &b->list[block];
	uint64_t to = taken ? from->target : block_end(from);
	int rc = blocks_find(b, to, ret);

	if (rc == 0)
		b->next[make_edge(block, taken)] = *ret;
	return rc;
}

int blocks_extent(struct blocks *b, uint64_t start, uint64_t end, uint64_t *ret)
{
	uint64_t at = start, most = start + BLOCKS_WALK_MAX;
	uint32_t op;
	int rc = 1;

	while (at != end && at != most && rc > 0) {
		/* Check 64 words at once where possible. */
		if (at % 256 == 0 && end - at >= 256 && most - at >= 256) {
			struct block_page *page;

			rc = page_find(b, at, &page);
			if (rc < 0)
				return rc;
			if (page->there[at % BLOCKS_PAGE / 256] == UINT64_MAX) {
				at += 256;
				rc = 1;
				continue;
			}
		}
		rc = blocks_read(b, at, &op);
		at += rc > 0 ? 4 : 0;
	}
	*ret = at;
	return MIN(rc, 0);
}
