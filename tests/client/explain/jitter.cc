/* SPDX-License-Identifier: MIT */
/* Requests differ in length and in what they look up, as requests do. None is slow. */
#include <map>
#include <string>

#include "planted.h"

static std::map<std::string, uint32_t> users;

static apart uint32_t find_user(const std::string &name)
{
	auto found = users.find(name);

	return found == users.end() ? 0 : found->second;
}

static apart uint32_t checksum(uint32_t seed, uint32_t len)
{
	return compute(seed, 300 + len);
}

static apart uint32_t serve(const std::string &name, uint32_t len)
{
	return checksum(find_user(name), len) ^ find_user("guest");
}

int main()
{
	uint32_t random = 3, sum = 0;

	planted("serve", "none");
	for (uint32_t i = 0; i < 40; i++)
		users["user" + std::to_string(i)] = i;
	for (uint32_t i = 0; i < 300; i++) {
		random = random * 1664525 + 1013904223;
		sum += serve("user" + std::to_string((random >> 16) % 50), (random >> 24) % 128);
	}
	return used(sum) == 1;
}
