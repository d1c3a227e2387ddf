/* Functions of an ELF file: its symbols, its PLT, and what its unwind table tells of functions without a name. */
#include <elf.h>
#include <string.h>

#include "lib/base/reader.h"
#include "lib/code/symtab.h"

enum {
	SECTIONS_MAX = 1 << 16,
	LOADS_MAX = 256,
	NAME_LENGTH_MAX = 4096,
	PLT_HEADER = 32,
	PLT_ENTRY = 16,
	PLT_ENTRY_BTI = 24,
	PLT_NAMES_MAX = 32 << 20,
};

#define TABLE_MAX ((uint64_t)512 << 20)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ELF structs are copied as they lie in the file");

/* An ELF file, of which only the tables that are needed are in memory. */
struct elf {
	int fd;
	Elf64_Ehdr header;
	struct buf sections; /* Elf64_Shdr each */
	size_t n_sections;
	Elf64_Phdr loads[LOADS_MAX];
	size_t n_loads;
	Elf64_Phdr unwind; /* .eh_frame_hdr; type 0: none */
};

static void elf_done(struct elf *e)
{
	buf_done(&e->sections);
}

static int read_at(int fd, uint64_t offset, uint64_t size, struct buf *ret)
{
	uint8_t *to;

	if (size > TABLE_MAX)
		return -EFBIG;
	if (offset > INT64_MAX - size)
		return -EBADMSG;
	while (size) {
		/* In steps, so that memory follows what the file has, not what it says it has. */
		size_t step = MIN(size, (uint64_t)1 << 20);
		ssize_t n;

		to = buf_room(ret, step);
		if (!to)
			return buf_error(ret);
		n = pread(fd, to, step, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		buf_grew(ret, (size_t)n);
		offset += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}

static int elf_section(const struct elf *e, size_t index, Elf64_Shdr *ret)
{
	struct reader r = reader_of(e->sections.data, e->sections.size);

	if (index >= e->n_sections || rd_skip(&r, index * sizeof(*ret)) < 0)
		return -EBADMSG;
	return rd_copy(&r, ret, sizeof(*ret));
}

static int elf_load_segments(struct elf *e)
{
	_cleanup_buf_ struct buf b = { 0 };
	struct reader r;
	Elf64_Phdr p;
	int rc;

	if (e->header.e_phnum && e->header.e_phentsize != sizeof(p))
		return -EBADMSG;
	rc = read_at(e->fd, e->header.e_phoff, (uint64_t)e->header.e_phnum * sizeof(p), &b);
	if (rc < 0)
		return rc;
	r = reader_of(b.data, b.size);
	while (rd_copy(&r, &p, sizeof(p)) == 0) {
		if (p.p_type == PT_LOAD && p.p_filesz && e->n_loads < LOADS_MAX)
			e->loads[e->n_loads++] = p;
		if (p.p_type == PT_GNU_EH_FRAME)
			e->unwind = p;
	}
	return 0;
}

static int elf_open(int fd, struct elf *e)
{
	_cleanup_buf_ struct buf b = { 0 };
	uint64_t count;
	struct reader r;
	Elf64_Shdr first;
	int rc;

	e->fd = fd;
	rc = read_at(fd, 0, sizeof(e->header), &b);
	if (rc < 0)
		return rc;
	r = reader_of(b.data, b.size);
	rd_copy(&r, &e->header, sizeof(e->header));
	if (memcmp(e->header.e_ident, ELFMAG, SELFMAG) != 0 || e->header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e->header.e_ident[EI_DATA] != ELFDATA2LSB)
		return -EBADMSG;
	rc = elf_load_segments(e);
	if (rc < 0)
		return rc;
	if (!e->header.e_shoff)
		return 0;
	if (e->header.e_shentsize != sizeof(first))
		return -EBADMSG;
	count = e->header.e_shnum;
	if (count == 0) {
		/* More sections than the header's field can say: the first section has the number. */
		rc = read_at(fd, e->header.e_shoff, sizeof(first), &e->sections);
		if (rc < 0)
			return rc;
		e->n_sections = 1;
		rc = elf_section(e, 0, &first);
		if (rc < 0)
			return rc;
		count = first.sh_size;
		buf_clear(&e->sections);
	}
	if (count > SECTIONS_MAX)
		return -EFBIG;
	rc = read_at(fd, e->header.e_shoff, count * sizeof(first), &e->sections);
	e->n_sections = (size_t)count;
	return rc;
}

/* The file's offset of an address, and how far the bytes go from there; -ENOENT. */
static int elf_offset(const struct elf *e, uint64_t vaddr, uint64_t *ret, uint64_t *ret_left)
{
	for (size_t i = 0; i < e->n_loads; i++) {
		const Elf64_Phdr *p = &e->loads[i];

		if (vaddr < p->p_vaddr || vaddr - p->p_vaddr >= p->p_filesz || p->p_offset > INT64_MAX ||
		    p->p_filesz > INT64_MAX)
			continue;
		*ret = vaddr - p->p_vaddr + p->p_offset;
		*ret_left = p->p_filesz - (vaddr - p->p_vaddr);
		return 0;
	}
	return -ENOENT;
}

/* Of the names that one address has, the one that its author most likely knows. */
static uint8_t name_rank(const Elf64_Sym *sym, const char *name)
{
	unsigned bind = ELF64_ST_BIND(sym->st_info);
	uint8_t rank = bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 1 : 2;

	return name[0] != '_' ? rank : (uint8_t)(rank + (name[1] == '_' ? 6 : 3));
}

static bool is_mapping_symbol(const char *name)
{
	return name[0] == '$' && (name[1] == 'x' || name[1] == 'd') && (!name[2] || name[2] == '.');
}

static int add_symbol(struct symbols *s, const struct elf *e, const Elf64_Sym *sym, struct pieces *found)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	struct piece p = { .name = sym->st_name };
	uint64_t left, size = sym->st_size;
	Elf64_Shdr section;
	const char *name;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym->st_shndx == SHN_UNDEF || sym->st_name >= s->names.size)
		return 0;
	name = (const char *)s->names.data + sym->st_name;
	if (!name[0] || strnlen(name, NAME_LENGTH_MAX) == NAME_LENGTH_MAX || is_mapping_symbol(name) ||
	    elf_offset(e, sym->st_value, &p.start, &left) < 0)
		return 0;
	/* One without a size goes on to the next symbol, but not out of its section. */
	p.open = !size;
	size = size ? size : left;
	if (p.open && elf_section(e, sym->st_shndx, &section) == 0 && sym->st_value >= section.sh_addr &&
	    sym->st_value - section.sh_addr < section.sh_size)
		size = section.sh_size - (sym->st_value - section.sh_addr);
	p.end = p.start + MIN(size, left);
	p.rank = name_rank(sym, name);
	return pieces_add(found, &p);
}

/* Takes the string table into names as a whole; a NUL after it ends a last name that has none. */
static int load_table(struct symbols *s, const struct elf *e, const Elf64_Shdr *table, struct buf *ret_syms)
{
	Elf64_Shdr strings;
	int rc = elf_section(e, table->sh_link, &strings);

	if (rc < 0)
		return rc;
	if (strings.sh_type != SHT_STRTAB || table->sh_entsize != sizeof(Elf64_Sym))
		return -EBADMSG;
	if (table->sh_size / sizeof(Elf64_Sym) > SYMBOLS_MAX)
		return -EFBIG;
	rc = read_at(e->fd, table->sh_offset, table->sh_size / sizeof(Elf64_Sym) * sizeof(Elf64_Sym), ret_syms);
	if (rc < 0)
		return rc;
	rc = read_at(e->fd, strings.sh_offset, strings.sh_size, &s->names);
	if (rc < 0)
		return rc;
	buf_u8(&s->names, 0);
	return buf_error(&s->names);
}

static int find_section(const struct elf *e, uint32_t type, Elf64_Shdr *ret)
{
	for (size_t i = 0; i < e->n_sections; i++) {
		if (elf_section(e, i, ret) == 0 && ret->sh_type == type)
			return 0;
	}
	return -ENOENT;
}

static bool section_is(const struct elf *e, const Elf64_Shdr *section, const char *name)
{
	size_t size = strlen(name) + 1;
	Elf64_Shdr names;
	char have[16];

	return elf_section(e, e->header.e_shstrndx, &names) == 0 && section->sh_name < names.sh_size &&
	       names.sh_offset <= INT64_MAX - UINT32_MAX && size <= sizeof(have) &&
	       pread(e->fd, have, size, (off_t)(names.sh_offset + section->sh_name)) == (ssize_t)size &&
	       memcmp(have, name, size) == 0;
}

/*
 * All of .plt is stubs. Those of a dynamic program stand in the order of their relocations in .rela.plt, after one
 * header; their size is told by how many there are (16 bytes, 24 with branch target identification).
 */
static int add_plt(struct symbols *s, const struct elf *e, struct pieces *found)
{
	_cleanup_buf_ struct buf relocations = { 0 }, syms = { 0 };
	_cleanup_(symbols_freep) struct symbols *dynamic = NULL;
	Elf64_Shdr section, plt = { 0 }, rela = { 0 }, dynsym;
	size_t names_limit = s->names.size + PLT_NAMES_MAX;
	uint64_t n, size, offset, left;
	struct piece whole;
	struct reader r;
	Elf64_Rela one;
	int rc;

	for (size_t i = 0; i < e->n_sections; i++) {
		if (elf_section(e, i, &section) < 0 || !(section.sh_flags & SHF_ALLOC))
			continue;
		if (section.sh_type == SHT_PROGBITS && section_is(e, &section, ".plt"))
			plt = section;
		else if (section.sh_type == SHT_RELA && section_is(e, &section, ".rela.plt"))
			rela = section;
	}
	if (e->header.e_machine != EM_AARCH64 || elf_offset(e, plt.sh_addr, &offset, &left) < 0 || !plt.sh_size)
		return 0;
	whole = (struct piece){ .start = offset, .plt = true, .name = (uint32_t)s->names.size };
	whole.end = offset + MIN(plt.sh_size, left);
	buf_add(&s->names, "[plt]", sizeof("[plt]"));
	rc = pieces_add(found, &whole);
	n = rela.sh_size / sizeof(one);
	size = n && plt.sh_size > PLT_HEADER ? (plt.sh_size - PLT_HEADER) / n : 0;
	if (rc < 0 || (size != PLT_ENTRY && size != PLT_ENTRY_BTI) || n > SYMBOLS_MAX || left < plt.sh_size ||
	    find_section(e, SHT_DYNSYM, &dynsym) < 0)
		return rc;
	dynamic = calloc(1, sizeof(*dynamic));
	if (!dynamic)
		return -ENOMEM;
	if (load_table(dynamic, e, &dynsym, &syms) < 0 ||
	    read_at(e->fd, rela.sh_offset, n * sizeof(one), &relocations) < 0)
		return 0;
	r = reader_of(relocations.data, relocations.size);
	for (uint64_t i = 0; rd_copy(&r, &one, sizeof(one)) == 0; i++) {
		struct piece p = { .start = offset + PLT_HEADER + i * size,
				   .plt = true,
				   .name = (uint32_t)s->names.size };
		struct reader at = reader_of(syms.data, syms.size);
		Elf64_Sym sym;

		p.end = p.start + size;
		if (rd_skip(&at, ELF64_R_SYM(one.r_info) * sizeof(sym)) < 0 || rd_copy(&at, &sym, sizeof(sym)) < 0 ||
		    sym.st_name >= dynamic->names.size || !dynamic->names.data[sym.st_name])
			continue;
		if (s->names.size > names_limit)
			break;
		buf_printf(&s->names, "%.*s@plt", NAME_LENGTH_MAX, (const char *)dynamic->names.data + sym.st_name);
		buf_u8(&s->names, 0);
		rc = pieces_add(found, &p);
		if (rc < 0)
			return rc;
	}
	return buf_error(&s->names);
}

/*
 * Most functions have an unwind record, stripped or not, and .eh_frame_hdr has a sorted table of where each begins:
 * pairs of 32-bit distances from the table's own start (LSB, "Exception Frame Header").
 */
static int add_unwind_table(const struct elf *e, struct pieces *nameless)
{
	enum { VERSION = 1, POINTER_SDATA4_PCREL = 0x1b, COUNT_UDATA4 = 0x03, TABLE_SDATA4_DATAREL = 0x3b };
	uint8_t version = 0, pointer = 0, count_encoding = 0, table = 0;
	_cleanup_buf_ struct buf b = { 0 };
	uint32_t skipped, count = 0, distance, record;
	struct reader r;
	int rc;

	if (e->unwind.p_type != PT_GNU_EH_FRAME || read_at(e->fd, e->unwind.p_offset, e->unwind.p_filesz, &b) < 0)
		return 0;
	r = reader_of(b.data, b.size);
	if (rd_u8(&r, &version) < 0 || rd_u8(&r, &pointer) < 0 || rd_u8(&r, &count_encoding) < 0 ||
	    rd_u8(&r, &table) < 0 || rd_u32(&r, &skipped) < 0 || rd_u32(&r, &count) < 0 || version != VERSION ||
	    pointer != POINTER_SDATA4_PCREL || count_encoding != COUNT_UDATA4 || table != TABLE_SDATA4_DATAREL)
		return 0;
	for (uint32_t i = 0;
	     i < MIN(count, (uint32_t)SYMBOLS_MAX) && rd_u32(&r, &distance) == 0 && rd_u32(&r, &record) == 0; i++) {
		struct piece p = { .name = NO_NAME };
		uint64_t left;

		if (elf_offset(e, e->unwind.p_vaddr + (uint64_t)(int64_t)(int32_t)distance, &p.start, &left) < 0)
			continue;
		p.end = p.start + left;
		rc = pieces_add(nameless, &p);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* .symtab, else .dynsym; -ENODATA: neither. */
static int add_symbols(struct symbols *s, const struct elf *e, struct pieces *named)
{
	_cleanup_buf_ struct buf syms = { 0 };
	Elf64_Shdr table;
	struct reader r;
	Elf64_Sym sym;
	int rc;

	if (find_section(e, SHT_SYMTAB, &table) < 0 && find_section(e, SHT_DYNSYM, &table) < 0)
		return -ENODATA;
	rc = load_table(s, e, &table, &syms);
	if (rc < 0)
		return rc;
	r = reader_of(syms.data, syms.size);
	while (rc == 0 && rd_copy(&r, &sym, sizeof(sym)) == 0)
		rc = add_symbol(s, e, &sym, named);
	return rc;
}

int symbols_load(int fd, struct symbols **ret)
{
	_cleanup_(symbols_freep) struct symbols *s = calloc(1, sizeof(*s));
	_cleanup_(pieces_done) struct pieces named = { 0 }, nameless = { 0 };
	_cleanup_(elf_done) struct elf e = { 0 };
	int rc;

	if (!s)
		return -ENOMEM;
	rc = elf_open(fd, &e);
	if (rc < 0)
		return rc;
	rc = add_unwind_table(&e, &nameless);
	if (rc == 0)
		rc = add_symbols(s, &e, &named);
	/* Without any name the places are still worth having. */
	if (rc == -ENODATA && nameless.n)
		rc = 0;
	if (rc == 0)
		rc = add_plt(s, &e, &named);
	if (rc == 0)
		rc = symbols_make(s, &named, &nameless);
	if (rc < 0)
		return rc;
	*ret = TAKE_PTR(s);
	return 0;
}
