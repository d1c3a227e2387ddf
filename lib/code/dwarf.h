/* SPDX-License-Identifier: MIT */
/*
 * Parses DWARF of versions 2 to 5 (dwarfstd.org): functions, the functions inlined in them, the source files and lines
 * of declarations, of calls, and of single instructions.
 *
 * Not read:
 *   - split DWARF: units in .dwo and .dwp files. Nothing is known of the functions of a skeleton unit.
 *   - what `dwz -m` moved to a common file, named by .gnu_debugaltlink: names and source files there are unknown.
 *   - type units, in .debug_types or .debug_info. They are not needed: functions are in compile units.
 *
 * Sections are hostile. They are in memory as a whole, within the budget of lib/code/elf.h, and strings point into
 * them. DWARF_STEPS bounds the work on one file: how many attributes and list entries are read, in all.
 */
#ifndef CSIGHT_CODE_DWARF_H
#define CSIGHT_CODE_DWARF_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/reader.h"
#include "lib/base/buf.h"
#include "lib/code/elf.h"

#define DWARF_STEPS ((uint64_t)1 << 30)

enum dwarf_section {
	DWARF_INFO,
	DWARF_ABBREV,
	DWARF_STR,
	DWARF_LINE,
	DWARF_LINE_STR,
	DWARF_STR_OFFSETS,
	DWARF_ADDR,
	DWARF_RANGES,
	DWARF_RNGLISTS,
	DWARF_SECTIONS,
};

enum dwarf_tag {
	TAG_LEXICAL_BLOCK = 0x0b,
	TAG_COMPILE_UNIT = 0x11,
	TAG_INLINED_SUBROUTINE = 0x1d,
	TAG_SUBPROGRAM = 0x2e,
};

struct dwarf_file {
	const char *dir, *base_dir, *name; /* dir is relative to base_dir; NULL: absent */
	char *path;                        /* the whole path, made by dwarf_file() */
};

struct dwarf_abbrevs;

struct dwarf_unit {
	uint64_t offset, end; /* of the unit with its header, in DWARF_INFO */
	uint64_t entries;     /* offset of the first entry */
	uint16_t version;
	uint8_t address_size, offset_size;
	uint64_t abbrev_offset;
	const struct dwarf_abbrevs *abbrevs; /* NULL: not parsed yet */
	/* Attributes of the first entry. */
	uint64_t str_offsets_base, addr_base, rnglists_base, low_pc, stmt_list;
	bool has_stmt_list, has_files;
	const char *dir;
	struct dwarf_file *files;
	size_t n_files;
};

enum dwarf_class { VALUE_NONE, VALUE_NUMBER, VALUE_ADDRESS, VALUE_STRING, VALUE_REFERENCE };

struct dwarf_value {
	enum dwarf_class class;
	bool indexed;    /* number is an index in a table: see dwarf_string(), dwarf_address() */
	uint64_t number; /* of a reference: an offset in DWARF_INFO */
	const char *string;
};

/* A debugging information entry, with the attributes that inlines.c uses. Absent ones are VALUE_NONE or 0. */
struct dwarf_entry {
	uint16_t tag; /* 0: end of the list of children */
	bool children, has_decl_file;
	struct dwarf_value name, linkage_name, low_pc, high_pc, ranges, entry_pc, origin, sibling;
	uint64_t decl_file, decl_line, decl_column, call_file, call_line;
	/* Of units only. */
	struct dwarf_value dir, stmt_list, str_offsets_base, addr_base, rnglists_base;
};

struct dwarf {
	struct reader sections[DWARF_SECTIONS]; /* borrowed from the ELF handle */
	struct dwarf_unit *units;               /* sorted by offset */
	size_t n_units;
	void *abbrevs;  /* tsearch() tree of struct dwarf_abbrevs, by offset */
	uint64_t steps; /* left of DWARF_STEPS */
};

/* Opens the DWARF of a file or debug file; e must outlive ret. -ENODATA: none; -ENOMEM; errors of elf_contents(). */
int dwarf_open(struct elf *e, struct dwarf *ret);
void dwarf_done(struct dwarf *d);

/* Returns the unit that contains an offset in DWARF_INFO; NULL: none that is read. */
struct dwarf_unit *dwarf_unit_of(const struct dwarf *d, uint64_t offset);

/* Returns a reader of a unit's entries, from offset on. -EBADMSG: offset is not in the unit. */
int dwarf_entries(const struct dwarf *d, const struct dwarf_unit *u, uint64_t offset, struct reader *ret);

/* Reads the next entry. -EBADMSG, -ENOMEM; -EFBIG: no steps left. */
int dwarf_entry(struct dwarf *d, struct dwarf_unit *u, struct reader *r, struct dwarf_entry *ret);

/* Resolve a value, by the unit's tables if it is indexed. NULL or false: another class, or not in the table. */
const char *dwarf_string(const struct dwarf *d, const struct dwarf_unit *u, const struct dwarf_value *v);
bool dwarf_address(const struct dwarf *d, const struct dwarf_unit *u, const struct dwarf_value *v, uint64_t *ret);

/* Calls fn for each range of addresses of an entry, until fn returns other than 0, which is then returned. */
typedef int dwarf_range_fn(void *user, uint64_t start, uint64_t end);
int dwarf_ranges(struct dwarf *d, const struct dwarf_unit *u, const struct dwarf_entry *e, dwarf_range_fn *fn,
		 void *user);

/* Returns the path of a source file by its number in the unit's table; NULL: none. Lives as long as d. */
const char *dwarf_file(struct dwarf *d, struct dwarf_unit *u, uint64_t number);

/* A row of the line number table; `end`: none, but the address behind the last instruction of a sequence. */
struct dwarf_row {
	uint64_t address, file, line, column;
	bool statement, end;
};

/*
 * Calls fn for each row of a unit's line number table until fn returns other than 0, which is then returned. -ENOENT:
 * the unit has no table; -EBADMSG: it is damaged behind the rows passed; -EFBIG: no steps left.
 */
typedef int dwarf_row_fn(void *user, const struct dwarf_row *row);
int dwarf_rows(struct dwarf *d, const struct dwarf_unit *u, dwarf_row_fn *fn, void *user);

/*
 * Finds the source file, which lives as long as d, and line of the instruction at an address of the unit. -ENOENT:
 * unknown; -EBADMSG, -EFBIG.
 */
int dwarf_line(struct dwarf *d, struct dwarf_unit *u, uint64_t address, const char **ret_file, uint32_t *ret_line);

/* Uses n steps; false: fewer are left. */
static inline bool dwarf_step(struct dwarf *d, uint64_t n)
{
	if (n > d->steps)
		return false;
	d->steps -= n;
	return true;
}

/* Internal to dwarf*.c. Read a number of size bytes; an offset of the unit's format; a value by its form (DWARF
 * 5, 7.5.6). -EBADMSG. */
int dwarf_number(struct reader *r, unsigned size, uint64_t *ret);
int dwarf_offset(const struct dwarf_unit *u, struct reader *r, uint64_t *ret);
int dwarf_form(const struct dwarf *d, const struct dwarf_unit *u, struct reader *r, uint64_t form, int64_t implicit,
	       struct dwarf_value *ret);

/* Internal. The header of a line number program. */
struct dwarf_line_header {
	struct dwarf_unit unit; /* with the sizes and version of the header */
	uint8_t instruction, range, opcodes;
	int8_t base;
	bool statement;          /* default_is_stmt */
	const uint8_t *operands; /* numbers of operands of the opcodes from 1 up to opcodes - 1 */
	struct reader tables;    /* of directories and files */
	struct reader program;
};

/* -EBADMSG. */
int dwarf_line_header(const struct dwarf *d, const struct dwarf_unit *u, struct dwarf_line_header *ret);

/* Internal. Returns a reader of a section from offset on, empty if offset is beyond its end. */
struct reader dwarf_reader_at(const struct dwarf *d, enum dwarf_section section, uint64_t offset);

#endif
