/* SPDX-License-Identifier: MIT */
/*
 * The stores that csight has decoded from files, kept for the next use: one directory for each user, with one
 * subdirectory for each entry, named by its key.
 *
 *   KEY/store   the store
 *   KEY/about   JSON: the identity of that file, what the decode found and requested
 *   index/HASH  the digest of the contents of the files that have the identity HASH
 *   tmp-NAME/   an entry that is not complete; its store is locked by its process
 *   lock        held while entries are added and removed
 *
 * Several processes may use it: an entry appears by a rename, and who has its store open keeps it when it is removed.
 * Functions return negative errno.
 */
#ifndef CSIGHT_CLIENT_DECODE_CACHE_H
#define CSIGHT_CLIENT_DECODE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/digest.h"
#include "lib/base/json.h"

struct decode_cache {
	int dir;      /* -1: there is none */
	uint64_t max; /* bytes of all entries */
};

#define DECODE_CACHE_NONE \
	{                 \
		.dir = -1 \
	}

/*
 * Opens the cache of this user, and creates it. *ret stays without one if $CSIGHT_CACHE_MAX is 0. -EPERM: the directory
 * is another user's, or others may write to it; -EINVAL: $CSIGHT_CACHE_MAX is no size; -ENOENT: there is no home
 * directory. ret_path, of PATH_MAX bytes, is what was tried.
 */
int decode_cache_open(struct decode_cache *ret, char *ret_path);
void decode_cache_close(struct decode_cache *c);

/* Finds the digest of the contents that files with this identity had when it was stored. Returns 0 or -ENOENT. */
int decode_cache_contents(const struct decode_cache *c, const char *identity, char ret[DIGEST_TEXT]);
void decode_cache_set_contents(const struct decode_cache *c, const char *identity, const char *contents);

/*
 * Finds an entry, which becomes the one used last. *ret_about is the caller's. -ENOENT: there is none; -EBADMSG: it is
 * damaged.
 */
int decode_cache_find(const struct decode_cache *c, const char *key, int *ret_store, json_object **ret_about);
void decode_cache_remove(const struct decode_cache *c, const char *key);

/* An entry that is being written. */
struct decode_cache_entry {
	char name[40]; /* of its directory; "": it is none of the cache's */
	int dir;
	int store;
};

#define DECODE_CACHE_ENTRY_NONE        \
	{                              \
		.dir = -1, .store = -1 \
	}

/* Begins an entry: its store is a new, empty file. */
int decode_cache_begin(const struct decode_cache *c, struct decode_cache_entry *ret);

/*
 * Adds the entry under a key, and removes those used least recently until all fit. Adds members to about. -EFBIG: it is
 * larger than the whole cache. In any case the store remains usable by its descriptor.
 */
int decode_cache_commit(const struct decode_cache *c, struct decode_cache_entry *e, const char *key,
			json_object *about);

/* Removes an entry that was not committed. */
void decode_cache_entry_done(const struct decode_cache *c, struct decode_cache_entry *e);

#endif
