/* SPDX-License-Identifier: MIT */
/*
 * Counts the memory that csightd has allocated and not freed. Preloaded into it, this reveals leaks that the
 * allocator's free space would hide. The file named by CSIGHT_HEAP holds the numbers of bytes and of allocations.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

struct counts {
	_Atomic int64_t bytes, pieces;
};

static struct counts own, *counts = &own;

static void *count(void *p)
{
	if (p) {
		atomic_fetch_add(&counts->bytes, (int64_t)malloc_usable_size(p));
		atomic_fetch_add(&counts->pieces, 1);
	}
	return p;
}

static void discount(void *p)
{
	if (p) {
		atomic_fetch_sub(&counts->bytes, (int64_t)malloc_usable_size(p));
		atomic_fetch_sub(&counts->pieces, 1);
	}
}

void *malloc(size_t size)
{
	return count(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return count(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
	void *moved;

	discount(p);
	moved = __libc_realloc(p, size);
	/* realloc() failed: the old allocation remains. */
	if (!moved && size)
		count(p);
	return count(moved);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	size_t all;

	if (!__builtin_mul_overflow(n, size, &all))
		return realloc(p, all);
	errno = ENOMEM;
	return NULL;
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
	void *p = count(__libc_memalign(alignment, size));

	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return count(__libc_memalign(alignment, size));
}

void free(void *p)
{
	discount(p);
	__libc_free(p);
}

/* Allocations of a child process are not counted. */
static void forked(void)
{
	counts = &own;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("CSIGHT_HEAP");
	int fd = path && strcmp(program_invocation_short_name, "csightd") == 0
		     ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
		     : -1;
	struct counts *shared;

	if (fd < 0)
		return;
	shared = ftruncate(fd, sizeof(*shared)) < 0
		     ? MAP_FAILED
		     : mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (shared == MAP_FAILED)
		return;
	counts = shared;
	pthread_atfork(NULL, NULL, forked);
}
