/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/line-lookup.h"
#include "lib/base/array.h"
#include "lib/base/parse.h"
#include "lib/base/util.h"
#include "lib/code/dwarf.h"
#include "lib/code/inlines.h"

/* An address at which code of the line begins. */
struct line_start {
	uint64_t offset;   /* in the file */
	uint64_t instance; /* the innermost function or inlined copy that it is in; 0: unknown */
};

struct line_lookup {
	struct elf *elf;
	struct dwarf dwarf;
	struct dwarf_unit *unit;
	char *file; /* the end of its path */
	uint64_t line;
	uint64_t next;   /* the next line with code */
	bool inside;     /* the last row was of the line */
	uint64_t number; /* of the file of the last row, and whether it is the one */
	bool is_file;
	struct line_start *starts;
	size_t n, room;
};

/* True if a path ends with the wanted components. */
static bool ends_with(const char *path, const char *wanted)
{
	size_t n = strlen(path), m = strlen(wanted);

	return n >= m && strcmp(path + n - m, wanted) == 0 && (n == m || path[n - m - 1] == '/' || *wanted == '/');
}

static bool is_of_file(struct line_lookup *s, uint64_t number)
{
	const char *path;

	if (number == s->number)
		return s->is_file;
	path = dwarf_file(&s->dwarf, s->unit, number);
	s->number = number;
	s->is_file = path && ends_with(path, s->file);
	return s->is_file;
}

static int on_row(void *user, const struct dwarf_row *row)
{
	struct line_lookup *s = user;
	bool of_file = !row->end && row->line && is_of_file(s, row->file), inside = of_file && row->line == s->line;
	uint64_t offset, left;

	if (of_file && row->statement && row->line > s->line && (!s->next || row->line < s->next))
		s->next = row->line;
	if (inside && !s->inside && row->statement && elf_offset(s->elf, row->address, &offset, &left) == 0) {
		if (array_reserve(s->starts, s->n, &s->room) < 0)
			return -ENOMEM;
		s->starts[s->n++] = (struct line_start){ .offset = offset };
	}
	s->inside = inside && (s->inside || row->statement);
	return 0;
}

static int find_starts(struct line_lookup *s)
{
	int rc = 0;

	for (size_t i = 0; rc >= 0 && i < s->dwarf.n_units; i++) {
		s->unit = &s->dwarf.units[i];
		s->number = UINT64_MAX;
		s->inside = false;
		rc = dwarf_rows(&s->dwarf, s->unit, on_row, s);
		/* A unit whose line table is damaged or absent does not keep the others from being read. */
		if (rc == -ENOENT || rc == -EBADMSG)
			rc = 0;
	}
	return rc;
}

static int compare_starts(const void *left, const void *right)
{
	const struct line_start *a = left, *b = right;

	return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Keeps the first place of each function and inlined copy: the others are further parts of the line. */
static size_t keep_first(struct line_lookup *s, struct inlines *inlines)
{
	size_t kept = 0;

	if (s->n)
		qsort(s->starts, s->n, sizeof(*s->starts), compare_starts);
	for (size_t i = 0; i < s->n; i++) {
		struct line_start *start = &s->starts[i];
		struct inlines_at at;
		size_t j = 0;

		inlines_find(inlines, start->offset, &at);
		start->instance = at.n ? at.frames[at.n - 1].instance : 0;
		while (j < kept && (s->starts[j].instance != start->instance || !start->instance))
			j++;
		if (j == kept)
			s->starts[kept++] = *start;
	}
	return kept;
}

static int search_file(int fd, struct line_lookup *s, struct function_place *ret, size_t *ret_n)
{
	_cleanup_(inlines_freep) struct inlines *inlines = NULL;
	int rc = find_starts(s);

	if (rc == 0)
		rc = inlines_load(fd, -1, &inlines);
	if (rc < 0)
		return rc;
	*ret_n = keep_first(s, inlines);
	for (size_t i = 0; i < MIN(*ret_n, (size_t)FUNCTION_PLACES_MAX); i++)
		ret[i] = (struct function_place){ .start = s->starts[i].offset, .end = s->starts[i].offset };
	return 0;
}

int line_lookup(int fd, const char *line, struct function_place *ret, size_t *ret_n, uint64_t *ret_next)
{
	_cleanup_(elf_freep) struct elf *e = NULL;
	struct line_lookup s = { .number = UINT64_MAX };
	const char *colon = strrchr(line, ':');
	int rc;

	if (!colon || parse_u64(colon + 1, UINT32_MAX, &s.line) < 0)
		return -EINVAL;
	rc = elf_open(fd, &e);
	if (rc == 0)
		rc = dwarf_open(e, &s.dwarf);
	if (rc < 0)
		return rc;
	s.elf = e;
	s.file = strndup(line, (size_t)(colon - line));
	rc = s.file ? search_file(fd, &s, ret, ret_n) : -ENOMEM;
	*ret_next = s.next;
	free(s.file);
	free(s.starts);
	dwarf_done(&s.dwarf);
	return rc;
}
