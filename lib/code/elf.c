#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/code/elf.h"

enum { NOTES_MAX = 64 << 10, SYMBOLS_MAX = 4 << 20, SYMBOLS_AT_ONCE = 1024, NAME_MAX_SIZE = 64 };

static bool read_header(struct bytes *b, Elf64_Ehdr *ret)
{
	return bytes_read(b, 0, ret, sizeof(*ret)) == sizeof(*ret) && memcmp(ret->e_ident, ELFMAG, SELFMAG) == 0 &&
	       ret->e_ident[EI_CLASS] == ELFCLASS64 && ret->e_ident[EI_DATA] == ELFDATA2LSB;
}

static unsigned read_segments(struct bytes *b, Elf64_Phdr ret[ELF_SEGMENTS_MAX])
{
	Elf64_Ehdr header;
	unsigned n;

	if (!read_header(b, &header) || le16toh(header.e_phentsize) != sizeof(Elf64_Phdr))
		return 0;
	n = MIN(le16toh(header.e_phnum), ELF_SEGMENTS_MAX);
	return (unsigned)(bytes_read(b, le64toh(header.e_phoff), ret, n * sizeof(*ret)) / sizeof(*ret));
}

bool elf_is_core(struct bytes *b)
{
	Elf64_Ehdr header;

	return read_header(b, &header) && le16toh(header.e_type) == ET_CORE;
}

/* VMCOREINFO is text, with a line BUILD-ID=hex. */
static size_t core_id(const struct reader *text, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	static const char key[] = "BUILD-ID=";
	const uint8_t *at = memmem(text->at, rd_left(text), key, sizeof(key) - 1);

	if (!at)
		return 0;
	at += sizeof(key) - 1;
	return hex_decode((const char *)at, (size_t)(text->end - at), ret, IMAGE_BUILD_ID_MAX);
}

static size_t note_id(struct reader *r, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	uint32_t name_size, size, type;
	struct reader name, desc;

	while (rd_u32(r, &name_size) == 0 && rd_u32(r, &size) == 0 && rd_u32(r, &type) == 0) {
		if (name_size > NOTES_MAX || size > NOTES_MAX || rd_sub(r, (name_size + 3) & ~3u, &name) < 0 ||
		    rd_sub(r, MIN((size_t)((size + 3) & ~3u), rd_left(r)), &desc) < 0)
			return 0;
		if (type == NT_GNU_BUILD_ID && name_size == 4 && memcmp(name.at, "GNU", 4) == 0 && size > 0 &&
		    size <= IMAGE_BUILD_ID_MAX && rd_copy(&desc, ret, size) == 0)
			return size;
		if (name_size == sizeof("VMCOREINFO") && memcmp(name.at, "VMCOREINFO", name_size) == 0)
			return core_id(&desc, ret);
	}
	return 0;
}

size_t elf_build_id(struct bytes *b, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	_cleanup_free_ Elf64_Phdr *segments = calloc(ELF_SEGMENTS_MAX, sizeof(*segments));
	_cleanup_free_ uint8_t *notes = malloc(NOTES_MAX);
	size_t found = 0;

	if (!segments || !notes)
		return 0;
	for (unsigned i = 0, n = read_segments(b, segments); !found && i < n; i++) {
		struct reader r;
		size_t size;

		if (le32toh(segments[i].p_type) != PT_NOTE)
			continue;
		size = (size_t)MIN(le64toh(segments[i].p_filesz), (uint64_t)NOTES_MAX);
		r = reader_of(notes, bytes_read(b, le64toh(segments[i].p_offset), notes, size));
		found = note_id(&r, ret);
	}
	return found;
}

bool elf_only_symbols(struct bytes *b)
{
	_cleanup_free_ Elf64_Phdr *segments = calloc(ELF_SEGMENTS_MAX, sizeof(*segments));
	bool some = false, whole = false;

	for (unsigned i = 0, n = segments ? read_segments(b, segments) : 0; i < n; i++) {
		if (le32toh(segments[i].p_type) != PT_LOAD || !(le32toh(segments[i].p_flags) & PF_X))
			continue;
		some = true;
		whole = whole || le64toh(segments[i].p_filesz) >= le64toh(segments[i].p_memsz);
	}
	return some && !whole;
}

unsigned elf_segments(struct bytes *b, struct elf_segment ret[ELF_SEGMENTS_MAX])
{
	_cleanup_free_ Elf64_Phdr *segments = calloc(ELF_SEGMENTS_MAX, sizeof(*segments));
	unsigned n = 0, all = segments ? read_segments(b, segments) : 0;
	bool core = elf_is_core(b);

	for (unsigned i = 0; i < all; i++)
		if (le32toh(segments[i].p_type) == PT_LOAD && (core || le32toh(segments[i].p_flags) & PF_X))
			ret[n++] = (struct elf_segment){ le64toh(segments[i].p_vaddr), le64toh(segments[i].p_offset),
							 le64toh(segments[i].p_filesz) };
	return n;
}

static bool is_name(struct bytes *b, uint64_t at, const char *name)
{
	char have[NAME_MAX_SIZE];
	size_t size = strlen(name) + 1;

	return size <= sizeof(have) && bytes_read(b, at, have, size) == size && memcmp(have, name, size) == 0;
}

static bool search_table(struct bytes *b, const Elf64_Shdr *table, uint64_t names, const char *name, uint64_t *ret)
{
	_cleanup_free_ Elf64_Sym *symbols = calloc(SYMBOLS_AT_ONCE, sizeof(*symbols));
	uint64_t n = MIN(le64toh(table->sh_size) / sizeof(*symbols), (uint64_t)SYMBOLS_MAX);

	for (uint64_t i = 0; symbols && i < n; i += SYMBOLS_AT_ONCE) {
		size_t want = (size_t)MIN(n - i, (uint64_t)SYMBOLS_AT_ONCE);
		size_t have =
		    bytes_read(b, le64toh(table->sh_offset) + i * sizeof(*symbols), symbols, want * sizeof(*symbols));

		for (size_t k = 0; k < have / sizeof(*symbols); k++)
			if (symbols[k].st_shndx != SHN_UNDEF && is_name(b, names + le32toh(symbols[k].st_name), name)) {
				*ret = le64toh(symbols[k].st_value);
				return true;
			}
		if (have < want * sizeof(*symbols))
			break;
	}
	return false;
}

bool elf_symbol(struct bytes *b, const char *name, uint64_t *ret)
{
	Elf64_Shdr section, names;
	Elf64_Ehdr header;

	if (!read_header(b, &header) || le16toh(header.e_shentsize) != sizeof(section))
		return false;
	for (unsigned i = 0; i < le16toh(header.e_shnum); i++) {
		uint64_t at = le64toh(header.e_shoff);

		if (bytes_read(b, at + i * sizeof(section), &section, sizeof(section)) != sizeof(section))
			return false;
		if (le32toh(section.sh_type) == SHT_SYMTAB &&
		    bytes_read(b, at + (uint64_t)le32toh(section.sh_link) * sizeof(names), &names, sizeof(names)) ==
			sizeof(names))
			return search_table(b, &section, le64toh(names.sh_offset), name, ret);
	}
	return false;
}
