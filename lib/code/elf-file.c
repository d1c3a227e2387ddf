#include <string.h>

#include "lib/base/reader.h"
#include "lib/code/elf-file.h"
#include "lib/code/inflate.h"

enum { SECTIONS_MAX = 1 << 16, STEP = 1 << 20 };

/* Of one part of a file, and of all that is read of it. */
#define TABLE_MAX ((uint64_t)512 << 20)
#define FILE_MAX ((uint64_t)1 << 30)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ELF structs are copied as they lie in the file");

void elf_file_done(struct elf_file *e)
{
	buf_done(&e->sections);
}

int elf_file_read(struct elf_file *e, uint64_t offset, uint64_t size, struct buf *to)
{
	if (size > MIN(TABLE_MAX, e->left))
		return -EFBIG;
	if (offset > INT64_MAX - size)
		return -EBADMSG;
	while (size) {
		/* In steps, so that memory follows what the file has, not what it says it has. */
		size_t step = MIN(size, (uint64_t)STEP);
		uint8_t *room = buf_reserve(to, step);
		ssize_t n;

		if (!room)
			return buf_error(to);
		n = pread(e->fd, room, step, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		buf_grew(to, (size_t)n);
		offset += (uint64_t)n;
		size -= (uint64_t)n;
		e->left -= (uint64_t)n;
	}
	return 0;
}

int elf_file_section(const struct elf_file *e, size_t index, Elf64_Shdr *ret)
{
	struct reader r = reader_of(e->sections.data, e->sections.size);

	if (index >= e->n_sections || rd_skip(&r, index * sizeof(*ret)) < 0)
		return -EBADMSG;
	return rd_copy(&r, ret, sizeof(*ret));
}

int elf_file_section_of_type(const struct elf_file *e, uint32_t type, Elf64_Shdr *ret)
{
	Elf64_Shdr section;

	for (size_t i = 0; elf_file_section(e, i, &section) == 0; i++)
		if (section.sh_type == type) {
			*ret = section;
			return 0;
		}
	return -ENOENT;
}

bool elf_file_section_is(const struct elf_file *e, const Elf64_Shdr *section, const char *name)
{
	size_t size = strlen(name) + 1;
	char have[32];

	return e->names.sh_type != SHT_NULL && section->sh_name < e->names.sh_size &&
	       e->names.sh_offset <= INT64_MAX - UINT32_MAX && size <= sizeof(have) &&
	       pread(e->fd, have, size, (off_t)(e->names.sh_offset + section->sh_name)) == (ssize_t)size &&
	       memcmp(have, name, size) == 0;
}

int elf_file_section_named(const struct elf_file *e, const char *name, Elf64_Shdr *ret)
{
	Elf64_Shdr section;

	for (size_t i = 0; elf_file_section(e, i, &section) == 0; i++)
		if (section.sh_type != SHT_NULL && elf_file_section_is(e, &section, name)) {
			*ret = section;
			return 0;
		}
	return -ENOENT;
}

static int load_segments(struct elf_file *e)
{
	_cleanup_buf_ struct buf b = { 0 };
	struct reader r;
	Elf64_Phdr p;
	int rc;

	if (e->header.e_phnum && e->header.e_phentsize != sizeof(p))
		return -EBADMSG;
	rc = elf_file_read(e, e->header.e_phoff, (uint64_t)e->header.e_phnum * sizeof(p), &b);
	if (rc < 0)
		return rc;
	r = reader_of(b.data, b.size);
	while (rd_copy(&r, &p, sizeof(p)) == 0) {
		if (p.p_type == PT_LOAD && p.p_filesz && e->n_loads < ELF_LOADS_MAX)
			e->loads[e->n_loads++] = p;
		if (p.p_type == PT_GNU_EH_FRAME)
			e->unwind = p;
	}
	return 0;
}

/* Where there are more than the header's fields can say, the first section tells. */
static int load_sections(struct elf_file *e)
{
	uint64_t count = e->header.e_shnum, names = e->header.e_shstrndx;
	Elf64_Shdr first;
	int rc;

	if (e->header.e_shentsize != sizeof(first))
		return -EBADMSG;
	if (count == 0 || names == SHN_XINDEX) {
		rc = elf_file_read(e, e->header.e_shoff, sizeof(first), &e->sections);
		if (rc < 0)
			return rc;
		e->n_sections = 1;
		rc = elf_file_section(e, 0, &first);
		if (rc < 0)
			return rc;
		count = count ? count : first.sh_size;
		names = names == SHN_XINDEX ? first.sh_link : names;
		buf_clear(&e->sections);
	}
	if (count > SECTIONS_MAX)
		return -EFBIG;
	rc = elf_file_read(e, e->header.e_shoff, count * sizeof(first), &e->sections);
	e->n_sections = (size_t)count;
	if (rc == 0 && elf_file_section(e, names, &e->names) < 0)
		e->names.sh_type = SHT_NULL;
	return rc;
}

int elf_file_open(int fd, struct elf_file *e)
{
	_cleanup_buf_ struct buf b = { 0 };
	struct reader r;
	int rc;

	*e = (struct elf_file){ .fd = fd, .left = FILE_MAX };
	rc = elf_file_read(e, 0, sizeof(e->header), &b);
	if (rc < 0)
		return rc;
	r = reader_of(b.data, b.size);
	rd_copy(&r, &e->header, sizeof(e->header));
	if (memcmp(e->header.e_ident, ELFMAG, SELFMAG) != 0 || e->header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e->header.e_ident[EI_DATA] != ELFDATA2LSB)
		return -EBADMSG;
	rc = load_segments(e);
	return rc < 0 || !e->header.e_shoff ? rc : load_sections(e);
}

static int inflate_section(const struct buf *packed, struct buf *to)
{
	struct reader r = reader_of(packed->data, packed->size);
	Elf64_Chdr header;

	if (rd_copy(&r, &header, sizeof(header)) < 0)
		return -EBADMSG;
	switch (header.ch_type) {
	case ELFCOMPRESS_ZLIB:
		return inflate_zlib(r, to);
	case 2: /* ELFCOMPRESS_ZSTD */
		return inflate_zstd(r, to);
	}
	return -EBADMSG;
}

int elf_file_bytes(struct elf_file *e, const Elf64_Shdr *section, struct buf *to)
{
	_cleanup_buf_ struct buf packed = { 0 };
	size_t had = to->size, limit = to->limit;
	int rc;

	if (section->sh_type == SHT_NOBITS)
		return 0;
	if (!(section->sh_flags & SHF_COMPRESSED))
		return elf_file_read(e, section->sh_offset, section->sh_size, to);
	rc = elf_file_read(e, section->sh_offset, section->sh_size, &packed);
	if (rc < 0)
		return rc;
	to->limit = had + MIN(TABLE_MAX, e->left);
	rc = inflate_section(&packed, to);
	to->limit = limit;
	e->left -= MIN(e->left, (uint64_t)(to->size - had));
	return rc;
}

int elf_file_offset(const struct elf_file *e, uint64_t address, uint64_t *ret, uint64_t *ret_left)
{
	for (size_t i = 0; i < e->n_loads; i++) {
		const Elf64_Phdr *p = &e->loads[i];

		if (address < p->p_vaddr || address - p->p_vaddr >= p->p_filesz || p->p_offset > INT64_MAX ||
		    p->p_filesz > INT64_MAX)
			continue;
		*ret = address - p->p_vaddr + p->p_offset;
		*ret_left = p->p_filesz - (address - p->p_vaddr);
		return 0;
	}
	return -ENOENT;
}

static size_t note_id(struct reader r, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	struct reader name, id;
	Elf64_Nhdr note;

	while (rd_copy(&r, &note, sizeof(note)) == 0) {
		if (rd_sub(&r, ((size_t)note.n_namesz + 3) & ~(size_t)3, &name) < 0 ||
		    rd_sub(&r, MIN(((size_t)note.n_descsz + 3) & ~(size_t)3, rd_left(&r)), &id) < 0)
			break;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name.at, "GNU", 4) == 0 &&
		    note.n_descsz && note.n_descsz <= IMAGE_BUILD_ID_MAX && rd_copy(&id, ret, note.n_descsz) == 0)
			return note.n_descsz;
	}
	return 0;
}

size_t elf_file_build_id(struct elf_file *e, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	Elf64_Shdr section;
	size_t found = 0;

	for (size_t i = 0; !found && elf_file_section(e, i, &section) == 0; i++) {
		_cleanup_buf_ struct buf b = { 0 };

		if (section.sh_type == SHT_NOTE && elf_file_bytes(e, &section, &b) == 0)
			found = note_id(reader_of(b.data, b.size), ret);
	}
	return found;
}
