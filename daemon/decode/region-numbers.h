/* SPDX-License-Identifier: MIT */
/* Numbers the regions of a process by their start addresses, for engines that merge the ranges within a region. */
#ifndef CSIGHT_DECODE_REGION_NUMBERS_H
#define CSIGHT_DECODE_REGION_NUMBERS_H

#include <pthread.h>

#include "lib/base/hash.h"
#include "lib/code/region-map.h"
#include "lib/etm/element.h"

struct region_numbers {
	struct element_regions regions; /* any thread may call it while the map is sealed */
	pthread_mutex_t lock;
	const struct region_map *map;
	struct hash numbers;
};

void region_numbers_init(struct region_numbers *r, const struct region_map *map);
void region_numbers_done(struct region_numbers *r);

#endif
