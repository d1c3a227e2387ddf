/* SPDX-License-Identifier: MIT */
/* A collector protects a page of old objects: the first write to it is caught, and its cards are scanned. */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "planted.h"

#define PAGES 8

struct object {
	uint32_t type;
	uint32_t fields[15];
};

static struct object *heap;
static size_t page_size, objects;
static uint32_t remembered;

static apart void scan_card(const struct object *object)
{
	for (int i = 0; i < 15; i++)
		remembered += used(object->fields[i]) & 1;
}

static apart void on_write_fault(int signal, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)(page_size - 1);

	(void)signal;
	(void)context;
	if (mprotect((void *)page, page_size, PROT_READ | PROT_WRITE))
		_exit(1);
	for (size_t at = 0; at < page_size; at += sizeof *heap)
		scan_card((const struct object *)(page + at));
}

static apart void store_field(size_t object, uint32_t field, uint32_t value)
{
	heap[object].fields[field] = compute(value, 60);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_write_fault, .sa_flags = SA_SIGINFO };

	planted("store_field", "on_write_fault");
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	objects = PAGES * page_size / sizeof *heap;
	heap = mmap(NULL, PAGES * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (heap == MAP_FAILED || sigaction(SIGSEGV, &action, NULL))
		return 1;
	for (size_t i = 0; i < objects; i++)
		heap[i].type = 1;
	for (uint32_t i = 0; i < 400; i++) {
		if (i == 260 && mprotect((char *)heap + 5 * page_size, page_size, PROT_READ))
			return 1;
		store_field(i * 37 % objects, i % 15, i);
	}
	return 0;
}
