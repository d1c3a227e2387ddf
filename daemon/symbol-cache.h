/* SPDX-License-Identifier: MIT */
/*
 * A cache of the symbol tables that decodes have built, for later decodes of the same user: sealed memory under a key
 * that the decoder chose. Tables are not shared between users. When the cache is full, the least recently used table of
 * the user whose tables are largest together is dropped. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_SYMBOL_CACHE_H
#define CSIGHT_DAEMON_SYMBOL_CACHE_H

#include <stdint.h>
#include <sys/types.h>

struct symbol_cache;

/* Creates a cache. most: bytes of all tables; 0: none is kept. */
int symbol_cache_new(uint64_t most, struct symbol_cache **ret);
struct symbol_cache *symbol_cache_free(struct symbol_cache *c);

/* Changes the limit, and drops tables beyond it. */
void symbol_cache_limit(struct symbol_cache *c, uint64_t most);

/* Returns a descriptor that is borrowed until the next call, or -1. */
int symbol_cache_find(struct symbol_cache *c, uid_t uid, const char *key);

/*
 * Adds or replaces a table; the cache duplicates fd. -EINVAL: the memory cannot be sealed, or the key is too long;
 * -EFBIG: larger than the cache; -ENOMEM; -EMFILE.
 */
int symbol_cache_keep(struct symbol_cache *c, uid_t uid, const char *key, int fd);

#endif
