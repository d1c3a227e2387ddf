/*
 * What is mapped where, as far as code was seen to run there. /proc/self/maps is looked at again only where a system
 * call changed something below code that is known. Called under the plugin's lock.
 */
#ifndef CSIGHT_EMU_MAPS_H
#define CSIGHT_EMU_MAPS_H

#include "lib/emu/files.h"

/* Addresses are the guest's. */
struct maps_region {
	uint64_t start, end, offset;
	struct mapped_file *file; /* NULL: memory of no file */
	bool stale;
};

/* part is there now; instead_of_file: a file was there before, or somewhere below it. replaced: anything was. */
typedef void (*maps_placed_fn)(void *data, const struct maps_region *part, bool replaced, bool instead_of_file);

/* What is at addr, base below in this process. NULL: not told. fn hears of all that is new. */
const struct maps_region *maps_find(struct shared *s, uint64_t addr, uint64_t base, maps_placed_fn fn, void *data);

/* The program maps, unmaps or protects these addresses. */
void maps_changed(uint64_t addr, uint64_t len);

#endif
