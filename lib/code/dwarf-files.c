/* SPDX-License-Identifier: MIT */
/* Source files of a unit, from the header of its line number program (DWARF 5, 6.2.4). */
#include <stdlib.h>
#include <string.h>

#include "lib/code/dwarf.h"

enum { FORMATS_MAX = 16, CONTENT_PATH = 1, CONTENT_DIRECTORY = 2 };

struct file_name {
	const char *text;
	uint64_t dir;
};

struct format {
	uint64_t content, form;
};

static int read_formats(struct reader *r, struct format formats[FORMATS_MAX], uint8_t *ret_n)
{
	uint8_t n;

	if (rd_u8(r, &n) < 0 || n > FORMATS_MAX)
		return -EBADMSG;
	for (uint8_t i = 0; i < n; i++)
		if (rd_varint(r, &formats[i].content) < 0 || rd_varint(r, &formats[i].form) < 0)
			return -EBADMSG;
	*ret_n = n;
	return 0;
}

/* Reads a table of directories or files of DWARF 5. */
static int read_file_table(struct dwarf *d, const struct dwarf_unit *u, struct reader *r, struct buf *names)
{
	struct format formats[FORMATS_MAX];
	uint64_t count;
	uint8_t n;

	/* An entry has at least one byte, which bounds a plausible count. */
	if (read_formats(r, formats, &n) < 0 || rd_varint(r, &count) < 0 || count > rd_left(r))
		return -EBADMSG;
	for (uint64_t i = 0; i < count; i++) {
		struct file_name name = { 0 };

		if (!dwarf_step(d, 16 + n))
			return -EFBIG;
		for (uint8_t k = 0; k < n; k++) {
			struct dwarf_value v;
			int rc = dwarf_form(d, u, r, formats[k].form, 0, &v);

			if (rc < 0)
				return rc;
			if (formats[k].content == CONTENT_PATH)
				name.text = dwarf_string(d, u, &v);
			else if (formats[k].content == CONTENT_DIRECTORY && v.class == VALUE_NUMBER)
				name.dir = v.number;
		}
		buf_add(names, &name, sizeof(name));
		if (buf_error(names))
			return buf_error(names);
	}
	return 0;
}

/* Reads a table of DWARF 2 to 4: entries up to an empty string. Number 0, `first`, is not in the file. */
static int read_old_file_table(struct dwarf *d, struct reader *r, bool files, const char *first, struct buf *names)
{
	struct file_name name = { first };

	buf_add(names, &name, sizeof(name));
	for (;;) {
		uint64_t time, size;

		name = (struct file_name){ 0 };
		if (!dwarf_step(d, 16))
			return -EFBIG;
		if (rd_str(r, &name.text) < 0)
			return -EBADMSG;
		if (!name.text[0])
			return buf_error(names);
		if (files && (rd_varint(r, &name.dir) < 0 || rd_varint(r, &time) < 0 || rd_varint(r, &size) < 0))
			return -EBADMSG;
		buf_add(names, &name, sizeof(name));
	}
}

int dwarf_line_header(const struct dwarf *d, const struct dwarf_unit *u, struct dwarf_line_header *ret)
{
	struct reader r = dwarf_reader_at(d, DWARF_LINE, u->stmt_list), body;
	struct dwarf_line_header h = { .unit = *u };
	uint8_t operations, statement, segment;
	uint64_t size, header;
	uint32_t small;

	h.unit.offset_size = 4;
	if (rd_u32(&r, &small) < 0)
		return -EBADMSG;
	size = small;
	if (small == UINT32_MAX) {
		h.unit.offset_size = 8;
		if (rd_u64(&r, &size) < 0)
			return -EBADMSG;
	}
	if (size > rd_left(&r) || rd_sub(&r, (size_t)size, &body) < 0 || rd_u16(&body, &h.unit.version) < 0 ||
	    h.unit.version < 2 || h.unit.version > 5)
		return -EBADMSG;
	if (h.unit.version >= 5 && (rd_u8(&body, &h.unit.address_size) < 0 || rd_u8(&body, &segment) < 0))
		return -EBADMSG;
	if (dwarf_offset(&h.unit, &body, &header) < 0)
		return -EBADMSG;
	h.program = body;
	if (header > rd_left(&body) || rd_skip(&h.program, (size_t)header) < 0)
		return -EBADMSG;
	if (rd_u8(&body, &h.instruction) < 0 || (h.unit.version >= 4 && rd_u8(&body, &operations) < 0) ||
	    rd_u8(&body, &statement) < 0 || rd_u8(&body, (uint8_t *)&h.base) < 0 || rd_u8(&body, &h.range) < 0 ||
	    rd_u8(&body, &h.opcodes) < 0 || rd_bytes(&body, h.opcodes ? h.opcodes - 1u : 0, &h.operands) < 0)
		return -EBADMSG;
	h.statement = statement != 0;
	h.tables = body;
	*ret = h;
	return 0;
}

static int read_files(struct dwarf *d, struct dwarf_unit *u)
{
	_cleanup_buf_ struct buf dirs = { 0 }, files = { 0 };
	const struct file_name *dir, *file;
	struct dwarf_line_header header;
	struct reader *r = &header.tables;
	int rc = dwarf_line_header(d, u, &header);
	bool tabled = rc == 0 && header.unit.version >= 5;

	if (rc == 0)
		rc = tabled ? read_file_table(d, &header.unit, r, &dirs)
			    : read_old_file_table(d, r, false, u->dir, &dirs);
	if (rc == 0)
		rc = tabled ? read_file_table(d, &header.unit, r, &files)
			    : read_old_file_table(d, r, true, NULL, &files);
	if (rc < 0)
		return rc;
	u->files = calloc(files.size / sizeof(*file) + 1, sizeof(*u->files));
	if (!u->files)
		return -ENOMEM;
	dir = (const struct file_name *)dirs.data;
	file = (const struct file_name *)files.data;
	u->n_files = files.size / sizeof(*file);
	for (size_t i = 0; i < u->n_files; i++) {
		u->files[i].name = file[i].text;
		if (file[i].dir < dirs.size / sizeof(*dir))
			u->files[i].dir = dir[file[i].dir].text;
		u->files[i].base_dir = tabled && dirs.size ? dir[0].text : u->dir;
	}
	return 0;
}

static void append_path(struct buf *b, const char *part)
{
	if (!part || !*part)
		return;
	/* An absolute path replaces what precedes it. */
	if (*part == '/')
		buf_clear(b);
	else if (b->size)
		buf_u8(b, '/');
	buf_add(b, part, strlen(part));
}

const char *dwarf_file(struct dwarf *d, struct dwarf_unit *u, uint64_t number)
{
	struct dwarf_file *f;
	struct buf b = { .limit = 4096 };

	if (!u->has_files && u->has_stmt_list) {
		u->has_files = true;
		read_files(d, u);
	}
	if (number >= u->n_files)
		return NULL;
	f = &u->files[number];
	if (f->path || !f->name)
		return f->path;
	append_path(&b, f->base_dir);
	if (f->dir != f->base_dir)
		append_path(&b, f->dir);
	append_path(&b, f->name);
	buf_u8(&b, 0);
	if (buf_error(&b))
		buf_done(&b);
	else
		f->path = (char *)TAKE_PTR(b.data);
	return f->path;
}
