/*
 * Tables that are filled here and there: zeroed memory in huge pages, where the kernel has them, so that its first use
 * costs one page fault and not hundreds.
 */
#ifndef CSIGHT_HUGE_H
#define CSIGHT_HUGE_H

#include <stddef.h>

enum { HUGE_SIZE = 2 << 20 };

/* size: of HUGE_SIZE any number of times. NULL: there is no memory. */
void *huge_map(size_t size);
void *huge_unmap(void *p, size_t size);

#endif
