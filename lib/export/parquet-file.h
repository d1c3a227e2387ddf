/* SPDX-License-Identifier: MIT */
/*
 * A writer of Parquet files: one flat table of required columns, in row groups of one page for each column, with PLAIN
 * values compressed by zstd. Debian has no C library for this. A file is written in order, so that it may go to a pipe;
 * memory holds one row group, and about 300 bytes for each that is written.
 *
 * The format: https://parquet.apache.org/docs/file-format. Its metadata is Thrift's compact protocol.
 */
#ifndef CSIGHT_EXPORT_PARQUET_FILE_H
#define CSIGHT_EXPORT_PARQUET_FILE_H

#include <stdbool.h>

#include "lib/base/buf.h"

enum parquet_type {
	PARQUET_TEXT,
	PARQUET_NUMBER, /* unsigned, of 64 bits */
	PARQUET_TIME,   /* ns since 1970 in UTC */
	PARQUET_BOOL,
};

struct parquet_column {
	const char *name;
	enum parquet_type type;
};

enum { PARQUET_COLUMNS_MAX = 32, PARQUET_GROUP_ROWS = 65536 };

struct parquet_file {
	int fd;
	const struct parquet_column *columns;
	size_t n_columns, at; /* at: the column of the next value */
	struct buf values[PARQUET_COLUMNS_MAX];
	struct buf page;   /* scratch */
	struct buf groups; /* metadata of the row groups that are written */
	uint64_t offset, rows, n_groups;
	size_t group_rows, group_bytes;
	int error; /* the first one; later calls do nothing */
};

/* columns: borrowed, at most PARQUET_COLUMNS_MAX. */
void parquet_begin(struct parquet_file *f, int fd, const struct parquet_column *columns, size_t n);

/* Add the next value of a row, of its column's type; the last column completes the row. The text need not be UTF-8. */
void parquet_text(struct parquet_file *f, const char *text);
void parquet_number(struct parquet_file *f, uint64_t n);
void parquet_bool(struct parquet_file *f, bool v);

/* Completes the file. Returns the first error. */
int parquet_finish(struct parquet_file *f);
void parquet_done(struct parquet_file *f);

#endif
