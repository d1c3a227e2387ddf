/* SPDX-License-Identifier: MIT */
/* Code in memory without a file, like the vdso and generated code: called, calling back, jumping on. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "case.h"

apart unsigned callee(unsigned n)
{
	return used(n) + 4;
}

int main(void)
{
	/* stp x29, x30, [sp, #-16]!; blr x1; add w0, w0, #1; ldp x29, x30, [sp], #16; ret. After it: br x1 */
	static const uint32_t code[] = { 0xa9bf7bfd, 0xd63f0020, 0x11000400, 0xa8c17bfd, 0xd65f03c0, 0xd61f0020 };
	unsigned (*calls)(unsigned, unsigned (*)(unsigned)), (*jumps)(unsigned, unsigned (*)(unsigned));
	uint32_t *to = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned sum = 0;

	memcpy(to, code, sizeof(code));
	mprotect(to, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache((char *)to, (char *)to + sizeof(code));
	calls = (unsigned (*)(unsigned, unsigned (*)(unsigned)))to;
	jumps = (unsigned (*)(unsigned, unsigned (*)(unsigned)))(to + 5);
	for (unsigned i = 0; i < 4; i++)
		sum += calls(i, callee) + jumps(i, callee);
	return done(sum);
}
