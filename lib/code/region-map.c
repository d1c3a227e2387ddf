/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/hash.h"
#include "lib/code/demangle.h"
#include "lib/code/inline-instances.h"
#include "lib/code/inlines.h"
#include "lib/code/memory-path.h"
#include "lib/code/region-map.h"
#include "lib/code/symbols.h"
#include "lib/code/unwind.h"

enum { MAPPINGS_MAX = 1 << 16, REFS_MAX = 8 << 20, EXTENT_MAPPINGS_MAX = 64, CACHE_LINE = 64 };

struct timed_mapping {
	uint64_t start, end, offset, time;
	const char *path, *build_id; /* interned: equal strings are the same pointer */
	struct inlines *inlines;
	const struct symbols *symbols;
	struct unwind *unwind;
	uint32_t order; /* of region_map_add() */
};

/* An interval of addresses that the same mappings cover, each valid at another time. */
struct address_span {
	uint64_t start, end;
	uint32_t first, n; /* in refs, sorted by time */
};

/* Two regions are the same if and only if their keys are equal. */
struct region_key {
	const char *path;
	const struct symbols *symbols;
	uint64_t start;
	enum region_kind kind;
};

struct region_entry {
	struct region region;
	struct region_key key;
	struct unwind *unwind;
};

struct region_map {
	struct timed_mapping *mappings;
	size_t n_mappings, cap_mappings;
	char **texts; /* interned strings of mappings */
	size_t n_texts, cap_texts;
	bool sorted;
	struct address_span *spans;
	size_t n_spans;
	uint32_t *refs;                /* indexes in mappings */
	struct region_entry **entries; /* by id */
	size_t n_entries, cap_entries;
	struct hash numbers; /* of regions, by key */
	struct region_hit recent[REGION_RECENT];
	void *caller_cache; /* region_map_cache() */
	size_t caller_cache_size;
	const struct symbols *names[2]; /* region_map_set_names(), in order */
	bool with_inlined;
	struct inline_instances instances;
};

int region_map_new(struct region_map **ret)
{
	struct region_map *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	*ret = m;
	return 0;
}

struct region_map *region_map_free(struct region_map *m)
{
	if (!m)
		return NULL;
	for (size_t i = 0; i < m->n_texts; i++)
		free(m->texts[i]);
	for (size_t i = 0; i < m->n_entries; i++) {
		free((char *)m->entries[i]->region.name);
		free(m->entries[i]);
	}
	inline_instances_done(&m->instances);
	free(m->caller_cache);
	free(m->mappings);
	free(m->texts);
	free(m->spans);
	free(m->refs);
	free(m->entries);
	hash_done(&m->numbers);
	free(m);
	return NULL;
}

static int intern_text(struct region_map *m, const char *text, const char **ret)
{
	char *copy;
	int rc;

	/* Backwards, since the mappings of one file are adjacent. */
	for (size_t i = m->n_texts; i-- > 0;) {
		if (strcmp(m->texts[i], text) == 0) {
			*ret = m->texts[i];
			return 0;
		}
	}
	rc = array_reserve(m->texts, m->n_texts, &m->cap_texts);
	if (rc < 0)
		return rc;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	m->texts[m->n_texts++] = copy;
	*ret = copy;
	return 0;
}

int region_map_add(struct region_map *m, const struct region_mapping *mapping)
{
	struct timed_mapping new = { .start = mapping->addr,
				     .offset = mapping->offset,
				     .time = mapping->time,
				     .symbols = mapping->symbols,
				     .inlines = mapping->inlines,
				     .unwind = mapping->unwind,
				     .order = (uint32_t)m->n_mappings };
	int rc;

	if (__builtin_add_overflow(mapping->addr, mapping->len, &new.end))
		new.end = UINT64_MAX;
	if (new.end == new.start)
		return 0;
	if (m->n_mappings >= MAPPINGS_MAX)
		return -E2BIG;
	rc = array_reserve(m->mappings, m->n_mappings, &m->cap_mappings);
	if (rc == 0)
		rc = intern_text(m, mapping->build_id ? mapping->build_id : "", &new.build_id);
	if (rc == 0)
		rc = intern_text(m, mapping->path ? mapping->path : "", &new.path);
	if (rc < 0)
		return rc;
	m->mappings[m->n_mappings++] = new;
	if (m->sorted)
		memset(m->recent, 0, sizeof(m->recent));
	if (m->caller_cache)
		memset(m->caller_cache, 0, m->caller_cache_size);
	m->sorted = false;
	return 0;
}

static int compare_mappings(const void *a, const void *b)
{
	const struct timed_mapping *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Returns the index of the last span that starts at or before addr; n_spans: none. */
static size_t find_span(const struct region_map *m, uint64_t addr)
{
	size_t low = 0, high = m->n_spans;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->spans[middle].start <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : m->n_spans;
}

static int fill_spans(struct region_map *m)
{
	size_t total = 0;

	for (size_t i = 0; i < m->n_mappings; i++) {
		for (size_t s = find_span(m, m->mappings[i].start);
		     s < m->n_spans && m->spans[s].start < m->mappings[i].end; s++) {
			m->spans[s].n++;
			if (++total > REFS_MAX)
				return -E2BIG;
		}
	}
	free(m->refs);
	m->refs = malloc((total + 1) * sizeof(*m->refs));
	if (!m->refs)
		return -ENOMEM;
	total = 0;
	for (size_t s = 0; s < m->n_spans; s++) {
		m->spans[s].first = (uint32_t)total;
		total += m->spans[s].n;
		m->spans[s].n = 0;
	}
	for (size_t i = 0; i < m->n_mappings; i++) {
		for (size_t s = find_span(m, m->mappings[i].start);
		     s < m->n_spans && m->spans[s].start < m->mappings[i].end; s++)
			m->refs[m->spans[s].first + m->spans[s].n++] = (uint32_t)i;
	}
	return 0;
}

static int region_map_sort(struct region_map *m)
{
	_cleanup_free_ uint64_t *edges = malloc((2 * m->n_mappings + 1) * sizeof(*edges));
	size_t n = 0;
	int rc;

	if (!edges)
		return -ENOMEM;
	if (m->n_mappings)
		qsort(m->mappings, m->n_mappings, sizeof(*m->mappings), compare_mappings);
	for (size_t i = 0; i < m->n_mappings; i++) {
		edges[n++] = m->mappings[i].start;
		edges[n++] = m->mappings[i].end;
	}
	qsort(edges, n, sizeof(*edges), compare_addresses);
	free(m->spans);
	m->n_spans = 0;
	m->spans = calloc(n + 1, sizeof(*m->spans));
	if (!m->spans)
		return -ENOMEM;
	for (size_t i = 0; i + 1 < n; i++) {
		if (edges[i] != edges[i + 1])
			m->spans[m->n_spans++] = (struct address_span){ .start = edges[i], .end = edges[i + 1] };
	}
	rc = fill_spans(m);
	m->sorted = rc == 0;
	return rc;
}

int region_map_seal(struct region_map *m)
{
	return m->sorted ? 0 : region_map_sort(m);
}

static uint64_t key_hash(const struct region_key *k)
{
	uint64_t h = (uint64_t)(uintptr_t)k->path ^ (uint64_t)(uintptr_t)k->symbols << 1 ^
		     k->start * 0x9e3779b97f4a7c15ull ^ (uint64_t)k->kind << 60;

	h *= 0xff51afd7ed558ccdull;
	return h ^ h >> 32;
}

static bool key_same(const struct region_key *a, const struct region_key *b)
{
	return a->path == b->path && a->symbols == b->symbols && a->start == b->start && a->kind == b->kind;
}

/* Finds the number of a region, or the entry for a new one, as hash_find(). */
static int find_number(struct region_map *m, const struct region_key *k, uint32_t **ret)
{
	uint64_t h = key_hash(k);

	for (uint64_t i = 0;; i++) {
		int rc = hash_find(&m->numbers, h, i, ret);

		if (rc != 0 || (**ret < m->n_entries && key_same(&m->entries[**ret]->key, k)))
			return rc;
	}
}

static char *unnamed_region_name(const char *path, const struct symbols *symbols, uint64_t offset)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	char *ret = NULL;
	int rc;

	/* Names of the kernel, such as [vdso], are kept. Without symbols, a file is one region. */
	if (path[0] == '[')
		rc = asprintf(&ret, "%.200s", path);
	else if (!symbols)
		rc = asprintf(&ret, "[%.200s]", base);
	else
		rc = asprintf(&ret, "[%.200s+0x%jx]", base, (uintmax_t)offset);
	return rc < 0 ? NULL : ret;
}

/* The result of a look-up, from which region_get() makes a region if its key is new. */
struct region_draft {
	struct region_key key;
	uint64_t end, offset;
	const char *build_id;
	const char *name; /* mangled; NULL: none */
	struct unwind *unwind;
	struct inlines *inlines;
};

/* Sets a function's source file and line from DWARF. Returns its name, from DWARF if no symbol names it. */
static const char *set_declaration(const struct region_draft *d, struct region *region)
{
	struct inlines_at at;

	inlines_find(d->inlines, d->offset, &at);
	if (!at.n)
		return d->name;
	region->file = at.frames[0].file;
	region->line = at.frames[0].line;
	return d->name ? d->name : at.frames[0].name;
}

static int region_get(struct region_map *m, const struct region_draft *d, const struct region **ret)
{
	uint32_t *number;
	int rc = find_number(m, &d->key, &number);
	struct region_entry *e;
	const char *name = d->name;

	if (rc == 0)
		*ret = &m->entries[*number]->region;
	if (rc <= 0)
		return rc;
	rc = array_reserve(m->entries, m->n_entries, &m->cap_entries);
	if (rc < 0)
		return rc;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->key = d->key;
	e->region.id = (uint32_t)m->n_entries;
	e->region.kind = d->key.kind;
	e->region.start = d->key.start;
	e->region.end = d->end;
	e->unwind = d->unwind;
	e->region.offset = d->offset;
	e->region.build_id = d->build_id ? d->build_id : "";
	if (e->unwind)
		e->region.stack_use =
		    (uint8_t)unwind_stack_use(e->unwind, d->offset, d->offset + (e->region.end - e->region.start));
	e->region.image = d->key.path ? d->key.path : "";
	if (d->inlines)
		name = set_declaration(d, &e->region);
	if (name)
		e->region.name = demangle_symbol(name);
	else if (d->key.kind == REGION_UNKNOWN)
		e->region.name = strdup("[unknown]");
	else if (d->key.kind == REGION_ANON && (!d->key.path[0] || strncmp(d->key.path, "//", 2) == 0))
		e->region.name = strdup("[anon]");
	else
		e->region.name = unnamed_region_name(d->key.path, d->key.symbols, d->offset);
	if (!e->region.name) {
		free(e);
		return -ENOMEM;
	}
	*number = e->region.id;
	m->entries[m->n_entries++] = e;
	*ret = &e->region;
	return 0;
}

/* Looks up addr in the symbols of a file; narrows the bounds of hit to the part of the mapping that the result covers.
 */
static void look_up_in_file(const struct timed_mapping *map, uint64_t addr, struct region_draft *d,
			    struct region_hit *hit)
{
	uint64_t bias = map->start - map->offset;
	struct symbols_at at = { .start = map->offset,
				 .end = map->offset + (map->end - map->start),
				 .function = map->offset };

	at.function_end = at.end;
	if (map->symbols) {
		symbols_find(map->symbols, addr - bias, &at);
		/* Clamp to the mapping: offsets outside of it would wrap around as addresses. */
		if (at.start < map->offset)
			at.start = map->offset;
		if (at.end > map->offset + (map->end - map->start))
			at.end = map->offset + (map->end - map->start);
		if (!at.known) {
			at.function = at.start;
			at.function_end = at.end;
		}
	}
	hit->start = MAX(hit->start, at.start + bias);
	hit->end = MIN(hit->end, at.end + bias);
	d->key.symbols = map->symbols;
	d->key.kind = !at.known ? REGION_UNNAMED : at.plt ? REGION_PLT : REGION_FUNCTION;
	d->key.start = at.function + bias;
	d->end = at.function_end + bias;
	d->offset = at.function;
	d->build_id = map->build_id;
	d->name = at.name;
	d->unwind = map->unwind;
	if (d->key.kind == REGION_FUNCTION)
		d->inlines = map->inlines;
}

/* Looks up what is inlined at addr; narrows the bounds of hit accordingly. */
static void look_up_inlined(const struct timed_mapping *map, uint64_t addr, struct region_hit *hit,
			    struct inlines_at *at)
{
	uint64_t bias = map->start - map->offset;

	inlines_find(map->inlines, addr - bias, at);
	hit->start = MAX(hit->start, MAX(at->start, map->offset) + bias);
	hit->end = MIN(hit->end, MIN(at->end, map->offset + (map->end - map->start)) + bias);
}

/* Looks up code in memory in the table of names; narrows the bounds of hit accordingly. */
static void look_up_name(const struct region_map *m, uint64_t addr, struct region_draft *d, struct region_hit *hit)
{
	struct symbols_at at = { 0 };

	for (size_t i = 0; i < ELEMENTS(m->names) && !at.known; i++) {
		if (!m->names[i])
			continue;
		symbols_find(m->names[i], addr, &at);
		hit->start = MAX(hit->start, at.start);
		hit->end = MIN(hit->end, at.end);
		if (!at.known)
			continue;
		d->key = (struct region_key){ d->key.path, m->names[i], at.function, REGION_FUNCTION };
		d->end = at.function_end;
		d->name = at.name;
	}
}

void region_map_set_names(struct region_map *m, const struct symbols *perf_map, const struct symbols *others)
{
	m->names[0] = perf_map;
	m->names[1] = others;
}

void region_map_enable_inlined(struct region_map *m)
{
	m->with_inlined = true;
}

/* Generated code; memory that has an ELF file in it is a file. */
static bool is_memory(const struct timed_mapping *map)
{
	return is_memory_path(map->path) && !map->symbols && !map->build_id[0];
}

/* Looks up addr in one mapping. hit has the bounds of the span, and gets those of the result. */
static void look_up(const struct region_map *m, const struct timed_mapping *map, uint64_t addr, struct region_draft *d,
		    struct region_hit *hit)
{
	d->key.path = map->path;
	if (!is_memory(map)) {
		look_up_in_file(map, addr, d, hit);
	} else {
		d->key.kind = REGION_ANON;
		d->key.start = map->start;
		d->end = map->end;
		look_up_name(m, addr, d, hit);
	}
}

void region_map_extent(const struct region_map *m, uint64_t addr, uint64_t *ret_start, uint64_t *ret_end)
{
	size_t i = find_span(m, addr);
	const struct address_span *span = i < m->n_spans && addr < m->spans[i].end ? &m->spans[i] : NULL;
	struct region_hit all = { .start = addr, .end = addr + 1 };

	if (span && span->n && span->n <= EXTENT_MAPPINGS_MAX) {
		all.start = span->start;
		all.end = span->end;
		for (uint32_t k = 0; k < span->n; k++) {
			const struct timed_mapping *map = &m->mappings[m->refs[span->first + k]];
			struct region_draft d = { .end = UINT64_MAX };
			struct region_hit hit = { .start = span->start, .end = span->end };

			look_up(m, map, addr, &d, &hit);
			if (m->with_inlined && d.inlines)
				look_up_inlined(map, addr, &hit, &(struct inlines_at){ 0 });
			/* A block that switches stacks may leave for an outer frame of the same function. */
			if (map->unwind && unwind_block_moves_stack(map->unwind, addr - map->start + map->offset))
				hit = (struct region_hit){ .start = addr, .end = addr + 1 };
			all.start = MAX(all.start, hit.start);
			all.end = MIN(all.end, hit.end);
		}
	}
	*ret_start = all.start;
	*ret_end = all.end;
}

static int find_inlined(struct region_map *m, const struct timed_mapping *map, uint64_t addr, struct region_hit *hit)
{
	struct inlines_at at;
	int rc;

	look_up_inlined(map, addr, hit, &at);
	rc = inline_instances_find(&m->instances, map->path, map->inlines, &at, &hit->inlined);
	if (rc == 0 && hit->start == at.start + map->start - map->offset)
		rc = inline_instances_entered(&m->instances, map->path, map->inlines, &at, &hit->entered);
	return rc;
}

/*
 * Returns which mapping of a span applies: the last one not after time; else the first, since code that ran was mapped,
 * and only its record is late.
 */
static uint32_t find_mapping(const struct region_map *m, const struct address_span *span, uint64_t time)
{
	uint32_t k = 0, high = span->n;

	while (high - k > 1) {
		uint32_t middle = k + (high - k) / 2;

		if (m->mappings[m->refs[span->first + middle]].time <= time)
			k = middle;
		else
			high = middle;
	}
	return k;
}

static int find_uncached(struct region_map *m, uint64_t addr, uint64_t time, struct region_hit *ret)
{
	struct region_hit hit = { .end = UINT64_MAX, .until = UINT64_MAX };
	struct region_draft d = { .key.kind = REGION_UNKNOWN, .end = UINT64_MAX };
	size_t i = find_span(m, addr);
	const struct address_span *span = i < m->n_spans && addr < m->spans[i].end ? &m->spans[i] : NULL;
	const struct timed_mapping *map = NULL;
	int rc;

	if (span && span->n) {
		uint32_t k = find_mapping(m, span, time);

		map = &m->mappings[m->refs[span->first + k]];
		hit = (struct region_hit){ .start = span->start, .end = span->end, .until = UINT64_MAX };
		if (k)
			hit.from = map->time;
		if (k + 1 < span->n)
			hit.until = m->mappings[m->refs[span->first + k + 1]].time;
		look_up(m, map, addr, &d, &hit);
	} else {
		look_up_name(m, addr, &d, &hit);
		hit.start = addr;
		hit.end = addr + 1;
	}
	rc = region_get(m, &d, &hit.region);
	if (rc == 0 && m->with_inlined && d.inlines)
		rc = find_inlined(m, map, addr, &hit);
	if (rc < 0)
		return rc;
	*ret = hit;
	return 0;
}

bool region_map_line(const struct region_map *m, uint64_t addr, uint64_t time, const char **ret_file,
		     uint32_t *ret_line)
{
	size_t i = find_span(m, addr);
	const struct address_span *span = i < m->n_spans && addr < m->spans[i].end ? &m->spans[i] : NULL;
	const struct timed_mapping *map = NULL;

	if (span && span->n)
		map = &m->mappings[m->refs[span->first + find_mapping(m, span, time)]];
	return map && map->inlines && inlines_line(map->inlines, addr - map->start + map->offset, ret_file, ret_line);
}

static const struct region_entry *entry_of(const struct region *region)
{
	return (const struct region_entry *)region;
}

bool region_moves_stack(const struct region *region, uint64_t branch)
{
	const struct region_entry *e = entry_of(region);

	/* Of a function in several pieces only the first is examined. */
	return (region->stack_use & UNWIND_SETS_STACK) && branch >= region->start && branch < region->end &&
	       unwind_moves_stack(e->unwind, region->offset, branch - region->start + region->offset);
}

bool region_loads_stack(const struct region *region, uint64_t addr)
{
	const struct region_entry *e = entry_of(region);

	return (region->stack_use & UNWIND_LOADS_STACK) && addr >= region->start && addr < region->end &&
	       unwind_block_loads_stack(e->unwind, addr - region->start + region->offset);
}

int region_handler(const struct region *region, uint64_t return_address, uint64_t *ret)
{
	const struct region_entry *e = entry_of(region);
	uint64_t offset;
	int rc;

	if (!e->unwind)
		return -ENOENT;
	rc = unwind_handler(e->unwind, region->offset, region->offset + (region->end - region->start),
			    return_address - region->start + region->offset, &offset);
	if (rc == 1)
		*ret = offset - region->offset + region->start;
	return rc;
}

bool region_is_landing(const struct region *region, uint64_t addr)
{
	const struct region_entry *e = entry_of(region);

	return e->unwind && unwind_is_landing(e->unwind, addr - region->start + region->offset);
}

bool region_is_entry(const struct region *region, uint64_t addr)
{
	const struct region_entry *e = entry_of(region);

	return e->unwind && unwind_is_entry(e->unwind, addr - region->start + region->offset);
}

const struct region_hit *region_map_recent(const struct region_map *m)
{
	return m->recent;
}

void *region_map_cache(struct region_map *m, size_t size)
{
	if (!m->caller_cache && m->with_inlined) {
		m->caller_cache = calloc(1, size + CACHE_LINE);
		m->caller_cache_size = size + CACHE_LINE;
	}
	return m->caller_cache ? (void *)(((uintptr_t)m->caller_cache + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1))
			       : NULL;
}

int region_map_find(struct region_map *m, uint64_t addr, uint64_t time, struct region_hit *ret)
{
	struct region_hit *recent = &m->recent[addr >> 2 & (REGION_RECENT - 1)];
	int rc;

	if (region_recall(m->recent, addr, time, ret))
		return 0;
	rc = region_map_seal(m);
	if (rc == 0)
		rc = find_uncached(m, addr, time, recent);
	if (rc == 0)
		*ret = *recent;
	return rc;
}
