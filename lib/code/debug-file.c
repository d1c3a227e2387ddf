/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/reader.h"
#include "lib/code/debug-file.h"
#include "lib/code/elf.h"
#include "lib/code/kallsyms.h"
#include "lib/perfdata/sums.h"

enum { LINK_SECTION_MAX = 8192 };

static bool has_section(struct elf *e, const char *name)
{
	const struct elf_section *section;

	return elf_section_named(e, name, &section) == 0 && section->type != ELF_SECTION_NO_BYTES;
}

static bool has_symbols(struct elf *e)
{
	const struct elf_section *section;

	return elf_section_of_type(e, ELF_SECTION_SYMBOLS, &section) == 0;
}

/* .gnu_debuglink: a name with its NUL, zeros up to a multiple of four, a checksum. */
static void read_link(struct elf *e, struct debug_wanted *ret)
{
	const struct elf_section *section;
	const uint8_t *start;
	const char *name;
	struct reader r;
	uint32_t crc;

	if (elf_section_named(e, ".gnu_debuglink", &section) < 0 || section->size > LINK_SECTION_MAX ||
	    elf_contents(e, section, &r) < 0)
		return;
	start = r.at;
	if (rd_str(&r, &name) < 0 || !name[0] || strlen(name) >= sizeof(ret->link) || strchr(name, '/') ||
	    name[0] == '.' || rd_skip(&r, -(size_t)(r.at - start) & 3) < 0 || rd_u32(&r, &crc) < 0)
		return;
	strcpy(ret->link, name);
	ret->crc = crc;
}

bool debug_file_wanted(int fd, struct debug_wanted *ret)
{
	_cleanup_(elf_freep) struct elf *e = NULL;
	struct debug_wanted w = { 0 };

	if (elf_open(fd, &e) < 0 || (has_symbols(e) && has_section(e, ".debug_info")))
		return false;
	/* The kernel runs at other addresses than those in its debug file: kallsyms replaces that. */
	if (elf_identity(e)->type == ELF_TYPE_CORE) {
		*ret = (struct debug_wanted){ .link = "kallsyms", .kernel = true };
		return !has_symbols(e);
	}
	w.id_size = elf_build_id(e, w.id);
	read_link(e, &w);
	*ret = w;
	return w.id_size || w.link[0];
}

static int has_checksum(int fd, uint32_t wanted, uint64_t *used)
{
	struct stat st;
	uint32_t crc;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > DEBUG_SUMS_MAX - *used)
		return -EFBIG;
	*used += (uint64_t)st.st_size;
	return sums_file(fd, (uint64_t)st.st_size, &crc) == 0 && crc == wanted;
}

int debug_file_is(int fd, const struct debug_wanted *wanted, uint64_t *used)
{
	_cleanup_(elf_freep) struct elf *e = NULL;
	uint8_t id[IMAGE_BUILD_ID_MAX];
	size_t size;

	if (wanted->kernel)
		return kallsyms_is(fd);
	if (elf_open(fd, &e) < 0 || (!has_symbols(e) && !has_section(e, ".debug_info")))
		return 0;
	size = elf_build_id(e, id);
	if (size && wanted->id_size)
		return size == wanted->id_size && memcmp(id, wanted->id, size) == 0;
	return wanted->link[0] ? has_checksum(fd, wanted->crc, used) : 0;
}
