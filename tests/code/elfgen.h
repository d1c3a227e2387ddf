/* SPDX-License-Identifier: MIT */
/* A small ELF file, built by hand, with everything that lib/code looks at: functions, aliases, imports, stubs. */
#ifndef CSIGHT_TESTS_ELFGEN_H
#define CSIGHT_TESTS_ELFGEN_H

#include <gelf.h>
#include <string.h>

#include "lib/base/buf.h"

enum { TEXT = 0x10000, TABLES_END = 0x500, TEXT_OFFSET = 0x1000, PLT = 0x10800, SECTIONS = 9 };

static void put_symbol(struct buf *b, uint32_t name, unsigned type, uint16_t section, uint64_t value, uint64_t size)
{
	Elf64_Sym s = { .st_name = name,
			.st_info = (unsigned char)ELF64_ST_INFO(STB_GLOBAL, type),
			.st_shndx = section,
			.st_value = value,
			.st_size = size };

	buf_add(b, &s, sizeof(s));
}

static Elf64_Shdr section(uint32_t name, uint32_t type, uint64_t address, uint64_t offset, uint64_t size, uint32_t link,
			  uint64_t entry)
{
	return (Elf64_Shdr){ .sh_name = name,
			     .sh_type = type,
			     .sh_addr = address,
			     .sh_offset = offset,
			     .sh_size = size,
			     .sh_link = link,
			     .sh_entsize = entry,
			     .sh_flags = SHF_ALLOC };
}

/* Appends the stub at address, which jumps to where the word at place is. */
static void put_stub(struct buf *b, uint32_t address, uint32_t place)
{
	const uint32_t pages = (place >> 12) - (address >> 12);
	const uint32_t code[] = { 0x90000010 | (pages & 3) << 29 | (pages >> 2) << 5,
				  0xf9400211 | (place & 0xfff) / 8 << 10, 0x91000210 | (place & 0xfff) << 10,
				  0xd61f0220 };

	buf_add(b, code, sizeof(code));
}

/* Tables at the beginning; text of 0x900 bytes at file offset 0x1000, whose PLT has two stubs; the section table. */
static void make_elf(struct buf *b)
{
	static const char strings[] = "\0main\0helper\0asm_part\0$x\0data\0_ZN3foo3barEi\0main_alias\0main.cold";
	static const char names[] = "\0.text\0.plt\0.rela.plt\0.symtab\0.strtab\0.shstrtab\0.dynsym\0.dynstr";
	static const char dynamic[] = "\0puts\0abort";
	struct buf symbols = { 0 }, imports = { 0 }, relocations = { 0 };
	Elf64_Ehdr h = { .e_type = ET_EXEC,
			 .e_machine = EM_AARCH64,
			 .e_version = 1,
			 .e_phoff = sizeof(h),
			 .e_shnum = SECTIONS,
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 1,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shstrndx = 6 };
	Elf64_Phdr load = {
		.p_type = PT_LOAD, .p_offset = TEXT_OFFSET, .p_vaddr = TEXT, .p_filesz = 0x900, .p_memsz = 0x900
	};
	uint64_t at = sizeof(h) + sizeof(load), symtab, strtab, shstrtab, dynsym, dynstr, rela;
	Elf64_Shdr table[SECTIONS] = { 0 };

	put_symbol(&symbols, 0, STT_NOTYPE, 0, 0, 0);
	put_symbol(&symbols, 1, STT_FUNC, 1, TEXT, 0x100);
	put_symbol(&symbols, 44, STT_FUNC, 1, TEXT, 0x100);
	put_symbol(&symbols, 6, STT_FUNC, 1, TEXT + 0x100, 0x80);
	put_symbol(&symbols, 13, STT_FUNC, 1, TEXT + 0x200, 0);
	put_symbol(&symbols, 22, STT_NOTYPE, 1, TEXT + 0x40, 0);
	put_symbol(&symbols, 25, STT_OBJECT, 1, TEXT + 0x50, 8);
	put_symbol(&symbols, 30, STT_FUNC, 1, TEXT + 0x300, 0x10);
	put_symbol(&symbols, 55, STT_FUNC, 1, TEXT + 0x400, 0x10);
	put_symbol(&symbols, 1, STT_FUNC, 0, 0, 0);
	put_symbol(&imports, 0, STT_NOTYPE, 0, 0, 0);
	put_symbol(&imports, 1, STT_FUNC, 0, 0, 0);
	put_symbol(&imports, 6, STT_FUNC, 0, 0, 0);
	for (uint64_t i = 1; i <= 2; i++) {
		Elf64_Rela r = { .r_offset = 0x20000 + 8 * i, .r_info = ELF64_R_INFO(3 - i, R_AARCH64_JUMP_SLOT) };

		buf_add(&relocations, &r, sizeof(r));
	}
	symtab = at;
	strtab = symtab + symbols.size;
	shstrtab = strtab + sizeof(strings);
	dynsym = shstrtab + sizeof(names);
	dynstr = dynsym + imports.size;
	rela = dynstr + sizeof(dynamic);
	h.e_shoff = TEXT_OFFSET + 0x900;
	table[1] = section(1, SHT_PROGBITS, TEXT, TEXT_OFFSET, 0x800, 0, 0);
	table[2] = section(7, SHT_PROGBITS, PLT, TEXT_OFFSET + 0x800, 32 + 2 * 16, 0, 16);
	table[3] = section(12, SHT_RELA, 0, rela, relocations.size, 7, sizeof(Elf64_Rela));
	table[4] = section(22, SHT_SYMTAB, 0, symtab, symbols.size, 5, sizeof(Elf64_Sym));
	table[5] = section(30, SHT_STRTAB, 0, strtab, sizeof(strings), 0, 0);
	table[6] = section(38, SHT_STRTAB, 0, shstrtab, sizeof(names), 0, 0);
	table[7] = section(48, SHT_DYNSYM, 0, dynsym, imports.size, 8, sizeof(Elf64_Sym));
	table[8] = section(56, SHT_STRTAB, 0, dynstr, sizeof(dynamic), 0, 0);
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	h.e_ident[EI_VERSION] = EV_CURRENT;
	buf_add(b, &h, sizeof(h));
	buf_add(b, &load, sizeof(load));
	buf_add(b, symbols.data, symbols.size);
	buf_add(b, strings, sizeof(strings));
	buf_add(b, names, sizeof(names));
	buf_add(b, imports.data, imports.size);
	buf_add(b, dynamic, sizeof(dynamic));
	buf_add(b, relocations.data, relocations.size);
	buf_zero(b, TEXT_OFFSET + 0x800 + 32 - b->size);
	for (uint32_t i = 1; i <= 2; i++)
		put_stub(b, PLT + 16 + 16 * i, 0x20000 + 8 * i);
	buf_zero(b, TEXT_OFFSET + 0x900 - b->size);
	buf_add(b, table, sizeof(table));
	buf_done(&symbols);
	buf_done(&imports);
	buf_done(&relocations);
}

/* Copies the contents of a section, with symbols and relocations as files of 32 bits have them. */
static void put_narrow(struct buf *b, const struct buf *wide, const Elf64_Shdr *s)
{
	const uint8_t *from = wide->data + s->sh_offset;
	Elf64_Rela rela;
	Elf64_Sym sym;

	if (s->sh_type == SHT_STRTAB)
		buf_add(b, from, s->sh_size);
	for (uint64_t i = 0; s->sh_entsize == sizeof(sym) && s->sh_type != SHT_RELA && i < s->sh_size;
	     i += sizeof(sym)) {
		Elf32_Sym narrow;

		memcpy(&sym, from + i, sizeof(sym));
		narrow = (Elf32_Sym){ .st_name = sym.st_name,
				      .st_info = sym.st_info,
				      .st_shndx = sym.st_shndx,
				      .st_value = (Elf32_Addr)sym.st_value,
				      .st_size = (Elf32_Word)sym.st_size };
		/* Thumb code. */
		if (ELF64_ST_TYPE(sym.st_info) == STT_FUNC)
			narrow.st_value |= 1;
		buf_add(b, &narrow, sizeof(narrow));
	}
	for (uint64_t i = 0; s->sh_type == SHT_RELA && i < s->sh_size; i += sizeof(rela)) {
		Elf32_Rela narrow;

		memcpy(&rela, from + i, sizeof(rela));
		narrow = (Elf32_Rela){ .r_offset = (Elf32_Addr)rela.r_offset,
				       .r_info = ELF32_R_INFO(ELF64_R_SYM(rela.r_info), R_ARM_JUMP_SLOT) };
		buf_add(b, &narrow, sizeof(narrow));
	}
}

/* The same file for 32-bit Arm, with its text: a PLT of 20 + 2 * 12 bytes. */
static void make_elf32(struct buf *b)
{
	struct buf wide = { 0 }, data = { 0 };
	Elf64_Shdr sections[SECTIONS];
	Elf32_Shdr table[SECTIONS] = { 0 };
	Elf32_Ehdr h = { .e_type = ET_EXEC,
			 .e_machine = EM_ARM,
			 .e_version = 1,
			 .e_phoff = sizeof(h),
			 .e_shoff = TEXT_OFFSET + 0x900,
			 .e_ehsize = sizeof(h),
			 .e_shnum = SECTIONS,
			 .e_phentsize = sizeof(Elf32_Phdr),
			 .e_phnum = 1,
			 .e_shentsize = sizeof(Elf32_Shdr),
			 .e_shstrndx = 6 };
	Elf32_Phdr load = { .p_type = PT_LOAD,
			    .p_offset = TEXT_OFFSET,
			    .p_vaddr = TEXT,
			    .p_filesz = 0x900,
			    .p_memsz = 0x900,
			    .p_flags = PF_R | PF_X };

	make_elf(&wide);
	memcpy(sections, wide.data + wide.size - sizeof(sections), sizeof(sections));
	for (size_t i = 1; i < SECTIONS; i++) {
		const Elf64_Shdr *s = &sections[i];
		size_t before = data.size;

		table[i] = (Elf32_Shdr){ .sh_name = s->sh_name,
					 .sh_type = s->sh_type,
					 .sh_flags = (Elf32_Word)s->sh_flags,
					 .sh_addr = (Elf32_Addr)s->sh_addr,
					 .sh_offset = (Elf32_Off)s->sh_offset,
					 .sh_size = (Elf32_Word)s->sh_size,
					 .sh_link = s->sh_link };
		if (s->sh_type == SHT_PROGBITS)
			continue;
		put_narrow(&data, &wide, s);
		buf_zero(&data, -data.size & 3);
		table[i].sh_offset = (Elf32_Off)(sizeof(h) + sizeof(load) + before);
		table[i].sh_size = s->sh_type == SHT_STRTAB ? (Elf32_Word)s->sh_size : (Elf32_Word)(data.size - before);
		table[i].sh_entsize = s->sh_type == SHT_STRTAB ? 0
				      : s->sh_type == SHT_RELA ? sizeof(Elf32_Rela)
							       : sizeof(Elf32_Sym);
	}
	table[2].sh_size = 20 + 2 * 12;
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS32;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	h.e_ident[EI_VERSION] = EV_CURRENT;
	buf_add(b, &h, sizeof(h));
	buf_add(b, &load, sizeof(load));
	buf_add(b, data.data, data.size);
	buf_zero(b, TEXT_OFFSET + 0x900 - b->size);
	buf_add(b, table, sizeof(table));
	buf_done(&wide);
	buf_done(&data);
}

#endif
