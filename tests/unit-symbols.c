/* lib/code, symbols: a file made by hand, then cut and garbled; and real programs, against what libelf finds in them.
 */
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/code/symbols.h"
#include "tests/unit.h"

enum { TEXT = 0x10000, TEXT_OFFSET = 0x1000, PLT = 0x10800, SECTIONS = 9 };

static int memfd_of(const void *data, size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	if (fd >= 0)
		write_full(fd, data, size);
	return fd;
}

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

/* Text of 0x900 bytes at file offset 0x1000; its PLT has two stubs. The tables stand before it. */
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
	h.e_shoff = rela + relocations.size;
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
	buf_add(b, &h, sizeof(h));
	buf_add(b, &load, sizeof(load));
	buf_add(b, symbols.data, symbols.size);
	buf_add(b, strings, sizeof(strings));
	buf_add(b, names, sizeof(names));
	buf_add(b, imports.data, imports.size);
	buf_add(b, dynamic, sizeof(dynamic));
	buf_add(b, relocations.data, relocations.size);
	buf_add(b, table, sizeof(table));
	buf_done(&symbols);
	buf_done(&imports);
	buf_done(&relocations);
}

static const char *name_at(const struct symbols *s, uint64_t offset)
{
	struct symbols_at at;

	symbols_find(s, offset, &at);
	return at.name ? at.name : "-";
}

static void test_by_hand(void)
{
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	_cleanup_buf_ struct buf b = { 0 };
	_cleanup_close_ int fd = -1;
	struct symbols_at at;

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
	CHECK_STR(name_at(s, TEXT_OFFSET + 0x820), "abort@plt");
	CHECK_STR(name_at(s, TEXT_OFFSET + 0x83c), "puts@plt");
	CHECK_STR(name_at(s, TEXT_OFFSET + 0x840), "-");
	CHECK_STR(name_at(s, 0), "-");
	symbols_find(s, TEXT_OFFSET + 0x408, &at);
	CHECK_STR(at.name, "main");
	CHECK_EQ(at.function, TEXT_OFFSET);
	CHECK_EQ(at.start, TEXT_OFFSET + 0x400);
}

/* Whatever is in the file, an answer comes; which one does not matter. Returns whether it was taken. */
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

static void test_hostile(void)
{
	_cleanup_buf_ struct buf b = { 0 };
	size_t taken = 0;

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
	/* Sizes of everything in the section table, at once. */
	for (size_t i = 0; i < SECTIONS; i++)
		memset(b.data + b.size - (SECTIONS - i) * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), 0xff, 8);
	CHECK(!try(b.data, b.size));
	CHECK_EQ(try("#!/bin/sh\n", 10), false);
}

/* The same file without sections: the unwind table is all there is. */
static void test_stripped(const char *path, const struct symbols *full)
{
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	_cleanup_free_ char *data = NULL;
	_cleanup_close_ int fd = -1;
	size_t size, right = 0, known = 0;

	if (!CHECK_EQ(read_file(AT_FDCWD, path, 64 << 20, &data, &size), 0))
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

/* Every function that libelf finds has a name at its first and last byte, and at its first one of its own. */
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
			/* A part that is split off answers with the function's name and entry. */
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
	/* A static program has no such table. */
	if (!strstr(path, "library") || strstr(path, "dynamic"))
		test_stripped(path, s);
	if (strstr(path, "dynamic"))
		CHECK_EQ(stubs, 2);
	printf("# %s: %zu functions\n", path, seen);
}

int main(void)
{
	static char self[4096];

	test_by_hand();
	test_hostile();
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) > 0)
		test_real(self);
	test_real("tests/programs/library");
	test_real("tests/programs/library-dynamic");
	return unit_end();
}
