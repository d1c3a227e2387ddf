/* SPDX-License-Identifier: MIT */
/* Stacks besides the thread's own: swapcontext; a switch written by hand; recursive generators; a fibre that ends. */
#include <setjmp.h>
#include <stdint.h>
#include <ucontext.h>

#include "case.h"

enum { STACK = 1 << 18, FIBRES = 3 };

static char stacks[8][STACK] __attribute__((aligned(16)));
static ucontext_t contexts[FIBRES], back;
static unsigned sum, current;

apart void yield(void)
{
	swapcontext(&contexts[current], &back);
	used(sum);
}

apart void walk(unsigned n)
{
	if (n == 0)
		return;
	walk(n - 1);
	sum += used(n);
	yield();
	walk(n - 1);
}

static void walker(void)
{
	walk(3 + current % 2);
}

static void counter(void)
{
	for (unsigned i = 0; i < 4; i++) {
		sum += i;
		yield();
	}
}

static jmp_buf within;

apart void jumps_out(unsigned n)
{
	yield();
	if (used(n) == 0)
		longjmp(within, 1);
	if (n)
		jumps_out(n - 1);
	used(n);
}

static void jumper(void)
{
	for (volatile unsigned i = 0; i < 3; i++)
		if (setjmp(within) == 0)
			jumps_out(i);
}

apart void with_contexts(void)
{
	static void (*const bodies[FIBRES])(void) = { walker, counter, jumper };
	static volatile unsigned ended;

	for (unsigned i = 0; i < FIBRES; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stacks[i];
		contexts[i].uc_stack.ss_size = STACK;
		contexts[i].uc_link = &back;
		makecontext(&contexts[i], bodies[i], 0);
	}
	for (unsigned round = 0; round < 24; round++) {
		current = round % FIBRES;
		if (round / FIBRES >= (current == 0 ? 8u : current == 1 ? 5u : 7u)) {
			ended++;
			continue;
		}
		swapcontext(&back, &contexts[current]);
	}
	sum += ended;
}

/* Saves the callee-saved registers on the current stack, and restores them from the next one. */
void switch_stack(void **save, void *to);
__asm__(".text\n.align 2\n.global switch_stack\n.type switch_stack, %function\nswitch_stack:\n"
	"	stp x29, x30, [sp, #-96]!\n	stp x19, x20, [sp, #16]\n	stp x21, x22, [sp, #32]\n"
	"	stp x23, x24, [sp, #48]\n	stp x25, x26, [sp, #64]\n	stp x27, x28, [sp, #80]\n"
	"	mov x9, sp\n	str x9, [x0]\n	mov sp, x1\n"
	"	ldp x19, x20, [sp, #16]\n	ldp x21, x22, [sp, #32]\n	ldp x23, x24, [sp, #48]\n"
	"	ldp x25, x26, [sp, #64]\n	ldp x27, x28, [sp, #80]\n	ldp x29, x30, [sp], #96\n	ret\n"
	".size switch_stack, .-switch_stack\n");

static void *saved[3];

apart void pass(unsigned from, unsigned to)
{
	switch_stack(&saved[from], saved[to]);
	used(from);
}

apart void ping(unsigned n)
{
	sum += n;
	pass(1, 2);
	if (n)
		ping(n - 1);
	used(n);
}

static void ping_body(void)
{
	ping(4);
	pass(1, 0);
}

static void pong_body(void)
{
	for (;;) {
		sum += used(2);
		pass(2, 1);
	}
}

static void prepare(unsigned i, void (*body)(void))
{
	uint64_t *top = (uint64_t *)(stacks[4 + i] + STACK) - 14;

	top[1] = (uint64_t)body;
	top[0] = 0;
	saved[i] = top;
}

int main(void)
{
	with_contexts();
	prepare(1, ping_body);
	prepare(2, pong_body);
	pass(0, 1);
	return done(sum);
}
