/* Lists that grow one by one. */
#ifndef CSIGHT_ARRAY_H
#define CSIGHT_ARRAY_H

#include <stddef.h>

/* There is room for one more in a list of n, of which *room fit: it doubles. -ENOMEM, and the list is as it was. */
#define array_room(list, n, room) array_grow(&(list), n, room, sizeof(*(list)))
int array_grow(void *list, size_t n, size_t *room, size_t size);

#endif
