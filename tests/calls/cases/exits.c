/* SPDX-License-Identifier: MIT */
/*
 * What LuaJIT does: an interpreter in assembler, one function for the unwinder, jumps to traces in memory of no file. A
 * trace leaves by a call of its stub, which calls the exit handler in the middle of the interpreter; neither returns.
 * Traces also call a short function of that assembler, and C functions; and C functions call back, through memory of no
 * file, into the middle of the interpreter.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "case.h"

enum { TRACE_SIZE = 256 };

extern const char trace_beside[], trace_own[], callback_stub[];
unsigned interpret(unsigned n, const void *trace);

apart unsigned inner(unsigned n)
{
	return used(n) + 1;
}

apart unsigned on_exit_of(unsigned number)
{
	return inner(number) * 3;
}

apart unsigned work(unsigned n)
{
	return used(n) + 2;
}

apart unsigned calls_back(unsigned n, unsigned (*f)(unsigned))
{
	return used(n) + f(n);
}

/* x19: rounds left; x20: the trace; x21: the sum; x22: the stack pointer, whose slot is for the stub. */
__asm__(".text\n"
	".type interpret, %function\n"
	".global interpret\n"
	"interpret:\n"
	".cfi_startproc\n"
	"	stp x29, x30, [sp, #-64]!\n"
	".cfi_def_cfa_offset 64\n"
	".cfi_offset 29, -64\n"
	".cfi_offset 30, -56\n"
	"	stp x19, x20, [sp, #16]\n"
	"	stp x21, x22, [sp, #32]\n"
	"	sub sp, sp, #16\n"
	".cfi_def_cfa_offset 80\n"
	"	mov x19, x0\n"
	"	mov x20, x1\n"
	"	mov x21, #0\n"
	"	mov x22, sp\n"
	".Lround:\n"
	"	cbz x19, .Lend\n"
	"	sub x19, x19, #1\n"
	"	mov x0, x19\n"
	"	bl work\n"
	"	add x21, x21, x0\n"
	"	br x20\n"
	".Lend:\n"
	"	mov x0, x21\n"
	"	add sp, sp, #16\n"
	"	ldp x21, x22, [sp, #32]\n"
	"	ldp x19, x20, [sp, #16]\n"
	"	ldp x29, x30, [sp], #64\n"
	"	ret\n"
	/* The number of the exit follows from both return addresses. */
	".Lhandler:\n"
	"	ldr x0, [sp]\n"
	"	sub sp, sp, #256\n"
	"	sub x0, x0, x30\n"
	"	bl on_exit_of\n"
	"	add x21, x21, x0\n"
	"	mov sp, x22\n"
	"	tbz x0, #1, .Lround\n"
	"	adr x1, .Lround\n"
	"	br x1\n"
	".Lhelper:\n"
	"	add x21, x21, #5\n"
	"	ret\n"
	".Lcallback:\n"
	"	stp x29, x30, [sp, #-16]!\n"
	"	bl work\n"
	"	ldp x29, x30, [sp], #16\n"
	"	ret\n"
	".cfi_endproc\n"
	".size interpret, . - interpret\n"
	/* Is copied. A trace uses the interpreter's frame, or takes some stack of its own. */
	".macro trace own\n"
	"	.if \\own\n"
	"	sub sp, sp, #\\own\n"
	"	.endif\n"
	"	ldr x1, 4f\n"
	"	blr x1\n"
	"	mov x0, x19\n"
	"	ldr x1, 5f\n"
	"	blr x1\n"
	"	add x21, x21, x0\n"
	"	ldr x9, 3f\n"
	"	ands x0, x19, #3\n"
	"	b.eq 7f\n"
	"	cmp x0, #1\n"
	"	b.eq 8f\n"
	"	.if \\own\n"
	"	add sp, sp, #\\own\n"
	"	.endif\n"
	"	ldr x1, 6f\n"
	"	br x1\n"
	"2:	str x30, [sp]\n"
	"	blr x9\n"
	"	.word 1\n"
	"7:	bl 2b\n"
	"8:	bl 2b\n"
	"	.balign 8\n"
	"3:	.quad .Lhandler\n"
	"4:	.quad .Lhelper\n"
	"5:	.quad work\n"
	"6:	.quad .Lround\n"
	".endm\n"
	".section .rodata\n"
	".balign 8\n"
	".global trace_beside, trace_own, callback_stub\n"
	"trace_beside:	trace 0\n"
	"trace_own:	trace 64\n"
	"callback_stub:\n"
	"	ldr x16, 3f\n"
	"	br x16\n"
	"3:	.quad .Lcallback\n"
	"	.zero 256\n"
	".text\n");

int main(void)
{
	char *to = mmap(NULL, 3 * TRACE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned sum = 0;

	memcpy(to, trace_beside, TRACE_SIZE);
	memcpy(to + TRACE_SIZE, trace_own, TRACE_SIZE);
	memcpy(to + 2 * TRACE_SIZE, callback_stub, 16);
	mprotect(to, 3 * TRACE_SIZE, PROT_READ | PROT_EXEC);
	__builtin___clear_cache(to, to + 3 * TRACE_SIZE);
	for (unsigned i = 0; i < 20; i++) {
		sum += interpret(i, to) + interpret(i, to + TRACE_SIZE);
		sum += calls_back(i, (unsigned (*)(unsigned))(uintptr_t)(to + 2 * TRACE_SIZE));
	}
	return done(sum);
}
