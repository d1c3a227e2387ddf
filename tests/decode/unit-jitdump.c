/* SPDX-License-Identifier: MIT */
/* daemon/decode/jitdump.c: jitdumps that are complete, incomplete, invalid or hostile. */
#include "config.h"

#include <string.h>
#include <sys/mman.h>

#include "daemon/decode/jitdump.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "tests/unit.h"

enum { SHIFT = 1000, LOAD = 0, MOVE = 1, CLOSE = 3 };

static void put_header(struct buf *b, uint32_t magic, uint32_t version, uint32_t size, uint64_t flags)
{
	buf_u32(b, magic);
	buf_u32(b, version);
	buf_u32(b, size);
	buf_zero(b, 20);
	buf_u64(b, flags);
}

static void put_good_header(struct buf *b)
{
	put_header(b, 0x4a695444, 1, 40, 0);
}

static void put_record(struct buf *b, uint32_t type, uint32_t size, uint64_t time)
{
	buf_u32(b, type);
	buf_u32(b, size);
	buf_u64(b, time);
}

/* stated: the size of the code that the record states; the file has 16 bytes. */
static void put_load(struct buf *b, uint64_t time, uint64_t start, uint64_t stated, uint64_t index, const char *name)
{
	size_t size = strlen(name) + 1;
	uint8_t code[16];

	memset(code, name[0], sizeof(code));
	put_record(b, LOAD, (uint32_t)(16 + 40 + size + sizeof(code)), time);
	buf_u64(b, 7);
	buf_u64(b, start);
	buf_u64(b, start);
	buf_u64(b, stated);
	buf_u64(b, index);
	buf_add(b, name, size);
	buf_add(b, code, sizeof(code));
}

static void put_move(struct buf *b, uint64_t time, uint64_t to, uint64_t size, uint64_t index)
{
	put_record(b, MOVE, 16 + 48, time);
	buf_u64(b, 7);
	buf_u64(b, to);
	buf_u64(b, 0);
	buf_u64(b, to);
	buf_u64(b, size);
	buf_u64(b, index);
}

static int file_of(const struct buf *b, size_t size)
{
	int fd = memfd_create("jitdump", MFD_CLOEXEC);

	CHECK_EQ(io_write(fd, b->data, size), 0);
	return fd;
}

static void read_all(const struct buf *b, struct jitdump *ret)
{
	_cleanup_close_ int fd = file_of(b, b->size);

	*ret = (struct jitdump){ 0 };
	CHECK_EQ(jitdump_read(fd, SHIFT, ret), 0);
}

/* Returns the byte of the code at addr at this time; 0: unknown. */
static int code_at(struct image_set *images, uint64_t addr, uint64_t time)
{
	uint8_t byte;

	return image_read(images, 5, addr, time, &byte, 1) ? byte : 0;
}

static void test_code(bool broken)
{
	_cleanup_(image_set_freep) struct image_set *images = NULL;
	_cleanup_(jitdump_done) struct jitdump j = { 0 };
	_cleanup_buf_ struct buf b = { 0 };
	_cleanup_close_ int fd = -1;

	put_good_header(&b);
	put_load(&b, 10, 0x1000, 16, 1, "a name");
	put_record(&b, CLOSE + 90, 16, 11); /* of an unknown type */
	put_load(&b, 30, 0x1000, 16, 2, "c name");
	put_load(&b, 20, 0x1000, 16, 3, "b name"); /* out of order */
	put_move(&b, 40, 0x2000, 8, 1);
	put_move(&b, 50, 0x3000, 8, 77); /* of code that is not described */
	if (broken)
		put_record(&b, LOAD, 3, 60);
	fd = file_of(&b, b.size);
	CHECK_EQ(jitdump_read(fd, SHIFT, &j), 0);
	CHECK_EQ(j.n, 4);
	CHECK_EQ(j.broken, broken);
	CHECK_EQ(image_set_new(&images), 0);
	/* Another piece of captured code, which is later than the first of the jitdump. */
	CHECK_EQ(image_map(images, 5, &(struct image_mapping){ 0x1000, 4, 0, SHIFT + 15, IMAGE_UNKNOWN }), 0);
	CHECK_EQ(jitdump_add(&j, fd, images, 5), 0);
	CHECK_EQ(image_seal(images), 0);
	CHECK_EQ(code_at(images, 0x1000, SHIFT + 12), 'a');
	CHECK_EQ(code_at(images, 0x1000, SHIFT + 16), 0);
	CHECK_EQ(code_at(images, 0x1004, SHIFT + 16), 'a');
	CHECK_EQ(code_at(images, 0x1000, SHIFT + 20), 'b');
	CHECK_EQ(code_at(images, 0x1000, SHIFT + 30), 'c');
	CHECK_EQ(code_at(images, 0x2000, SHIFT + 40), 'a');
	CHECK_EQ(code_at(images, 0x2008, SHIFT + 40), 0);
	CHECK_EQ(code_at(images, 0x3000, SHIFT + 50), 0);
	CHECK_EQ(code_at(images, 0x1000, SHIFT + 41), broken ? 0 : 'c');
	CHECK_EQ(code_at(images, 0x2000, SHIFT + 41), broken ? 0 : 'a');
}

static const char *name_at(const struct symbols *s, uint64_t addr)
{
	struct symbols_at at;

	symbols_find(s, addr, &at);
	return at.known ? at.name : "-";
}

/* Functions by address: the latest that was there, by its time. */
static void test_names(void)
{
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	_cleanup_(jitdump_done) struct jitdump j = { 0 };
	_cleanup_buf_ struct buf b = { 0 };

	put_good_header(&b);
	put_load(&b, 30, 0x1000, 16, 1, "newr");
	put_load(&b, 20, 0x1008, 16, 2, "oldr");
	put_move(&b, 40, 0x2000, 8, 1);
	put_load(&b, 50, 0x3000, 16, 3, "");
	read_all(&b, &j);
	CHECK_EQ(jitdump_take_names(&j, &s), 0);
	if (!s)
		return;
	CHECK_STR(name_at(s, 0x100c), "newr");
	CHECK_STR(name_at(s, 0x1010), "oldr");
	CHECK_STR(name_at(s, 0x1018), "-");
	CHECK_STR(name_at(s, 0x2004), "newr");
	CHECK_STR(name_at(s, 0x2008), "-");
	CHECK_STR(name_at(s, 0x3000), "-");
}

/* A jitdump that was copied while the program wrote it is valid up to its last complete record. */
static void test_incomplete(void)
{
	_cleanup_buf_ struct buf b = { 0 };
	size_t first;

	put_good_header(&b);
	put_load(&b, 10, 0x1000, 16, 1, "a name");
	first = b.size;
	put_load(&b, 20, 0x1000, 16, 1, "b name");
	for (size_t size = 0; size <= b.size; size++) {
		_cleanup_(jitdump_done) struct jitdump j = { 0 };
		_cleanup_close_ int fd = file_of(&b, size);

		if (jitdump_read(fd, 0, &j) < 0 || j.broken || j.n != (size_t)(size >= first) + (size == b.size))
			CHECK_EQ(size, SIZE_MAX);
	}
	CHECK(true);
}

static void test_invalid(void)
{
	static const struct {
		uint32_t magic, version, size;
		uint64_t flags;
	} headers[] = { { 0x4a695445, 1, 40, 0 },
			{ 0x4a695444, 2, 40, 0 },
			{ 0x4a695444, 1, 39, 0 },
			{ 0x4a695444, 1, 40, 1 },
			{ 0x4a695444, 1, ~0u, 0 } };
	static const uint64_t sizes[] = { 17, 1ull << 32, UINT64_MAX, INT64_MAX };

	for (size_t i = 0; i < ELEMENTS(headers); i++) {
		_cleanup_(jitdump_done) struct jitdump j = { 0 };
		_cleanup_buf_ struct buf b = { 0 };

		put_header(&b, headers[i].magic, headers[i].version, headers[i].size, headers[i].flags);
		put_load(&b, 10, 0x1000, 16, 1, "a name");
		read_all(&b, &j);
		CHECK(j.broken && j.n == 0);
	}
	for (size_t i = 0; i < ELEMENTS(sizes); i++) {
		_cleanup_(jitdump_done) struct jitdump j = { 0 };
		_cleanup_buf_ struct buf b = { 0 };

		put_good_header(&b);
		put_load(&b, 10, 0x1000, 16, 1, "a name");
		put_load(&b, 20, 0x1000, sizes[i], 2, "b name");
		read_all(&b, &j);
		CHECK(j.broken && j.n == 1);
	}
}

int main(void)
{
	test_names();
	test_code(false);
	test_code(true);
	test_incomplete();
	test_invalid();
	return unit_end();
}
