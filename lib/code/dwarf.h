/*
 * DWARF of versions 2 to 5 (dwarfstd.org), of what is needed to tell functions, what is inlined in them, and files and
 * lines. Not read: type units, split units, and what dwz moves to files of its own.
 *
 * The sections are in memory as a whole, bounded by lib/code/elf.h's budget, and strings stay in them. What they
 * say of each other is followed so far and no further: by DWARF_STEPS attributes and entries of lists in all.
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
	const char *dir, *above, *name; /* above: what dir is relative to; NULL: nothing */
	char *path;                     /* once it was asked for */
};

struct dwarf_abbrevs;

struct dwarf_unit {
	uint64_t offset, end; /* of its header, within DWARF_INFO */
	uint64_t entries;     /* where they begin */
	uint16_t version;
	uint8_t address_size, offset_size;
	uint64_t abbrev_offset;
	const struct dwarf_abbrevs *abbrevs;
	/* What the first entry says. */
	uint64_t str_offsets_base, addr_base, rnglists_base, low_pc, stmt_list;
	bool has_stmt_list, has_files;
	const char *dir;
	struct dwarf_file *files;
	size_t n_files;
};

enum dwarf_class { VALUE_NONE, VALUE_NUMBER, VALUE_ADDRESS, VALUE_STRING, VALUE_REFERENCE };

struct dwarf_value {
	enum dwarf_class class;
	bool indexed;    /* the number is one of a table: see dwarf_string(), dwarf_address() */
	uint64_t number; /* a reference is an offset within DWARF_INFO */
	const char *string;
};

/* An entry, with those of its attributes that anybody here asks for. */
struct dwarf_entry {
	uint16_t tag; /* 0: the end of a list of children */
	bool children;
	struct dwarf_value name, linkage_name, low_pc, high_pc, ranges, origin, sibling;
	uint64_t decl_file, decl_line, call_file, call_line;
	/* Of units. */
	struct dwarf_value dir, stmt_list, str_offsets_base, addr_base, rnglists_base;
};

struct dwarf {
	struct reader sections[DWARF_SECTIONS]; /* bytes of the ELF handle */
	struct dwarf_unit *units;               /* by offset */
	size_t n_units;
	void *abbrevs; /* a tree of them */
	uint64_t steps;
};

/* Of a file or its debug file, whose handle must outlive d. -ENODATA: it has none; errors of elf_contents(). */
int dwarf_open(struct elf *e, struct dwarf *ret);
void dwarf_done(struct dwarf *d);

/* The unit that an offset within DWARF_INFO lies in; NULL. */
struct dwarf_unit *dwarf_unit_of(const struct dwarf *d, uint64_t offset);

/* Where its entries are, from offset on. -EBADMSG */
int dwarf_entries(const struct dwarf *d, const struct dwarf_unit *u, uint64_t offset, struct reader *ret);

/* The next entry. -EBADMSG, -ENOMEM; -EFBIG: no steps left. */
int dwarf_entry(struct dwarf *d, struct dwarf_unit *u, struct reader *r, struct dwarf_entry *ret);

const char *dwarf_string(const struct dwarf *d, const struct dwarf_unit *u, const struct dwarf_value *v);
bool dwarf_address(const struct dwarf *d, const struct dwarf_unit *u, const struct dwarf_value *v, uint64_t *ret);

/* Calls for each range of addresses that an entry covers; what it returns other than 0 ends that. */
typedef int dwarf_range_fn(void *user, uint64_t start, uint64_t end);
int dwarf_ranges(struct dwarf *d, const struct dwarf_unit *u, const struct dwarf_entry *e, dwarf_range_fn *fn,
		 void *user);

/* A file by its number in the unit's table; NULL where there is none. Lives as long as d. */
const char *dwarf_file(struct dwarf *d, struct dwarf_unit *u, uint64_t number);

/* Takes so many; false where they are used up. */
static inline bool dwarf_step(struct dwarf *d, uint64_t n)
{
	if (n > d->steps)
		return false;
	d->steps -= n;
	return true;
}

/* Of the files dwarf-*.c: an offset or a value by its form, DWARF 5, 7.5.6. */
int dwarf_offset(const struct dwarf_unit *u, struct reader *r, uint64_t *ret);
int dwarf_form(const struct dwarf *d, const struct dwarf_unit *u, struct reader *r, uint64_t form, int64_t implicit,
	       struct dwarf_value *ret);
struct reader dwarf_reader_at(const struct dwarf *d, enum dwarf_section section, uint64_t offset);

#endif
