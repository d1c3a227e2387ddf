/* SPDX-License-Identifier: MIT */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "lib/code/dwarf.h"

enum { UNITS_MAX = 1 << 20, ABBREV_ATTRIBUTES_MAX = 256, ATTRIBUTES_MAX = 8 << 20 };

enum { UNIT_COMPILE = 1, UNIT_PARTIAL = 3 };

enum {
	AT_SIBLING = 0x01,
	AT_NAME = 0x03,
	AT_STMT_LIST = 0x10,
	AT_LOW_PC = 0x11,
	AT_HIGH_PC = 0x12,
	AT_COMP_DIR = 0x1b,
	AT_ABSTRACT_ORIGIN = 0x31,
	AT_DECL_COLUMN = 0x39,
	AT_DECL_FILE = 0x3a,
	AT_DECL_LINE = 0x3b,
	AT_SPECIFICATION = 0x47,
	AT_ENTRY_PC = 0x52,
	AT_RANGES = 0x55,
	AT_CALL_FILE = 0x58,
	AT_CALL_LINE = 0x59,
	AT_LINKAGE_NAME = 0x6e,
	AT_STR_OFFSETS_BASE = 0x72,
	AT_ADDR_BASE = 0x73,
	AT_RNGLISTS_BASE = 0x74,
	AT_MIPS_LINKAGE_NAME = 0x2007,
};

struct attribute {
	uint16_t name, form;
	int64_t implicit;
};

struct abbrev {
	uint64_t code;
	uint16_t tag;
	bool children;
	uint32_t first, n;
};

/* The abbreviations at one offset in DWARF_ABBREV, which units may share. */
struct dwarf_abbrevs {
	uint64_t offset;
	struct buf list, attributes; /* struct abbrev, struct attribute */
	bool sorted;                 /* codes are 1, 2, 3, ... */
};

static void abbrevs_free(void *p)
{
	struct dwarf_abbrevs *a = p;

	buf_done(&a->list);
	buf_done(&a->attributes);
	free(a);
}

static int compare_abbrevs(const void *a, const void *b)
{
	const struct dwarf_abbrevs *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

static int compare_codes(const void *a, const void *b)
{
	const struct abbrev *x = a, *y = b;

	return (x->code > y->code) - (x->code < y->code);
}

static int read_attributes(struct dwarf_abbrevs *a, struct reader *r, struct abbrev *abbrev)
{
	abbrev->first = (uint32_t)(a->attributes.size / sizeof(struct attribute));
	for (;;) {
		struct attribute one = { 0 };
		uint64_t name, form, implicit = 0;

		if (rd_varint(r, &name) < 0 || rd_varint(r, &form) < 0)
			return -EBADMSG;
		if (form == 0x21 && rd_leb(r, true, &implicit) < 0)
			return -EBADMSG;
		if (!name && !form)
			return 0;
		if (form > UINT16_MAX || abbrev->n++ == ABBREV_ATTRIBUTES_MAX)
			return -EBADMSG;
		one.name = name > UINT16_MAX ? 0 : (uint16_t)name;
		one.form = (uint16_t)form;
		one.implicit = (int64_t)implicit;
		buf_add(&a->attributes, &one, sizeof(one));
	}
}

/* DWARF 5, 7.5.3. */
static int read_abbrevs(struct dwarf *d, struct dwarf_abbrevs *a)
{
	struct reader r = dwarf_reader_at(d, DWARF_ABBREV, a->offset);
	uint64_t code = 0, tag;
	uint8_t children;
	int rc = 0;

	a->sorted = true;
	while (rc == 0) {
		struct abbrev one = { 0 };

		if (rd_varint(&r, &code) < 0)
			return -EBADMSG;
		if (!code)
			break;
		if (rd_varint(&r, &tag) < 0 || rd_u8(&r, &children) < 0)
			return -EBADMSG;
		one.code = code;
		one.tag = tag > UINT16_MAX ? UINT16_MAX : (uint16_t)tag;
		one.children = children;
		rc = read_attributes(a, &r, &one);
		/* Tables may overlap, so the section's size does not bound their total size. */
		if (rc == 0 && !dwarf_step(d, 16u * (1 + one.n)))
			rc = -EFBIG;
		buf_add(&a->list, &one, sizeof(one));
		a->sorted = a->sorted && code == a->list.size / sizeof(one);
	}
	if (rc == 0 && !a->sorted)
		qsort(a->list.data, a->list.size / sizeof(struct abbrev), sizeof(struct abbrev), compare_codes);
	return rc < 0 ? rc : buf_error(&a->list) ? buf_error(&a->list) : buf_error(&a->attributes);
}

static int find_abbrevs(struct dwarf *d, struct dwarf_unit *u)
{
	struct dwarf_abbrevs key = { .offset = u->abbrev_offset }, *a,
			     **found = tfind(&key, &d->abbrevs, compare_abbrevs);
	int rc;

	if (!found) {
		a = calloc(1, sizeof(*a));
		if (!a)
			return -ENOMEM;
		a->offset = u->abbrev_offset;
		a->attributes.limit = ATTRIBUTES_MAX * sizeof(struct attribute);
		rc = read_abbrevs(d, a);
		found = rc == 0 ? tsearch(a, &d->abbrevs, compare_abbrevs) : NULL;
		if (!found) {
			abbrevs_free(a);
			return rc < 0 ? rc : -ENOMEM;
		}
	}
	u->abbrevs = *found;
	return 0;
}

static const struct abbrev *find_abbrev(const struct dwarf_abbrevs *a, uint64_t code)
{
	const struct abbrev *list = (const struct abbrev *)a->list.data, key = { .code = code };
	size_t n = a->list.size / sizeof(*list);

	/* Sorted: the codes are 1, 2, 3 and so on, as compilers assign them, so the code is the index. */
	if (a->sorted)
		return code - 1 < n ? &list[code - 1] : NULL;
	return n ? bsearch(&key, list, n, sizeof(*list), compare_codes) : NULL;
}

static void entry_set(struct dwarf_entry *e, uint16_t name, const struct dwarf_value *v)
{
	uint64_t number = v->class == VALUE_NUMBER ? v->number : 0;

	switch (name) {
	case AT_SIBLING:
		e->sibling = *v;
		break;
	case AT_NAME:
		e->name = *v;
		break;
	case AT_LINKAGE_NAME:
	case AT_MIPS_LINKAGE_NAME:
		e->linkage_name = *v;
		break;
	case AT_LOW_PC:
		e->low_pc = *v;
		break;
	case AT_HIGH_PC:
		e->high_pc = *v;
		break;
	case AT_RANGES:
		e->ranges = *v;
		break;
	case AT_ENTRY_PC:
		e->entry_pc = *v;
		break;
	case AT_ABSTRACT_ORIGIN:
	case AT_SPECIFICATION:
		e->origin = *v;
		break;
	case AT_DECL_COLUMN:
		e->decl_column = number;
		break;
	case AT_DECL_FILE:
		e->decl_file = number;
		e->has_decl_file = true;
		break;
	case AT_DECL_LINE:
		e->decl_line = number;
		break;
	case AT_CALL_FILE:
		e->call_file = number;
		break;
	case AT_CALL_LINE:
		e->call_line = number;
		break;
	case AT_COMP_DIR:
		e->dir = *v;
		break;
	case AT_STMT_LIST:
		e->stmt_list = *v;
		break;
	case AT_STR_OFFSETS_BASE:
		e->str_offsets_base = *v;
		break;
	case AT_ADDR_BASE:
		e->addr_base = *v;
		break;
	case AT_RNGLISTS_BASE:
		e->rnglists_base = *v;
		break;
	}
}

int dwarf_entry(struct dwarf *d, struct dwarf_unit *u, struct reader *r, struct dwarf_entry *ret)
{
	const struct attribute *attributes;
	const struct abbrev *abbrev;
	uint64_t code;
	int rc = u->abbrevs ? 0 : find_abbrevs(d, u);

	if (rc < 0)
		return rc;
	*ret = (struct dwarf_entry){ 0 };
	if (rd_varint(r, &code) < 0)
		return -EBADMSG;
	if (!dwarf_step(d, 1))
		return -EFBIG;
	if (!code)
		return 0;
	abbrev = find_abbrev(u->abbrevs, code);
	if (!abbrev || !abbrev->tag)
		return -EBADMSG;
	if (!dwarf_step(d, abbrev->n))
		return -EFBIG;
	ret->tag = abbrev->tag;
	ret->children = abbrev->children;
	attributes = (const struct attribute *)u->abbrevs->attributes.data;
	for (uint32_t i = 0; rc == 0 && i < abbrev->n; i++) {
		const struct attribute *a = &attributes[abbrev->first + i];
		struct dwarf_value v;

		rc = dwarf_form(d, u, r, a->form, a->implicit, &v);
		if (rc == 0)
			entry_set(ret, a->name, &v);
	}
	return rc;
}

int dwarf_entries(const struct dwarf *d, const struct dwarf_unit *u, uint64_t offset, struct reader *ret)
{
	if (offset < u->entries || offset >= u->end)
		return -EBADMSG;
	*ret = dwarf_reader_at(d, DWARF_INFO, offset);
	ret->end = ret->at + MIN(rd_left(ret), (size_t)(u->end - offset));
	return 0;
}

struct dwarf_unit *dwarf_unit_of(const struct dwarf *d, uint64_t offset)
{
	size_t low = 0, high = d->n_units;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (d->units[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low && offset < d->units[low - 1].end ? &d->units[low - 1] : NULL;
}

static uint64_t number_of(const struct dwarf_value *v, uint64_t fallback)
{
	return v->class == VALUE_NUMBER && !v->indexed ? v->number : fallback;
}

/*
 * Reads the attributes of a unit's first entry that all values in the unit depend on. They are read as a whole before
 * any value is resolved, since a base may follow an attribute that needs it.
 */
static void read_unit_attributes(struct dwarf *d, struct dwarf_unit *u)
{
	/* Default bases: the section holds one table, whose entries follow its header. */
	uint64_t header_size = u->offset_size == 8 ? 16 : 8;
	struct dwarf_entry e;
	struct reader r;

	if (dwarf_entries(d, u, u->entries, &r) < 0 || dwarf_entry(d, u, &r, &e) < 0)
		return;
	u->str_offsets_base = number_of(&e.str_offsets_base, header_size);
	u->addr_base = number_of(&e.addr_base, header_size);
	u->rnglists_base = number_of(&e.rnglists_base, header_size + 4);
	dwarf_address(d, u, &e.low_pc, &u->low_pc);
	u->has_stmt_list = e.stmt_list.class == VALUE_NUMBER;
	u->stmt_list = e.stmt_list.number;
	u->dir = dwarf_string(d, u, &e.dir);
}

/* DWARF 5, 7.5.1. *ret_known: false for a unit that is not read, as listed in dwarf.h. */
static int read_unit_header(const struct dwarf *d, struct reader *r, uint64_t offset, struct dwarf_unit *u,
			    bool *ret_known)
{
	const uint8_t *info = d->sections[DWARF_INFO].at;
	uint8_t type = UNIT_COMPILE;
	uint64_t size;
	uint32_t small_size;
	struct reader body;

	*u = (struct dwarf_unit){ .offset = offset, .offset_size = 4 };
	if (rd_u32(r, &small_size) < 0)
		return -EBADMSG;
	size = small_size;
	if (small_size == UINT32_MAX) {
		u->offset_size = 8;
		if (rd_u64(r, &size) < 0)
			return -EBADMSG;
	}
	if (size > rd_left(r) || rd_sub(r, (size_t)size, &body) < 0 || rd_u16(&body, &u->version) < 0)
		return -EBADMSG;
	u->end = (uint64_t)(r->at - info);
	if (u->version >= 5 && (rd_u8(&body, &type) < 0 || rd_u8(&body, &u->address_size) < 0))
		return -EBADMSG;
	if (dwarf_offset(u, &body, &u->abbrev_offset) < 0 || (u->version < 5 && rd_u8(&body, &u->address_size) < 0))
		return -EBADMSG;
	u->entries = (uint64_t)(body.at - info);
	*ret_known = u->version >= 2 && u->version <= 5 && (u->address_size == 4 || u->address_size == 8) &&
		     (type == UNIT_COMPILE || type == UNIT_PARTIAL);
	return 0;
}

/* Reads the headers of all units, up to the first damaged one. */
static int read_units(struct dwarf *d)
{
	struct reader r = dwarf_reader_at(d, DWARF_INFO, 0);
	_cleanup_buf_ struct buf units = { .limit = UNITS_MAX * sizeof(struct dwarf_unit) };

	while (rd_left(&r)) {
		struct dwarf_unit u;
		bool known = false;

		if (read_unit_header(d, &r, (uint64_t)(r.at - d->sections[DWARF_INFO].at), &u, &known) < 0)
			break;
		if (known)
			buf_add(&units, &u, sizeof(u));
		if (buf_error(&units))
			return buf_error(&units);
	}
	d->n_units = units.size / sizeof(struct dwarf_unit);
	d->units = (struct dwarf_unit *)TAKE_PTR(units.data);
	for (size_t i = 0; i < d->n_units; i++)
		read_unit_attributes(d, &d->units[i]);
	return d->n_units ? 0 : -ENODATA;
}

int dwarf_open(struct elf *e, struct dwarf *ret)
{
	static const char *const names[DWARF_SECTIONS] = { ".debug_info", ".debug_abbrev",   ".debug_str",
							   ".debug_line", ".debug_line_str", ".debug_str_offsets",
							   ".debug_addr", ".debug_ranges",   ".debug_rnglists" };
	int rc = 0;

	*ret = (struct dwarf){ .steps = DWARF_STEPS };
	for (int i = 0; i < DWARF_SECTIONS; i++)
		ret->sections[i] = reader_of(NULL, 0);
	for (int i = 0; rc == 0 && i < DWARF_SECTIONS; i++) {
		const struct elf_section *section;

		if (elf_section_named(e, names[i], &section) == 0)
			rc = elf_contents(e, section, &ret->sections[i]);
		if (rc == 0 && i == DWARF_INFO && !rd_left(&ret->sections[i]))
			rc = -ENODATA;
	}
	if (rc == 0)
		rc = read_units(ret);
	if (rc < 0)
		dwarf_done(ret);
	return rc;
}

void dwarf_done(struct dwarf *d)
{
	for (size_t i = 0; i < d->n_units; i++) {
		for (size_t k = 0; k < d->units[i].n_files; k++)
			free(d->units[i].files[k].path);
		free(d->units[i].files);
	}
	free(d->units);
	tdestroy(d->abbrevs, abbrevs_free);
	*d = (struct dwarf){ 0 };
}
