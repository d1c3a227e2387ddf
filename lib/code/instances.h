/* Inlined functions as regions have them: each instance once, and each function once for all of its instances. */
#ifndef CSIGHT_CODE_INSTANCES_H
#define CSIGHT_CODE_INSTANCES_H

#include "lib/base/hash.h"
#include "lib/code/inlines.h"
#include "lib/code/symbols.h"

/* Zeros are an empty table. What it gives lives as long as it. */
struct instances {
	struct hash known;     /* of the list: by table and instance */
	struct hash functions; /* of that list: by table and origin */
	struct inlined **list;
	size_t n, room;
	struct region **function_list;
	size_t n_functions, room_functions;
};

/* The innermost one of what from tells; NULL: nothing is inlined there. image is borrowed. -ENOMEM */
int instances_find(struct instances *s, const char *image, const struct inlines *from, const struct inlines_at *at,
		   const struct inlined **ret);
void instances_done(struct instances *s);

#endif
