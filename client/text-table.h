/* SPDX-License-Identifier: MIT */
/* A table for a terminal: columns as wide as their widest cell. */
#ifndef CSIGHT_CLIENT_TEXT_TABLE_H
#define CSIGHT_CLIENT_TEXT_TABLE_H

#include "client/format.h"

struct text_table;

/* head: the column titles, not copied; a title that ends in '>' aligns its column to the right. NULL: out of memory. */
struct text_table *text_table_new(const char *const *head, size_t columns);

/* Appends a text_cell, row by row from the left. The text is copied and escaped; NULL appends "-". */
void text_table_add(struct text_table *t, enum format_style style, const char *text);

/* Prints nothing if memory ran out or t is NULL. */
void text_table_print(struct text_table *t, FILE *f);

/* Accepts NULL; returns NULL. */
struct text_table *text_table_free(struct text_table *t);

static inline void text_table_freep(struct text_table **t)
{
	text_table_free(*t);
}

#endif
