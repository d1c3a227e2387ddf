/* SPDX-License-Identifier: MIT */
/* A server reads its configuration again while it handles a request. Values are parsed in every request, too. */
#include <stdbool.h>
#include <string.h>

#include "planted.h"

#define SETTINGS 250

struct config {
	uint32_t generation;
	uint32_t values[64];
};

static struct config config;
static char file[SETTINGS * 24];

static apart uint32_t parse_value(const char **text)
{
	const char *p = *text;
	uint32_t value = 0;

	while (*p >= '0' && *p <= '9')
		value = value * 10 + (uint32_t)(*p++ - '0');
	*text = p;
	return value;
}

static apart uint32_t hash_key(const char *key, size_t len)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)key[i]) * 16777619u;
	return hash;
}

static apart void reload_config(uint32_t generation)
{
	const char *p = file;

	while (*p) {
		const char *equals = strchr(p, '=');
		uint32_t *value = &config.values[hash_key(p, (size_t)(equals - p)) % 64];

		p = equals + 1;
		*value = parse_value(&p);
		p++;
	}
	config.generation = generation;
}

static apart uint32_t handle_request(const char *request, uint32_t generation)
{
	uint32_t sum = 0;

	if (config.generation != generation)
		reload_config(generation);
	for (const char *p = request; *p;) {
		if (*p >= '0' && *p <= '9')
			sum += config.values[parse_value(&p) % 64];
		else
			p++;
	}
	return sum;
}

int main(void)
{
	uint32_t sum = 0;
	size_t at = 0;

	planted("handle_request", "reload_config");
	for (uint32_t i = 0; i < SETTINGS; i++)
		at += (size_t)snprintf(file + at, sizeof file - at, "setting.%u=%u\n", i * 7, i * 12345);
	config.generation = 1;
	for (uint32_t i = 0; i < 250; i++) {
		char request[80];
		int len = snprintf(request, sizeof request, "GET /%u?from=%u", i, i * 1000);

		if (i % 3 == 0)
			snprintf(request + len, sizeof request - (size_t)len, "&to=%u&page=%u", i * 2000, i % 10);
		sum += handle_request(request, i < 180 ? 1 : 2);
	}
	used(sum);
	return 0;
}
