/* SPDX-License-Identifier: MIT */
/*
 * lib/code/inlines.c: hand-made DWARF, then truncated and damaged. tests/code/inlines.test compares programs of
 * compilers with other readers.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "lib/base/io.h"
#include "lib/code/inlines.h"
#include "tests/code/dwarfgen.h"
#include "tests/unit.h"

static void make_dwarf(struct buf *b, int version)
{
	struct buf s[DWARF_SECTIONS] = { 0 };

	dwarfgen_sections(s, version);
	dwarfgen_elf(b, s);
	for (int i = 0; i < DWARF_SECTIONS; i++)
		buf_done(&s[i]);
}

static int load(const struct buf *b, struct inlines **ret)
{
	_cleanup_close_ int fd = memfd_create("elf", MFD_CLOEXEC);

	return io_write(fd, b->data, b->size) < 0 ? -EIO : inlines_load(fd, -1, ret);
}

/* The functions that are called at an address, each after those that it is in: "outer middle, outer middle leaf" */
static const char *calls_of(struct inlines *s, uint64_t address)
{
	uint64_t offset = address - DWARF_TEXT + DWARF_TEXT_OFFSET;
	static char text[512];
	struct inlines_at at, call;
	size_t n = 0;

	text[0] = 0;
	inlines_find(s, offset, &at);
	for (size_t i = 0; at.start == offset && i < at.n_entries; i++) {
		inlines_entry(s, offset, i, &call);
		for (size_t k = 0; k < call.n; k++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s",
					      !n  ? ""
					      : k ? " "
						  : ", ",
					      call.frames[k].name);
	}
	return text;
}

/* "outer main.c:10 | middle part.h:20 at main.c:12 | …" */
static const char *text_of(struct inlines *s, uint64_t address)
{
	static char text[512];
	struct inlines_at at;
	size_t n = 0;

	text[0] = 0;
	inlines_find(s, address - DWARF_TEXT + DWARF_TEXT_OFFSET, &at);
	for (size_t i = 0; i < at.n; i++) {
		const struct inlines_frame *f = &at.frames[i];

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s:%u", i ? " | " : "", f->name, f->file,
				      f->line);
		if (i)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " at %s:%u", f->call_file, f->call_line);
	}
	return text;
}

static void test_by_hand(int version)
{
	static const char outer[] = "outer /src/main.c:10",
			  middle[] = "outer /src/main.c:10 | middle /src/lib/part.h:20 at /src/main.c:12",
			  leaf[] = "outer /src/main.c:10 | middle /src/lib/part.h:20 at /src/main.c:12 | "
				   "leaf /src/lib/part.h:30 at /src/lib/part.h:22";
	_cleanup_(inlines_freep) struct inlines *s = NULL;
	_cleanup_buf_ struct buf b = { 0 };
	struct inlines_at at;

	make_dwarf(&b, version);
	if (!CHECK_EQ(load(&b, &s), 0))
		return;
	CHECK_STR(text_of(s, DWARF_TEXT), outer);
	CHECK_STR(text_of(s, DWARF_TEXT + 0x1c), outer);
	CHECK_STR(text_of(s, DWARF_TEXT + 0x20), middle);
	CHECK_STR(text_of(s, DWARF_TEXT + 0x24), middle);
	CHECK_STR(text_of(s, DWARF_TEXT + 0x28), leaf);
	CHECK_STR(text_of(s, DWARF_TEXT + 0x2f), leaf);
	CHECK_STR(text_of(s, DWARF_TEXT + 0x30), middle);
	CHECK_STR(text_of(s, DWARF_TEXT + 0x60), outer);
	CHECK_STR(text_of(s, DWARF_TEXT + 0x8c), middle);
	CHECK_STR(text_of(s, DWARF_TEXT + 0x90), outer);
	CHECK_STR(text_of(s, DWARF_TEXT + 0x100), "next /src/main.c:40");
	CHECK_STR(text_of(s, DWARF_TEXT + 0x140), "");
	CHECK_STR(text_of(s, DWARF_TEXT - 4), "");
	CHECK_STR(calls_of(s, DWARF_TEXT + 0x1c), "outer middle");
	CHECK_STR(calls_of(s, DWARF_TEXT + 0x20), "");
	CHECK_STR(calls_of(s, DWARF_TEXT + 0x24), "outer middle leaf");
	CHECK_STR(calls_of(s, DWARF_TEXT + 0x28), "");
	CHECK_STR(calls_of(s, DWARF_TEXT + 0x2c), "outer middle leaf");
	CHECK_STR(calls_of(s, DWARF_TEXT + 0x80), "");
	inlines_find(s, DWARF_TEXT_OFFSET + 0x29, &at);
	CHECK(at.start == DWARF_TEXT_OFFSET + 0x28 && at.end == DWARF_TEXT_OFFSET + 0x2c && !at.n_entries);
	inlines_find(s, DWARF_TEXT_OFFSET + 0x34, &at);
	CHECK_EQ(at.start, DWARF_TEXT_OFFSET + 0x30);
	CHECK_EQ(at.end, DWARF_TEXT_OFFSET + 0x60);
	inlines_find(s, DWARF_TEXT_OFFSET + 0x150, &at);
	CHECK_EQ(at.start, DWARF_TEXT_OFFSET + 0x140);
	CHECK_EQ(at.end, DWARF_TEXT_OFFSET + DWARF_TEXT_SIZE);
	inlines_find(s, 0, &at);
	CHECK(at.n == 0 && at.start == 0 && at.end == 1);
	inlines_find(s, UINT64_MAX, &at);
	CHECK_EQ(at.n, 0);
}

/* Looks up all offsets of a damaged file, and counts it in *loaded if it has any DWARF. */
static void look_up_all(const struct buf *b, size_t *loaded)
{
	_cleanup_(inlines_freep) struct inlines *s = NULL;
	struct inlines_at at;

	if (load(b, &s) < 0)
		return;
	++*loaded;
	for (uint64_t offset = 0; offset < 0x1400; offset = MAX(at.end, offset + 1)) {
		inlines_find(s, offset, &at);
		if (at.start > offset || at.end <= offset || at.n > INLINES_MAX)
			CHECK(false);
		if (at.n_entries)
			inlines_entry(s, offset, at.n_entries - 1, &at);
	}
}

static void test_damaged(int version)
{
	static const uint8_t values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	_cleanup_buf_ struct buf b = { 0 };
	size_t loaded = 0, size;

	make_dwarf(&b, version);
	size = b.size;
	for (size_t at = 0; at < size; at++) {
		uint8_t saved = b.data[at];

		for (size_t k = 0; k < ELEMENTS(values); k++) {
			b.data[at] = values[k];
			look_up_all(&b, &loaded);
		}
		b.data[at] = saved;
	}
	CHECK(loaded > size);
	loaded = 0;
	for (b.size = 0; b.size < size; b.size++)
		look_up_all(&b, &loaded);
	CHECK_EQ(loaded, 0);
}

/* A table that claims 2,000,000,000 files, and has no bytes for them. */
static void test_many_files(void)
{
	enum { MANY_KIB = 128 << 10 };
	struct buf sections[DWARF_SECTIONS] = { 0 };
	_cleanup_(inlines_freep) struct inlines *s = NULL;
	_cleanup_buf_ struct buf b = { 0 };
	struct inlines_at at;
	struct rusage before, after;

	dwarfgen_sections(sections, 5);
	buf_clear(&sections[DWARF_LINE]);
	buf_u32(&sections[DWARF_LINE], 20);
	DWARFGEN(&sections[DWARF_LINE], 5, 0, 8, 0, 12, 0, 0, 0, 4, 1, 1, 0xfb, 14, 1);
	DWARFGEN(&sections[DWARF_LINE], 0, 0xff, 0xff, 0xff, 0xff, 7);
	dwarfgen_elf(&b, sections);
	for (int i = 0; i < DWARF_SECTIONS; i++)
		buf_done(&sections[i]);
	getrusage(RUSAGE_SELF, &before);
	CHECK_EQ(load(&b, &s), 0);
	inlines_find(s, DWARF_TEXT_OFFSET + 0x34, &at);
	CHECK(at.n > 1 && at.frames[0].name && !at.frames[0].file);
	getrusage(RUSAGE_SELF, &after);
	CHECK(after.ru_maxrss - before.ru_maxrss < MANY_KIB);
}

int main(void)
{
	test_many_files();
	test_by_hand(4);
	test_by_hand(5);
	test_damaged(4);
	test_damaged(5);
	return unit_end();
}
