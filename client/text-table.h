/* SPDX-License-Identifier: MIT */
/*
 * A table: columns as wide as their widest cell, as far as the terminal is wide enough. On a narrow terminal columns
 * are left out, and elastic ones shortened, so that no row is wider than the terminal.
 */
#ifndef CSIGHT_CLIENT_TEXT_TABLE_H
#define CSIGHT_CLIENT_TEXT_TABLE_H

#include "client/format.h"

struct text_table;

/*
 * head: the column titles, not copied. A title may end in one of these:
 *   >  the column is aligned to the right
 *   <  it is aligned to the left, as without a mark
 *   ~  it is also elastic: shortened if the terminal is too narrow; different texts stay different
 * and then in a digit: it is left out if the terminal is too narrow, 9 first; and in '?': it is left out while no cell
 * of it has text.
 * NULL: out of memory.
 */
struct text_table *text_table_new(const char *const *head, size_t columns);

/* Sets the least width of a column. */
void text_table_reserve(struct text_table *t, size_t column, size_t width);

/* Never leaves out a column. */
void text_table_keep(struct text_table *t, size_t column);

/* Appends a text_cell, row by row from the left. The text is copied and escaped; NULL appends "-". */
void text_table_add(struct text_table *t, enum format_style style, const char *text);

/* The same with a suffix that is kept when the text is shortened. */
void text_table_add_with(struct text_table *t, enum format_style style, const char *text, const char *suffix);

/* Returns the number of rows that are not printed yet. */
size_t text_table_rows(const struct text_table *t);

/*
 * Prints the rows, and drops them; the first time with the titles. The layout of the first
 * time remains. Prints nothing if memory ran out or t is NULL.
 */
void text_table_print(struct text_table *t, FILE *f);

/* Prints a line with the titles of columns that were left out, and with advice; nothing if there are none. */
void text_table_print_omitted(const struct text_table *t, FILE *f, const char *advice);

/* Accepts NULL; returns NULL. */
struct text_table *text_table_free(struct text_table *t);

static inline void text_table_freep(struct text_table **t)
{
	text_table_free(*t);
}

#endif
