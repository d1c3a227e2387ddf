/* SPDX-License-Identifier: MIT */
/* A program forks to save its state; the counters that it writes next are copied, page by page. */
/* known failure: page faults take no time on the virtual clock, and have no timestamps on the wall clock */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "planted.h"

#define PAGES 400
#define PAGE 4096

static uint8_t *state;

static apart void update_counters(uint32_t tick)
{
	for (uint32_t i = 0; i < PAGES; i++)
		((volatile uint8_t *)state)[i * PAGE + tick % PAGE]++;
}

static apart uint32_t sample(uint32_t tick)
{
	return compute(tick, 40);
}

static apart void on_tick(uint32_t tick)
{
	uint32_t sampled = sample(tick);

	update_counters(sampled);
}

int main(void)
{
	int ends[2];
	pid_t child = -1;

	planted("on_tick", "update_counters");
	state = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (state == MAP_FAILED || pipe(ends))
		return 1;
	for (uint32_t i = 0; i < PAGES * PAGE; i += PAGE)
		state[i] = 1;
	for (uint32_t tick = 0; tick < 80; tick++) {
		if (tick == 50 && (child = fork()) == 0) {
			char end;

			close(ends[1]);
			_exit(read(ends[0], &end, 1) != 0);
		}
		on_tick(tick);
	}
	close(ends[1]);
	return waitpid(child, NULL, 0) != child;
}
