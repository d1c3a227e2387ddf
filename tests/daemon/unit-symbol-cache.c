/* SPDX-License-Identifier: MIT */
/* daemon/symbol-cache.c: tables belong to one user; the order in which a full cache drops them. */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/symbol-cache.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { ANNA = 1000, BERT = 1001, MOST = 100 };

static void symbol_cache_freep(struct symbol_cache **t)
{
	symbol_cache_free(*t);
}

static int keep(struct symbol_cache *t, uid_t uid, const char *key, size_t size)
{
	_cleanup_close_ int fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	return symbol_cache_keep(t, uid, key, fd);
}

static bool has(struct symbol_cache *t, uid_t uid, const char *key, size_t size)
{
	int fd = symbol_cache_find(t, uid, key);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && (size_t)st.st_size == size;
}

static void test_owners(void)
{
	_cleanup_(symbol_cache_freep) struct symbol_cache *t = NULL;

	CHECK(symbol_cache_new(MOST, &t) == 0 && keep(t, ANNA, "a", 10) == 0);
	CHECK(has(t, ANNA, "a", 10));
	CHECK_EQ(symbol_cache_find(t, BERT, "a"), -1);
	CHECK_EQ(symbol_cache_find(t, 0, "a"), -1);
	CHECK_EQ(symbol_cache_find(t, ANNA, "b"), -1);
	CHECK(keep(t, BERT, "a", 20) == 0 && has(t, ANNA, "a", 10) && has(t, BERT, "a", 20));
	CHECK(keep(t, ANNA, "a", 30) == 0 && has(t, ANNA, "a", 30));
}

/* The content of a table in the cache cannot change. */
static void test_sealed(void)
{
	_cleanup_(symbol_cache_freep) struct symbol_cache *t = NULL;
	_cleanup_close_ int fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING),
			    plain = memfd_create("plain", MFD_CLOEXEC);
	void *at;

	CHECK(symbol_cache_new(MOST, &t) == 0 && io_write(fd, "table", 5) == 0 &&
	      symbol_cache_keep(t, ANNA, "a", fd) == 0);
	CHECK_EQ(pwrite(fd, "x", 1, 0), -1);
	CHECK_EQ(ftruncate(fd, 1 << 20), -1);
	CHECK_EQ(ftruncate(fd, 0), -1);
	CHECK(has(t, ANNA, "a", 5));
	CHECK_EQ(symbol_cache_keep(t, ANNA, "b", plain), -EINVAL);
	CHECK_EQ(symbol_cache_keep(t, ANNA, "b", STDIN_FILENO), -EINVAL);
	CHECK_EQ(keep(t, ANNA, "a key that is longer than the 63 characters that the cache stores for a key", 1),
		 -EINVAL);
	/* Memory with a writable mapping cannot be sealed, and is refused. */
	closep(&fd);
	fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(io_write(fd, "table", 5) == 0);
	at = mmap(NULL, 5, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED && symbol_cache_keep(t, ANNA, "c", fd) == -EINVAL);
	munmap(at, 5);
	CHECK_EQ(symbol_cache_find(t, ANNA, "c"), -1);
}

static void test_eviction(void)
{
	_cleanup_(symbol_cache_freep) struct symbol_cache *t = NULL, *none = NULL;
	char key[16];
	size_t n = 0;

	CHECK(symbol_cache_new(MOST, &t) == 0 && keep(t, ANNA, "large", MOST + 1) == -EFBIG);
	CHECK(keep(t, BERT, "b", 20) == 0 && keep(t, ANNA, "1", 30) == 0 && keep(t, ANNA, "2", 30) == 0);
	/* Table 1 is recently used, so table 2 is dropped; table b is older, but its user has less in the cache. */
	CHECK(has(t, ANNA, "1", 30));
	CHECK(keep(t, ANNA, "3", 40) == 0);
	CHECK_EQ(symbol_cache_find(t, ANNA, "2"), -1);
	CHECK(has(t, ANNA, "1", 30) && has(t, ANNA, "3", 40) && has(t, BERT, "b", 20));
	/* A table of the size of the cache is dropped itself, and not the tables of the other user. */
	CHECK(keep(t, BERT, "all", MOST) == 0);
	CHECK_EQ(symbol_cache_find(t, BERT, "all"), -1);
	CHECK(has(t, ANNA, "1", 30) && has(t, ANNA, "3", 40));
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "%u", i);
		keep(t, ANNA, key, 0);
	}
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "%u", i);
		n += symbol_cache_find(t, ANNA, key) >= 0;
	}
	CHECK(n > 200 && n <= 256);
	CHECK(symbol_cache_new(0, &none) == 0 && keep(none, ANNA, "a", 1) == -EFBIG &&
	      symbol_cache_find(none, ANNA, "a") == -1);
}

int main(void)
{
	test_owners();
	test_sealed();
	test_eviction();
	return unit_end();
}
