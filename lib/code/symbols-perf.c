/* SPDX-License-Identifier: MIT */
/*
 * Parses a perf map (/tmp/perf-PID.map), in which a program names the code that it generates at run time: one line for
 * each function, "START SIZE name", both numbers in hexadecimal; START is an address in the process.
 */
#include <string.h>
#include <sys/stat.h>

#include "lib/base/array.h"
#include "lib/code/symtab.h"

enum { MAP_MAX = 64 << 20 };

struct entry {
	struct symbol symbol;
	size_t order;
};

/* Sorts by address. Of entries with the same address the last one written comes first: its code is there now. */
static int compare_entries(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->symbol.start != b->symbol.start)
		return a->symbol.start < b->symbol.start ? -1 : 1;
	return (a->order < b->order) - (a->order > b->order);
}

static bool parse_line(char *line, struct symbol *ret)
{
	unsigned long long start, size;
	int at = 0;

	if (sscanf(line, "%llx %llx %n", &start, &size, &at) < 2 || !at || !line[at] || size > UINT64_MAX - start)
		return false;
	*ret = (struct symbol){ start, size ? start + size : 0, line + at };
	return true;
}

static int read_lines(char *text, struct entry **ret, size_t *ret_n)
{
	_cleanup_free_ struct entry *list = NULL;
	size_t n = 0, room = 0;
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct entry e = { .order = n };

		if (!parse_line(line, &e.symbol))
			continue;
		if (array_reserve(list, n, &room) < 0)
			return -ENOMEM;
		list[n++] = e;
	}
	*ret = TAKE_PTR(list);
	*ret_n = n;
	return 0;
}

/* Each ends where the next begins, at the latest. */
static size_t untangle(struct entry *list, size_t n, struct symbol *ret)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (i && list[i].symbol.start == list[i - 1].symbol.start)
			continue;
		if (kept && ret[kept - 1].end > list[i].symbol.start)
			ret[kept - 1].end = list[i].symbol.start;
		ret[kept++] = list[i].symbol;
	}
	return kept;
}

int symbols_load_perf_map(int fd, struct symbols **ret)
{
	_cleanup_free_ struct symbol *symbols = NULL;
	_cleanup_free_ struct entry *list = NULL;
	_cleanup_free_ char *text = NULL;
	size_t n = 0, size = 0;
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > MAP_MAX)
		return -EFBIG;
	text = malloc((size_t)st.st_size + 1);
	while (text && size < (size_t)st.st_size) {
		ssize_t got = pread(fd, text + size, (size_t)st.st_size - size, (off_t)size);

		if (got <= 0)
			break;
		size += (size_t)got;
	}
	if (!text)
		return -ENOMEM;
	text[size] = 0;
	rc = read_lines(text, &list, &n);
	if (rc < 0)
		return rc;
	symbols = calloc(n + 1, sizeof(*symbols));
	if (!symbols)
		return -ENOMEM;
	if (n)
		qsort(list, n, sizeof(*list), compare_entries);
	return symbols_from_list(symbols, untangle(list, n, symbols), ret);
}
