/*
 * Functions of an ELF file: its symbols or those of a debug file, its PLT, and what its unwind table tells of functions
 * without a name.
 */
#include <string.h>
#include <sys/mman.h>

#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/code/debug-file.h"
#include "lib/code/elf-file.h"
#include "lib/code/inflate.h"
#include "lib/code/symtab.h"

enum {
	NAME_LENGTH_MAX = 4096,
	PLT_HEADER = 32,
	PLT_ENTRY = 16,
	PLT_ENTRY_BTI = 24,
	PLT_NAMES_MAX = 32 << 20,
	PACKED_MAX = 128 << 20,
};

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

/* A table of the file itself, or of a debug file, whose addresses are the file's. */
struct table {
	struct elf_file *from;
	size_t names; /* where its names begin among all */
	struct buf symbols;
};

static void table_done(struct table *t)
{
	buf_done(&t->symbols);
}

static int add_symbol(struct symbols *s, const struct elf_file *e, const struct table *t, const Elf64_Sym *sym,
		      struct pieces *found)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	struct piece p = { .name = (uint32_t)(t->names + sym->st_name) };
	uint64_t left, size = sym->st_size;
	Elf64_Shdr section;
	const char *name;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym->st_shndx == SHN_UNDEF ||
	    sym->st_name >= s->names.size - t->names)
		return 0;
	name = (const char *)s->names.data + p.name;
	if (!name[0] || strnlen(name, NAME_LENGTH_MAX) == NAME_LENGTH_MAX || is_mapping_symbol(name) ||
	    elf_file_offset(e, sym->st_value, &p.start, &left) < 0)
		return 0;
	/* One without a size goes on to the next symbol, but not out of its section. */
	p.open = !size;
	size = size ? size : left;
	if (p.open && elf_file_section(t->from, sym->st_shndx, &section) == 0 && sym->st_value >= section.sh_addr &&
	    sym->st_value - section.sh_addr < section.sh_size)
		size = section.sh_size - (sym->st_value - section.sh_addr);
	p.end = p.start + MIN(size, left);
	p.rank = name_rank(sym, name);
	return pieces_add(found, &p);
}

/* Takes the string table into names as a whole; a NUL after it ends a last name that has none. */
static int load_table(struct symbols *s, struct elf_file *e, const Elf64_Shdr *table, struct buf *ret_syms)
{
	Elf64_Shdr strings;
	int rc = elf_file_section(e, table->sh_link, &strings);

	if (rc < 0)
		return rc;
	if (strings.sh_type != SHT_STRTAB || table->sh_entsize != sizeof(Elf64_Sym))
		return -EBADMSG;
	if (table->sh_size / sizeof(Elf64_Sym) > SYMBOLS_MAX)
		return -EFBIG;
	rc = elf_file_read(e, table->sh_offset, table->sh_size / sizeof(Elf64_Sym) * sizeof(Elf64_Sym), ret_syms);
	if (rc < 0)
		return rc;
	rc = elf_file_read(e, strings.sh_offset, strings.sh_size, &s->names);
	if (rc < 0)
		return rc;
	buf_u8(&s->names, 0);
	return buf_error(&s->names);
}

/*
 * All of .plt is stubs. Those of a dynamic program stand in the order of their relocations in .rela.plt, after one
 * header; their size is told by how many there are (16 bytes, 24 with branch target identification).
 */
static int add_plt(struct symbols *s, struct elf_file *e, struct pieces *found)
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
		if (elf_file_section(e, i, &section) < 0 || !(section.sh_flags & SHF_ALLOC))
			continue;
		if (section.sh_type == SHT_PROGBITS && elf_file_section_is(e, &section, ".plt"))
			plt = section;
		else if (section.sh_type == SHT_RELA && elf_file_section_is(e, &section, ".rela.plt"))
			rela = section;
	}
	if (e->header.e_machine != EM_AARCH64 || elf_file_offset(e, plt.sh_addr, &offset, &left) < 0 || !plt.sh_size)
		return 0;
	whole = (struct piece){ .start = offset, .plt = true, .name = (uint32_t)s->names.size };
	whole.end = offset + MIN(plt.sh_size, left);
	buf_add(&s->names, "[plt]", sizeof("[plt]"));
	rc = pieces_add(found, &whole);
	n = rela.sh_size / sizeof(one);
	size = n && plt.sh_size > PLT_HEADER ? (plt.sh_size - PLT_HEADER) / n : 0;
	if (rc < 0 || (size != PLT_ENTRY && size != PLT_ENTRY_BTI) || n > SYMBOLS_MAX || left < plt.sh_size ||
	    elf_file_section_of_type(e, SHT_DYNSYM, &dynsym) < 0)
		return rc;
	dynamic = calloc(1, sizeof(*dynamic));
	if (!dynamic)
		return -ENOMEM;
	if (load_table(dynamic, e, &dynsym, &syms) < 0 ||
	    elf_file_read(e, rela.sh_offset, n * sizeof(one), &relocations) < 0)
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
static int add_unwind_table(struct elf_file *e, struct pieces *nameless)
{
	enum { VERSION = 1, POINTER_SDATA4_PCREL = 0x1b, COUNT_UDATA4 = 0x03, TABLE_SDATA4_DATAREL = 0x3b };
	uint8_t version = 0, pointer = 0, count_encoding = 0, table = 0;
	_cleanup_buf_ struct buf b = { 0 };
	uint32_t skipped, count = 0, distance, record;
	struct reader r;
	int rc;

	if (e->unwind.p_type != PT_GNU_EH_FRAME || elf_file_read(e, e->unwind.p_offset, e->unwind.p_filesz, &b) < 0)
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

		if (elf_file_offset(e, e->unwind.p_vaddr + (uint64_t)(int64_t)(int32_t)distance, &p.start, &left) < 0)
			continue;
		p.end = p.start + left;
		rc = pieces_add(nameless, &p);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int add_table(struct symbols *s, const struct elf_file *e, struct elf_file *from, const Elf64_Shdr *table,
		     struct pieces *named)
{
	_cleanup_(table_done) struct table t = { .from = from, .names = s->names.size };
	struct reader r;
	Elf64_Sym sym;
	int rc = load_table(s, from, table, &t.symbols);

	r = reader_of(t.symbols.data, t.symbols.size);
	while (rc == 0 && rd_copy(&r, &sym, sizeof(sym)) == 0)
		rc = add_symbol(s, e, &t, &sym, named);
	return rc;
}

/* .symtab of another file of the same addresses; what is wrong with it takes nothing from the file itself. */
static int add_symbols_of(struct symbols *s, const struct elf_file *e, int fd, struct pieces *named)
{
	_cleanup_(elf_file_done) struct elf_file other;
	Elf64_Shdr table;
	int rc = elf_file_open(fd, &other);

	if (rc == 0)
		rc = elf_file_section_of_type(&other, SHT_SYMTAB, &table);
	if (rc == 0)
		rc = add_table(s, e, &other, &table, named);
	return rc == -ENOMEM ? rc : 0;
}

/* MiniDebugInfo: an ELF file within the file, with the functions that .dynsym has not. */
static int add_packed_symbols(struct symbols *s, struct elf_file *e, struct pieces *named)
{
	_cleanup_buf_ struct buf packed = { 0 }, elf = { .limit = PACKED_MAX };
	_cleanup_close_ int fd = -1;
	Elf64_Shdr section;
	int rc;

	if (elf_file_section_named(e, ".gnu_debugdata", &section) < 0)
		return 0;
	rc = elf_file_bytes(e, &section, &packed);
	if (rc == 0)
		rc = inflate_xz(reader_of(packed.data, packed.size), &elf);
	if (rc == 0) {
		fd = memfd_create("csight-debugdata", MFD_CLOEXEC);
		rc = fd < 0 ? -errno : io_write(fd, elf.data, elf.size);
	}
	if (rc == 0)
		rc = add_symbols_of(s, e, fd, named);
	return rc == -ENOMEM ? rc : 0;
}

/* .symtab, its own or a debug file's, else .dynsym and what is packed beside it; -ENODATA: none. */
static int add_symbols(struct symbols *s, struct elf_file *e, int debug, struct pieces *named)
{
	Elf64_Shdr table;
	int rc = 0;

	if (elf_file_section_of_type(e, SHT_SYMTAB, &table) == 0)
		return add_table(s, e, e, &table, named);
	if (debug >= 0)
		rc = add_symbols_of(s, e, debug, named);
	if (rc < 0 || named->n)
		return rc;
	rc = elf_file_section_of_type(e, SHT_DYNSYM, &table) == 0 ? add_table(s, e, e, &table, named) : -ENODATA;
	if (rc == 0 || rc == -ENODATA) {
		int packed = add_packed_symbols(s, e, named);

		rc = packed < 0 ? packed : named->n ? 0 : rc;
	}
	return rc;
}

int symbols_load_with(int fd, int debug, struct symbols **ret)
{
	_cleanup_(symbols_freep) struct symbols *s = calloc(1, sizeof(*s));
	_cleanup_(pieces_done) struct pieces named = { 0 }, nameless = { 0 };
	_cleanup_(elf_file_done) struct elf_file e;
	int rc = elf_file_open(fd, &e);

	if (!s)
		return -ENOMEM;
	if (rc == 0)
		rc = add_unwind_table(&e, &nameless);
	if (rc == 0)
		rc = add_symbols(s, &e, debug, &named);
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

int symbols_load(int fd, struct symbols **ret)
{
	return symbols_load_with(fd, -1, ret);
}
