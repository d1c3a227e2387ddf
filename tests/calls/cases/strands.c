/* SPDX-License-Identifier: MIT */
/* Stacks that threads pass to each other: each thread comes to stacks that another one has left. */
#include <pthread.h>
#include <stdint.h>

#include "case.h"

enum { STACK = 1 << 16, STRANDS = 4, ROUNDS = 24 };

/* Saves the callee-saved registers on the current stack, and restores them from the next one. */
void switch_stack(void **save, void *to);
__asm__(".text\n.align 2\n.global switch_stack\n.type switch_stack, %function\nswitch_stack:\n"
	"	stp x29, x30, [sp, #-96]!\n	stp x19, x20, [sp, #16]\n	stp x21, x22, [sp, #32]\n"
	"	stp x23, x24, [sp, #48]\n	stp x25, x26, [sp, #64]\n	stp x27, x28, [sp, #80]\n"
	"	mov x9, sp\n	str x9, [x0]\n	mov sp, x1\n"
	"	ldp x19, x20, [sp, #16]\n	ldp x21, x22, [sp, #32]\n	ldp x23, x24, [sp, #48]\n"
	"	ldp x25, x26, [sp, #64]\n	ldp x27, x28, [sp, #80]\n	ldp x29, x30, [sp], #96\n	ret\n"
	".size switch_stack, .-switch_stack\n");

static char stacks[STRANDS][STACK] __attribute__((aligned(16)));
static void *strands[STRANDS], *schedulers[STRANDS]; /* stack pointers; of the thread that runs a strand */
static unsigned sum, turn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;

apart void park(unsigned strand)
{
	switch_stack(&strands[strand], schedulers[strand]);
	used(strand);
}

/* A strand parks in a function of its own, which shows which strand it is. */
#define STRAND(name, number)           \
	apart void name##_step(void)   \
	{                              \
		sum += used(number);   \
		park(number);          \
		sum += used(number);   \
	}                              \
	static void name(void)         \
	{                              \
		for (;;)               \
			name##_step(); \
	}
STRAND(first, 0)
STRAND(second, 1)
STRAND(third, 2)
STRAND(fourth, 3)

apart void resume(unsigned strand)
{
	switch_stack(&schedulers[strand], strands[strand]);
	used(strand);
}

/* Of each round a thread runs every third strand, so that strands and threads meet in all ways. */
static void *schedule(void *number)
{
	unsigned me = (unsigned)(uintptr_t)number;

	for (unsigned round = 0; round < ROUNDS; round++) {
		pthread_mutex_lock(&lock);
		while (turn % 2 != me)
			pthread_cond_wait(&turned, &lock);
		for (unsigned i = 0; i < STRANDS; i++)
			if ((round + turn / 2 + i) % 3 == me)
				resume(i);
		turn++;
		pthread_cond_signal(&turned);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(void)
{
	static void (*const bodies[STRANDS])(void) = { first, second, third, fourth };
	pthread_t other;

	for (unsigned i = 0; i < STRANDS; i++) {
		uint64_t *top = (uint64_t *)(stacks[i] + STACK) - 14;

		top[1] = (uint64_t)bodies[i];
		top[0] = 0;
		strands[i] = top;
	}
	if (pthread_create(&other, NULL, schedule, (void *)1))
		return 1;
	schedule((void *)0);
	pthread_join(other, NULL);
	return done(sum);
}
