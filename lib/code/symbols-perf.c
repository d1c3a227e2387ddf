/* SPDX-License-Identifier: MIT */
/*
 * Parses a perf map (/tmp/perf-PID.map), in which a program names the code that it generates at run time: one line for
 * each function, "START SIZE name", both numbers in hexadecimal; START is an address in the process. The program
 * appends a line when it has generated code, so of the lines for an address the last one applies.
 */
#include <string.h>
#include <sys/stat.h>

#include "lib/base/array.h"
#include "lib/base/io.h"
#include "lib/code/address-space.h"
#include "lib/code/symtab.h"

enum { MAP_MAX = 64 << 20, LINES_MAX = 2 << 20 };

struct entry {
	struct piece piece;
	uint64_t line;
};

static int compare_entries(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return (a->piece.start > b->piece.start) - (a->piece.start < b->piece.start);
}

static bool parse_line(const char *line, struct piece *ret)
{
	unsigned long long start, size;
	int at = 0;

	if (sscanf(line, "%llx %llx %n", &start, &size, &at) < 2 || !at || !line[at] || size > UINT64_MAX - start)
		return false;
	*ret = (struct piece){ .start = start, .end = start + size, .name = (uint32_t)at, .open = !size };
	return true;
}

/* The names stay in the text, which may be long, where several pieces refer to one. */
static int read_lines(char *text, struct entry **ret, size_t *ret_n)
{
	_cleanup_free_ struct entry *list = NULL;
	size_t n = 0, room = 0;
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct entry e = { .line = n };

		if (!parse_line(line, &e.piece))
			continue;
		if (n == LINES_MAX)
			return -EFBIG;
		if (array_reserve(list, n, &room) < 0)
			return -ENOMEM;
		e.piece.name += (uint32_t)(line - text);
		list[n++] = e;
	}
	*ret = TAKE_PTR(list);
	*ret_n = n;
	return 0;
}

/* Each line covers earlier ones, as a later mapping does. One without a size ends where the next function begins. */
static int cover(struct entry *list, size_t n, struct address_space *space)
{
	uint64_t next = UINT64_MAX;
	int rc = 0;

	for (size_t i = n; i-- > 0 && rc == 0;) {
		struct piece *p = &list[i].piece;

		if (i + 1 < n && list[i + 1].piece.start > p->start)
			next = list[i + 1].piece.start;
		if (p->open)
			p->end = next;
		rc = address_space_add(
		    space, &(struct space_mapping){
			       .start = p->start, .end = p->end, .time = list[i].line, .source = (uint32_t)i });
	}
	return rc == 0 ? address_space_seal(space) : rc;
}

/* Adds what is left of a line. Its parts are one function, which begins at the first one. */
static int add_part(struct piece *line, uint64_t start, uint64_t end, struct pieces *ret)
{
	struct piece *last = ret->n ? &ret->items[ret->n - 1] : NULL;

	if (last && last->name == line->name && last->end == start) {
		last->end = end;
		return 0;
	}
	if (!line->function_end)
		line->function = start;
	line->function_end = line->end;
	return symbols_pieces_add(ret, &(struct piece){ .start = start,
							.end = end,
							.function = line->function,
							.function_end = line->function_end,
							.name = line->name });
}

static int add_parts(struct entry *list, size_t n, const struct address_space *space, struct pieces *ret)
{
	uint64_t addr = 0, end;
	size_t i = 0;
	int rc = 0;

	while (rc == 0) {
		const struct space_mapping *m = address_space_find(space, addr, UINT64_MAX, &end);

		if (m) {
			rc = add_part(&list[m->source].piece, addr, end, ret);
			addr = end;
			continue;
		}
		while (i < n && list[i].piece.start <= addr)
			i++;
		if (i == n)
			break;
		addr = list[i].piece.start;
	}
	return rc;
}

static int make_table(struct symbols *s)
{
	_cleanup_(address_space_freep) struct address_space *space = NULL;
	_cleanup_(symbols_pieces_done) struct pieces parts = { 0 };
	_cleanup_free_ struct entry *list = NULL;
	size_t n;
	int rc = read_lines((char *)s->names.data, &list, &n);

	if (rc == 0)
		rc = address_space_new(&space);
	if (rc < 0)
		return rc;
	if (n)
		qsort(list, n, sizeof(*list), compare_entries);
	rc = cover(list, n, space);
	if (rc == 0)
		rc = add_parts(list, n, space, &parts);
	if (rc < 0)
		return rc;
	s->pieces = TAKE_PTR(parts.items);
	s->n = parts.n;
	return 0;
}

int symbols_load_perf_map(int fd, struct symbols **ret)
{
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	struct stat st;
	uint8_t *text;
	ssize_t size;
	int rc;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > MAP_MAX)
		return -EFBIG;
	s = calloc(1, sizeof(*s));
	text = s ? buf_reserve(&s->names, (size_t)st.st_size + 1) : NULL;
	if (!text)
		return -ENOMEM;
	size = io_pread(fd, text, (size_t)st.st_size, 0);
	if (size < 0)
		return (int)size;
	text[size] = 0;
	buf_grew(&s->names, (size_t)size + 1);
	rc = make_table(s);
	if (rc == 0)
		*ret = TAKE_PTR(s);
	return rc;
}
