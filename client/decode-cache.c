/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "client/decode-cache.h"
#include "client/served-files.h"
#include "lib/base/array.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/parse.h"
#include "lib/base/path.h"

#define CACHE_MAX ((uint64_t)1 << 30)

enum { ABOUT_MAX = 64 << 20, INDEX_MAX = 4096 };

static int cache_size(uint64_t *ret)
{
	const char *text = getenv("CSIGHT_CACHE_MAX");

	*ret = CACHE_MAX;
	return text && *text ? parse_size(text, ret) : 0;
}

static int check_directory(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	return !(st.st_mode & 077) || fchmod(fd, 0700) == 0 ? 0 : -errno;
}

static int make_subdirectory(int dir, const char *name)
{
	return mkdirat(dir, name, 0700) == 0 || errno == EEXIST ? 0 : -errno;
}

int decode_cache_open(struct decode_cache *ret, char *ret_path)
{
	_cleanup_close_ int dir = -1;
	uint64_t max;
	int rc = path_user_cache(ret_path, PATH_MAX);

	if (rc == 0)
		rc = cache_size(&max);
	if (rc < 0 || max == 0)
		return rc;
	rc = path_make_dir(ret_path, 0700, true);
	/* The check of the open directory, below, decides on one that exists already. */
	if (rc < 0 && rc != -EPERM)
		return rc;
	dir = open(ret_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	rc = check_directory(dir);
	if (rc == 0)
		rc = make_subdirectory(dir, "index");
	if (rc == 0 && faccessat(dir, ".", W_OK, AT_EACCESS) < 0)
		rc = -errno;
	if (rc < 0)
		return rc;
	*ret = (struct decode_cache){ TAKE_FD(dir), max };
	return 0;
}

void decode_cache_close(struct decode_cache *c)
{
	closep(&c->dir);
}

/* Returns the locked file, or -1. */
static int lock_cache(const struct decode_cache *c)
{
	int fd = openat(c->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	while (fd >= 0 && flock(fd, LOCK_EX) < 0)
		if (errno != EINTR) {
			closep(&fd);
			break;
		}
	return fd;
}

/* Removes the directory of an entry, which has no subdirectories. */
static void remove_directory(const struct decode_cache *c, const char *name)
{
	static const char *const files[] = { "store", "about", "about.tmp" };
	_cleanup_close_ int dir = openat(c->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; dir >= 0 && i < ELEMENTS(files); i++)
		unlinkat(dir, files[i], 0);
	unlinkat(c->dir, name, AT_REMOVEDIR);
}

static bool is_digest(const char *text)
{
	return strlen(text) == DIGEST_TEXT - 1 && strspn(text, "0123456789abcdef") == DIGEST_TEXT - 1;
}

int decode_cache_contents(const struct decode_cache *c, const char *identity, char ret[DIGEST_TEXT])
{
	char name[sizeof("index/") + DIGEST_TEXT];
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc;

	snprintf(name, sizeof(name), "index/%s", identity);
	rc = io_read_file(c->dir, name, DIGEST_TEXT, &text, &size);
	if (rc < 0)
		return rc;
	if (!is_digest(text))
		return -ENOENT;
	memcpy(ret, text, DIGEST_TEXT);
	return 0;
}

/* The index only saves time, so that it may be emptied. */
static void bound_index(int fd)
{
	_cleanup_closedir_ DIR *dir = fdopendir(fd);
	const struct dirent *e;
	size_t n = 0;

	if (!dir) {
		close(fd);
		return;
	}
	while ((e = readdir(dir)))
		n++;
	if (n < INDEX_MAX)
		return;
	rewinddir(dir);
	while ((e = readdir(dir)))
		unlinkat(dirfd(dir), e->d_name, 0);
}

void decode_cache_set_contents(const struct decode_cache *c, const char *identity, const char *contents)
{
	int dir = openat(c->dir, "index", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	char name[24] = "tmp-";

	if (dir < 0)
		return;
	hex_random(name + 4, sizeof(name) - 4);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && (io_write(fd, contents, DIGEST_TEXT - 1) < 0 || renameat(dir, name, dir, identity) < 0))
		unlinkat(dir, name, 0);
	bound_index(dir);
}

/* True if the store is the file that was committed. */
static bool store_is_as_written(int store, json_object *about)
{
	char now[SERVED_FILES_IDENTITY];
	const char *identity;
	struct stat st;

	if (fstat(store, &st) < 0 || json_get_str(about, "store", &identity) < 0)
		return false;
	served_files_identity(&st, now);
	return strcmp(now, identity) == 0;
}

int decode_cache_find(const struct decode_cache *c, const char *key, int *ret_store, json_object **ret_about)
{
	_cleanup_close_ int dir = openat(c->dir, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), store = -1;
	_cleanup_json_ json_object *about = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc;

	if (dir < 0)
		return -errno;
	store = openat(dir, "store", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	rc = io_read_file(dir, "about", ABOUT_MAX, &text, &size);
	if (rc == 0)
		rc = json_parse(text, size, &about);
	if (store < 0 || rc < 0 || !json_object_is_type(about, json_type_object) || !store_is_as_written(store, about))
		return -EBADMSG;
	/* The time of a directory orders the entries by their last use. */
	futimens(dir, NULL);
	*ret_store = TAKE_FD(store);
	*ret_about = TAKE_PTR(about);
	return 0;
}

void decode_cache_remove(const struct decode_cache *c, const char *key)
{
	_cleanup_close_ int lock = lock_cache(c);

	if (lock >= 0)
		remove_directory(c, key);
}

/* Removes an entry that a process has left incomplete; those of running processes are locked. */
static void remove_abandoned(const struct decode_cache *c, const char *name)
{
	char path[NAME_MAX + sizeof("/store")];
	_cleanup_close_ int store = -1;

	snprintf(path, sizeof(path), "%s/store", name);
	store = openat(c->dir, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (store < 0 || flock(store, LOCK_EX | LOCK_NB) == 0)
		remove_directory(c, name);
}

struct cached_entry {
	char key[DIGEST_TEXT];
	struct timespec used;
	uint64_t size;
};

struct cached_entries {
	struct cached_entry *list;
	size_t n, capacity;
	uint64_t size;
};

static int compare_uses(const void *left, const void *right)
{
	const struct cached_entry *a = left, *b = right;

	if (a->used.tv_sec != b->used.tv_sec)
		return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
	return (a->used.tv_nsec > b->used.tv_nsec) - (a->used.tv_nsec < b->used.tv_nsec);
}

static uint64_t size_of(int dir, const char *key, const char *file)
{
	char path[DIGEST_TEXT + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", key, file);
	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size : 0;
}

/* Lists the entries, those used least recently first, and removes abandoned ones. */
static int list_entries(const struct decode_cache *c, struct cached_entries *ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *e;
	int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return -errno;
	while ((e = readdir(dir))) {
		struct cached_entry entry = { 0 };
		struct stat st;

		if (strncmp(e->d_name, "tmp-", 4) == 0)
			remove_abandoned(c, e->d_name);
		if (!is_digest(e->d_name) || fstatat(c->dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		memcpy(entry.key, e->d_name, DIGEST_TEXT);
		entry.used = st.st_mtim;
		entry.size = size_of(c->dir, entry.key, "store") + size_of(c->dir, entry.key, "about");
		if (array_reserve(ret->list, ret->n, &ret->capacity) < 0)
			return -ENOMEM;
		ret->list[ret->n++] = entry;
		ret->size += entry.size;
	}
	if (ret->n)
		qsort(ret->list, ret->n, sizeof(*ret->list), compare_uses);
	return 0;
}

/* Removes entries, those used least recently first, until so many bytes are free. */
static int make_space(const struct decode_cache *c, uint64_t size)
{
	struct cached_entries all = { 0 };
	int rc = size > c->max ? -EFBIG : list_entries(c, &all);

	for (size_t i = 0; rc == 0 && i < all.n && all.size > c->max - size; i++) {
		remove_directory(c, all.list[i].key);
		all.size -= all.list[i].size;
	}
	free(all.list);
	return rc;
}

int decode_cache_begin(const struct decode_cache *c, struct decode_cache_entry *ret)
{
	_cleanup_close_ int lock = lock_cache(c), dir = -1, store = -1;
	char name[sizeof(ret->name)] = "tmp-";
	int rc;

	if (lock < 0)
		return -EACCES;
	hex_random(name + 4, 24);
	if (mkdirat(c->dir, name, 0700) < 0)
		return -errno;
	dir = openat(c->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0)
		store = openat(dir, "store", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (store < 0 || flock(store, LOCK_EX | LOCK_NB) < 0) {
		rc = -errno;
		remove_directory(c, name);
		return rc;
	}
	*ret = (struct decode_cache_entry){ .dir = TAKE_FD(dir), .store = TAKE_FD(store) };
	memcpy(ret->name, name, sizeof(name));
	return 0;
}

/* Writes both files to the disk before the entry is renamed: it is complete or absent after a crash, too. */
static int complete_entry(const struct decode_cache_entry *e, json_object *about, uint64_t *ret_size)
{
	char identity[SERVED_FILES_IDENTITY];
	_cleanup_free_ char *text = NULL;
	struct stat st;

	if (fdatasync(e->store) < 0 || fstat(e->store, &st) < 0)
		return -errno;
	served_files_identity(&st, identity);
	json_add_str(about, "store", identity);
	text = json_text(about, JSON_PLAIN);
	if (!text)
		return -ENOMEM;
	*ret_size = (uint64_t)st.st_size + strlen(text);
	return io_write_file(e->dir, "about", text, strlen(text), 0600);
}

int decode_cache_commit(const struct decode_cache *c, struct decode_cache_entry *e, const char *key, json_object *about)
{
	_cleanup_close_ int lock = -1;
	uint64_t size = 0;
	int rc = complete_entry(e, about, &size);

	if (rc < 0)
		return rc;
	lock = lock_cache(c);
	if (lock < 0)
		return -EACCES;
	/* Another process may have added it meanwhile. */
	remove_directory(c, key);
	rc = make_space(c, size);
	if (rc == 0 && renameat(c->dir, e->name, c->dir, key) < 0)
		rc = -errno;
	if (rc == 0)
		e->name[0] = 0;
	return rc;
}

void decode_cache_entry_done(const struct decode_cache *c, struct decode_cache_entry *e)
{
	if (e->name[0])
		remove_directory(c, e->name);
	e->name[0] = 0;
	closep(&e->dir);
	closep(&e->store);
}
