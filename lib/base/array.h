/* Lists that grow one by one. */
#ifndef CSIGHT_ARRAY_H
#define CSIGHT_ARRAY_H

#include <stddef.h>

/*
 * There is room for one more in a list of n, of which *room fit: it doubles. -ENOMEM, and the list is as it was. Where
 * there is room already no call is made, for the paths that are hot; n and room are looked at twice.
 */
#define array_reserve(list, n, room) ((n) < *(room) ? 0 : array_grow(&(list), room, sizeof(*(list))))
int array_grow(void *list, size_t *room, size_t size);

#endif
