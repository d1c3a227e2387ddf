/* SPDX-License-Identifier: MIT */
#include "lib/base/huge.h"

#include <stdint.h>
#include <sys/mman.h>

void *huge_map(size_t size)
{
	size_t more = size + HUGE_SIZE;
	uint8_t *whole = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *p;

	if (whole == MAP_FAILED)
		return NULL;
	/* A huge page is aligned to its size: unmap the parts before the first and after the last. */
	p = (uint8_t *)(((uintptr_t)whole + HUGE_SIZE - 1) & ~(uintptr_t)(HUGE_SIZE - 1));
	if (p != whole)
		munmap(whole, (size_t)(p - whole));
	if (p + size != whole + more)
		munmap(p + size, (size_t)(whole + more - p) - size);
	madvise(p, size, MADV_HUGEPAGE);
	return p;
}

void *huge_unmap(void *p, size_t size)
{
	if (p)
		munmap(p, size);
	return NULL;
}
