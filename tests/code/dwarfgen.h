/* SPDX-License-Identifier: MIT */
/*
 * Makes an ELF file with DWARF of version 4 or 5 by hand. It has, from DWARF_TEXT on:
 *
 *   0x00 to 0x100  function "outer", declared at /src/main.c:10
 *   0x20 to 0x60, 0x80 to 0x90  "middle", declared at lib/part.h:20, inlined in "outer", called at main.c:12
 *   0x28 to 0x30  "leaf", declared at lib/part.h:30, inlined in "middle", called at lib/part.h:22
 *   0x100 to 0x140  function "next"
 *
 * Calls of "middle" begin at 0x1c, by DW_AT_entry_pc, those of "leaf" at 0x24 and 0x2c, by the line number table.
 */
#ifndef CSIGHT_TESTS_DWARFGEN_H
#define CSIGHT_TESTS_DWARFGEN_H

#include <elf.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/code/dwarf.h"

enum { DWARF_TEXT = 0x10000, DWARF_TEXT_OFFSET = 0x1000, DWARF_TEXT_SIZE = 0x200 };

static const char *const dwarfgen_names[DWARF_SECTIONS] = { ".debug_info", ".debug_abbrev",   ".debug_str",
							    ".debug_line", ".debug_line_str", ".debug_str_offsets",
							    ".debug_addr", ".debug_ranges",   ".debug_rnglists" };

static void dwarfgen_bytes(struct buf *b, const uint8_t *bytes, size_t n)
{
	buf_add(b, bytes, n);
}

#define DWARFGEN(b, ...) dwarfgen_bytes((b), (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void dwarfgen_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

static void dwarfgen_abbrevs(struct buf *b, int version)
{
	/* 1: a unit: name, comp_dir, low_pc, high_pc, stmt_list, and in version 5 the bases of its tables. */
	DWARFGEN(b, 1, 0x11, 1, 0x03, 0x08, 0x1b, 0x08, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17);
	if (version == 5)
		DWARFGEN(b, 0x72, 0x17, 0x73, 0x17, 0x74, 0x17);
	DWARFGEN(b, 0, 0);
	/* 2: a function: linkage_name, decl_file, decl_line, low_pc, high_pc. */
	DWARFGEN(b, 2, 0x2e, 1, 0x6e, 0x08, 0x3a, 0x0b, 0x3b, 0x05, 0x11, 0x01, 0x12, 0x06, 0, 0);
	/* 3: an abstract instance: name, decl_file, decl_line, decl_column. */
	DWARFGEN(b, 3, 0x2e, 0, 0x03, version == 5 ? 0x25 : 0x0e, 0x3a, 0x0b, 0x3b, 0x0f, 0x39, 0x0b, 0, 0);
	/* 4: an inlined instance: abstract_origin, entry_pc, ranges, call_file, call_line. */
	DWARFGEN(b, 4, 0x1d, 1, 0x31, 0x13, 0x52, 0x01, 0x55, version == 5 ? 0x23 : 0x17);
	DWARFGEN(b, 0x58, 0x0b, 0x59, 0x0f, 0, 0);
	/* 5: an inlined instance: abstract_origin, low_pc, high_pc, call_file, call_line. */
	DWARFGEN(b, 5, 0x1d, 0, 0x31, 0x13, 0x11, version == 5 ? 0x1b : 0x01, 0x12, 0x0b, 0x58);
	if (version == 5)
		DWARFGEN(b, 0x21, 2, 0x59, 0x0b, 0, 0);
	else
		DWARFGEN(b, 0x0b, 0x59, 0x0b, 0, 0);
	/* 6: a lexical block, with an attribute that is skipped: location. */
	DWARFGEN(b, 6, 0x0b, 1, 0x02, 0x18, 0, 0);
	DWARFGEN(b, 0);
}

static void dwarfgen_info(struct buf *b, int version)
{
	struct buf u = { 0 };
	uint32_t head = 4, middle, leaf;

	buf_u16(&u, (uint16_t)version);
	if (version == 5)
		DWARFGEN(&u, 1, 8);
	buf_u32(&u, 0);
	if (version != 5)
		DWARFGEN(&u, 8);
	DWARFGEN(&u, 1);
	dwarfgen_text(&u, "main.c");
	dwarfgen_text(&u, "/src");
	buf_u64(&u, DWARF_TEXT);
	buf_u64(&u, 0x140);
	buf_u32(&u, 0);
	if (version == 5) {
		buf_u32(&u, 8);
		buf_u32(&u, 8);
		buf_u32(&u, 12);
	}
	middle = head + (uint32_t)u.size;
	DWARFGEN(&u, 3);
	if (version == 5)
		DWARFGEN(&u, 0);
	else
		buf_u32(&u, 0);
	DWARFGEN(&u, 2, 20, 7);
	leaf = head + (uint32_t)u.size;
	DWARFGEN(&u, 3);
	if (version == 5)
		DWARFGEN(&u, 1);
	else
		buf_u32(&u, 7);
	DWARFGEN(&u, 2, 30, 9);
	DWARFGEN(&u, 2);
	dwarfgen_text(&u, "outer");
	DWARFGEN(&u, 1, 10, 0);
	buf_u64(&u, DWARF_TEXT);
	buf_u32(&u, 0x100);
	DWARFGEN(&u, 6, 1, 0x50, 4);
	buf_u32(&u, middle);
	buf_u64(&u, DWARF_TEXT + 0x1c);
	if (version == 5)
		DWARFGEN(&u, 0);
	else
		buf_u32(&u, 0);
	DWARFGEN(&u, 1, 12, 5);
	buf_u32(&u, leaf);
	if (version == 5)
		DWARFGEN(&u, 0, 8, 22);
	else {
		buf_u64(&u, DWARF_TEXT + 0x28);
		DWARFGEN(&u, 8, 2, 22);
	}
	DWARFGEN(&u, 0, 0, 0, 2);
	dwarfgen_text(&u, "next");
	/* Both numbers are main.c in version 5. */
	DWARFGEN(&u, version == 5 ? 0 : 1, 40, 0);
	buf_u64(&u, DWARF_TEXT + 0x100);
	buf_u32(&u, 0x40);
	DWARFGEN(&u, 0, 0);
	buf_u32(b, (uint32_t)u.size);
	buf_add(b, u.data, u.size);
	buf_done(&u);
}

static void dwarfgen_lines(struct buf *b, int version)
{
	struct buf head = { 0 }, u = { 0 };

	buf_u16(&head, (uint16_t)version);
	if (version == 5)
		DWARFGEN(&head, 8, 0);
	DWARFGEN(&u, 4, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1);
	if (version == 5) {
		DWARFGEN(&u, 1, 1, 0x08, 2);
		dwarfgen_text(&u, "/src");
		dwarfgen_text(&u, "lib");
		DWARFGEN(&u, 2, 1, 0x08, 2, 0x0b, 3);
		dwarfgen_text(&u, "main.c");
		DWARFGEN(&u, 0);
		dwarfgen_text(&u, "main.c");
		DWARFGEN(&u, 0);
		dwarfgen_text(&u, "part.h");
		DWARFGEN(&u, 1);
	} else {
		dwarfgen_text(&u, "lib");
		DWARFGEN(&u, 0);
		dwarfgen_text(&u, "main.c");
		DWARFGEN(&u, 0, 0, 0);
		dwarfgen_text(&u, "part.h");
		DWARFGEN(&u, 1, 0, 0, 0);
	}
	buf_u32(&head, (uint32_t)u.size);
	/* A function that the linker left out, at 0: its rows would be at 0x20 and 0x24. */
	DWARFGEN(&u, 0, 9, 2);
	buf_u64(&u, 0);
	DWARFGEN(&u, 4, 2, 5, 9, 3, 29, 2, 0x88, 0x80, 0x01, 1, 2, 1, 1, 2, 1, 0, 1, 1);
	/* Set the address; then rows at 0x24, 0x2c, and one that begins no statement, all in part.h, line 30, column 9.
	 */
	DWARFGEN(&u, 0, 9, 2);
	buf_u64(&u, DWARF_TEXT);
	DWARFGEN(&u, 4, 2, 5, 9, 3, 29, 2, 9, 1, 2, 2, 1, 6, 2, 2, 1, 0, 1, 1);
	buf_u32(b, (uint32_t)(head.size + u.size));
	buf_add(b, head.data, head.size);
	buf_add(b, u.data, u.size);
	buf_done(&head);
	buf_done(&u);
}

static inline void dwarfgen_sections(struct buf s[DWARF_SECTIONS], int version)
{
	dwarfgen_abbrevs(&s[DWARF_ABBREV], version);
	dwarfgen_info(&s[DWARF_INFO], version);
	dwarfgen_lines(&s[DWARF_LINE], version);
	dwarfgen_text(&s[DWARF_STR], "middle");
	dwarfgen_text(&s[DWARF_STR], "leaf");
	if (version == 5) {
		buf_u32(&s[DWARF_STR_OFFSETS], 12);
		DWARFGEN(&s[DWARF_STR_OFFSETS], 5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0);
		buf_u32(&s[DWARF_ADDR], 12);
		DWARFGEN(&s[DWARF_ADDR], 5, 0, 8, 0);
		buf_u64(&s[DWARF_ADDR], DWARF_TEXT + 0x28);
		buf_u32(&s[DWARF_RNGLISTS], 20);
		DWARFGEN(&s[DWARF_RNGLISTS], 5, 0, 8, 0, 1, 0, 0, 0, 4, 0, 0, 0);
		DWARFGEN(&s[DWARF_RNGLISTS], 4, 0x20, 0x60, 4, 0x80, 1, 0x90, 1, 0);
	} else {
		buf_u64(&s[DWARF_RANGES], 0x20);
		buf_u64(&s[DWARF_RANGES], 0x60);
		buf_u64(&s[DWARF_RANGES], 0x80);
		buf_u64(&s[DWARF_RANGES], 0x90);
		buf_zero(&s[DWARF_RANGES], 16);
	}
}

static void dwarfgen_elf(struct buf *b, const struct buf s[DWARF_SECTIONS])
{
	Elf64_Shdr table[DWARF_SECTIONS + 2] = { 0 };
	Elf64_Phdr load = { .p_type = PT_LOAD,
			    .p_flags = PF_R | PF_X,
			    .p_offset = DWARF_TEXT_OFFSET,
			    .p_vaddr = DWARF_TEXT,
			    .p_filesz = DWARF_TEXT_SIZE,
			    .p_memsz = DWARF_TEXT_SIZE };
	Elf64_Ehdr h = { .e_type = ET_EXEC,
			 .e_machine = EM_AARCH64,
			 .e_version = 1,
			 .e_phoff = sizeof(h),
			 .e_phnum = 1,
			 .e_phentsize = sizeof(load),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = DWARF_SECTIONS + 2,
			 .e_shstrndx = DWARF_SECTIONS + 1 };
	struct buf names = { 0 };
	uint64_t at = sizeof(h) + sizeof(load);

	buf_u8(&names, 0);
	for (int i = 0; i < DWARF_SECTIONS; i++) {
		table[i + 1] = (Elf64_Shdr){
			.sh_name = (uint32_t)names.size, .sh_type = SHT_PROGBITS, .sh_offset = at, .sh_size = s[i].size
		};
		at += s[i].size;
		dwarfgen_text(&names, dwarfgen_names[i]);
	}
	table[DWARF_SECTIONS + 1] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = names.size };
	h.e_shoff = at + names.size;
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	h.e_ident[EI_VERSION] = EV_CURRENT;
	buf_add(b, &h, sizeof(h));
	buf_add(b, &load, sizeof(load));
	for (int i = 0; i < DWARF_SECTIONS; i++)
		buf_add(b, s[i].data, s[i].size);
	buf_add(b, names.data, names.size);
	buf_add(b, table, sizeof(table));
	buf_done(&names);
}

#endif
