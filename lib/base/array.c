#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"

enum { ROOM_FIRST = 64 };

int array_grow(void *list, size_t *room, size_t size)
{
	size_t more = *room ? *room * 2 : ROOM_FIRST;
	void *p;

	/* It is a pointer to items of any type, which is none to void. */
	memcpy(&p, list, sizeof(p));
	p = reallocarray(p, more, size);
	if (!p)
		return -ENOMEM;
	memcpy(list, &p, sizeof(p));
	*room = more;
	return 0;
}
