/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"

enum { CAPACITY_FIRST = 64 };

int array_grow(void *list, size_t *capacity, size_t size)
{
	size_t more = *capacity ? *capacity * 2 : CAPACITY_FIRST;
	void *p;

	/* list points to a pointer to items of any type; memcpy avoids access through an incompatible pointer type. */
	memcpy(&p, list, sizeof(p));
	p = reallocarray(p, more, size);
	if (!p)
		return -ENOMEM;
	memcpy(list, &p, sizeof(p));
	*capacity = more;
	return 0;
}
