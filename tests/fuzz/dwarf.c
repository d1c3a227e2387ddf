/* SPDX-License-Identifier: MIT */
/*
 * lib/code/inlines.c, inline-*.c, dwarf*.c: the input is the DWARF sections of an otherwise valid ELF file, each after
 * its size, and then its instructions.
 */
#include <string.h>

#include "lib/base/reader.h"
#include "lib/code/inlines.h"
#include "tests/code/dwarfgen.h"
#include "tests/fuzz/fuzz.h"

enum { LOOKUPS_MAX = 2000 };

static void look_up(struct inlines *s)
{
	uint64_t offset = DWARF_TEXT_OFFSET;
	struct inlines_at at;
	const char *file;
	uint32_t line;

	for (int i = 0; i < LOOKUPS_MAX && offset < DWARF_TEXT_OFFSET + DWARF_TEXT_SIZE; i++) {
		inlines_find(s, offset, &at);
		fuzz_require(at.start <= offset && offset < at.end && at.n <= INLINES_MAX);
		for (size_t k = 0; k < at.n; k++) {
			const struct inlines_frame *f = &at.frames[k];

			fuzz_require(!f->file || strlen(f->file) < 4096);
			fuzz_require(!f->call_file || strlen(f->call_file) < 4096);
			fuzz_require(!f->name || strlen(f->name) < (1 << 20));
		}
		if (inlines_line(s, offset, &file, &line))
			fuzz_require(strlen(file) < 4096 && line);
		offset = at.end;
		if (at.n_entries) {
			inlines_entry(s, at.start, at.n_entries - 1, &at);
			fuzz_require(at.n && at.n <= INLINES_MAX);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(inlines_freep) struct inlines *s = NULL;
	struct reader r = reader_of(data, size);
	struct buf sections[DWARF_SECTIONS] = { 0 };
	_cleanup_buf_ struct buf elf = { 0 };
	_cleanup_close_ int fd = -1;

	for (int i = 0; i < DWARF_SECTIONS; i++) {
		const uint8_t *bytes;
		uint16_t n;

		if (rd_u16(&r, &n) < 0)
			break;
		n = (uint16_t)MIN((size_t)n, rd_left(&r));
		if (rd_bytes(&r, n, &bytes) == 0)
			buf_add(&sections[i], bytes, n);
	}
	dwarfgen_elf(&elf, sections);
	buf_zero(&elf, DWARF_TEXT_OFFSET - MIN(elf.size, (size_t)DWARF_TEXT_OFFSET));
	buf_add(&elf, r.at, MIN(rd_left(&r), (size_t)DWARF_TEXT_SIZE));
	buf_zero(&elf,
		 DWARF_TEXT_OFFSET + DWARF_TEXT_SIZE - MIN(elf.size, (size_t)DWARF_TEXT_OFFSET + DWARF_TEXT_SIZE));
	fd = fuzz_fd(elf.data, elf.size);
	if (inlines_load(fd, -1, &s) == 0)
		look_up(s);
	for (int i = 0; i < DWARF_SECTIONS; i++)
		buf_done(&sections[i]);
	return 0;
}

void fuzz_seeds(void)
{
	/* adrp x0, .; ldr x1, [x0, #8]; str x1, [x0, #8]; cbz x1, .-8; bl .+16; b.ne .-12; b .+8; ret */
	static const uint32_t code[] = { 0x90000000, 0xf9400401, 0xf9000401, 0xb4ffffc1,
					 0x94000004, 0x54ffffa1, 0x14000002, 0xd65f03c0 };

	for (int version = 4; version <= 5; version++) {
		struct buf sections[DWARF_SECTIONS] = { 0 };
		_cleanup_buf_ struct buf b = { 0 };

		dwarfgen_sections(sections, version);
		for (int i = 0; i < DWARF_SECTIONS; i++) {
			buf_u16(&b, (uint16_t)sections[i].size);
			buf_add(&b, sections[i].data, sections[i].size);
			buf_done(&sections[i]);
		}
		for (size_t i = 0; i < DWARF_TEXT_SIZE / sizeof(code); i++)
			buf_add(&b, code, sizeof(code));
		fuzz_seed(b.data, b.size);
	}
}
