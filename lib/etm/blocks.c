#include "lib/etm/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/huge.h"
#include "lib/base/util.h"
#include "lib/etm/filler.h"

enum {
	PAGES_MAX = 4096,
	WORLDS_MAX = 256,
	BLOCKS_MAX = 1 << 20,
	BLOCKS_FIRST = 4096,
	WALK_MAX = BLOCKS_WALK_MAX / 4,
	SLAB_PAGES = HUGE_SIZE / sizeof(struct block_page),
};

struct code_view {
	uint64_t version;
	struct engine_context context; /* to ask with */
	struct block_page **pages;     /* a hash, by base */
	size_t n_pages, n_slots;
};

void blocks_init(struct blocks *b, const struct engine_config *config, const struct engine_memory *memory)
{
	*b = (struct blocks){ .set = instr_set_of(config), .memory = *memory, .n = 1 };
}

static void world_free(struct code_view *w)
{
	free(w->pages);
	free(w);
}

void blocks_clear(struct blocks *b)
{
	for (size_t i = 0; i < b->n_worlds; i++)
		world_free(b->worlds[i]);
	b->n_worlds = 0;
	b->n_pages = 0;
	b->world = NULL;
	memset(b->tlb, 0, sizeof(b->tlb));
	b->n = 1;
}

void blocks_done(struct blocks *b)
{
	blocks_clear(b);
	for (size_t i = 0; i < b->n_slabs; i++)
		huge_unmap(b->slabs[i], HUGE_SIZE);
	free(b->slabs);
	free(b->worlds);
	for (unsigned i = 0; i < b->n_kept; i++)
		free(b->kept[i]);
	free(b->list);
	free(b->next);
}

bool blocks_full(const struct blocks *b)
{
	return b->n >= BLOCKS_MAX || b->n_pages >= PAGES_MAX || b->n_worlds >= WORLDS_MAX;
}

bool blocks_nearly_full(const struct blocks *b)
{
	return b->n >= BLOCKS_MAX / 8 * 7 || b->n_pages >= PAGES_MAX / 8 * 7 || b->n_worlds >= WORLDS_MAX / 8 * 7;
}

static bool is_world(const struct blocks *b, const struct code_view *w, uint64_t version, uint8_t spaces)
{
	return w->version == version && (!b->memory.by_space || w->context.spaces == spaces);
}

int blocks_enter(struct blocks *b, const struct engine_context *context)
{
	uint64_t version = b->memory.version ? b->memory.version(b->memory.user, context) : 0;
	struct code_view **worlds;

	if (b->world && is_world(b, b->world, version, context->spaces))
		return 0;
	memset(b->tlb, 0, sizeof(b->tlb));
	for (size_t i = 0; i < b->n_worlds; i++)
		if (is_world(b, b->worlds[i], version, context->spaces)) {
			b->world = b->worlds[i];
			return 1;
		}
	worlds = reallocarray(b->worlds, b->n_worlds + 1, sizeof(struct code_view *));
	if (!worlds)
		return -ENOMEM;
	b->worlds = worlds;
	b->world = calloc(1, sizeof(*b->world));
	if (!b->world)
		return -ENOMEM;
	*b->world = (struct code_view){ .version = version, .context = *context };
	b->worlds[b->n_worlds++] = b->world;
	return 1;
}

static size_t slot_of(const struct code_view *w, uint64_t base)
{
	size_t i = (size_t)(base * 0x9e3779b97f4a7c15u >> 32) & (w->n_slots - 1);

	while (w->pages[i] && w->pages[i]->base != base)
		i = (i + 1) & (w->n_slots - 1);
	return i;
}

static int make_room(struct code_view *w)
{
	struct code_view bigger = { .n_slots = w->n_slots ? w->n_slots * 2 : 64 };

	bigger.pages = calloc(bigger.n_slots, sizeof(struct block_page *));
	if (!bigger.pages)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_slots; i++)
		if (w->pages[i])
			bigger.pages[slot_of(&bigger, w->pages[i]->base)] = w->pages[i];
	free(w->pages);
	w->pages = bigger.pages;
	w->n_slots = bigger.n_slots;
	return 0;
}

static struct block_page *new_page(struct blocks *b, uint64_t base)
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
	page = &b->slabs[slab][b->n_pages++ % SLAB_PAGES];
	/* It may have been another one; code is nothing before it is known. */
	memset(page, 0, offsetof(struct block_page, code));
	page->base = base;
	return page;
}

static int find_page(struct blocks *b, uint64_t address, struct block_page **ret)
{
	struct code_view *w = b->world;
	uint64_t base = address & BLOCKS_BASE;
	struct block_page **cached = &b->tlb[address / BLOCKS_PAGE % BLOCKS_TLB], *page;
	size_t slot;

	if (*cached && (*cached)->base == base) {
		*ret = *cached;
		return 0;
	}
	if (w->n_pages * 2 >= w->n_slots && make_room(w) < 0)
		return -ENOMEM;
	slot = slot_of(w, base);
	page = w->pages[slot];
	if (!page) {
		page = new_page(b, base);
		if (!page)
			return -ENOMEM;
		w->pages[slot] = page;
		w->n_pages++;
	}
	*cached = page;
	*ret = page;
	return 0;
}

/* The first word behind waste is not there. */
static void drop_word_after_filler(struct blocks *b, struct block_page *page)
{
	if (page->there[0] & 1 && page->base % FILLER_SIZE == 0 &&
	    filler_before(&b->set, &b->memory, &b->world->context, page->base))
		page->there[0] &= ~(uint64_t)1;
}

/* From a word on, as much as there is in one piece; a word of which only a part is there is not. How many those are. */
static size_t read_words(struct blocks *b, struct block_page *page, size_t word)
{
	size_t n = b->memory.read(b->memory.user, &b->world->context, page->base + 4 * word, &page->code[word],
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
		/* Most pages are there as a whole. */
		if (page->asked || read_words(b, page, 0) <= word)
			read_words(b, page, word);
		page->asked = true;
		page->known[word / 64] |= (uint64_t)1 << word % 64;
	}
	/* A64 is little-endian, whatever the data are. */
	*ret = page->code[word];
	return page->there[word / 64] >> word % 64 & 1;
}

int blocks_read(struct blocks *b, uint64_t address, uint32_t *ret)
{
	struct block_page *page;
	uint32_t low, high = 0;
	int rc = find_page(b, address & ~(uint64_t)3, &page);

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

/* Instructions of a page that are there and end no range. */
static int pass_over(struct blocks *b, struct basic_block *block)
{
	struct block_page *page;
	uint64_t at = block_end(block);
	size_t word = at % BLOCKS_PAGE / 4, end = MIN((size_t)BLOCKS_WORDS, word + WALK_MAX - block->count);
	uint32_t op;
	int rc = at % 4 ? 1 : find_page(b, at, &page);

	if (rc != 0)
		return MIN(rc, 0);
	while (word < end && read_word(b, page, word, &op) && !instr_may_end(op)) {
		block->count++;
		word++;
	}
	return 0;
}

static int walk(struct blocks *b, struct basic_block *block)
{
	struct instr i = { 0 };
	uint64_t at;

	while (i.kind == INSTR_OTHER) {
		uint32_t op = 0;
		int there = pass_over(b, block);

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

static int grow(struct blocks *b)
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
	int rc = b->n >= b->capacity ? grow(b) : 0;

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
	int rc = find_page(b, address, &page);

	if (rc < 0)
		return rc;
	start = &page->starts[address % BLOCKS_PAGE / 4];
	if (!*start) {
		rc = walk(b, &block);
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
		/* 64 words at once where it can be. */
		if (at % 256 == 0 && end - at >= 256 && most - at >= 256) {
			struct block_page *page;

			rc = find_page(b, at, &page);
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
