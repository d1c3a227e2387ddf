/* SPDX-License-Identifier: MIT */
/* lib/emu/maps, files: the parts reported for mappings of this process that appear, change and disappear. */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lib/base/util.h"
#include "lib/emu/maps.h"
#include "tests/unit.h"

enum { PAGE = 4096 };

static struct shared unregistered;
static char directory[] = "/tmp/csight-maps-XXXXXX";

/* The calls of the callback since the last find(). */
static struct {
	unsigned n;
	struct maps_region last;
	bool replaced, instead_of_file;
} reported;

static void placed(void *data, const struct maps_region *part, bool replaced, bool instead_of_file)
{
	reported.n++;
	reported.last = *part;
	reported.replaced = replaced;
	reported.instead_of_file = instead_of_file;
}

static const struct maps_region *find(const void *at)
{
	memset(&reported, 0, sizeof(reported));
	/* Guest addresses differ from those of this process. */
	return maps_find(&unregistered, (uint64_t)(uintptr_t)at - 0x10000, 0x10000, placed, NULL);
}

static void changed(const void *at, size_t size)
{
	maps_changed((uint64_t)(uintptr_t)at - 0x10000, size);
}

static uint64_t guest(const void *at)
{
	return (uint64_t)(uintptr_t)at - 0x10000;
}

static int make_file(const char *name, uint8_t fill, char path[static 64])
{
	static uint8_t page[PAGE];
	int fd;

	snprintf(path, 64, "%s/%s", directory, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	for (uint8_t i = 0; fd >= 0 && i < 8; i++) {
		memset(page, fill + i, sizeof(page));
		if (write(fd, page, sizeof(page)) != sizeof(page))
			return -1;
	}
	return fd;
}

/* Reserves pages away from other mappings, with which the kernel would merge them. */
static uint8_t *space(size_t pages)
{
	uint8_t *p = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p + PAGE, pages * PAGE);
	return p + PAGE;
}

static void map(uint8_t *at, size_t pages, int fd, unsigned from)
{
	mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0), fd,
	     from * PAGE);
}

static void test_files(void)
{
	char one_path[64], two_path[64];
	int one = make_file("one", 1, one_path), two = make_file("two", 101, two_path);
	uint8_t *p = space(6), byte = 0;
	const struct maps_region *r;

	map(p, 6, one, 2);
	r = find(p + 5 * PAGE);
	CHECK_EQ(reported.n, 1);
	CHECK(r && r->file && r->file->id != 0);
	CHECK_STR(r->file->path, one_path);
	CHECK_EQ(r->start, guest(p));
	CHECK_EQ(r->end, guest(p + 6 * PAGE));
	CHECK_EQ(r->offset, 2 * PAGE);
	CHECK(!reported.replaced);
	CHECK(files_read(r->file, &byte, 1, r->offset));
	CHECK_EQ(byte, 3);

	/* Not new: unchanged; changed and restored; split in three by mprotect(). */
	find(p);
	CHECK_EQ(reported.n, 0);
	changed(p, 6 * PAGE);
	find(p);
	CHECK_EQ(reported.n, 0);
	mprotect(p + 2 * PAGE, PAGE, PROT_READ);
	changed(p + 2 * PAGE, PAGE);
	find(p + 2 * PAGE);
	find(p + 5 * PAGE);
	CHECK_EQ(reported.n, 0);

	/* Another file replaces the end. */
	map(p + 4 * PAGE, 2, two, 0);
	changed(p + 4 * PAGE, 2 * PAGE);
	find(p);
	CHECK_EQ(reported.n, 0);
	r = find(p + 5 * PAGE);
	CHECK_EQ(reported.n, 1);
	CHECK(reported.replaced && reported.instead_of_file);
	CHECK_STR(r ? r->file->path : "", two_path);
	CHECK_EQ(reported.last.start, guest(p + 4 * PAGE));
	CHECK_EQ(reported.last.offset, 0);
	r = find(p + 3 * PAGE);
	CHECK_EQ(reported.n, 0);
	CHECK_STR(r ? r->file->path : "", one_path);

	/* The same file at another offset is new. */
	map(p, 1, one, 7);
	changed(p, PAGE);
	r = find(p);
	CHECK_EQ(reported.n, 1);
	CHECK(reported.replaced);
	CHECK_EQ(r ? r->offset : 0, 7 * PAGE);
	CHECK_EQ(r ? r->end : 0, guest(p + PAGE));

	/* A deleted file is opened by its mapping or not at all; a new file of its name is never used. */
	unlink(two_path);
	close(two);
	two = make_file("two", 201, two_path);
	map(p + PAGE, 1, one, 0);
	munmap(p, 6 * PAGE);
	map(p, 6, two, 0);
	unlink(two_path);
	close(two);
	two = make_file("two", 51, two_path);
	changed(p, 6 * PAGE);
	r = find(p + PAGE);
	CHECK(r && r->file);
	if (r && r->file && r->file->id)
		CHECK(files_read(r->file, &byte, 1, r->offset) && byte == 201);
	else
		unit_skip("a deleted file is opened by its mapping", "this needs CAP_CHECKPOINT_RESTORE");
	unlink(one_path);
	unlink(two_path);
	close(one);
	close(two);
	munmap(p, 6 * PAGE);
}

static void test_memory(void)
{
	char path[64];
	uint8_t *p = space(6);
	int fd = make_file("three", 1, path);
	const struct maps_region *r;

	map(p + PAGE, 2, -1, 0);
	r = find(p + PAGE);
	CHECK(r && !r->file);
	CHECK_EQ(reported.n, 1);
	CHECK(!reported.replaced && !reported.instead_of_file);

	/* The mapping grows at both ends: only these are reported. */
	map(p, 1, -1, 0);
	map(p + 3 * PAGE, 1, -1, 0);
	find(p + PAGE);
	CHECK_EQ(reported.n, 0);
	find(p + 3 * PAGE);
	CHECK_EQ(reported.n, 2);
	CHECK(!reported.replaced);

	/* Its middle is unmapped, and the rest stays known; then a file is mapped there, and then anonymous memory. */
	munmap(p + 2 * PAGE, PAGE);
	changed(p + 2 * PAGE, PAGE);
	find(p + PAGE);
	find(p + 3 * PAGE);
	CHECK_EQ(reported.n, 0);
	CHECK(!find(p + 2 * PAGE));
	map(p + 2 * PAGE, 1, fd, 0);
	changed(p + 2 * PAGE, PAGE);
	find(p + 2 * PAGE);
	CHECK_EQ(reported.n, 1);
	CHECK(reported.replaced && !reported.instead_of_file);
	CHECK_EQ(reported.last.end - reported.last.start, PAGE);
	map(p + 2 * PAGE, 1, -1, 0);
	changed(p + 2 * PAGE, PAGE);
	r = find(p + 2 * PAGE);
	CHECK_EQ(reported.n, 1);
	CHECK(r && !r->file && reported.replaced && reported.instead_of_file);
	CHECK_EQ(reported.last.end - reported.last.start, PAGE);
	unlink(path);
	close(fd);
	munmap(p, 6 * PAGE);
}

int main(void)
{
	if (!mkdtemp(directory))
		return 99;
	test_files();
	test_memory();
	rmdir(directory);
	return unit_end();
}
