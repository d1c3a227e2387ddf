#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "daemon/tables.h"
#include "lib/base/util.h"

enum { KEY_MAX = 64, TABLES_MAX = 256 };

struct table {
	TAILQ_ENTRY(table) link;
	uid_t uid;
	int fd;
	uint64_t size;
	char key[KEY_MAX];
};

struct tables {
	TAILQ_HEAD(list, table) list; /* what was asked for last comes first */
	uint64_t most, bytes;
	size_t n;
};

int tables_new(uint64_t most, struct tables **ret)
{
	struct tables *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	TAILQ_INIT(&t->list);
	t->most = most;
	*ret = t;
	return 0;
}

static void drop(struct tables *t, struct table *one)
{
	TAILQ_REMOVE(&t->list, one, link);
	t->bytes -= one->size;
	t->n--;
	closep(&one->fd);
	free(one);
}

struct tables *tables_free(struct tables *t)
{
	while (t && !TAILQ_EMPTY(&t->list))
		drop(t, TAILQ_FIRST(&t->list));
	free(t);
	return NULL;
}

static struct table *find(struct tables *t, uid_t uid, const char *key)
{
	struct table *one;

	TAILQ_FOREACH (one, &t->list, link)
		if (one->uid == uid && strcmp(one->key, key) == 0)
			break;
	return one;
}

int tables_find(struct tables *t, uid_t uid, const char *key)
{
	struct table *one = find(t, uid, key);

	if (!one)
		return -1;
	TAILQ_REMOVE(&t->list, one, link);
	TAILQ_INSERT_HEAD(&t->list, one, link);
	return one->fd;
}

static uint64_t bytes_of(const struct tables *t, uid_t uid)
{
	const struct table *one;
	uint64_t bytes = 0;

	TAILQ_FOREACH (one, &t->list, link)
		bytes += one->uid == uid ? one->size : 0;
	return bytes;
}

/* The last one of whoever keeps most. */
static struct table *least_missed(struct tables *t)
{
	struct table *one, *found = NULL;
	uint64_t most = 0;

	TAILQ_FOREACH_REVERSE (one, &t->list, list, link) {
		uint64_t bytes = found && one->uid == found->uid ? 0 : bytes_of(t, one->uid);

		if (found && bytes <= most)
			continue;
		found = one;
		most = bytes;
	}
	return found;
}

/* From here on nobody changes it, nor makes it larger. */
static int seal(int fd, uint64_t *ret_size)
{
	struct stat st;

	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0 || fstat(fd, &st) < 0)
		return -EINVAL;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

int tables_keep(struct tables *t, uid_t uid, const char *key, int fd)
{
	struct table *one;
	uint64_t size;
	int rc = strlen(key) < KEY_MAX ? seal(fd, &size) : -EINVAL;

	if (rc < 0)
		return rc;
	if (size > t->most)
		return -EFBIG;
	one = find(t, uid, key);
	if (one)
		drop(t, one);
	one = calloc(1, sizeof(*one));
	if (!one)
		return -ENOMEM;
	*one = (struct table){ .uid = uid, .size = size, .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0) };
	if (one->fd < 0) {
		free(one);
		return -EMFILE;
	}
	strcpy(one->key, key);
	TAILQ_INSERT_HEAD(&t->list, one, link);
	t->bytes += size;
	for (t->n++; t->bytes > t->most || t->n > TABLES_MAX;)
		drop(t, least_missed(t));
	return 0;
}
