/* SPDX-License-Identifier: MIT */
/*
 * Functions of an ELF file: its symbols or those of a debug file, the stubs of its PLT, and, for functions without a
 * symbol, the entries of its unwind table.
 */
#include <string.h>

#include "lib/code/a64.h"
#include "lib/code/elf.h"
#include "lib/code/inflate.h"
#include "lib/code/symtab.h"

enum {
	NAME_LENGTH_MAX = 4096,
	PLT_NAMES_MAX = 32 << 20,
	PACKED_MAX = 128 << 20,
};

/* Returns whether a symbol is a mark of code or data by the ABI ("Mapping symbols" of AAELF32 and AAELF64). */
static bool is_mapping_symbol(const char *name)
{
	return name[0] == '$' && name[1] && strchr("adtx", name[1]) && (!name[2] || name[2] == '.');
}

/* A table of the file itself, or of its debug file, whose addresses are those of the file. */
struct table {
	struct elf *from;
	struct elf_table symbols;
	size_t names; /* where its string table begins in the names of struct symbols */
};

static int add_symbol(struct symbols *s, const struct elf *e, const struct table *t, const struct elf_symbol *sym,
		      struct pieces *found)
{
	struct piece p = { .name = (uint32_t)(t->names + sym->name) };
	uint64_t left, size = sym->size;
	const struct elf_section *section;
	const char *name;

	if (!sym->function || !sym->defined || sym->name >= s->names.size - t->names)
		return 0;
	name = (const char *)s->names.data + p.name;
	if (!name[0] || strnlen(name, NAME_LENGTH_MAX) == NAME_LENGTH_MAX || is_mapping_symbol(name) ||
	    elf_offset(e, sym->value, &p.start, &left) < 0)
		return 0;
	/* One without a size extends to the next symbol, but not beyond its section. */
	p.open = !size;
	size = size ? size : left;
	section = p.open ? elf_section(t->from, sym->section) : NULL;
	if (section && sym->value >= section->address && sym->value - section->address < section->size)
		size = section->size - (sym->value - section->address);
	p.end = p.start + MIN(size, left);
	p.rank = symbols_name_rank(sym->global, sym->weak, name);
	return symbols_pieces_add(found, &p);
}

/* Opens a table and appends its whole string table to the names; a NUL after it ends a last name that has none. */
static int load_table(struct symbols *s, const struct elf_section *section, struct table *t)
{
	int rc = elf_symbols(t->from, section, &t->symbols);

	if (rc < 0)
		return rc;
	if (t->symbols.n > SYMBOLS_MAX)
		return -EFBIG;
	t->names = s->names.size;
	rc = elf_append(t->from, t->symbols.names, &s->names);
	buf_u8(&s->names, 0);
	return rc < 0 ? rc : buf_error(&s->names);
}

static int add_table(struct symbols *s, const struct elf *e, struct elf *from, const struct elf_section *section,
		     struct pieces *named)
{
	struct table t = { .from = from };
	int rc = load_table(s, section, &t);
	struct elf_symbol sym;

	for (size_t i = 0; rc == 0 && elf_table_symbol(&t.symbols, i, &sym); i++)
		rc = add_symbol(s, e, &t, &sym, named);
	return rc;
}

/* The stubs of a file, with the relocations of the words that they jump to. */
struct plt {
	const struct elf_section *section, *relocations;
	uint64_t offset, size; /* offset and size of the stubs' code in the file */
};

/* A stub, and the number of its relocation. */
struct stub {
	uint64_t start, end;
	size_t relocation;
};

static bool find_plt(struct elf *e, const char *name, struct plt *ret)
{
	const struct elf_section *all;
	uint64_t left;
	size_t n;

	*ret = (struct plt){ 0 };
	if (elf_sections(e, &all, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct elf_section *section = &all[i];

		if (!section->allocated)
			continue;
		if (section->type == ELF_SECTION_PROGRAM && strcmp(section->name, name) == 0)
			ret->section = section;
		else if (section->type == ELF_SECTION_RELA && strcmp(section->name, ".rela.plt") == 0)
			ret->relocations = section;
		else if (section->type == ELF_SECTION_REL && strcmp(section->name, ".rel.plt") == 0)
			ret->relocations = section;
	}
	if (!ret->section || !ret->section->size || elf_offset(e, ret->section->address, &ret->offset, &left) < 0)
		return false;
	ret->size = MIN(ret->section->size, left);
	return true;
}

static int compare_places(const void *a, const void *b)
{
	const struct elf_relocation *x = a, *y = b;

	return (x->place > y->place) - (x->place < y->place);
}

/* Returns the relocations by place, with their numbers instead of symbols; NULL: out of memory. */
static struct elf_relocation *sort_places(const struct elf_table *t)
{
	struct elf_relocation *places = calloc(t->n + 1, sizeof(*places));

	if (!places)
		return NULL;
	for (size_t i = 0; i < t->n && elf_table_relocation(t, i, &places[i]); i++)
		places[i].symbol = i;
	qsort(places, t->n, sizeof(*places), compare_places);
	return places;
}

/*
 * AArch64: a stub loads from the place of its relocation, by ADRP and LDR, and jumps there. It may begin with BTI, and
 * NOPs may follow. What is between stubs, as code for descriptors of thread-local variables, is none.
 */
static int find_stubs_a64(struct elf *e, const struct plt *plt, const struct elf_table *relocations, struct stub *ret,
			  size_t *ret_n)
{
	enum { BTI_C = 0xd503245fu, NOP = 0xd503201fu, BR_X17 = 0xd61f0220u };
	_cleanup_free_ struct elf_relocation *places = sort_places(relocations);
	const struct elf_relocation *found = NULL;
	uint64_t at = plt->section->address, page = 0, start = 0, to_offset = plt->offset - at;
	uint32_t op, before = 0;
	struct reader r;

	*ret_n = 0;
	if (!places)
		return -ENOMEM;
	if (plt->size < plt->section->size || elf_contents(e, plt->section, &r) < 0)
		return 0;
	for (; rd_u32(&r, &op) == 0 && *ret_n < relocations->n; at += sizeof(op), before = op) {
		struct stub *last = *ret_n ? &ret[*ret_n - 1] : NULL;

		if ((op & 0x9f00001f) == 0x90000010) { /* ADRP x16 */
			page =
			    (at & ~(uint64_t)0xfff) + ((uint64_t)a64_offset(op, 5, 19) << 12) + ((op >> 29 & 3) << 12);
			start = before == BTI_C ? at - sizeof(op) : at;
			found = NULL;
		} else if ((op & 0xffc003ff) == 0xf9400211) { /* LDR x17, [x16, ...] */
			struct elf_relocation place = { .place = page + (op >> 10 & 0xfff) * 8 };

			found = bsearch(&place, places, relocations->n, sizeof(*places), compare_places);
		} else if (op == BR_X17 && found) {
			ret[(*ret_n)++] =
			    (struct stub){ start + to_offset, at + sizeof(op) + to_offset, found->symbol };
			found = NULL;
		} else if (op == NOP && last && last->end == at + to_offset) {
			last->end += sizeof(op);
		}
	}
	return 0;
}

/*
 * Arm: GNU ld writes a header of 20 bytes and stubs of three instructions, with "bx pc; nop" before those that Thumb
 * code branches to; lld a header of 32 bytes and stubs of 16.
 */
static size_t find_stubs_arm(struct elf *e, const struct plt *plt, size_t n, struct stub *ret)
{
	enum { HEADER = 20, HEADER_LLD = 32, STUB = 12, STUB_LLD = 16 };
	const uint32_t from_thumb = 0x46c04778;
	struct reader r, next;
	uint32_t word;
	size_t found = 0;

	if (plt->size < plt->section->size || elf_contents(e, plt->section, &r) < 0)
		return 0;
	if (n && rd_left(&r) == HEADER_LLD + n * STUB_LLD) {
		for (; found < n; found++) {
			uint64_t start = plt->offset + HEADER_LLD + found * STUB_LLD;

			ret[found] = (struct stub){ start, start + STUB_LLD, found };
		}
		return n;
	}
	if (rd_skip(&r, HEADER) < 0)
		return 0;
	for (uint64_t at = plt->offset + HEADER; found < n; found++) {
		uint64_t start = at;

		next = r;
		if (rd_u32(&next, &word) == 0 && word == from_thumb) {
			r = next;
			at += sizeof(word);
		}
		if (rd_skip(&r, STUB) < 0)
			return 0;
		at += STUB;
		ret[found] = (struct stub){ start, at, found };
	}
	return rd_left(&r) ? 0 : found;
}

static int name_stubs(struct symbols *s, struct elf *e, const struct elf_table *relocations, const struct stub *stubs,
		      size_t n, struct pieces *found)
{
	size_t names_limit = s->names.size + PLT_NAMES_MAX;
	const struct elf_section *section;
	struct elf_table imports;
	struct reader names;
	int rc = 0;

	if (elf_section_of_type(e, ELF_SECTION_DYNAMIC_SYMBOLS, &section) < 0 ||
	    elf_symbols(e, section, &imports) < 0 || elf_contents(e, imports.names, &names) < 0)
		return 0;
	for (size_t i = 0; rc == 0 && i < n && s->names.size <= names_limit; i++) {
		struct piece p = { .plt = true, .name = (uint32_t)s->names.size };
		struct reader name = names;
		struct elf_symbol sym;
		struct elf_relocation relocation;

		if (!elf_table_relocation(relocations, stubs[i].relocation, &relocation) ||
		    !elf_table_symbol(&imports, (size_t)relocation.symbol, &sym) ||
		    rd_skip(&name, (size_t)sym.name) < 0 || !rd_left(&name) || !*name.at)
			continue;
		p.start = stubs[i].start;
		p.end = stubs[i].end;
		buf_printf(&s->names, "%.*s@plt", (int)MIN(rd_left(&name), (size_t)NAME_LENGTH_MAX),
			   (const char *)name.at);
		buf_u8(&s->names, 0);
		rc = symbols_pieces_add(found, &p);
	}
	return rc < 0 ? rc : buf_error(&s->names);
}

/* All of such a section is stubs. */
static int add_stubs(struct symbols *s, struct elf *e, const char *name, struct pieces *found)
{
	_cleanup_free_ struct stub *stubs = NULL;
	struct elf_table relocations;
	struct piece whole;
	struct plt plt;
	size_t n = 0;
	int rc;

	if (!find_plt(e, name, &plt))
		return 0;
	whole = (struct piece){
		.start = plt.offset, .end = plt.offset + plt.size, .plt = true, .name = (uint32_t)s->names.size
	};
	buf_add(&s->names, "[plt]", sizeof("[plt]"));
	rc = symbols_pieces_add(found, &whole);
	if (rc < 0 || !plt.relocations || elf_relocations(e, plt.relocations, &relocations) < 0 ||
	    relocations.n > SYMBOLS_MAX)
		return rc;
	stubs = calloc(relocations.n + 1, sizeof(*stubs));
	if (!stubs)
		return -ENOMEM;
	if (elf_identity(e)->machine == ELF_MACHINE_ARM)
		n = find_stubs_arm(e, &plt, relocations.n, stubs);
	else
		rc = find_stubs_a64(e, &plt, &relocations, stubs, &n);
	return rc < 0 ? rc : name_stubs(s, e, &relocations, stubs, n, found);
}

static int add_plt(struct symbols *s, struct elf *e, struct pieces *found)
{
	const char *const names[] = { ".plt", ".iplt" };
	uint16_t machine = elf_identity(e)->machine;
	int rc = 0;

	if (machine != ELF_MACHINE_AARCH64 && machine != ELF_MACHINE_ARM)
		return 0;
	for (size_t i = 0; rc == 0 && i < ELEMENTS(names); i++)
		rc = add_stubs(s, e, names[i], found);
	return rc;
}

/*
 * Most functions have an unwind record, also in stripped files, and .eh_frame_hdr has a sorted table of where each
 * begins: pairs of 32-bit distances from the start of the table itself (LSB, "Exception Frame Header").
 */
static int add_unwind_table(struct elf *e, struct pieces *nameless)
{
	enum { VERSION = 1, POINTER_SDATA4_PCREL = 0x1b, COUNT_UDATA4 = 0x03, TABLE_SDATA4_DATAREL = 0x3b };
	const struct elf_segment *segment = elf_segment(e, ELF_SEGMENT_UNWIND);
	uint8_t version = 0, pointer = 0, count_encoding = 0, table = 0;
	uint32_t skipped, count = 0, distance, record;
	uint64_t mask = elf_identity(e)->bits == 32 ? UINT32_MAX : UINT64_MAX;
	struct reader r;
	int rc;

	if (!segment || elf_bytes(e, segment->offset, segment->size, &r) < 0)
		return 0;
	if (rd_u8(&r, &version) < 0 || rd_u8(&r, &pointer) < 0 || rd_u8(&r, &count_encoding) < 0 ||
	    rd_u8(&r, &table) < 0 || rd_u32(&r, &skipped) < 0 || rd_u32(&r, &count) < 0 || version != VERSION ||
	    pointer != POINTER_SDATA4_PCREL || count_encoding != COUNT_UDATA4 || table != TABLE_SDATA4_DATAREL)
		return 0;
	for (uint32_t i = 0;
	     i < MIN(count, (uint32_t)SYMBOLS_MAX) && rd_u32(&r, &distance) == 0 && rd_u32(&r, &record) == 0; i++) {
		uint64_t address = segment->address + (uint64_t)(int64_t)(int32_t)distance, left;
		struct piece p = { .name = NO_NAME };

		if (elf_offset(e, address & mask, &p.start, &left) < 0)
			continue;
		p.end = p.start + left;
		rc = symbols_pieces_add(nameless, &p);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/*
 * Adds the functions of .ARM.exidx, which has pairs of words; the first is a 31-bit distance from itself (EHABI32,
 * "Index table entries").
 */
static int add_arm_table(struct elf *e, struct pieces *nameless)
{
	const struct elf_segment *segment = elf_segment(e, ELF_SEGMENT_ARM_UNWIND);
	uint32_t distance, data;
	struct reader r;
	int rc = 0;

	if (elf_identity(e)->machine != ELF_MACHINE_ARM || !segment ||
	    elf_bytes(e, segment->offset, segment->size, &r) < 0)
		return 0;
	for (uint64_t at = segment->address;
	     rc == 0 && nameless->n < SYMBOLS_MAX && rd_u32(&r, &distance) == 0 && rd_u32(&r, &data) == 0;
	     at += sizeof(distance) + sizeof(data)) {
		uint64_t address = at + (uint64_t)(int64_t)((int32_t)(distance << 1) >> 1), left;
		struct piece p = { .name = NO_NAME };

		if (elf_offset(e, address & (UINT32_MAX - 1), &p.start, &left) < 0)
			continue;
		p.end = p.start + left;
		rc = symbols_pieces_add(nameless, &p);
	}
	return rc;
}

/*
 * Adds the sections .init and .fini as functions without names: the C library's assembler code in them has no unwind
 * information, and the function before them would contain them.
 */
static int add_init_and_fini(struct elf *e, struct pieces *nameless)
{
	const char *const names[] = { ".init", ".fini" };
	const struct elf_section *section;
	int rc = 0;

	for (size_t i = 0; rc == 0 && nameless->n && i < ELEMENTS(names); i++) {
		if (elf_section_named(e, names[i], &section) < 0 || !section->allocated || !section->size)
			continue;
		rc = symbols_pieces_add(nameless, &(struct piece){ .start = section->offset,
								   .end = section->offset + section->size,
								   .name = NO_NAME });
	}
	return rc;
}

/* Adds .symtab of another file with the same addresses. Damage of that file is no error of the file itself. */
static int add_symbols_of(struct symbols *s, const struct elf *e, struct elf *other, struct pieces *named)
{
	const struct elf_section *section;
	int rc = elf_section_of_type(other, ELF_SECTION_SYMBOLS, &section);

	if (rc == 0)
		rc = add_table(s, e, other, section, named);
	return rc == -ENOMEM ? rc : 0;
}

static int add_debug_file(struct symbols *s, const struct elf *e, int fd, struct pieces *named)
{
	_cleanup_(elf_freep) struct elf *debug = NULL;
	int rc;

	if (elf_identity(e)->type == ELF_TYPE_CORE)
		return symbols_add_kernel(s, e, fd, named);
	rc = elf_open(fd, &debug);
	return rc == 0 ? add_symbols_of(s, e, debug, named) : rc == -ENOMEM ? rc : 0;
}

/* MiniDebugInfo: an ELF file within the file, with the functions that .dynsym lacks. */
static int add_packed_symbols(struct symbols *s, struct elf *e, struct pieces *named)
{
	_cleanup_buf_ struct buf bytes = { .limit = PACKED_MAX };
	_cleanup_(elf_freep) struct elf *packed = NULL;
	const struct elf_section *section;
	struct reader r;
	int rc;

	if (elf_section_named(e, ".gnu_debugdata", &section) < 0)
		return 0;
	rc = elf_contents(e, section, &r);
	if (rc == 0)
		rc = inflate_xz(r, &bytes);
	if (rc == 0)
		rc = elf_open_memory(bytes.data, bytes.size, &packed);
	if (rc == 0)
		rc = add_symbols_of(s, e, packed, named);
	return rc == -ENOMEM ? rc : 0;
}

/* .symtab of the file or of its debug file, else .dynsym and MiniDebugInfo; -ENODATA: none. */
static int add_symbols(struct symbols *s, struct elf *e, int debug, struct pieces *named)
{
	const struct elf_section *section;
	int rc = 0;

	if (elf_section_of_type(e, ELF_SECTION_SYMBOLS, &section) == 0)
		return add_table(s, e, e, section, named);
	if (debug >= 0)
		rc = add_debug_file(s, e, debug, named);
	if (rc < 0 || named->n)
		return rc;
	rc = elf_section_of_type(e, ELF_SECTION_DYNAMIC_SYMBOLS, &section) == 0 ? add_table(s, e, e, section, named)
										: -ENODATA;
	if (rc == 0 || rc == -ENODATA) {
		int packed = add_packed_symbols(s, e, named);

		rc = packed < 0 ? packed : named->n ? 0 : rc;
	}
	return rc;
}

int symbols_load_with(int fd, int debug, struct symbols **ret)
{
	_cleanup_(symbols_freep) struct symbols *s = calloc(1, sizeof(*s));
	_cleanup_(symbols_pieces_done) struct pieces named = { 0 }, nameless = { 0 };
	_cleanup_(elf_freep) struct elf *e = NULL;
	const struct elf_section *sections;
	size_t n;
	int rc = elf_open(fd, &e);

	if (!s)
		return -ENOMEM;
	if (rc == 0)
		rc = elf_sections(e, &sections, &n);
	if (rc == 0)
		rc = add_unwind_table(e, &nameless);
	if (rc == 0)
		rc = add_arm_table(e, &nameless);
	if (rc == 0)
		rc = add_init_and_fini(e, &nameless);
	if (rc == 0)
		rc = add_symbols(s, e, debug, &named);
	/* Functions without any name still have their bounds. */
	if (rc == -ENODATA && nameless.n)
		rc = 0;
	if (rc == 0)
		rc = add_plt(s, e, &named);
	if (rc == 0)
		rc = symbols_add_kernel_stubs(s, e, &named);
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
