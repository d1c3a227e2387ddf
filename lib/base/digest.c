/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <string.h>

#include "lib/base/digest.h"
#include "lib/base/hex.h"

enum { ROUNDS = 12 };

static const uint64_t initial[8] = {
	0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
	0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

/* RFC 7693, 2.7: "Message Schedule SIGMA"; rounds 10 and 11 repeat 0 and 1. */
static const uint8_t schedule[10][16] = {
	{ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
	{ 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3 },
	{ 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4 },
	{ 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8 },
	{ 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13 },
	{ 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9 },
	{ 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11 },
	{ 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10 },
	{ 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5 },
	{ 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0 },
};

static inline uint64_t rotate(uint64_t v, unsigned bits)
{
	return v >> bits | v << (64 - bits);
}

/* Applies the function G of RFC 7693, 3.1, to a column or diagonal. */
static inline void mix(uint64_t v[16], const uint8_t at[4], uint64_t x, uint64_t y)
{
	uint64_t a = v[at[0]], b = v[at[1]], c = v[at[2]], d = v[at[3]];

	a += b + x;
	d = rotate(d ^ a, 32);
	c += d;
	b = rotate(b ^ c, 24);
	a += b + y;
	d = rotate(d ^ a, 16);
	c += d;
	b = rotate(b ^ c, 63);
	v[at[0]] = a;
	v[at[1]] = b;
	v[at[2]] = c;
	v[at[3]] = d;
}

static void compress(struct digest *d, const uint8_t *block, bool last)
{
	static const uint8_t lanes[8][4] = { { 0, 4, 8, 12 },  { 1, 5, 9, 13 },  { 2, 6, 10, 14 }, { 3, 7, 11, 15 },
					     { 0, 5, 10, 15 }, { 1, 6, 11, 12 }, { 2, 7, 8, 13 },  { 3, 4, 9, 14 } };
	uint64_t v[16], words[16];

	memcpy(words, block, sizeof(words));
	for (size_t i = 0; i < ELEMENTS(words); i++)
		words[i] = le64toh(words[i]);
	memcpy(v, d->state, sizeof(d->state));
	memcpy(v + 8, initial, sizeof(initial));
	v[12] ^= d->bytes;
	v[14] ^= last ? UINT64_MAX : 0;
	for (size_t round = 0; round < ROUNDS; round++) {
		const uint8_t *order = schedule[round % 10];

#pragma GCC unroll 8
		for (size_t i = 0; i < 8; i++)
			mix(v, lanes[i], words[order[2 * i]], words[order[2 * i + 1]]);
	}
	for (size_t i = 0; i < 8; i++)
		d->state[i] ^= v[i] ^ v[i + 8];
}

void digest_begin(struct digest *d)
{
	*d = (struct digest){ 0 };
	memcpy(d->state, initial, sizeof(initial));
	/* The parameter block: depth 1, fanout 1, no key, the size of the result. */
	d->state[0] ^= 0x01010000 ^ DIGEST_SIZE;
}

void digest_add(struct digest *d, const void *data, size_t size)
{
	const uint8_t *from = data;

	/* The last block stays, since it is compressed differently: no more bytes may follow it. */
	while (size) {
		size_t n = MIN(size, DIGEST_BLOCK - d->filled);

		if (d->filled == DIGEST_BLOCK) {
			d->bytes += DIGEST_BLOCK;
			compress(d, d->block, false);
			d->filled = 0;
			continue;
		}
		memcpy(d->block + d->filled, from, n);
		d->filled += n;
		from += n;
		size -= n;
	}
}

void digest_add_text(struct digest *d, const char *text)
{
	digest_add(d, text, strlen(text) + 1);
}

void digest_end(struct digest *d, char ret[DIGEST_TEXT])
{
	uint8_t bytes[DIGEST_SIZE];

	memset(d->block + d->filled, 0, DIGEST_BLOCK - d->filled);
	d->bytes += d->filled;
	compress(d, d->block, true);
	for (size_t i = 0; i < DIGEST_SIZE / 8; i++) {
		uint64_t word = htole64(d->state[i]);

		memcpy(bytes + 8 * i, &word, sizeof(word));
	}
	hex_encode(bytes, sizeof(bytes), ret);
}
