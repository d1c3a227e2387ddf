/* SPDX-License-Identifier: MIT */
/* Arrays that grow by one item at a time. */
#ifndef CSIGHT_ARRAY_H
#define CSIGHT_ARRAY_H

#include <stddef.h>

/*
 * Ensures that a list of n items, allocated for *capacity items, has space for one more, by doubling its capacity.
 * Returns 0, or -ENOMEM with the list unchanged. Makes no call if there is space, for hot paths. Evaluates capacity
 * twice.
 */
#define array_reserve(list, n, capacity) ((n) < *(capacity) ? 0 : array_grow(&(list), capacity, sizeof(*(list))))
int array_grow(void *list, size_t *capacity, size_t size);

#endif
