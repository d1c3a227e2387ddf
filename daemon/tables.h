/*
 * What decodes made of the files of a user's programs and may be handed to another decode of that user's: sealed
 * memory, known by a key that the decoder chose. Nothing is told from one user to another. Where all is full, whoever
 * keeps most gives up what was not asked for the longest. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_TABLES_H
#define CSIGHT_DAEMON_TABLES_H

#include <stdint.h>
#include <sys/types.h>

struct tables;

/* most: bytes of all together; 0: nothing is kept. */
int tables_new(uint64_t most, struct tables **ret);
struct tables *tables_free(struct tables *t);

/* Borrowed until the next call; -1: there is none. */
int tables_find(struct tables *t, uid_t uid, const char *key);

/* Takes a duplicate. -EINVAL: it is no memory that can be sealed, or no key; -EFBIG: more than all may have; -ENOMEM,
 * -EMFILE. */
int tables_keep(struct tables *t, uid_t uid, const char *key, int fd);

#endif
