/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "client/text-table.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/util.h"

struct text_cell {
	char *text;
	enum format_style style;
};

struct text_table {
	const char *const *head;
	size_t columns;
	struct text_cell *cells;
	size_t n_cells, capacity;
	bool failed;
};

struct text_table *text_table_new(const char *const *head, size_t columns)
{
	struct text_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->head = head;
	t->columns = columns;
	return t;
}

void text_table_add(struct text_table *t, enum format_style style, const char *text)
{
	if (!t || t->failed)
		return;
	if (array_reserve(t->cells, t->n_cells, &t->capacity) < 0) {
		t->failed = true;
		return;
	}
	t->cells[t->n_cells].text = strdup(esc(text ? text : "-"));
	t->cells[t->n_cells].style = style;
	t->failed = !t->cells[t->n_cells].text;
	t->n_cells += !t->failed;
}

/* The columns that a text takes on a terminal, approximated by the number of UTF-8 characters. */
static int display_width(const char *text, size_t size)
{
	int n = 0;

	for (size_t i = 0; i < size; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

static void print_cell(FILE *f, const char *text, size_t size, int wide, bool right, bool last)
{
	int pad = wide - display_width(text, size);

	if (right)
		fprintf(f, "%*s", pad, "");
	fwrite(text, 1, size, f);
	if (!right && !last)
		fprintf(f, "%*s", pad, "");
	fputs(last ? "\n" : "  ", f);
}

void text_table_print(struct text_table *t, FILE *f)
{
	int wide[24] = { 0 };

	if (!t || t->failed || t->columns > ELEMENTS(wide))
		return;
	for (size_t i = 0; i < t->columns; i++)
		wide[i] = display_width(t->head[i], strcspn(t->head[i], ">"));
	for (size_t i = 0; i < t->n_cells; i++)
		wide[i % t->columns] =
		    MAX(wide[i % t->columns], display_width(t->cells[i].text, strlen(t->cells[i].text)));
	fputs(format_style(f, STYLE_HEADING), f);
	for (size_t i = 0; i < t->columns; i++) {
		size_t size = strcspn(t->head[i], ">");

		print_cell(f, t->head[i], size, wide[i], t->head[i][size] != 0, i + 1 == t->columns);
	}
	fputs(format_style(f, STYLE_PLAIN), f);
	for (size_t i = 0; i < t->n_cells; i++) {
		const struct text_cell *cell = &t->cells[i];
		size_t column = i % t->columns;

		if (cell->style)
			fputs(format_style(f, cell->style), f);
		print_cell(f, cell->text, strlen(cell->text), wide[column], strchr(t->head[column], '>') != NULL,
			   column + 1 == t->columns);
		if (cell->style)
			fputs(format_style(f, STYLE_PLAIN), f);
	}
}

struct text_table *text_table_free(struct text_table *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i].text);
	free(t->cells);
	free(t);
	return NULL;
}
