/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

#include "lib/base/hash.h"
#include "lib/base/util.h"

enum { CAPACITY_FIRST = 64 };

/* Secret of the process: keys come from users, who must not know which of them share a place. */
static uint64_t seed[2];

__attribute__((constructor)) static void draw_seed(void)
{
	if (getrandom(seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		memcpy(seed, (const void *)getauxval(AT_RANDOM), sizeof(seed));
	seed[1] |= 1;
}

/* Both halves of the product: each bit of the result depends on all bits of both factors. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;
	uint64_t h = (uint64_t)(product >> 64) ^ (uint64_t)product;

	return h ^ h >> 32;
}

static struct hash_entry *find_entry(struct hash_entry *entries, size_t capacity, uint64_t key, uint64_t more)
{
	size_t i = (size_t)mix(key ^ seed[0], more ^ seed[1]) & (capacity - 1);

	while (entries[i].used && (entries[i].key[0] != key || entries[i].key[1] != more))
		i = (i + 1) & (capacity - 1);
	return &entries[i];
}

static int hash_grow(struct hash *h)
{
	size_t capacity = h->capacity ? 2 * h->capacity : CAPACITY_FIRST;
	struct hash_entry *entries = calloc(capacity, sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < h->capacity; i++) {
		const struct hash_entry *e = &h->entries[i];

		if (e->used)
			*find_entry(entries, capacity, e->key[0], e->key[1]) = *e;
	}
	free(h->entries);
	h->entries = entries;
	h->capacity = capacity;
	return 0;
}

uint32_t *hash_get(const struct hash *h, uint64_t key, uint64_t more)
{
	struct hash_entry *e = h->n ? find_entry(h->entries, h->capacity, key, more) : NULL;

	return e && e->used ? &e->value : NULL;
}

int hash_find(struct hash *h, uint64_t key, uint64_t more, uint32_t **ret)
{
	struct hash_entry *e;

	if (2 * h->n >= h->capacity && hash_grow(h) < 0)
		return -ENOMEM;
	e = find_entry(h->entries, h->capacity, key, more);
	*ret = &e->value;
	if (e->used)
		return 0;
	*e = (struct hash_entry){ .key = { key, more }, .used = true };
	h->n++;
	return 1;
}

void hash_clear(struct hash *h)
{
	if (h->n)
		memset(h->entries, 0, h->capacity * sizeof(*h->entries));
	h->n = 0;
}

void hash_done(struct hash *h)
{
	free(h->entries);
	*h = (struct hash){ 0 };
}

uint64_t hash_bytes(const void *data, size_t size)
{
	const uint8_t *p = data;
	uint64_t h = seed[0] ^ size, word;

	for (; size >= sizeof(word); p += sizeof(word), size -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		h = mix(h ^ word, seed[1]);
	}
	word = 0;
	memcpy(&word, p, size);
	return mix(h ^ word, seed[1]);
}
