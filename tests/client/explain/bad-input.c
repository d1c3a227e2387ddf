/* SPDX-License-Identifier: MIT */
/* A compressor follows the chains of earlier occurrences, which are long in one block. */
#include <string.h>

#include "planted.h"

#define BLOCK 400
#define HASHES 1024

static uint8_t block[BLOCK];
static int16_t head[HASHES], previous[BLOCK];

static apart uint32_t longest_match(uint32_t at)
{
	uint32_t best = 0, tries = 200;

	for (int16_t from = previous[at]; from >= 0 && tries--; from = previous[from]) {
		uint32_t len = 0;

		while (at + len < BLOCK && block[at + len] == block[(uint32_t)from + len])
			len++;
		if (len > best)
			best = len;
	}
	return best;
}

static apart void insert_hash(uint32_t at)
{
	uint32_t hash = (block[at] * 961u + block[at + 1] * 31u + block[at + 2]) % HASHES;

	previous[at] = head[hash];
	head[hash] = (int16_t)at;
}

static apart uint32_t compress_block(void)
{
	uint32_t tokens = 0;

	memset(head, -1, sizeof head);
	for (uint32_t at = 0; at + 3 < BLOCK; at++) {
		insert_hash(at);
		tokens += longest_match(at) < 3;
	}
	return tokens;
}

int main(void)
{
	uint32_t random = 1, sum = 0;

	planted("compress_block", "longest_match");
	for (uint32_t i = 0; i < 60; i++) {
		for (uint32_t j = 0; j < BLOCK; j++) {
			random = random * 1664525 + 1013904223;
			block[j] = i == 33 ? "ab"[random >> 31] : (uint8_t)('!' + (random >> 16) % 90);
		}
		sum += compress_block();
	}
	used(sum);
	return 0;
}
