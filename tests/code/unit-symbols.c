/* SPDX-License-Identifier: MIT */
/* lib/code, symbols: a file built by hand, then truncated and damaged; and real programs, compared with libelf. */
#include <fcntl.h>
#include <gelf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/io.h"
#include "lib/code/debug-file.h"
#include "lib/code/symbols.h"
#include "lib/code/symtab.h"
#include "lib/perfdata/sums.h"
#include "tests/code/elfgen.h"
#include "tests/unit.h"

static int memfd_of(const void *data, size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	if (fd >= 0)
		io_write(fd, data, size);
	return fd;
}

static const char *name_at(const struct symbols *s, uint64_t offset)
{
	struct symbols_at at;

	symbols_find(s, offset, &at);
	return at.name ? at.name : "-";
}

static void test_by_hand(bool narrow)
{
	const uint64_t stubs = TEXT_OFFSET + 0x800 + (narrow ? 20 : 32), size = narrow ? 12 : 16;
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	_cleanup_buf_ struct buf b = { 0 };
	_cleanup_close_ int fd = -1;
	struct symbols_at at;

	if (narrow)
		make_elf32(&b);
	else
		make_elf(&b);
	fd = memfd_of(b.data, b.size);
	if (!CHECK_EQ(symbols_load(fd, &s), 0))
		return;
	CHECK_STR(name_at(s, TEXT_OFFSET), "main");
	CHECK_STR(name_at(s, TEXT_OFFSET + 0x44), "main");
	CHECK_STR(name_at(s, TEXT_OFFSET + 0x100), "helper");
	CHECK_STR(name_at(s, TEXT_OFFSET + 0x180), "-");
	CHECK_STR(name_at(s, TEXT_OFFSET + 0x2fc), "asm_part");
	CHECK_STR(name_at(s, TEXT_OFFSET + 0x304), "_ZN3foo3barEi");
	CHECK_STR(name_at(s, TEXT_OFFSET + 0x804), "[plt]");
	CHECK_STR(name_at(s, stubs), "abort@plt");
	CHECK_STR(name_at(s, stubs + 2 * size - 1), "puts@plt");
	CHECK_STR(name_at(s, stubs + 2 * size), "-");
	CHECK_STR(name_at(s, 0), "-");
	symbols_find(s, TEXT_OFFSET + 0x408, &at);
	CHECK_STR(at.name, "main");
	CHECK_EQ(at.function, TEXT_OFFSET);
	CHECK_EQ(at.start, TEXT_OFFSET + 0x400);
	CHECK_EQ(symbols_named(s, "main", &at), 0);
	CHECK_EQ(at.start, TEXT_OFFSET);
	CHECK_EQ(symbols_named(s, "foo::bar(int)", &at), 0);
	CHECK_STR(at.name, "_ZN3foo3barEi");
	CHECK_EQ(symbols_named(s, "_ZN3foo3barEi", &at), 0);
	CHECK_EQ(symbols_named(s, "puts@plt", &at), -ENOENT);
	CHECK_EQ(symbols_named(s, "", &at), -ENOENT);
}

/* Loads a file and looks addresses up, which must not crash. Returns true if the file was accepted. */
static bool try(const void *data, size_t size)
{
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	_cleanup_close_ int fd = memfd_of(data, size);
	struct symbols_at at;

	if (symbols_load(fd, &s) < 0)
		return false;
	for (uint64_t offset = 0; offset < 0x2000; offset += 0x40)
		symbols_find(s, offset, &at);
	symbols_find(s, UINT64_MAX, &at);
	return true;
}

static void test_hostile(bool narrow)
{
	const size_t entry = narrow ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr),
		     size_at = narrow ? offsetof(Elf32_Shdr, sh_size) : offsetof(Elf64_Shdr, sh_size);
	_cleanup_buf_ struct buf b = { 0 };
	size_t taken = 0;

	if (narrow)
		make_elf32(&b);
	else
		make_elf(&b);
	for (size_t cut = 0; cut < b.size; cut++)
		taken += try(b.data, cut);
	CHECK_EQ(taken, 0);
	for (size_t at = 0; at < b.size; at++) {
		static const uint8_t values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
		uint8_t saved = b.data[at];

		for (size_t k = 0; k < ELEMENTS(values); k++) {
			b.data[at] = values[k];
			taken += try(b.data, b.size);
		}
		b.data[at] = saved;
	}
	CHECK(taken > 0);
	/* All sizes in the section table. */
	for (size_t i = 0; i < SECTIONS; i++)
		memset(b.data + b.size - (SECTIONS - i) * entry + size_at, 0xff, narrow ? 4 : 8);
	CHECK(!try(b.data, b.size));
	CHECK_EQ(try("#!/bin/sh\n", 10), false);
}

/* True if two tables have the same functions. */
static bool same_answers(const struct symbols *a, const struct symbols *b)
{
	struct symbols_at x = { 0 }, y;
	bool same = symbols_count(a) == symbols_count(b);

	do {
		symbols_find(a, x.end, &x);
		symbols_find(b, x.start, &y);
		same = same && x.start == y.start && x.end == y.end && x.known == y.known && x.plt == y.plt &&
		       x.function == y.function && x.function_end == y.function_end && !x.name == !y.name &&
		       (!x.name || strcmp(x.name, y.name) == 0);
	} while (same && x.end != UINT64_MAX);
	return same;
}

/* A damaged table is rejected, or can be searched. */
static void read_damaged(const uint8_t *bytes, size_t size)
{
	_cleanup_close_ int fd = memfd_of(bytes, size);
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	int rc = symbols_read(fd, &s);

	if (rc < 0 ? rc != -EBADMSG : !same_answers(s, s))
		CHECK_EQ(rc, -EBADMSG);
}

static void test_kept(void)
{
	_cleanup_(symbols_freep) struct symbols *s = NULL, *again = NULL;
	_cleanup_close_ int elf = -1, fd = memfd_create("kept", MFD_CLOEXEC);
	_cleanup_buf_ struct buf b = { 0 };
	uint8_t bytes[4096];
	ssize_t n;

	make_elf(&b);
	elf = memfd_of(b.data, b.size);
	if (!CHECK(symbols_load(elf, &s) == 0 && symbols_write(s, fd) == 0 && symbols_read(fd, &again) == 0))
		return;
	CHECK(same_answers(s, again));
	n = pread(fd, bytes, sizeof(bytes), 0);
	CHECK(n > 0 && (size_t)n < sizeof(bytes));
	for (size_t size = 0; size < (size_t)n; size++)
		read_damaged(bytes, size);
	for (size_t i = 0; i < 8 * (size_t)n; i++) {
		bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		read_damaged(bytes, (size_t)n);
		bytes[i / 8] ^= (uint8_t)(1u << i % 8);
	}
}

static bool key_of(const struct buf *file, const struct buf *debug, char *ret)
{
	_cleanup_close_ int fd = memfd_of(file->data, file->size),
			    other = debug ? memfd_of(debug->data, debug->size) : -1;

	return symbols_key(fd, other, ret) == 0;
}

/* True if both files have the same table, or both have none. */
static bool same_tables(const struct symbols *a, const struct buf *file)
{
	_cleanup_close_ int fd = memfd_of(file->data, file->size);
	_cleanup_(symbols_freep) struct symbols *b = NULL;
	int rc = symbols_load(fd, &b);

	return rc == 0 && same_answers(a, b);
}

/* Every byte that the table depends on changes the key; the code itself does not. */
static void test_key(void)
{
	char key[SYMBOLS_KEY_SIZE], same[SYMBOLS_KEY_SIZE], other[SYMBOLS_KEY_SIZE];
	_cleanup_(symbols_freep) struct symbols *table = NULL;
	_cleanup_buf_ struct buf b = { 0 };
	_cleanup_close_ int fd = -1;
	size_t unseen = 0, wrong = 0;

	make_elf(&b);
	fd = memfd_of(b.data, b.size);
	CHECK_EQ(symbols_load(fd, &table), 0);
	CHECK(key_of(&b, NULL, key) && key_of(&b, NULL, same) && strlen(key) == SYMBOLS_KEY_SIZE - 1);
	CHECK_STR(key, same);
	CHECK(key_of(&b, &b, other) && strcmp(key, other) != 0);
	for (size_t i = 0; i < 8 * b.size; i++) {
		/* Nothing is in between but code. */
		if (i == 8 * TABLES_END)
			i = 8 * (TEXT_OFFSET + 0x800 - 1);
		b.data[i / 8] ^= (uint8_t)(1u << i % 8);
		if (key_of(&b, NULL, other) && strcmp(key, other) == 0) {
			unseen++;
			wrong += !same_tables(table, &b);
		}
		b.data[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	printf("# %zu of %zu bits do not change the key\n", unseen, 8 * b.size);
	CHECK(unseen > 0 && unseen < 2 * b.size);
	CHECK_EQ(wrong, 0);
}

/* The same file without sections: functions are known by the unwind table alone. */
static void test_stripped(const char *path, const struct symbols *full)
{
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	_cleanup_free_ char *data = NULL;
	_cleanup_close_ int fd = -1;
	size_t size, right = 0, known = 0;

	if (!CHECK_EQ(io_read_file(AT_FDCWD, path, 64 << 20, &data, &size), 0))
		return;
	memset(data + offsetof(Elf64_Ehdr, e_shoff), 0, sizeof(uint64_t));
	memset(data + offsetof(Elf64_Ehdr, e_shnum), 0, sizeof(uint16_t));
	fd = memfd_of(data, size);
	if (!CHECK_EQ(symbols_load(fd, &s), 0))
		return;
	for (uint64_t offset = 0; offset < size; offset += 4) {
		struct symbols_at at, want;

		symbols_find(s, offset, &at);
		symbols_find(full, offset, &want);
		if (!at.known || at.start != offset)
			continue;
		known++;
		right += want.known && want.start == offset;
	}
	printf("# without sections: %zu functions, %zu of which have a name otherwise\n", known, right);
	CHECK(known > 0 && right * 10 > known * 9);
}

/* Every function that libelf finds has a name at its first and last byte, and begins at its first one. */
static void test_real(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	size_t seen = 0, named = 0, stubs = 0;
	Elf_Scn *scn = NULL;
	Elf *elf;

	if (fd < 0) {
		unit_skip(path, "not built");
		return;
	}
	if (!CHECK_EQ(symbols_load(fd, &s), 0))
		return;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr header, in;
		Elf_Data *data;
		GElf_Sym sym;

		gelf_getshdr(scn, &header);
		if (header.sh_type != SHT_SYMTAB)
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 0; gelf_getsym(data, i, &sym); i++) {
			struct symbols_at at;
			uint64_t offset;

			if (GELF_ST_TYPE(sym.st_info) != STT_FUNC || !sym.st_shndx || !sym.st_size)
				continue;
			gelf_getshdr(elf_getscn(elf, sym.st_shndx), &in);
			offset = sym.st_value - in.sh_addr + in.sh_offset;
			seen++;
			symbols_find(s, offset, &at);
			/* A part that the compiler split off has the name and the entry of its function. */
			named +=
			    at.name && at.start == offset &&
			    (at.function == offset || strstr(elf_strptr(elf, header.sh_link, sym.st_name), ".cold"));
			symbols_find(s, offset + sym.st_size - 1, &at);
			named += at.name != NULL;
		}
	}
	elf_end(elf);
	CHECK(seen > 0);
	CHECK_EQ(named, 2 * seen);
	for (uint64_t offset = 0; offset < 0x10000; offset += 8)
		stubs += strcmp(name_at(s, offset), "abort@plt") == 0;
	/* A static program has no .eh_frame_hdr. */
	if (!strstr(path, "library") || strstr(path, "dynamic"))
		test_stripped(path, s);
	if (strstr(path, "dynamic"))
		CHECK_EQ(stubs, 2);
	printf("# %s: %zu functions\n", path, seen);
}

enum { THREADS = 4, LOADS = 8 };

/* Loads the program itself several times; returns NULL if each table has as many functions as expected. */
static void *load_repeatedly(void *user)
{
	const size_t *wanted = user;

	for (int i = 0; i < LOADS; i++) {
		_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		_cleanup_(symbols_freep) struct symbols *s = NULL;

		if (symbols_load(fd, &s) < 0 || symbols_count(s) != *wanted)
			return user;
	}
	return NULL;
}

static void test_threads(void)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	pthread_t threads[THREADS];
	size_t wanted, wrong = 0;

	if (!CHECK_EQ(symbols_load(fd, &s), 0))
		return;
	wanted = symbols_count(s);
	for (int i = 0; i < THREADS; i++)
		if (!CHECK_EQ(pthread_create(&threads[i], NULL, load_repeatedly, &wanted), 0))
			return;
	for (int i = 0; i < THREADS; i++) {
		void *failed = NULL;

		pthread_join(threads[i], &failed);
		wrong += failed != NULL;
	}
	CHECK_EQ(wrong, 0);
}

/* The checksums of all files together have a limit: a file beyond it is not read. */
static void test_sums(void)
{
	struct debug_wanted wanted = { .link = "program.debug" };
	_cleanup_buf_ struct buf b = { 0 };
	_cleanup_close_ int fd = -1;
	uint64_t used = 0;

	make_elf(&b);
	fd = memfd_of(b.data, b.size);
	CHECK_EQ(sums_file(fd, UINT64_MAX, &wanted.crc), 0);
	CHECK_EQ(debug_file_is(fd, &wanted, &used), 1);
	CHECK_EQ(used, b.size);
	wanted.crc++;
	CHECK_EQ(debug_file_is(fd, &wanted, &used), 0);
	CHECK_EQ(used, 2 * b.size);
	wanted.crc--;
	used = DEBUG_SUMS_MAX - b.size;
	CHECK_EQ(debug_file_is(fd, &wanted, &used), 1);
	CHECK_EQ(used, DEBUG_SUMS_MAX);
	CHECK_EQ(debug_file_is(fd, &wanted, &used), -EFBIG);
	CHECK_EQ(used, DEBUG_SUMS_MAX);
	/* A hole, which costs nothing: the file is larger than all that may be read. */
	used = 0;
	CHECK_EQ(ftruncate(fd, (off_t)DEBUG_SUMS_MAX + 1), 0);
	CHECK_EQ(debug_file_is(fd, &wanted, &used), -EFBIG);
	CHECK_EQ(used, 0);
}

/* A place in a linker script names a function only if nothing else does. */
static void test_names(void)
{
	CHECK(symbols_name_rank(true, false, "__switch_to") < symbols_name_rank(true, false, "__sched_text_start"));
	CHECK(symbols_name_rank(false, false, "__do_softirq") <
	      symbols_name_rank(true, false, "__softirqentry_text_end"));
	CHECK(symbols_name_rank(true, false, "_start") < symbols_name_rank(true, false, "__switch_to"));
}

/* The functions of a perf map, as START-END NAME, or START-END NAME@ENTRY if the entry is in another part. */
static void check_perf_map(const char *map, const char *expected)
{
	_cleanup_close_ int fd = memfd_of(map, strlen(map));
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	_cleanup_buf_ struct buf b = { 0 };
	struct symbols_at at = { 0 };

	if (!CHECK_EQ(symbols_load_perf_map(fd, &s), 0))
		return;
	do {
		symbols_find(s, at.end, &at);
		if (!at.known)
			continue;
		buf_printf(&b, "%s%jx-%jx %s", b.size ? ", " : "", (uintmax_t)at.start, (uintmax_t)at.end, at.name);
		if (at.function != at.start)
			buf_printf(&b, "@%jx", (uintmax_t)at.function);
	} while (at.end != UINT64_MAX);
	buf_u8(&b, 0);
	CHECK_STR((const char *)b.data, expected);
}

/* Of the lines for an address, the last one applies. */
static void test_perf_map(void)
{
	check_perf_map("", "");
	check_perf_map("20 10 b\nnonsense\n10 10 a b\n", "10-20 a b, 20-30 b");
	check_perf_map("10 10 old\n10 10 new\n", "10-20 new");
	check_perf_map("10 10 a\n20 10 b\n40 10 c\n0 48 new\n", "0-48 new, 48-50 c");
	check_perf_map("10 20 old\n0 20 new\n", "0-20 new, 20-30 old");
	check_perf_map("10 20 new\n0 20 old\n10 20 new\n", "0-10 old, 10-30 new");
	check_perf_map("0 100 all\n10 10 a\n30 10 b\n", "0-10 all, 10-20 a, 20-30 all@0, 30-40 b, 40-100 all@0");
	check_perf_map("0 40 all\n0 10 a\n20 10 b\n", "0-10 a, 10-20 all, 20-30 b, 30-40 all@10");
	check_perf_map("10 0 a\n20 10 b\n40 0 c\n", "10-20 a, 20-30 b, 40-ffffffffffffffff c");
	check_perf_map("0 40 old\n10 0 new\n18 8 next\n", "0-10 old, 10-18 new, 18-20 next, 20-40 old@0");
	check_perf_map("10 10 old\n30 0 x\nffffffffffffffff 0 y\n", "10-20 old, 30-ffffffffffffffff x");
}

int main(void)
{
	static char self[4096];

	test_names();
	test_perf_map();
	test_by_hand(false);
	test_by_hand(true);
	test_threads();
	test_kept();
	test_key();
	test_sums();
	test_hostile(false);
	test_hostile(true);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) > 0)
		test_real(self);
	test_real("tests/programs/library");
	test_real("tests/programs/library-dynamic");
	return unit_end();
}
