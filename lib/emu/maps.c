/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/emu/maps.h"

static struct maps_region *regions;
static size_t n_regions, capacity;

static void add_region(const struct maps_region *r)
{
	if (n_regions == capacity) {
		struct maps_region *more = reallocarray(regions, 2 * capacity + 64, sizeof(*more));

		/* Without memory the region stays unknown, and the next call looks it up again. */
		if (!more)
			return;
		regions = more;
		capacity = 2 * capacity + 64;
	}
	regions[n_regions++] = *r;
}

static struct maps_region *region_at(uint64_t addr)
{
	for (size_t i = 0; i < n_regions; i++)
		if (addr >= regions[i].start && addr < regions[i].end)
			return &regions[i];
	return NULL;
}

/* True if both are parts of one mapping: the same file at the same distance, or anonymous memory. */
static bool same_source(const struct maps_region *a, const struct maps_region *b)
{
	return a->file == b->file && (!a->file || a->offset - a->start == b->offset - b->start);
}

/* Makes the part of regions[i] within [start, end) a region of its own, still at i. */
static void split(size_t i, uint64_t start, uint64_t end)
{
	struct maps_region old = regions[i], part = old;

	if (old.start < start) {
		part.end = start;
		add_region(&part);
		regions[i].start = start;
		regions[i].offset += start - old.start;
	}
	if (old.end > end) {
		part = old;
		part.start = end;
		part.offset += end - old.start;
		add_region(&part);
		regions[i].end = end;
	}
}

/* Removes [start, end) from the known regions. */
static void cut_regions(uint64_t start, uint64_t end, bool *replaced, bool *was_file)
{
	for (size_t i = 0; i < n_regions; i++) {
		if (regions[i].end <= start || regions[i].start >= end)
			continue;
		*replaced = true;
		*was_file |= regions[i].file != NULL;
		split(i, start, end);
		regions[i--] = regions[--n_regions];
	}
}

/* Clears stale in the parts of known regions that the mapping read from /proc/self/maps confirms. */
static void confirm(const struct maps_region *fresh)
{
	for (size_t i = 0; i < n_regions; i++)
		if (regions[i].stale && same_source(&regions[i], fresh) && regions[i].start < fresh->end &&
		    fresh->start < regions[i].end) {
			split(i, fresh->start, fresh->end);
			regions[i].stale = false;
		}
}

/*
 * Returns the end of the known region of the same source that contains addr. If there is none, returns 0, and *ret_next
 * is the beginning of the next such region.
 */
static uint64_t known_until(const struct maps_region *fresh, uint64_t addr, uint64_t *ret_next)
{
	*ret_next = fresh->end;
	for (size_t i = 0; i < n_regions; i++) {
		const struct maps_region *r = &regions[i];

		if (!same_source(r, fresh) || r->end <= addr)
			continue;
		if (r->start <= addr)
			return r->end;
		*ret_next = MIN(*ret_next, r->start);
	}
	return 0;
}

/*
 * Adds the parts of a mapping that are not known yet. A mapping that grew, shrank or was split does not replace its
 * known parts, whose code has been logged.
 */
static void add_mapping(const struct maps_region *fresh, maps_placed_fn fn, void *data)
{
	confirm(fresh);
	for (uint64_t at = fresh->start, next; at < fresh->end; at = next) {
		uint64_t until = known_until(fresh, at, &next);
		struct maps_region part = { .start = at, .file = fresh->file };
		bool replaced = false, was_file = false;

		if (until) {
			next = until;
			continue;
		}
		part.end = next;
		part.offset = fresh->file ? fresh->offset + (at - fresh->start) : 0;
		cut_regions(part.start, part.end, &replaced, &was_file);
		part.replaces = replaced;
		add_region(&part);
		fn(data, &part, replaced, was_file);
	}
}

/* Finds the mapping that contains addr in /proc/self/maps. */
static bool look_up(struct shared *s, uint64_t addr, uint64_t base, struct maps_region *ret)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "re");
	char line[EMU_PATH_SIZE + 128];

	while (f && fgets(line, sizeof(line), f)) {
		struct files_mapping m;
		int path = 0;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m.start, &m.end,
			   &m.offset, &m.major, &m.minor, &m.inode, &path) < 6 ||
		    addr + base < m.start || addr + base >= m.end)
			continue;
		line[strcspn(line, "\n")] = 0;
		m.path = line + path;
		*ret = (struct maps_region){ .start = m.start - base, .end = m.end - base };
		if (path && m.inode && m.path[0] == '/') {
			ret->file = files_find(s, &m);
			ret->offset = m.offset;
		}
		return true;
	}
	return false;
}

const struct maps_region *maps_find(struct shared *s, uint64_t addr, uint64_t base, maps_placed_fn fn, void *data)
{
	struct maps_region *r = region_at(addr), fresh;

	if (r && !r->stale)
		return r;
	if (!look_up(s, addr, base, &fresh))
		return NULL;
	add_mapping(&fresh, fn, data);
	return region_at(addr);
}

const struct maps_region *maps_known(uint64_t addr)
{
	return region_at(addr);
}

void maps_places(const struct mapped_file *file, uint64_t offset, void (*fn)(void *data, uint64_t addr), void *data)
{
	for (size_t i = 0; i < n_regions; i++) {
		const struct maps_region *r = &regions[i];

		if (r->file && r->file->inode == file->inode && r->file->major == file->major &&
		    r->file->minor == file->minor && offset >= r->offset && offset - r->offset < r->end - r->start)
			fn(data, r->start + (offset - r->offset));
	}
}

void maps_changed(uint64_t addr, uint64_t len)
{
	for (size_t i = 0; i < n_regions; i++)
		if (regions[i].start < addr + len && addr < regions[i].end)
			regions[i].stale = true;
}
