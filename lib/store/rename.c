/* SPDX-License-Identifier: MIT */
/* Renaming the functions of a store: copies the file and appends new STRINGS and FUNCTIONS sections. */
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/texts.h"
#include "lib/store/reader.h"

enum { COPY_BYTES = 1 << 20 };

struct renamed {
	const struct store *from;
	int to;
	uint64_t size;      /* bytes written so far */
	struct texts added; /* appended after the old strings */
	struct buf functions;
};

static void renamed_done(struct renamed *r)
{
	texts_done(&r->added);
	buf_done(&r->functions);
}

static int renamed_append(struct renamed *r, const void *data, size_t size)
{
	int rc = io_pwrite(r->to, data, size, (off_t)r->size);

	r->size += size;
	return rc;
}

static int renamed_copy(struct renamed *r)
{
	_cleanup_free_ char *bytes = malloc(COPY_BYTES);
	int rc = bytes ? 0 : -ENOMEM;

	while (rc == 0 && r->size < r->from->size) {
		size_t n = (size_t)MIN(r->from->size - r->size, (uint64_t)COPY_BYTES);

		rc = store_read_at(r->from, r->size, bytes, n);
		if (rc == 0)
			rc = renamed_append(r, bytes, n);
	}
	return rc;
}

/* Returns the offset of one of the old strings. */
static uint32_t string_offset(const struct renamed *r, const char *text)
{
	return (uint32_t)(text - r->from->strings);
}

/* Adds a new text and sets its offset. It accounts for the NUL that ends the old strings in any case. */
static int renamed_add_text(struct renamed *r, const char *text, uint32_t *place)
{
	uint32_t behind;
	int rc = text ? texts_find(&r->added, text, &behind) : 0;

	if (rc == 0 && text)
		*place = (uint32_t)r->from->strings_size + 1 + behind;
	return rc;
}

static int renamed_add_function(struct renamed *r, const struct store_function *f, const struct store_name *n)
{
	uint32_t name = string_offset(r, f->name), file = string_offset(r, f->file);
	int rc = renamed_add_text(r, n->name, &name);

	if (rc == 0)
		rc = renamed_add_text(r, n->file, &file);
	if (rc < 0)
		return rc;
	buf_u32(&r->functions, name);
	buf_u32(&r->functions, string_offset(r, f->image));
	buf_u64(&r->functions, f->address);
	buf_u32(&r->functions, f->kind);
	buf_u32(&r->functions, n->file ? n->line : f->line);
	buf_u32(&r->functions, file);
	buf_u32(&r->functions, string_offset(r, f->build_id));
	buf_u64(&r->functions, f->offset);
	return buf_error(&r->functions);
}

/* Adds an entry to the section table and appends data, if any; otherwise the entry refers to the old section. */
static int renamed_put_section(struct renamed *r, struct buf *table, uint32_t type, const struct stored_section *old,
			       const void *data, size_t size)
{
	buf_u32(table, type);
	buf_u32(table, old->record);
	buf_u64(table, data ? r->size : old->offset);
	buf_u64(table, data ? size : old->size);
	buf_u32(table, data ? store_checksum(data, size) : old->checksum);
	buf_u32(table, 0);
	return data ? renamed_append(r, data, size) : 0;
}

static int renamed_write_tables(struct renamed *r)
{
	_cleanup_buf_ struct buf table = { 0 }, strings = { .limit = UINT32_MAX / 2 };
	struct stored_section functions = { .record = FUNCTION_SIZE };
	struct store_header header = { .version = r->from->version };
	int rc;

	buf_add(&strings, r->from->strings, r->from->strings_size + 1);
	buf_add(&strings, r->added.bytes.data, r->added.bytes.size);
	rc = buf_error(&strings);
	for (uint32_t type = 1; rc == 0 && type < SECTION_TYPES; type++, header.sections++) {
		const struct stored_section *old = &r->from->sections[type];

		if (type == SECTION_STRINGS)
			rc = renamed_put_section(r, &table, type, old, strings.data, strings.size);
		else if (type == SECTION_FUNCTIONS)
			rc = renamed_put_section(r, &table, type, &functions, r->functions.data, r->functions.size);
		else
			rc = renamed_put_section(r, &table, type, old, NULL, 0);
	}
	if (rc == 0)
		rc = buf_error(&table);
	header.table = r->size;
	if (rc == 0)
		rc = renamed_append(r, table.data, table.size);
	header.size = r->size;
	header.checksum = store_checksum(table.data, table.size);
	return rc == 0 ? store_write_header(r->to, &header) : rc;
}

int store_rename(const struct store *s, int to, const struct store_name *names)
{
	_cleanup_(renamed_done) struct renamed r = { .from = s, .to = to, .added.bytes.limit = UINT32_MAX / 2 };
	int rc = renamed_copy(&r);

	for (size_t i = 0; rc == 0 && i < s->n_functions; i++)
		rc = renamed_add_function(&r, &s->functions[i], &names[i]);
	return rc == 0 ? renamed_write_tables(&r) : rc;
}
