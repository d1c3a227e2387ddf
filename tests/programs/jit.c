/* Code made at run time: written, run, written over with other code at the same place, run again; and from two threads. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "program.h"

typedef uint64_t (*code)(uint64_t);

enum { ADD_X0_1 = 0x91000400, ADD_X0_2 = 0x91000800, EOR_X0_1 = 0xd2400000, LSL_X0_1 = 0xd37ff800, RET = 0xd65f03c0 };

static code write_code(uint32_t *at, unsigned variant)
{
	static const uint32_t bodies[][4] = {
		{ ADD_X0_1, ADD_X0_2, ADD_X0_1, RET },
		{ EOR_X0_1, ADD_X0_2, RET, RET },
		{ LSL_X0_1, RET, RET, RET },
		/* A loop: mov x1, 5; 1: add x0, x0, 1; subs x1, x1, 1; b.ne 1b; ret does not fit: cbz forward instead. */
		{ ADD_X0_1, 0xb4000040 /* cbz x0, +8 */, ADD_X0_1, RET },
	};

	memcpy(at, bodies[variant % 4], sizeof(bodies[0]));
	__builtin___clear_cache((char *)at, (char *)(at + 4));
	return (code)(void *)at;
}

static void *generate(void *arg)
{
	unsigned long rounds = (unsigned long)(uintptr_t)arg;
	uint32_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t v = 1;

	for (unsigned i = 0; i < rounds; i++) {
		code f = write_code(page + (i / 8 % 2) * 64, i);

		for (int k = 0; k < 30; k++)
			v = f(v);
	}
	munmap(page, 4096);
	return (void *)(uintptr_t)v;
}

int main(int argc, char **argv)
{
	unsigned long rounds = size_of(argc, argv, 60);
	pthread_t other;
	void *v, *w;

	pthread_create(&other, NULL, generate, (void *)(uintptr_t)rounds);
	v = generate((void *)(uintptr_t)rounds);
	pthread_join(other, &w);
	return result((uintptr_t)v + (uintptr_t)w);
}
