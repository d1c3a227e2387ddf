/* SPDX-License-Identifier: MIT */
/*
 * Inlined functions for a region map. Makes one struct inlined for each instance, and one struct region for each
 * inlined function, shared by all its instances.
 */
#ifndef CSIGHT_CODE_INLINE_INSTANCES_H
#define CSIGHT_CODE_INLINE_INSTANCES_H

#include "lib/base/hash.h"
#include "lib/code/inlines.h"
#include "lib/code/region-map.h"

/* Owns the structs that it returns. All zeros is an empty table. */
struct inline_instances {
	struct hash known;     /* index in list, by struct inlines and instance */
	struct hash functions; /* index in function_list, by struct inlines and origin */
	struct hash entered;   /* index in entered_list, by struct inlines and offset */
	struct inlined **list;
	size_t n, cap;
	struct region **function_list;
	size_t n_functions, cap_functions;
	const struct inlined ***entered_list;
	size_t n_entered, cap_entered;
};

/*
 * Returns the innermost inlined instance of `at`, which inlines_find() returned for the table `from`; NULL: nothing is
 * inlined there. image must outlive s. -ENOMEM.
 */
int inline_instances_find(struct inline_instances *s, const char *image, const struct inlines *from,
			  const struct inlines_at *at, const struct inlined **ret);

/*
 * Returns the instances whose calls begin at at->start, outer ones first, in an array that ends with NULL; NULL: none.
 * -ENOMEM.
 */
int inline_instances_entered(struct inline_instances *s, const char *image, struct inlines *from,
			     const struct inlines_at *at, const struct inlined *const **ret);
void inline_instances_done(struct inline_instances *s);

#endif
