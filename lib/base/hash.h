/* SPDX-License-Identifier: MIT */
/*
 * A hash table from keys of two 64-bit words to 32-bit numbers, by open addressing. For keys of other types, look up
 * (hash_bytes(…), 0), (…, 1) and so on, until the value found belongs to an equal key or the entry is new. Zeros are
 * an empty table. The order of entries differs from process to process, and is not for callers.
 */
#ifndef CSIGHT_HASH_H
#define CSIGHT_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_entry {
	uint64_t key[2];
	uint32_t value;
	bool used;
};

struct hash {
	struct hash_entry *entries;
	size_t capacity, n; /* capacity: 0 or a power of two */
};

/*
 * Finds the entry of a key, or adds one. Returns 0 if it existed and 1 if it is new and the caller must store its value
 * through *ret, which is valid until the next call; -ENOMEM.
 */
int hash_find(struct hash *h, uint64_t key, uint64_t more, uint32_t **ret);

/* Returns the value of a key, valid until the next hash_find(), or NULL. */
uint32_t *hash_get(const struct hash *h, uint64_t key, uint64_t more);

/* Removes all entries and keeps the memory. */
void hash_clear(struct hash *h);
void hash_done(struct hash *h);

/* Returns a hash of the bytes, for keys of tables of this process alone: its seed is a secret of the process. */
uint64_t hash_bytes(const void *data, size_t size);

#endif
