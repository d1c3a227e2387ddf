/* SPDX-License-Identifier: MIT */
/* Reads values by their forms (DWARF 5, 7.5.6), and resolves indexes of strings, addresses and range lists. */
#include <string.h>

#include "lib/code/dwarf.h"

enum {
	FORM_ADDR = 0x01,
	FORM_BLOCK2 = 0x03,
	FORM_BLOCK4,
	FORM_DATA2,
	FORM_DATA4,
	FORM_DATA8,
	FORM_STRING,
	FORM_BLOCK,
	FORM_BLOCK1,
	FORM_DATA1,
	FORM_FLAG,
	FORM_SDATA,
	FORM_STRP,
	FORM_UDATA,
	FORM_REF_ADDR,
	FORM_REF1,
	FORM_REF2,
	FORM_REF4,
	FORM_REF8,
	FORM_REF_UDATA,
	FORM_INDIRECT,
	FORM_SEC_OFFSET,
	FORM_EXPRLOC,
	FORM_FLAG_PRESENT,
	FORM_STRX,
	FORM_ADDRX,
	FORM_REF_SUP4,
	FORM_STRP_SUP,
	FORM_DATA16,
	FORM_LINE_STRP,
	FORM_REF_SIG8,
	FORM_IMPLICIT_CONST,
	FORM_LOCLISTX,
	FORM_RNGLISTX,
	FORM_REF_SUP8,
	FORM_STRX1,
	FORM_STRX2,
	FORM_STRX3,
	FORM_STRX4,
	FORM_ADDRX1,
	FORM_ADDRX2,
	FORM_ADDRX3,
	FORM_ADDRX4,
	FORM_GNU_REF_ALT = 0x1f20,
	FORM_GNU_STRP_ALT,
};

struct reader dwarf_reader_at(const struct dwarf *d, enum dwarf_section section, uint64_t offset)
{
	struct reader r = d->sections[section];

	if (offset > rd_left(&r) || rd_skip(&r, (size_t)offset) < 0)
		r.at = r.end;
	return r;
}

int dwarf_number(struct reader *r, unsigned size, uint64_t *ret)
{
	const uint8_t *at;
	uint64_t v = 0;

	if (rd_bytes(r, size, &at) < 0)
		return -EBADMSG;
	while (size--)
		v = v << 8 | at[size];
	*ret = v;
	return 0;
}

int dwarf_offset(const struct dwarf_unit *u, struct reader *r, uint64_t *ret)
{
	return dwarf_number(r, u->offset_size, ret);
}

static int read_string_at(const struct dwarf *d, enum dwarf_section section, uint64_t offset, const char **ret)
{
	struct reader r = dwarf_reader_at(d, section, offset);

	if (rd_str(&r, ret) < 0)
		*ret = NULL;
	return 0;
}

static int skip_block(struct reader *r, uint64_t size)
{
	return size > rd_left(r) ? -EBADMSG : rd_skip(r, (size_t)size);
}

static int skip_block_form(struct reader *r, uint64_t form)
{
	uint64_t size = 0;
	int rc = form == FORM_BLOCK1   ? dwarf_number(r, 1, &size)
		 : form == FORM_BLOCK2 ? dwarf_number(r, 2, &size)
		 : form == FORM_BLOCK4 ? dwarf_number(r, 4, &size)
				       : rd_leb(r, false, &size);

	return rc < 0 ? rc : skip_block(r, size);
}

static int read_reference(const struct dwarf_unit *u, struct reader *r, uint64_t form, struct dwarf_value *v)
{
	uint64_t at = 0;
	int rc;

	v->class = VALUE_REFERENCE;
	if (form == FORM_REF_ADDR)
		return dwarf_number(r, u->version == 2 ? u->address_size : u->offset_size, &v->number);
	rc = form == FORM_REF_UDATA ? rd_leb(r, false, &at) : dwarf_number(r, 1u << (form - FORM_REF1), &at);
	/* A reference out of the unit is damaged: UINT64_MAX is in no unit. */
	v->number = at < u->end - u->offset ? u->offset + at : UINT64_MAX;
	return rc;
}

/* Reads an index in a table: of size bytes, or a ULEB128 for size 0. */
static int read_index(struct reader *r, unsigned size, enum dwarf_class class, struct dwarf_value *v)
{
	v->class = class;
	v->indexed = true;
	return size ? dwarf_number(r, size, &v->number) : rd_leb(r, false, &v->number);
}

static int read_string(const struct dwarf *d, const struct dwarf_unit *u, struct reader *r, uint64_t form,
		       struct dwarf_value *v)
{
	uint64_t at = 0;
	int rc;

	v->class = VALUE_STRING;
	if (form == FORM_STRING)
		return rd_str(r, &v->string);
	rc = dwarf_offset(u, r, &at);
	if (rc < 0)
		return rc;
	return read_string_at(d, form == FORM_STRP ? DWARF_STR : DWARF_LINE_STR, at, &v->string);
}

int dwarf_form(const struct dwarf *d, const struct dwarf_unit *u, struct reader *r, uint64_t form, int64_t implicit,
	       struct dwarf_value *ret)
{
	struct dwarf_value *v = ret;

	*v = (struct dwarf_value){ .class = VALUE_NUMBER };
	if (form == FORM_INDIRECT &&
	    (rd_leb(r, false, &form) < 0 || form == FORM_INDIRECT || form == FORM_IMPLICIT_CONST))
		return -EBADMSG;
	switch (form) {
	case FORM_ADDR:
		v->class = VALUE_ADDRESS;
		return dwarf_number(r, u->address_size, &v->number);
	case FORM_DATA1:
	case FORM_FLAG:
		return dwarf_number(r, 1, &v->number);
	case FORM_DATA2:
		return dwarf_number(r, 2, &v->number);
	case FORM_DATA4:
		return dwarf_number(r, 4, &v->number);
	case FORM_DATA8:
		return dwarf_number(r, 8, &v->number);
	case FORM_DATA16:
		v->class = VALUE_NONE;
		return rd_skip(r, 16);
	case FORM_UDATA:
	case FORM_LOCLISTX:
		return rd_leb(r, false, &v->number);
	case FORM_SDATA:
		return rd_leb(r, true, &v->number);
	case FORM_SEC_OFFSET:
		return dwarf_offset(u, r, &v->number);
	case FORM_RNGLISTX:
		return read_index(r, 0, VALUE_NUMBER, v);
	case FORM_FLAG_PRESENT:
		v->number = 1;
		return 0;
	case FORM_IMPLICIT_CONST:
		v->number = (uint64_t)implicit;
		return 0;
	case FORM_STRING:
	case FORM_STRP:
	case FORM_LINE_STRP:
		return read_string(d, u, r, form, v);
	case FORM_STRX:
		return read_index(r, 0, VALUE_STRING, v);
	case FORM_STRX1:
	case FORM_STRX2:
	case FORM_STRX3:
	case FORM_STRX4:
		return read_index(r, (unsigned)(form - FORM_STRX1 + 1), VALUE_STRING, v);
	case FORM_ADDRX:
		return read_index(r, 0, VALUE_ADDRESS, v);
	case FORM_ADDRX1:
	case FORM_ADDRX2:
	case FORM_ADDRX3:
	case FORM_ADDRX4:
		return read_index(r, (unsigned)(form - FORM_ADDRX1 + 1), VALUE_ADDRESS, v);
	case FORM_REF1:
	case FORM_REF2:
	case FORM_REF4:
	case FORM_REF8:
	case FORM_REF_UDATA:
	case FORM_REF_ADDR:
		return read_reference(u, r, form, v);
	}
	/* Blocks, and references to type units and to files that are not read: skipped. */
	v->class = VALUE_NONE;
	switch (form) {
	case FORM_BLOCK:
	case FORM_BLOCK1:
	case FORM_BLOCK2:
	case FORM_BLOCK4:
	case FORM_EXPRLOC:
		return skip_block_form(r, form);
	case FORM_REF_SIG8:
	case FORM_REF_SUP8:
		return rd_skip(r, 8);
	case FORM_REF_SUP4:
		return rd_skip(r, 4);
	case FORM_STRP_SUP:
	case FORM_GNU_REF_ALT:
	case FORM_GNU_STRP_ALT:
		return rd_skip(r, u->offset_size);
	}
	return -EBADMSG;
}

const char *dwarf_string(const struct dwarf *d, const struct dwarf_unit *u, const struct dwarf_value *v)
{
	const char *ret = v->string;
	struct reader r;
	uint64_t at;

	if (v->class != VALUE_STRING)
		return NULL;
	if (!v->indexed)
		return ret;
	if (v->number > UINT32_MAX)
		return NULL;
	r = dwarf_reader_at(d, DWARF_STR_OFFSETS, u->str_offsets_base + v->number * u->offset_size);
	if (dwarf_offset(u, &r, &at) < 0)
		return NULL;
	read_string_at(d, DWARF_STR, at, &ret);
	return ret;
}

bool dwarf_address(const struct dwarf *d, const struct dwarf_unit *u, const struct dwarf_value *v, uint64_t *ret)
{
	struct reader r;

	if (v->class != VALUE_ADDRESS)
		return false;
	if (!v->indexed) {
		*ret = v->number;
		return true;
	}
	if (v->number > UINT32_MAX)
		return false;
	r = dwarf_reader_at(d, DWARF_ADDR, u->addr_base + v->number * u->address_size);
	return dwarf_number(&r, u->address_size, ret) == 0;
}

/* DWARF 5, 2.17.3 and 7.25. */
static int visit_rnglist(struct dwarf *d, const struct dwarf_unit *u, uint64_t at, dwarf_range_fn *fn, void *user)
{
	enum { END, BASE_ADDRESSX, STARTX_ENDX, STARTX_LENGTH, OFFSET_PAIR, BASE_ADDRESS, START_END, START_LENGTH };
	struct reader r = dwarf_reader_at(d, DWARF_RNGLISTS, at);
	uint64_t base = u->low_pc;
	int rc = 0;

	while (rc == 0) {
		struct dwarf_value one = { .class = VALUE_ADDRESS }, two = { .class = VALUE_ADDRESS };
		uint64_t start = 0, end = 0;
		uint8_t kind;

		if (!dwarf_step(d, 1))
			return -EFBIG;
		if (rd_u8(&r, &kind) < 0 || kind > START_LENGTH)
			return -EBADMSG;
		if (kind == END)
			return 0;
		one.indexed = kind <= STARTX_LENGTH;
		two.indexed = kind == STARTX_ENDX;
		if (one.indexed || kind == OFFSET_PAIR ? rd_leb(&r, false, &one.number) < 0
						       : dwarf_number(&r, u->address_size, &one.number) < 0)
			return -EBADMSG;
		if (kind == STARTX_ENDX || kind == STARTX_LENGTH || kind == OFFSET_PAIR || kind == START_LENGTH)
			rc = rd_leb(&r, false, &two.number);
		else if (kind == START_END)
			rc = dwarf_number(&r, u->address_size, &two.number);
		if (rc < 0 || !dwarf_address(d, u, &one, &start) || !dwarf_address(d, u, &two, &end))
			return -EBADMSG;
		if (kind == BASE_ADDRESSX || kind == BASE_ADDRESS) {
			base = start;
			continue;
		}
		if (kind == STARTX_LENGTH || kind == START_LENGTH)
			end += start;
		if (kind == OFFSET_PAIR) {
			start += base;
			end += base;
		}
		rc = fn(user, start, end);
	}
	return rc;
}

/* DWARF 4, 2.17.3. */
static int visit_old_ranges(struct dwarf *d, const struct dwarf_unit *u, uint64_t at, dwarf_range_fn *fn, void *user)
{
	uint64_t base = u->low_pc, start, end, all = u->address_size == 4 ? UINT32_MAX : UINT64_MAX;
	struct reader r = dwarf_reader_at(d, DWARF_RANGES, at);
	int rc = 0;

	while (rc == 0) {
		if (!dwarf_step(d, 1))
			return -EFBIG;
		if (dwarf_number(&r, u->address_size, &start) < 0 || dwarf_number(&r, u->address_size, &end) < 0)
			return -EBADMSG;
		if (start == 0 && end == 0)
			return 0;
		if (start == all)
			base = end;
		else
			rc = fn(user, base + start, base + end);
	}
	return rc;
}

int dwarf_ranges(struct dwarf *d, const struct dwarf_unit *u, const struct dwarf_entry *e, dwarf_range_fn *fn,
		 void *user)
{
	uint64_t at = e->ranges.number, start, end;
	struct reader r;

	if (e->ranges.class == VALUE_NUMBER && u->version < 5)
		return visit_old_ranges(d, u, at, fn, user);
	if (e->ranges.class == VALUE_NUMBER) {
		if (e->ranges.indexed && at > UINT32_MAX)
			return -EBADMSG;
		r = dwarf_reader_at(d, DWARF_RNGLISTS, u->rnglists_base + at * u->offset_size);
		if (e->ranges.indexed && dwarf_offset(u, &r, &at) < 0)
			return -EBADMSG;
		return visit_rnglist(d, u, e->ranges.indexed ? u->rnglists_base + at : at, fn, user);
	}
	if (!dwarf_address(d, u, &e->low_pc, &start))
		return 0;
	if (e->high_pc.class == VALUE_NUMBER)
		return fn(user, start, start + e->high_pc.number);
	return dwarf_address(d, u, &e->high_pc, &end) ? fn(user, start, end) : 0;
}
