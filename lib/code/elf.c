/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/io.h"
#include "lib/code/elf-private.h"
#include "lib/code/inflate.h"

enum {
	SECTIONS_MAX = 1 << 16,
	SEGMENTS_MAX = 4096,
	SECTION_NAMES_MAX = 16 << 20,
	HEADER_SIZE_MAX = sizeof(Elf64_Ehdr),
};

/* The limits of one part of a file, and of all parts that a handle reads or decompresses. */
#define PART_MAX ((uint64_t)512 << 20)
#define HANDLE_MAX ((uint64_t)1 << 30)

/* ELFCOMPRESS_ZSTD, which the elf.h of Debian 12 lacks. */
#define COMPRESSED_ZSTD 2

_Static_assert(ELF_MACHINE_ARM == EM_ARM && ELF_MACHINE_AARCH64 == EM_AARCH64, "machines");
_Static_assert(ELF_TYPE_RELOCATABLE == ET_REL && ELF_TYPE_EXECUTABLE == ET_EXEC && ELF_TYPE_SHARED == ET_DYN &&
		   ELF_TYPE_CORE == ET_CORE,
	       "types of files");
_Static_assert(ELF_SEGMENT_LOAD == PT_LOAD && ELF_SEGMENT_INTERPRETER == PT_INTERP && ELF_SEGMENT_NOTE == PT_NOTE &&
		   ELF_SEGMENT_UNWIND == PT_GNU_EH_FRAME && ELF_SEGMENT_ARM_UNWIND == PT_ARM_EXIDX,
	       "types of segments");
_Static_assert(ELF_SECTION_NONE == SHT_NULL && ELF_SECTION_PROGRAM == SHT_PROGBITS &&
		   ELF_SECTION_SYMBOLS == SHT_SYMTAB && ELF_SECTION_STRINGS == SHT_STRTAB &&
		   ELF_SECTION_RELA == SHT_RELA && ELF_SECTION_NOTE == SHT_NOTE && ELF_SECTION_NO_BYTES == SHT_NOBITS &&
		   ELF_SECTION_REL == SHT_REL && ELF_SECTION_DYNAMIC_SYMBOLS == SHT_DYNSYM,
	       "types of sections");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "one field of a section header is read as it lies");

static void set_version(void)
{
	elf_version(EV_CURRENT);
}

/* Parses a header that lies in memory by itself. */
static int parse_header(const uint8_t *bytes, size_t size, GElf_Ehdr *ret, struct elf_identity *ret_identity)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	_Alignas(Elf64_Ehdr) char header[HEADER_SIZE_MAX];
	bool parsed;
	Elf *elf;

	pthread_once(&once, set_version);
	if (size < EI_NIDENT || memcmp(bytes, ELFMAG, SELFMAG) != 0)
		return -EBADMSG;
	memcpy(header, bytes, size);
	elf = elf_memory(header, size);
	parsed = elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, ret);
	elf_end(elf);
	if (!parsed)
		return -EBADMSG;
	*ret_identity = (struct elf_identity){ .bits = ret->e_ident[EI_CLASS] == ELFCLASS32 ? 32 : 64,
					       .big_endian = ret->e_ident[EI_DATA] == ELFDATA2MSB,
					       .type = ret->e_type,
					       .machine = ret->e_machine,
					       .entry = ret->e_entry & ~(uint64_t)(ret->e_machine == EM_ARM ? 1 : 0) };
	return 0;
}

int elf_identify(int fd, struct elf_identity *ret)
{
	uint8_t bytes[HEADER_SIZE_MAX];
	ssize_t n = io_pread(fd, bytes, sizeof(bytes), 0);
	GElf_Ehdr header;

	return n < 0 ? (int)n : parse_header(bytes, (size_t)n, &header, ret);
}

const struct elf_identity *elf_identity(const struct elf *e)
{
	return &e->identity;
}

const char *elf_machine_name(uint16_t machine)
{
	switch (machine) {
	case EM_AARCH64:
		return "aarch64";
	case EM_X86_64:
		return "x86-64";
	case EM_386:
		return "i386";
	case EM_ARM:
		return "32-bit Arm";
	case EM_RISCV:
		return "RISC-V";
	case EM_PPC64:
		return "PowerPC";
	case EM_S390:
		return "s390";
	default:
		return "another machine";
	}
}

int elf_charge(struct elf *e, uint64_t offset, uint64_t size)
{
	if (offset > e->size || size > e->size - offset)
		return -EBADMSG;
	if (size > MIN(PART_MAX, e->left))
		return -EFBIG;
	e->left -= size;
	return 0;
}

static int read_file_at(const struct elf *e, uint64_t offset, void *ret, size_t size)
{
	ssize_t n;

	if (offset > e->size || size > e->size - offset)
		return -EBADMSG;
	if (e->fd < 0) {
		memcpy(ret, e->memory + offset, size);
		return 0;
	}
	n = io_pread(e->fd, ret, size, offset);
	return n < 0 ? (int)n : (size_t)n < size ? -EBADMSG : 0;
}

/* libelf allocates a record for each section when a file is opened, so their number is checked before. Where it does
 * not fit the header, the first section has it. */
static int check_section_count(const struct elf *e)
{
	uint64_t count = e->header.e_shnum;
	union {
		Elf32_Shdr narrow;
		Elf64_Shdr wide;
	} first;
	bool narrow = e->identity.bits == 32;
	int rc;

	if (!count && e->header.e_shoff) {
		rc = read_file_at(e, e->header.e_shoff, &first, narrow ? sizeof(first.narrow) : sizeof(first.wide));
		/* elf_sections() reports that there are none. */
		if (rc < 0)
			return rc == -EBADMSG ? 0 : rc;
		count = narrow ? first.narrow.sh_size : first.wide.sh_size;
	}
	return count > SECTIONS_MAX ? -EFBIG : 0;
}

static int read_segments(struct elf *e)
{
	size_t n = e->header.e_phnum;
	int rc;

	if (!n || !e->header.e_phoff)
		return 0;
	if (e->header.e_phentsize != gelf_fsize(e->elf, ELF_T_PHDR, 1, EV_CURRENT))
		return -EBADMSG;
	errno = 0;
	if (elf_getphdrnum(e->elf, &n) < 0)
		return elf_libelf_error();
	rc = elf_charge(e, e->header.e_phoff, n * (uint64_t)e->header.e_phentsize);
	if (rc < 0)
		return rc;
	n = MIN(n, (size_t)SEGMENTS_MAX);
	e->segments = calloc(n + 1, sizeof(*e->segments));
	if (!e->segments)
		return -ENOMEM;
	for (; e->n_segments < n; e->n_segments++) {
		struct elf_segment *s = &e->segments[e->n_segments];
		GElf_Phdr p;

		if (!gelf_getphdr(e->elf, (int)e->n_segments, &p))
			return elf_libelf_error();
		*s = (struct elf_segment){ .type = p.p_type,
					   .code = p.p_flags & PF_X,
					   .address = p.p_vaddr,
					   .offset = p.p_offset,
					   .size = p.p_filesz,
					   .memory_size = p.p_memsz };
		if (s->type == PT_LOAD && s->size && s->offset <= INT64_MAX && s->size <= INT64_MAX &&
		    e->n_loads < ELF_LOADS_MAX)
			e->loads[e->n_loads++] = *s;
	}
	return 0;
}

static int open_elf(struct elf *e)
{
	uint8_t bytes[HEADER_SIZE_MAX];
	size_t size = (size_t)MIN(e->size, (uint64_t)sizeof(bytes));
	int rc = read_file_at(e, 0, bytes, size);

	if (rc == 0)
		rc = parse_header(bytes, size, &e->header, &e->identity);
	if (rc == 0 && e->identity.big_endian)
		rc = -EBADMSG;
	if (rc == 0)
		rc = check_section_count(e);
	if (rc < 0)
		return rc;
	errno = 0;
	e->elf = e->fd < 0 ? elf_memory((char *)e->memory, e->size) : elf_begin(e->fd, ELF_C_READ, NULL);
	if (!e->elf || elf_kind(e->elf) != ELF_K_ELF)
		return elf_libelf_error();
	return read_segments(e);
}

static int elf_new(int fd, const void *bytes, uint64_t size, struct elf **ret)
{
	_cleanup_(elf_freep) struct elf *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return -ENOMEM;
	e->fd = fd;
	e->memory = bytes;
	e->size = size;
	e->left = HANDLE_MAX;
	rc = open_elf(e);
	if (rc == 0)
		*ret = TAKE_PTR(e);
	return rc;
}

int elf_open(int fd, struct elf **ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_size < 0 ? -EBADMSG : elf_new(fd, NULL, (uint64_t)st.st_size, ret);
}

int elf_open_memory(const void *bytes, size_t size, struct elf **ret)
{
	return elf_new(-1, bytes, size, ret);
}

struct elf *elf_free(struct elf *e)
{
	if (!e)
		return NULL;
	for (size_t i = 0; i < e->n_sections; i++)
		buf_done(&e->contents[i].inflated);
	elf_end(e->elf);
	free(e->segments);
	free(e->sections);
	free(e->contents);
	free(e);
	return NULL;
}

const struct elf_segment *elf_segments(const struct elf *e, size_t *ret_n)
{
	*ret_n = e->n_segments;
	return e->segments;
}

const struct elf_segment *elf_segment(const struct elf *e, uint32_t type)
{
	for (size_t i = 0; i < e->n_segments; i++)
		if (e->segments[i].type == type)
			return &e->segments[i];
	return NULL;
}

int elf_offset(const struct elf *e, uint64_t address, uint64_t *ret, uint64_t *ret_left)
{
	for (size_t i = 0; i < e->n_loads; i++) {
		const struct elf_segment *s = &e->loads[i];

		if (address < s->address || address - s->address >= s->size)
			continue;
		*ret = address - s->address + s->offset;
		*ret_left = s->size - (address - s->address);
		return 0;
	}
	return -ENOENT;
}

int elf_address(const struct elf *e, uint64_t offset, uint64_t *ret)
{
	for (size_t i = 0; i < e->n_loads; i++) {
		const struct elf_segment *s = &e->loads[i];

		if (offset >= s->offset && offset - s->offset < s->size) {
			*ret = offset - s->offset + s->address;
			return 0;
		}
	}
	return -ENOENT;
}

int elf_bytes(struct elf *e, uint64_t offset, uint64_t size, struct reader *ret)
{
	int rc = elf_charge(e, offset, size);
	Elf_Data *data;

	if (rc < 0)
		return rc;
	errno = 0;
	data = elf_getdata_rawchunk(e->elf, (int64_t)offset, (size_t)size, ELF_T_BYTE);
	if (!data)
		return elf_libelf_error();
	*ret = reader_of(data->d_buf, data->d_size);
	return 0;
}

/* Names that end within their table; the others are empty. */
static void name_sections(struct elf *e)
{
	struct reader r = reader_of(NULL, 0);
	const uint8_t *last;
	size_t index, size;

	if (elf_getshdrstrndx(e->elf, &index) < 0 || index >= e->n_sections ||
	    e->sections[index].size > SECTION_NAMES_MAX || elf_contents(e, &e->sections[index], &r) < 0)
		return;
	last = rd_left(&r) ? memrchr(r.at, 0, rd_left(&r)) : NULL;
	size = last ? (size_t)(last - r.at) : 0;
	for (size_t i = 0; i < e->n_sections; i++) {
		GElf_Shdr header;

		if (gelf_getshdr(elf_getscn(e->elf, i), &header) && header.sh_name < size)
			e->sections[i].name = (const char *)r.at + header.sh_name;
	}
}

static int read_sections(struct elf *e)
{
	size_t n = 0;
	int rc;

	errno = 0;
	if (elf_getshdrnum(e->elf, &n) < 0)
		return elf_libelf_error();
	/* libelf reports a table that goes past the end of the file as empty. */
	if (e->header.e_shoff && (!n || (e->header.e_shnum && n != e->header.e_shnum)))
		return -EBADMSG;
	if (!n)
		return 0;
	if (n > SECTIONS_MAX)
		return -EFBIG;
	if (e->header.e_shentsize != gelf_fsize(e->elf, ELF_T_SHDR, 1, EV_CURRENT))
		return -EBADMSG;
	rc = elf_charge(e, e->header.e_shoff, n * (uint64_t)e->header.e_shentsize);
	if (rc < 0)
		return rc;
	e->sections = calloc(n, sizeof(*e->sections));
	e->contents = calloc(n, sizeof(*e->contents));
	if (!e->sections || !e->contents)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		GElf_Shdr header;

		if (!gelf_getshdr(elf_getscn(e->elf, i), &header))
			return elf_libelf_error();
		e->sections[i] = (struct elf_section){ .name = "",
						       .index = (uint32_t)i,
						       .type = header.sh_type,
						       .link = header.sh_link,
						       .allocated = header.sh_flags & SHF_ALLOC,
						       .code = header.sh_flags & SHF_EXECINSTR,
						       .compressed = header.sh_flags & SHF_COMPRESSED,
						       .address = header.sh_addr,
						       .offset = header.sh_offset,
						       .size = header.sh_size,
						       .entry_size = header.sh_entsize };
	}
	e->n_sections = n;
	name_sections(e);
	return 0;
}

int elf_sections(struct elf *e, const struct elf_section **ret, size_t *ret_n)
{
	if (!e->sections_read) {
		e->sections_error = read_sections(e);
		e->sections_read = true;
	}
	*ret = e->sections;
	*ret_n = e->n_sections;
	return e->sections_error;
}

const struct elf_section *elf_section(struct elf *e, uint64_t index)
{
	const struct elf_section *all;
	size_t n;

	return elf_sections(e, &all, &n) == 0 && index < n ? &all[index] : NULL;
}

int elf_section_of_type(struct elf *e, uint32_t type, const struct elf_section **ret)
{
	const struct elf_section *all;
	size_t n;
	int rc = elf_sections(e, &all, &n);

	for (size_t i = 0; rc == 0 && i < n; i++)
		if (all[i].type == type) {
			*ret = &all[i];
			return 0;
		}
	return rc < 0 ? rc : -ENOENT;
}

int elf_section_named(struct elf *e, const char *name, const struct elf_section **ret)
{
	const struct elf_section *all;
	size_t n;
	int rc = elf_sections(e, &all, &n);

	for (size_t i = 0; rc == 0 && i < n; i++)
		if (all[i].type != SHT_NULL && strcmp(all[i].name, name) == 0) {
			*ret = &all[i];
			return 0;
		}
	return rc < 0 ? rc : -ENOENT;
}

bool elf_only_symbols(struct elf *e)
{
	const struct elf_section *all;
	bool some = false, whole = false;
	size_t n;

	for (size_t i = 0; i < e->n_segments; i++) {
		const struct elf_segment *s = &e->segments[i];

		if (s->type != PT_LOAD || !s->code)
			continue;
		some = true;
		whole = whole || s->size >= s->memory_size;
	}
	if (!some || !whole || elf_sections(e, &all, &n) < 0)
		return some && !whole;
	some = whole = false;
	for (size_t i = 0; i < n; i++) {
		if (!all[i].allocated || !all[i].code)
			continue;
		some = true;
		whole = whole || all[i].type != SHT_NOBITS;
	}
	return some && !whole;
}

static int inflate_contents(struct elf *e, Elf_Scn *scn, struct elf_contents *c)
{
	struct reader r = c->bytes;
	GElf_Chdr header;
	int rc;

	if (!gelf_getchdr(scn, &header) || rd_skip(&r, gelf_fsize(e->elf, ELF_T_CHDR, 1, EV_CURRENT)) < 0)
		return -EBADMSG;
	/* A limit of 0 would be none. */
	c->inflated.limit = (size_t)MIN(PART_MAX, e->left) + 1;
	rc = header.ch_type == ELFCOMPRESS_ZLIB  ? inflate_zlib(r, &c->inflated)
	     : header.ch_type == COMPRESSED_ZSTD ? inflate_zstd(r, &c->inflated)
						 : -EBADMSG;
	e->left -= MIN(e->left, (uint64_t)c->inflated.size);
	c->bytes = reader_of(c->inflated.data, c->inflated.size);
	return rc;
}

int elf_contents(struct elf *e, const struct elf_section *section, struct reader *ret)
{
	struct elf_contents *c = &e->contents[section->index];
	Elf_Scn *scn = elf_getscn(e->elf, section->index);
	Elf_Data *data;
	int rc;

	if (section->type == SHT_NOBITS || !section->size) {
		*ret = reader_of(NULL, 0);
		return 0;
	}
	if (!c->read) {
		buf_done(&c->inflated);
		c->inflated = (struct buf){ 0 };
		rc = elf_charge(e, section->offset, section->size);
		if (rc < 0)
			return rc;
		errno = 0;
		data = elf_rawdata(scn, NULL);
		if (!data || (!data->d_buf && data->d_size))
			return elf_libelf_error();
		c->bytes = reader_of(data->d_buf, data->d_size);
		if (section->compressed)
			rc = inflate_contents(e, scn, c);
		if (rc < 0)
			return rc;
		c->read = true;
	}
	*ret = c->bytes;
	return 0;
}

int elf_append(struct elf *e, const struct elf_section *section, struct buf *to)
{
	struct reader r;
	uint8_t *at;
	int rc;

	if (section->compressed || section->type == SHT_NOBITS || e->fd < 0 || e->contents[section->index].read) {
		rc = elf_contents(e, section, &r);
		if (rc == 0)
			buf_add(to, r.at, rd_left(&r));
		return rc < 0 ? rc : buf_error(to);
	}
	rc = elf_charge(e, section->offset, section->size);
	if (rc < 0)
		return rc;
	at = buf_reserve(to, (size_t)section->size);
	if (!at)
		return buf_error(to);
	rc = read_file_at(e, section->offset, at, (size_t)section->size);
	if (rc == 0)
		buf_grew(to, (size_t)section->size);
	return rc;
}
