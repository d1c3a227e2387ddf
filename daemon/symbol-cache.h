/*
 * What decodes made of the files of a user's programs and may be handed to another decode of that user's: sealed
 * memory, known by a key that the decoder chose. Nothing is told from one user to another. Where all is full, whoever
 * keeps most gives up what was not asked for the longest. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_SYMBOL_CACHE_H
#define CSIGHT_DAEMON_SYMBOL_CACHE_H

#include <stdint.h>
#include <sys/types.h>

struct symbol_cache;

/* most: bytes of all together; 0: nothing is kept. */
int symbol_cache_new(uint64_t most, struct symbol_cache **ret);
struct symbol_cache *symbol_cache_free(struct symbol_cache *t);

/* Borrowed until the next call; -1: there is none. */
int symbol_cache_find(struct symbol_cache *t, uid_t uid, const char *key);

/* Takes a duplicate. -EINVAL: it is no memory that can be sealed, or no key; -EFBIG: more than all may have; -ENOMEM,
 * -EMFILE. */
int symbol_cache_keep(struct symbol_cache *t, uid_t uid, const char *key, int fd);

#endif
