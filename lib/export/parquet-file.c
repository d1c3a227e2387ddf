/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/export/parquet-file.h"

static const char magic[4] = { 'P', 'A', 'R', '1' };

enum { GROUP_BYTES = 32 << 20, TEXT_MAX = 64 << 10 };

/* Numbers of the format. */
enum { TYPE_BOOLEAN = 0, TYPE_INT64 = 2, TYPE_BYTE_ARRAY = 6 };
enum { ENCODING_PLAIN = 0, ENCODING_RLE = 3 };
enum { CONVERTED_UTF8 = 0, CONVERTED_UINT_64 = 14, LOGICAL_STRING = 1, LOGICAL_TIMESTAMP = 8, UNIT_NANOS = 3 };
enum { CODEC_ZSTD = 6, PAGE_DATA = 0, REQUIRED = 0 };

/* Types of Thrift's compact protocol. */
enum { THRIFT_TRUE = 1, THRIFT_I32 = 5, THRIFT_I64 = 6, THRIFT_BINARY = 8, THRIFT_LIST = 9, THRIFT_STRUCT = 12 };

static const int physical_types[] = { [PARQUET_TEXT] = TYPE_BYTE_ARRAY,
				      [PARQUET_NUMBER] = TYPE_INT64,
				      [PARQUET_TIME] = TYPE_INT64,
				      [PARQUET_BOOL] = TYPE_BOOLEAN };

/* Writes the header of a field; *last is the number of the one before it in its struct. */
static void put_field(struct buf *b, int *last, int id, int type)
{
	buf_u8(b, (uint8_t)((id - *last) << 4 | type));
	*last = id;
}

static void put_zigzag(struct buf *b, int64_t n)
{
	buf_varint(b, (uint64_t)n << 1 ^ (uint64_t)(n >> 63));
}

static void put_i32(struct buf *b, int *last, int id, int32_t n)
{
	put_field(b, last, id, THRIFT_I32);
	put_zigzag(b, n);
}

static void put_i64(struct buf *b, int *last, int id, uint64_t n)
{
	put_field(b, last, id, THRIFT_I64);
	put_zigzag(b, (int64_t)n);
}

static void put_binary(struct buf *b, const char *text)
{
	buf_varint(b, strlen(text));
	buf_add(b, text, strlen(text));
}

static void put_text(struct buf *b, int *last, int id, const char *text)
{
	put_field(b, last, id, THRIFT_BINARY);
	put_binary(b, text);
}

/* Writes the header of a list. */
static void put_list(struct buf *b, int *last, int id, int type, size_t n)
{
	put_field(b, last, id, THRIFT_LIST);
	if (n < 15) {
		buf_u8(b, (uint8_t)(n << 4 | (unsigned)type));
		return;
	}
	buf_u8(b, (uint8_t)(0xf0 | type));
	buf_varint(b, n);
}

/* Writes the end of a struct. */
static void put_struct_end(struct buf *b)
{
	buf_u8(b, 0);
}

static void fail(struct parquet_file *f, int error)
{
	if (!f->error && error < 0)
		f->error = error;
}

static void write_bytes(struct parquet_file *f, const void *data, size_t size)
{
	if (f->error)
		return;
	fail(f, io_write(f->fd, data, size));
	f->offset += size;
}

/* Writes a page with all values of a column in this row group, and appends its metadata to the groups. */
static void write_column(struct parquet_file *f, const struct parquet_column *column, struct buf *values)
{
	_cleanup_buf_ struct buf head = { 0 };
	size_t bound = ZSTD_compressBound(values->size), size = 0;
	uint64_t offset = f->offset;
	uint8_t *to;
	int last = 0, inner = 0;

	buf_clear(&f->page);
	to = buf_reserve(&f->page, bound);
	fail(f, buf_error(values));
	if (to)
		size = ZSTD_compress(to, bound, values->data, values->size, 3);
	if (!to || ZSTD_isError(size)) {
		fail(f, -ENOMEM);
		return;
	}
	put_i32(&head, &last, 1, PAGE_DATA);
	put_i32(&head, &last, 2, (int32_t)values->size);
	put_i32(&head, &last, 3, (int32_t)size);
	put_field(&head, &last, 5, THRIFT_STRUCT);
	put_i32(&head, &inner, 1, (int32_t)f->group_rows);
	put_i32(&head, &inner, 2, ENCODING_PLAIN);
	put_i32(&head, &inner, 3, ENCODING_RLE);
	put_i32(&head, &inner, 4, ENCODING_RLE);
	put_struct_end(&head);
	put_struct_end(&head);
	fail(f, buf_error(&head));
	write_bytes(f, head.data, head.size);
	write_bytes(f, to, size);

	last = inner = 0;
	put_i64(&f->groups, &last, 2, offset);
	put_field(&f->groups, &last, 3, THRIFT_STRUCT);
	put_i32(&f->groups, &inner, 1, physical_types[column->type]);
	put_list(&f->groups, &inner, 2, THRIFT_I32, 1);
	put_zigzag(&f->groups, ENCODING_PLAIN);
	put_list(&f->groups, &inner, 3, THRIFT_BINARY, 1);
	put_binary(&f->groups, column->name);
	put_i32(&f->groups, &inner, 4, CODEC_ZSTD);
	put_i64(&f->groups, &inner, 5, f->group_rows);
	put_i64(&f->groups, &inner, 6, head.size + values->size);
	put_i64(&f->groups, &inner, 7, head.size + size);
	put_i64(&f->groups, &inner, 9, offset);
	put_struct_end(&f->groups);
	put_struct_end(&f->groups);
	buf_clear(values);
}

static void write_group(struct parquet_file *f)
{
	uint64_t bytes = 0;
	int last = 0;

	put_list(&f->groups, &last, 1, THRIFT_STRUCT, f->n_columns);
	for (size_t i = 0; i < f->n_columns; i++) {
		bytes += f->values[i].size;
		write_column(f, &f->columns[i], &f->values[i]);
	}
	put_i64(&f->groups, &last, 2, bytes);
	put_i64(&f->groups, &last, 3, f->group_rows);
	put_struct_end(&f->groups);
	f->n_groups++;
	f->rows += f->group_rows;
	f->group_rows = f->group_bytes = 0;
}

void parquet_begin(struct parquet_file *f, int fd, const struct parquet_column *columns, size_t n)
{
	assert(n && n <= PARQUET_COLUMNS_MAX);
	*f = (struct parquet_file){ .fd = fd, .columns = columns, .n_columns = n };
	write_bytes(f, magic, sizeof(magic));
}

/* Moves to the next column. */
static void advance(struct parquet_file *f, size_t bytes)
{
	f->group_bytes += bytes;
	if (++f->at < f->n_columns)
		return;
	f->at = 0;
	f->group_rows++;
	if (f->group_rows == PARQUET_GROUP_ROWS || f->group_bytes >= GROUP_BYTES)
		write_group(f);
}

static bool is_ascii(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return true;
}

void parquet_text(struct parquet_file *f, const char *text)
{
	struct buf *b = &f->values[f->at];
	_cleanup_json_ json_object *valid = NULL;
	size_t size = strnlen(text, TEXT_MAX);

	assert(f->columns[f->at].type == PARQUET_TEXT);
	if (!is_ascii(text, size)) { /* json_add_bytes() makes it valid UTF-8 */
		const char *clean = "";

		valid = json_object_new_object();
		json_add_bytes(valid, "text", text);
		if (json_get_str(valid, "text", &clean) < 0)
			fail(f, -ENOMEM);
		text = clean;
		size = strlen(text);
	}
	buf_u32(b, (uint32_t)size);
	buf_add(b, text, size);
	advance(f, size + sizeof(uint32_t));
}

void parquet_number(struct parquet_file *f, uint64_t n)
{
	buf_u64(&f->values[f->at], n);
	advance(f, sizeof(n));
}

void parquet_bool(struct parquet_file *f, bool v)
{
	struct buf *b = &f->values[f->at];

	assert(f->columns[f->at].type == PARQUET_BOOL);
	if (f->group_rows % 8 == 0)
		buf_u8(b, 0);
	if (b->size && v)
		b->data[b->size - 1] |= (uint8_t)(1 << f->group_rows % 8);
	advance(f, 0);
}

static void put_column(struct buf *b, const struct parquet_column *column)
{
	int last = 0, inner = 0, unit = 0, kind = 0;

	put_i32(b, &last, 1, physical_types[column->type]);
	put_i32(b, &last, 3, REQUIRED);
	put_text(b, &last, 4, column->name);
	if (column->type == PARQUET_TEXT)
		put_i32(b, &last, 6, CONVERTED_UTF8);
	if (column->type == PARQUET_NUMBER)
		put_i32(b, &last, 6, CONVERTED_UINT_64);
	if (column->type == PARQUET_TEXT) {
		put_field(b, &last, 10, THRIFT_STRUCT);
		put_field(b, &inner, LOGICAL_STRING, THRIFT_STRUCT);
		put_struct_end(b);
		put_struct_end(b);
	}
	if (column->type == PARQUET_TIME) {
		put_field(b, &last, 10, THRIFT_STRUCT);
		put_field(b, &inner, LOGICAL_TIMESTAMP, THRIFT_STRUCT);
		put_field(b, &unit, 1, THRIFT_TRUE); /* in UTC */
		put_field(b, &unit, 2, THRIFT_STRUCT);
		put_field(b, &kind, UNIT_NANOS, THRIFT_STRUCT);
		put_struct_end(b);
		put_struct_end(b);
		put_struct_end(b);
		put_struct_end(b);
	}
	put_struct_end(b);
}

int parquet_finish(struct parquet_file *f)
{
	_cleanup_buf_ struct buf b = { 0 };
	int last = 0, root = 0;

	if (f->group_rows)
		write_group(f);
	put_i32(&b, &last, 1, 1);
	put_list(&b, &last, 2, THRIFT_STRUCT, f->n_columns + 1);
	put_text(&b, &root, 4, "schema");
	put_i32(&b, &root, 5, (int32_t)f->n_columns);
	put_struct_end(&b);
	for (size_t i = 0; i < f->n_columns; i++)
		put_column(&b, &f->columns[i]);
	put_i64(&b, &last, 3, f->rows);
	put_list(&b, &last, 4, THRIFT_STRUCT, f->n_groups);
	buf_add(&b, f->groups.data, f->groups.size);
	put_text(&b, &last, 6, "csight");
	put_struct_end(&b);
	fail(f, buf_error(&f->groups));
	fail(f, buf_error(&b));
	buf_u32(&b, (uint32_t)b.size);
	buf_add(&b, magic, sizeof(magic));
	fail(f, buf_error(&b));
	write_bytes(f, b.data, b.size);
	return f->error;
}

void parquet_done(struct parquet_file *f)
{
	for (size_t i = 0; i < f->n_columns; i++)
		buf_done(&f->values[i]);
	buf_done(&f->page);
	buf_done(&f->groups);
}
