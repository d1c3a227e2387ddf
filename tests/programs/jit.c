/* SPDX-License-Identifier: MIT */
/*
 * Two threads that generate code at run time. The second argument is the method:
 *   open      (default) code is replaced at the same address, in memory that is writable and executable
 *   closed    code is replaced at the same address, in memory that is either writable or executable
 *   appended  as closed, but each piece of code has another address
 *   jitdump   as open, and the program writes a jitdump
 *   memfd     as appended, in shared memory that has a descriptor
 * With a third argument it also writes a perf map, and at its end waits for the end of its standard input.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

typedef uint64_t (*code)(uint64_t);

enum { ADD_X0_1 = 0x91000400, ADD_X0_2 = 0x91000800, EOR_X0_1 = 0xd2400000, LSL_X0_1 = 0xd37ff800, RET = 0xd65f03c0 };
enum { PAGE = 4096, PLACE = 256, ROUNDS_MAX = 4096 };
enum how { OPEN, CLOSED, APPENDED, JITDUMP, MEMFD };

static enum how how;
static int dump = -1, named;

/* The header of a jitdump, and the record of one function. */
struct dump_header {
	uint32_t magic, version, size, machine, reserved, pid;
	uint64_t time, flags;
};

struct dump_load {
	uint32_t type, size;
	uint64_t time;
	uint32_t pid, tid;
	uint64_t vma, addr, code_size, index;
	char name[8];
	uint32_t code[4];
};

static uint64_t monotonic(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void check(int good)
{
	if (!good) {
		perror("jit");
		exit(1);
	}
}

static void begin_dump(void)
{
	struct dump_header h = { 0x4a695444, 1, sizeof(h), 183, 0, (uint32_t)getpid(), monotonic(), 0 };
	char name[64];

	snprintf(name, sizeof(name), "/tmp/jit-%d.dump", (int)getpid());
	dump = open(name, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	check(dump >= 0 && write(dump, &h, sizeof(h)) == sizeof(h));
	/* A profiler finds the file by this mapping. */
	check(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0) != MAP_FAILED);
	unlink(name);
}

static void write_record(const uint32_t *at, unsigned variant)
{
	struct dump_load r = { 0,       sizeof(r),     monotonic(),   (uint32_t)getpid(),
			       0,       (uintptr_t)at, (uintptr_t)at, sizeof(r.code),
			       variant, "piece  ",     { 0 } };

	memcpy(r.code, at, sizeof(r.code));
	check(write(dump, &r, sizeof(r)) == sizeof(r));
}

static code write_code(uint32_t *at, unsigned variant)
{
	static const uint32_t bodies[][4] = {
		{ ADD_X0_1, ADD_X0_2, ADD_X0_1, RET },
		{ EOR_X0_1, ADD_X0_2, RET, RET },
		{ LSL_X0_1, RET, RET, RET },
		/*
		 * A loop: mov x1, 5; 1: add x0, x0, 1; subs x1, x1, 1; b.ne 1b; ret does not fit: cbz forward instead.
		 */
		{ ADD_X0_1, 0xb4000040 /* cbz x0, +8 */, ADD_X0_1, RET },
	};
	void *page = (void *)((uintptr_t)at & ~(uintptr_t)(PAGE - 1));

	if (how != OPEN && how != JITDUMP)
		check(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
	memcpy(at, bodies[variant % 4], sizeof(bodies[0]));
	__builtin___clear_cache((char *)at, (char *)(at + 4));
	if (how != OPEN && how != JITDUMP)
		check(mprotect(page, PAGE, PROT_READ | PROT_EXEC) == 0);
	if (how == JITDUMP)
		write_record(at, variant);
	return (code)(void *)at;
}

/* The last entry for an address is valid. */
static void name_code(const uint8_t *memory)
{
	char name[64];
	FILE *f;

	snprintf(name, sizeof(name), "/tmp/perf-%d.map", (int)getpid());
	f = fopen(name, "a");
	check(f != NULL);
	for (unsigned i = 0; i < 2; i++) {
		fprintf(f, "%llx %x before_%u\n", (unsigned long long)(uintptr_t)(memory + i * PLACE), 2 * PLACE, i);
		fprintf(f, "%llx %x piece number %u\n", (unsigned long long)(uintptr_t)(memory + i * PLACE), PLACE, i);
	}
	fclose(f);
}

static void *generate(void *arg)
{
	unsigned long rounds = (unsigned long)(uintptr_t)arg;
	int fd = how == MEMFD ? memfd_create("generated", MFD_CLOEXEC) : -1, spread = how == APPENDED || how == MEMFD;
	size_t size = spread ? (rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX) * PAGE : PAGE;
	int prot = PROT_READ | PROT_WRITE | (how == OPEN || how == JITDUMP ? PROT_EXEC : 0);
	uint8_t *memory;
	uint64_t v = 1;

	check(fd < 0 || ftruncate(fd, (off_t)size) == 0);
	memory = mmap(NULL, size, prot, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	check(memory != MAP_FAILED);
	if (named)
		name_code(memory);
	for (unsigned i = 0; i < rounds; i++) {
		uint8_t *place = memory + (spread ? (size_t)i * PAGE % size : i / 8 % 2 * PLACE);
		code f = write_code((uint32_t *)(void *)place, i);

		for (int k = 0; k < 30; k++)
			v = f(v);
	}
	if (!spread && !named)
		munmap(memory, size);
	return (void *)(uintptr_t)v;
}

int main(int argc, char **argv)
{
	static const char *const words[] = { "open", "closed", "appended", "jitdump", "memfd" };
	unsigned long rounds = size_of(argc, argv, 60);
	pthread_t other;
	void *v, *w;

	for (unsigned i = 0; i < 5; i++)
		if (argc > 2 && strcmp(argv[2], words[i]) == 0)
			how = i;
	named = argc > 3;
	if (how == JITDUMP)
		begin_dump();
	pthread_create(&other, NULL, generate, (void *)(uintptr_t)rounds);
	v = generate((void *)(uintptr_t)rounds);
	pthread_join(other, &w);
	if (named)
		while (getchar() != EOF)
			continue;
	return result((uintptr_t)v + (uintptr_t)w);
}
