/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "daemon/symbol-cache.h"
#include "lib/base/util.h"

enum { KEY_MAX = 64, TABLES_MAX = 256 };

struct cached_table {
	TAILQ_ENTRY(cached_table) link;
	uid_t uid;
	int fd;
	uint64_t size;
	char key[KEY_MAX];
};

struct symbol_cache {
	TAILQ_HEAD(table_list, cached_table) list; /* most recently used first */
	uint64_t most, bytes;
	size_t n;
};

int symbol_cache_new(uint64_t most, struct symbol_cache **ret)
{
	struct symbol_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	TAILQ_INIT(&c->list);
	c->most = most;
	*ret = c;
	return 0;
}

static void symbol_cache_drop(struct symbol_cache *c, struct cached_table *one)
{
	TAILQ_REMOVE(&c->list, one, link);
	c->bytes -= one->size;
	c->n--;
	closep(&one->fd);
	free(one);
}

struct symbol_cache *symbol_cache_free(struct symbol_cache *c)
{
	while (c && !TAILQ_EMPTY(&c->list))
		symbol_cache_drop(c, TAILQ_FIRST(&c->list));
	free(c);
	return NULL;
}

static struct cached_table *symbol_cache_lookup(struct symbol_cache *c, uid_t uid, const char *key)
{
	struct cached_table *one;

	TAILQ_FOREACH (one, &c->list, link)
		if (one->uid == uid && strcmp(one->key, key) == 0)
			break;
	return one;
}

int symbol_cache_find(struct symbol_cache *c, uid_t uid, const char *key)
{
	struct cached_table *one = symbol_cache_lookup(c, uid, key);

	if (!one)
		return -1;
	TAILQ_REMOVE(&c->list, one, link);
	TAILQ_INSERT_HEAD(&c->list, one, link);
	return one->fd;
}

/* Returns the bytes of a user's tables, or their number. */
static uint64_t use_of_user(const struct symbol_cache *c, uid_t uid, bool bytes)
{
	const struct cached_table *one;
	uint64_t use = 0;

	TAILQ_FOREACH (one, &c->list, link)
		if (one->uid == uid)
			use += bytes ? one->size : 1;
	return use;
}

/* Returns the least recently used table of the user who has most of what is scarce. */
static struct cached_table *symbol_cache_victim(struct symbol_cache *c)
{
	struct cached_table *one, *found = NULL;
	uint64_t most = 0;

	TAILQ_FOREACH_REVERSE (one, &c->list, table_list, link) {
		uint64_t use = found && one->uid == found->uid ? 0 : use_of_user(c, one->uid, c->bytes > c->most);

		if (found && use <= most)
			continue;
		found = one;
		most = use;
	}
	return found;
}

void symbol_cache_limit(struct symbol_cache *c, uint64_t most)
{
	c->most = most;
	while (c->bytes > c->most)
		symbol_cache_drop(c, symbol_cache_victim(c));
}

/* Makes the memory and its size constant. */
static int memory_seal(int fd, uint64_t *ret_size)
{
	struct stat st;

	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0 || fstat(fd, &st) < 0)
		return -EINVAL;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

int symbol_cache_keep(struct symbol_cache *c, uid_t uid, const char *key, int fd)
{
	struct cached_table *one;
	uint64_t size;
	int rc = strlen(key) < KEY_MAX ? memory_seal(fd, &size) : -EINVAL;

	if (rc < 0)
		return rc;
	if (size > c->most)
		return -EFBIG;
	one = symbol_cache_lookup(c, uid, key);
	if (one)
		symbol_cache_drop(c, one);
	one = calloc(1, sizeof(*one));
	if (!one)
		return -ENOMEM;
	*one = (struct cached_table){ .uid = uid, .size = size, .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0) };
	if (one->fd < 0) {
		free(one);
		return -EMFILE;
	}
	strcpy(one->key, key);
	TAILQ_INSERT_HEAD(&c->list, one, link);
	c->bytes += size;
	for (c->n++; c->bytes > c->most || c->n > TABLES_MAX;)
		symbol_cache_drop(c, symbol_cache_victim(c));
	return 0;
}
