// SPDX-License-Identifier: MIT
/* Stacks that a program switches between, and one that is deeper than csight follows: a call in pieces is one call. */
#include <ucontext.h>

#include "count.h"

COUNTED(down)
COUNTED(task)
COUNTED(loop)
COUNTED(step)

enum { SWITCHES = 10, DEEP = 70000 };

static ucontext_t outside, inside[2];
static char stacks[2][64 << 10];
static int current;

APART void step(void)
{
	COUNT(step);
	swapcontext(&inside[current], &outside);
}

APART void loop(int n)
{
	COUNT(loop);
	for (int i = 0; i < n; i++)
		step();
}

/* Its own frame is the outermost of its stack. */
APART void task(void)
{
	COUNT(task);
	for (int i = 0; i < SWITCHES; i++)
		step();
	loop(SWITCHES);
	for (;;)
		step();
}

APART unsigned down(unsigned n)
{
	COUNT(down);
	if (n)
		sink = down(n - 1);
	return sink + n;
}

int main(void)
{
	for (int i = 0; i < 2; i++) {
		getcontext(&inside[i]);
		inside[i].uc_stack.ss_sp = stacks[i];
		inside[i].uc_stack.ss_size = sizeof(stacks[i]);
		makecontext(&inside[i], task, 0);
	}
	for (int i = 0; i < 4 * SWITCHES; i++) {
		current = i & 1;
		swapcontext(&outside, &inside[current]);
	}
	sink = down(DEEP);
	SHOW(down);
	SHOW(task);
	SHOW(loop);
	SHOW(step);
	return 0;
}
