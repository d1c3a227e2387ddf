/* SPDX-License-Identifier: MIT */
/* Four threads do the same work, and one of them has to compact its list. */
#include <thread>
#include <vector>

#include "planted.h"

static apart uint32_t move_entry(uint32_t n)
{
	return compute(n, 200);
}

static apart uint32_t compact_list(uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < 30; i++)
		sum += move_entry(n + i);
	return sum;
}

static apart uint32_t add_entry(uint32_t n)
{
	return move_entry(n) + (n == 2033 ? compact_list(n) : 0);
}

int main()
{
	std::vector<std::thread> threads;

	planted("add_entry", "compact_list");
	for (uint32_t first = 0; first < 4000; first += 1000)
		threads.emplace_back([first] {
			for (uint32_t i = 0; i < 50; i++)
				used(add_entry(first + i));
		});
	for (auto &thread : threads)
		thread.join();
	return 0;
}
