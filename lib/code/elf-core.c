/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <string.h>
#include <sys/types.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/code/elf-core.h"

enum { PAGE = 4096, SECTION_SYMBOLS = 1, SECTION_STRINGS, SECTION_NAMES, N_SECTIONS };

/* The names of the sections, and where each begins. */
static const char section_names[] = "\0.symtab\0.strtab\0.shstrtab";
enum { NAME_SYMBOLS = 1, NAME_STRINGS = 9, NAME_NAMES = 17 };

static uint64_t align_page(uint64_t n)
{
	return (n + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* Places the segments after the headers. Returns where the last one ends. */
static uint64_t place_segments(const struct elf_core *core)
{
	uint64_t at = align_page(sizeof(Elf64_Ehdr) + core->n_segments * sizeof(Elf64_Phdr));

	for (size_t i = 0; i < core->n_segments; i++) {
		core->segments[i].offset = at;
		at = align_page(at + core->segments[i].size);
	}
	return at;
}

static void add_symbols(const struct elf_core *core, struct buf *symbols, struct buf *strings)
{
	const Elf64_Sym none = { 0 };

	buf_add(symbols, &none, sizeof(none));
	buf_u8(strings, 0);
	for (size_t i = 0; i < core->n_functions; i++) {
		const struct elf_core_function *f = &core->functions[i];
		uint8_t binding = f->weak ? STB_WEAK : f->global ? STB_GLOBAL : STB_LOCAL;
		const Elf64_Sym symbol = { .st_name = (Elf64_Word)strings->size,
					   .st_info = ELF64_ST_INFO(binding, STT_FUNC),
					   .st_shndx = SHN_ABS,
					   .st_value = f->address,
					   .st_size = f->size };

		buf_add(symbols, &symbol, sizeof(symbol));
		buf_add(strings, f->name, strlen(f->name) + 1);
	}
}

static int write_headers(int fd, const struct elf_core *core, uint64_t sections)
{
	_cleanup_buf_ struct buf b = { 0 };
	Elf64_Ehdr header = { .e_type = ET_CORE,
			      .e_machine = core->machine,
			      .e_version = EV_CURRENT,
			      .e_phoff = sizeof(header),
			      .e_shoff = sections,
			      .e_ehsize = sizeof(header),
			      .e_phentsize = sizeof(Elf64_Phdr),
			      .e_phnum = (Elf64_Half)core->n_segments,
			      .e_shentsize = sizeof(Elf64_Shdr),
			      .e_shnum = N_SECTIONS,
			      .e_shstrndx = SECTION_NAMES };

	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	buf_add(&b, &header, sizeof(header));
	for (size_t i = 0; i < core->n_segments; i++) {
		const struct elf_core_segment *s = &core->segments[i];
		const Elf64_Phdr load = { .p_type = PT_LOAD,
					  .p_flags = PF_R | PF_X,
					  .p_offset = s->offset,
					  .p_vaddr = s->address,
					  .p_filesz = s->size,
					  .p_memsz = s->size,
					  .p_align = PAGE };

		buf_add(&b, &load, sizeof(load));
	}
	return buf_error(&b) < 0 ? buf_error(&b) : io_pwrite(fd, b.data, b.size, 0);
}

int elf_core_write(int fd, const struct elf_core *core, uint64_t *ret_size)
{
	_cleanup_buf_ struct buf symbols = { .limit = UINT32_MAX }, strings = { .limit = UINT32_MAX };
	Elf64_Shdr sections[N_SECTIONS] = { 0 };
	uint64_t at;
	int rc;

	if (core->n_segments >= PN_XNUM)
		return -EFBIG;
	add_symbols(core, &symbols, &strings);
	rc = buf_error(&symbols) < 0 ? buf_error(&symbols) : buf_error(&strings);
	if (rc < 0)
		return rc;
	at = place_segments(core);
	sections[SECTION_SYMBOLS] = (Elf64_Shdr){ .sh_name = NAME_SYMBOLS,
						  .sh_type = SHT_SYMTAB,
						  .sh_offset = at,
						  .sh_size = symbols.size,
						  .sh_link = SECTION_STRINGS,
						  .sh_info = 1,
						  .sh_addralign = 8,
						  .sh_entsize = sizeof(Elf64_Sym) };
	sections[SECTION_STRINGS] = (Elf64_Shdr){ .sh_name = NAME_STRINGS,
						  .sh_type = SHT_STRTAB,
						  .sh_offset = at + symbols.size,
						  .sh_size = strings.size,
						  .sh_addralign = 1 };
	sections[SECTION_NAMES] = (Elf64_Shdr){ .sh_name = NAME_NAMES,
						.sh_type = SHT_STRTAB,
						.sh_offset = at + symbols.size + strings.size,
						.sh_size = sizeof(section_names),
						.sh_addralign = 1 };
	rc = io_pwrite(fd, symbols.data, symbols.size, (off_t)at);
	if (rc == 0)
		rc = io_pwrite(fd, strings.data, strings.size, (off_t)(at += symbols.size));
	if (rc == 0)
		rc = io_pwrite(fd, section_names, sizeof(section_names), (off_t)(at += strings.size));
	at = ALIGN8(at + sizeof(section_names));
	if (rc == 0)
		rc = io_pwrite(fd, sections, sizeof(sections), (off_t)at);
	if (rc == 0)
		rc = write_headers(fd, core, at);
	if (rc == 0)
		*ret_size = at + sizeof(sections);
	return rc;
}
