#include <string.h>

#include "lib/base/reader.h"
#include "lib/code/debug-file.h"
#include "lib/code/elf-file.h"
#include "lib/perfdata/sums.h"

enum { LINK_SECTION_MAX = 8192 };

/* One that is larger than this is not read from end to end for its checksum. */
#define CRC_FILE_MAX ((uint64_t)4 << 30)

static bool has_section(const struct elf_file *e, const char *name)
{
	Elf64_Shdr section;

	return elf_file_section_named(e, name, &section) == 0 && section.sh_type != SHT_NOBITS;
}

static bool has_symbols(const struct elf_file *e)
{
	Elf64_Shdr section;

	return elf_file_section_of_type(e, SHT_SYMTAB, &section) == 0;
}

/* A name with its NUL, zeros up to a multiple of four, a checksum. */
static void read_link(struct elf_file *e, struct debug_wanted *ret)
{
	_cleanup_buf_ struct buf b = { 0 };
	Elf64_Shdr section;
	struct reader r;
	const char *name;
	uint32_t crc;

	if (elf_file_section_named(e, ".gnu_debuglink", &section) < 0 || section.sh_size > LINK_SECTION_MAX ||
	    elf_file_bytes(e, &section, &b) < 0)
		return;
	r = reader_of(b.data, b.size);
	if (rd_str(&r, &name) < 0 || !name[0] || strlen(name) >= sizeof(ret->link) || strchr(name, '/') ||
	    name[0] == '.' || rd_skip(&r, -(size_t)(r.at - b.data) & 3) < 0 || rd_u32(&r, &crc) < 0)
		return;
	strcpy(ret->link, name);
	ret->crc = crc;
}

bool debug_file_wanted(int fd, struct debug_wanted *ret)
{
	_cleanup_(elf_file_done) struct elf_file e;
	struct debug_wanted w = { 0 };

	if (elf_file_open(fd, &e) < 0 || (has_symbols(&e) && has_section(&e, ".debug_info")))
		return false;
	w.id_size = image_build_id(fd, w.id);
	read_link(&e, &w);
	*ret = w;
	return w.id_size || w.link[0];
}

static bool has_checksum(int fd, uint32_t wanted)
{
	uint32_t crc;

	return sums_file(fd, CRC_FILE_MAX, &crc) == 0 && crc == wanted;
}

bool debug_file_is(int fd, const struct debug_wanted *wanted)
{
	_cleanup_(elf_file_done) struct elf_file e;
	uint8_t id[IMAGE_BUILD_ID_MAX];
	size_t size;

	if (elf_file_open(fd, &e) < 0 || (!has_symbols(&e) && !has_section(&e, ".debug_info")))
		return false;
	size = elf_file_build_id(&e, id);
	if (size && wanted->id_size)
		return size == wanted->id_size && memcmp(id, wanted->id, size) == 0;
	return wanted->link[0] && has_checksum(fd, wanted->crc);
}
