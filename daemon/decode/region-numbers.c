/* SPDX-License-Identifier: MIT */
#include "daemon/decode/region-numbers.h"

enum { REGION_NUMBERS_MAX = 1 << 24 };

static uint32_t find_number(struct region_numbers *r, uint64_t address)
{
	uint64_t start, end;
	uint32_t *number;
	int rc;

	if (r->numbers.n == REGION_NUMBERS_MAX)
		return ELEMENT_ALONE;
	region_map_extent(r->map, address, &start, &end);
	rc = hash_find(&r->numbers, start, 0, &number);
	if (rc == 1)
		*number = (uint32_t)r->numbers.n - 1;
	return rc < 0 ? ELEMENT_ALONE : *number;
}

static uint32_t region_number(void *user, uint64_t address)
{
	struct region_numbers *r = user;
	uint32_t number;

	pthread_mutex_lock(&r->lock);
	number = find_number(r, address);
	pthread_mutex_unlock(&r->lock);
	return number;
}

void region_numbers_init(struct region_numbers *r, const struct region_map *map)
{
	r->map = map;
	pthread_mutex_init(&r->lock, NULL);
	r->regions = (struct element_regions){ region_number, r };
}

void region_numbers_done(struct region_numbers *r)
{
	hash_done(&r->numbers);
}
