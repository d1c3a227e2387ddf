/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "client/terminal.h"
#include "client/text-table.h"
#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/fit.h"
#include "lib/base/util.h"

enum { COLUMNS_MAX = 24, SPACE = 2, ELASTIC_LEAST = 32, ELASTIC_NARROW = 12, OTHER_LEAST = 20, OTHER_NARROW = 10 };

struct text_cell {
	char *text, *suffix; /* escaped; the suffix may be NULL */
	enum format_style style;
};

struct text_column {
	size_t title; /* size of the title */
	size_t width; /* of the widest cell so far */
	size_t print; /* width that is printed */
	int omit;     /* 0: never, else the digit */
	bool right, elastic, omitted;
	bool optional, used, empty; /* empty: it is optional, and was not used when the table began */
	struct fit fit;
};

struct text_table {
	const char *const *head;
	size_t n_columns;
	struct text_column columns[COLUMNS_MAX];
	struct text_cell *cells;
	size_t n_cells, capacity;
	size_t width;  /* of the terminal; 0: no limit */
	size_t blanks; /* to print before the next text */
	bool failed, printed;
};

struct text_table *text_table_new(const char *const *head, size_t columns)
{
	struct text_table *t = columns <= COLUMNS_MAX ? calloc(1, sizeof(*t)) : NULL;

	if (!t)
		return NULL;
	t->head = head;
	t->n_columns = columns;
	for (size_t i = 0; i < columns; i++) {
		struct text_column *c = &t->columns[i];
		const char *marks;

		c->title = strcspn(head[i], "<>~");
		marks = head[i] + c->title;
		c->width = c->title;
		c->right = strchr(marks, '>') != NULL;
		c->elastic = strchr(marks, '~') != NULL;
		c->optional = strchr(marks, '?') != NULL;
		c->omit = strpbrk(marks, "123456789") ? *strpbrk(marks, "123456789") - '0' : 0;
		c->fit.ascii = !terminal_has_utf8();
	}
	return t;
}

void text_table_reserve(struct text_table *t, size_t column, size_t width)
{
	if (t)
		t->columns[column].width = MAX(t->columns[column].width, width);
}

void text_table_keep(struct text_table *t, size_t column)
{
	if (t)
		t->columns[column].omit = 0;
}

/* Returns a copy of text that is escaped to its end. */
static char *escape_whole(const char *text)
{
	size_t size = 4 * strlen(text) + 1;
	char *to = malloc(size);

	return to ? escape_text(text, to, size) : NULL;
}

void text_table_add_with(struct text_table *t, enum format_style style, const char *text, const char *suffix)
{
	struct text_column *column;
	struct text_cell *cell;

	if (!t || t->failed)
		return;
	if (array_reserve(t->cells, t->n_cells, &t->capacity) < 0) {
		t->failed = true;
		return;
	}
	column = &t->columns[t->n_cells % t->n_columns];
	cell = &t->cells[t->n_cells];
	*cell = (struct text_cell){ .text = escape_whole(text ? text : "-"), .style = style };
	cell->suffix = suffix && *suffix ? escape_whole(suffix) : NULL;
	t->n_cells++;
	t->failed = !cell->text || (suffix && *suffix && !cell->suffix);
	column->used = column->used || (text && *text);
	if (!t->failed)
		column->width =
		    MAX(column->width, fit_width(cell->text) + (cell->suffix ? fit_width(cell->suffix) : 0));
}

void text_table_add(struct text_table *t, enum format_style style, const char *text)
{
	text_table_add_with(t, style, text, NULL);
}

size_t text_table_rows(const struct text_table *t)
{
	return t ? t->n_cells / t->n_columns : 0;
}

/* The least width of a column; narrow: if leaving out columns was not enough. */
static size_t least_width(const struct text_table *t, const struct text_column *c, bool narrow)
{
	static const size_t first[] = { ELASTIC_LEAST, ELASTIC_NARROW }, other[] = { OTHER_LEAST, OTHER_NARROW };
	size_t least = c == t->columns ? first[narrow] : other[narrow];

	return c->elastic ? MIN(c->width, MAX(least, c->title)) : c->width;
}

static size_t least_total(const struct text_table *t, bool narrow)
{
	size_t all = 0;

	for (size_t i = 0; i < t->n_columns; i++)
		if (!t->columns[i].omitted)
			all += least_width(t, &t->columns[i], narrow) + (all ? SPACE : 0);
	return all;
}

/* Returns the column to leave out next, or NULL. */
static struct text_column *find_omissible(struct text_table *t)
{
	struct text_column *found = NULL;

	for (size_t i = 0; i < t->n_columns; i++) {
		struct text_column *c = &t->columns[i];

		if (c->omit && !c->omitted && (!found || c->omit >= found->omit))
			found = c;
	}
	return found;
}

/* Distributes the width of the terminal. */
static void layout(struct text_table *t, size_t width)
{
	struct text_column *omissible;
	size_t left, share, elastic = 0;
	bool narrow;

	for (size_t i = 0; i < t->n_columns; i++) {
		t->columns[i].print = t->columns[i].width;
		t->columns[i].omitted = t->columns[i].empty = t->columns[i].optional && !t->columns[i].used;
	}
	if (!width)
		return;
	while (least_total(t, false) > width && (omissible = find_omissible(t)))
		omissible->omitted = true;
	narrow = least_total(t, false) > width;
	left = width - MIN(width, least_total(t, narrow));
	for (size_t i = 0; i < t->n_columns; i++) {
		t->columns[i].print = least_width(t, &t->columns[i], narrow);
		elastic += !t->columns[i].omitted && t->columns[i].print < t->columns[i].width;
	}
	/* First an equal share for each column that needs more, then the rest from the left. */
	share = left / MAX(elastic, (size_t)1);
	for (size_t i = 0; i < 2 * t->n_columns; i++) {
		struct text_column *c = &t->columns[i % t->n_columns];
		size_t more = MIN(i < t->n_columns ? share : left, c->width - c->print);

		if (c->omitted)
			continue;
		c->print += more;
		left -= more;
	}
}

/* Prints a cell. Blanks are printed before the next one that has text, so that no line ends in them. */
static void print_cell(struct text_table *t, FILE *f, size_t column, const struct text_cell *cell)
{
	struct text_column *c = &t->columns[column];
	size_t more = cell->suffix ? fit_width(cell->suffix) : 0, width, pad;
	const char *text = cell->text;

	if (c->elastic && t->width)
		text = fit_text(&c->fit, text, MAX(c->print - MIN(c->print, more), (size_t)1));
	width = fit_width(text) + more;
	pad = c->print - MIN(c->print, width);
	t->blanks += c->right ? pad : 0;
	if (width) {
		fprintf(f, "%*s%s%s%s%s", (int)t->blanks, "", format_style(f, cell->style), text,
			cell->suffix ? cell->suffix : "", cell->style ? format_style(f, STYLE_PLAIN) : "");
		t->blanks = 0;
	}
	t->blanks += SPACE + (c->right ? 0 : pad);
}

static void end_row(struct text_table *t, FILE *f)
{
	fputc('\n', f);
	t->blanks = 0;
}

static void print_head(struct text_table *t, FILE *f)
{
	char title[64];

	for (size_t i = 0; i < t->n_columns; i++) {
		snprintf(title, sizeof(title), "%.*s", (int)t->columns[i].title, t->head[i]);
		if (!t->columns[i].omitted)
			print_cell(t, f, i, &(struct text_cell){ .text = title, .style = STYLE_HEADING });
	}
	end_row(t, f);
}

static void drop_cells(struct text_table *t)
{
	for (size_t i = 0; i < t->n_cells; i++) {
		free(t->cells[i].text);
		free(t->cells[i].suffix);
	}
	t->n_cells = 0;
}

void text_table_print(struct text_table *t, FILE *f)
{
	if (!t || t->failed)
		return;
	/* A column that had no text so far begins the table anew. */
	for (size_t i = 0; i < t->n_columns; i++)
		if (t->columns[i].empty && t->columns[i].used)
			t->printed = false;
	if (!t->printed) {
		t->width = terminal_width();
		layout(t, t->width);
		print_head(t, f);
	}
	t->printed = true;
	for (size_t i = 0; i < t->n_cells; i++) {
		if (!t->columns[i % t->n_columns].omitted)
			print_cell(t, f, i % t->n_columns, &t->cells[i]);
		if ((i + 1) % t->n_columns == 0)
			end_row(t, f);
	}
	drop_cells(t);
}

void text_table_print_omitted(const struct text_table *t, FILE *f, const char *advice)
{
	_cleanup_buf_ struct buf text = { 0 };
	const char *before = "not shown for lack of width: ";

	for (size_t i = 0; t && i < t->n_columns; i++) {
		if (!t->columns[i].omitted || t->columns[i].empty)
			continue;
		buf_printf(&text, "%s%.*s", before, (int)t->columns[i].title, t->head[i]);
		before = ", ";
	}
	if (!t || *before != ',')
		return;
	buf_printf(&text, "%s", advice);
	buf_u8(&text, 0);
	if (!buf_error(&text))
		terminal_print_wrapped(f, (const char *)text.data);
}

struct text_table *text_table_free(struct text_table *t)
{
	if (!t)
		return NULL;
	drop_cells(t);
	for (size_t i = 0; i < t->n_columns; i++)
		fit_done(&t->columns[i].fit);
	free(t->cells);
	free(t);
	return NULL;
}
