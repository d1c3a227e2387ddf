/* SPDX-License-Identifier: MIT */
/*
 * The mappings in which code has run. /proc/self/maps is read again only after a system call changed mappings of known
 * code. The plugin's lock protects all functions.
 */
#ifndef CSIGHT_EMU_MAPS_H
#define CSIGHT_EMU_MAPS_H

#include "lib/emu/files.h"

/* A part of a mapping, at guest addresses. */
struct maps_region {
	uint64_t start, end, offset;
	struct mapped_file *file; /* NULL: anonymous memory */
	bool stale;               /* a system call may have changed it */
	bool replaces;            /* something else was there before */
};

/* Reports a new part. replaced: it replaces known parts; instead_of_file: one of them was of a file. */
typedef void (*maps_placed_fn)(void *data, const struct maps_region *part, bool replaced, bool instead_of_file);

/*
 * Finds the part that contains the guest address addr; base is the offset of guest addresses in this process. Calls fn
 * for each new part. NULL: /proc/self/maps has no mapping there.
 */
const struct maps_region *maps_find(struct shared *s, uint64_t addr, uint64_t base, maps_placed_fn fn, void *data);

/* Returns the known part that contains addr, as it was read last, or NULL. */
const struct maps_region *maps_known(uint64_t addr);

/* Calls fn with each known address of an offset in a file; file: of which major, minor and inode count. */
void maps_places(const struct mapped_file *file, uint64_t offset, void (*fn)(void *data, uint64_t addr), void *data);

/* Records that the program has mapped, unmapped or protected these addresses. */
void maps_changed(uint64_t addr, uint64_t len);

#endif
