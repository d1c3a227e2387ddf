/* Inlined functions as regions have them: each instance once, and each function once for all of its inline_instances.
 */
#ifndef CSIGHT_CODE_INLINE_INSTANCES_H
#define CSIGHT_CODE_INLINE_INSTANCES_H

#include "lib/base/hash.h"
#include "lib/code/inlines.h"
#include "lib/code/region-map.h"

/* Zeros are an empty table. What it gives lives as long as it. */
struct inline_instances {
	struct hash known;     /* of the list: by table and instance */
	struct hash functions; /* of that list: by table and origin */
	struct inlined **list;
	size_t n, cap;
	struct region **function_list;
	size_t n_functions, cap_functions;
};

/* The innermost one of what from tells; NULL: nothing is inlined there. image is borrowed. -ENOMEM */
int inline_instances_find(struct inline_instances *s, const char *image, const struct inlines *from,
			  const struct inlines_at *at, const struct inlined **ret);
void inline_instances_done(struct inline_instances *s);

#endif
