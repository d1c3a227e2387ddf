/* SPDX-License-Identifier: MIT */
/* daemon/capture/process/code-log.c: the images of a log. daemon/capture/emu/patience.c: waits for one user's programs.
 */
#include "config.h"

#include <string.h>

#include "daemon/capture/emu/patience.h"
#include "daemon/capture/process/code-log.h"
#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { MANY = 100000 };

static void put_map(struct buf *b, const char *path, uint64_t inode, uint32_t file)
{
	struct emu_record_map m = { .head.type = EMU_REC_MAP, .inode = inode, .file = file, .len = 4096 };
	size_t size = strlen(path) + 1, padded = ALIGN8(size);
	static const uint8_t zeros[8];

	m.head.size = (uint32_t)(sizeof(m) + padded);
	buf_add(b, &m, sizeof(m));
	buf_add(b, path, size);
	buf_add(b, zeros, padded - size);
}

static void test_images(void)
{
	_cleanup_buf_ struct buf b = { .limit = 16 << 20 };
	struct code_log log;

	put_map(&b, "/bin/a", 1, 1);
	put_map(&b, "/bin/b", 1, 1);
	put_map(&b, "//anon", 0, 0);
	put_map(&b, "/bin/a", 2, 1);
	put_map(&b, "/bin/a", 1, 2);
	put_map(&b, "/bin/a", 1, 1);
	put_map(&b, "/bin/a", 2, 1);
	CHECK_EQ(code_log_read(b.data, b.size, &log), 0);
	CHECK_EQ(log.n_images, 4u);
	CHECK_EQ(log.n_maps, 7u);
	CHECK(!log.broken && !log.crowded);
	CHECK_EQ(log.maps[1].image, 1u);
	CHECK_EQ(log.maps[2].image, UINT32_MAX);
	CHECK_EQ(log.maps[5].image, log.maps[0].image);
	CHECK_EQ(log.maps[6].image, log.maps[3].image);
	code_log_done(&log);
}

/* A program chooses number and length of the names. */
static void test_limits(void)
{
	_cleanup_buf_ struct buf b = { .limit = 128 << 20 }, broken = { .limit = 1 << 20 };
	struct code_log log;
	char path[EMU_PATH_SIZE + 1];
	size_t named = 0;

	for (unsigned round = 0; round < 2; round++)
		for (unsigned n = 0; n < 2000; n++) {
			memset(path, 'x', sizeof(path));
			snprintf(path, sizeof(path), "/%u/", n);
			path[strlen(path)] = 'x';
			path[n < 4 ? 4000 : 900] = 0;
			put_map(&b, path, 1, 1);
		}
	CHECK_EQ(code_log_read(b.data, b.size, &log), 0);
	CHECK(log.crowded && !log.broken);
	CHECK_EQ(log.n_images, 1024u);
	CHECK_EQ(log.n_maps, 4000u);
	for (size_t n = 0; n < log.n_images; n++)
		named += strlen(log.images[n].path);
	CHECK(named <= 1 << 20);
	CHECK_EQ(log.maps[2003].image, log.maps[3].image);
	CHECK_EQ(log.maps[3999].image, UINT32_MAX);
	code_log_done(&log);

	/* Mappings of one file, each with a long path. */
	b.size = 0;
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[4000] = 0;
	for (unsigned n = 0; n < 8000; n++)
		put_map(&b, path, 1, 1);
	CHECK_EQ(code_log_read(b.data, b.size, &log), 0);
	CHECK(log.crowded && log.n_images == 1 && log.n_maps > 4000 && log.n_maps < 4300);
	code_log_done(&log);

	memset(path, '/', sizeof(path));
	path[sizeof(path) - 1] = 0;
	put_map(&broken, path, 1, 1);
	CHECK_EQ(code_log_read(broken.data, broken.size, &log), 0);
	CHECK(log.broken);
	CHECK_EQ(log.n_maps, 0u);
	code_log_done(&log);
}

static void test_patience(void)
{
	const uint64_t second = 1000000000;
	uint64_t now = 100 * second;
	bool good = true;

	CHECK_EQ(patience_left(1000, now), second);
	for (unsigned n = 0; n < 5; n++)
		patience_spend(1000, now, second / 4);
	/* All programs of an account share it; others have their own, whatever the numbers. */
	CHECK(patience_left(1000, now) > 0 && patience_left(1000, now) < second / 10);
	CHECK_EQ(patience_left(1001, now), second);
	patience_spend(1234600501, now, second);
	CHECK(patience_left(1234600501, now) < second / 10);
	CHECK_EQ(patience_left(1234600502, now), second);
	CHECK_EQ(patience_left(1000, now + 20 * second), second);
	/* Many owners: each has a budget, none more than one. */
	for (uid_t uid = 2000; uid < 2300; uid++) {
		good = good && patience_left(uid, now) == second;
		patience_spend(uid, now, 2 * second);
		good = good && patience_left(uid, now) < second / 10;
	}
	CHECK(good);
}

/* With more mappings than the limit, all of the address space is unknown from the first on that is left out. */
static void test_full(void)
{
	_cleanup_buf_ struct buf b = { .limit = 64 << 20 };
	const struct code_map *last;
	struct code_log log;

	for (unsigned i = 0; i < MANY; i++)
		put_map(&b, "//anon", 0, 0);
	CHECK_EQ(buf_error(&b), 0);
	CHECK_EQ(code_log_read(b.data, b.size, &log), 0);
	CHECK(log.crowded);
	CHECK(log.n_maps < MANY);
	last = &log.maps[log.n_maps - 1];
	CHECK_STR(last->path, "//unknown");
	CHECK(last->record.addr == 0 && last->record.len == INT64_MAX);
	CHECK_STR(last[-1].path, "//anon");
	code_log_done(&log);
}

static void test_cut(void)
{
	static const uint64_t times[] = { 30, 10, 40, 20 };
	static const char *const paths[] = { "/late", "/first", "/later", "/last" };
	_cleanup_buf_ struct buf b = { .limit = 1 << 20 };
	struct code_log log;

	for (unsigned i = 0; i < ELEMENTS(times); i++) {
		size_t at = b.size;

		put_map(&b, paths[i], i + 1, 1);
		((struct emu_record_map *)(b.data + at))->head.time_ns = times[i];
	}
	b.size = code_log_cut(b.data, b.size, 20);
	CHECK_EQ(code_log_read(b.data, b.size, &log), 0);
	CHECK(log.n_maps == 2 && !log.broken);
	CHECK_STR(log.maps[0].path, "/first");
	CHECK_STR(log.maps[1].path, "/last");
	code_log_done(&log);
}

int main(void)
{
	test_cut();
	test_images();
	test_full();
	test_limits();
	test_patience();
	return unit_end();
}
