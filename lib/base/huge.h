/* SPDX-License-Identifier: MIT */
/*
 * Zeroed memory for sparsely filled tables, in huge pages where the kernel provides them, so that the first use of a
 * region costs one page fault instead of hundreds.
 */
#ifndef CSIGHT_HUGE_H
#define CSIGHT_HUGE_H

#include <stddef.h>

enum { HUGE_SIZE = 2 << 20 };

/* size is a multiple of HUGE_SIZE. Returns NULL if there is no memory. */
void *huge_map(size_t size);
/* Returns NULL. */
void *huge_unmap(void *p, size_t size);

#endif
