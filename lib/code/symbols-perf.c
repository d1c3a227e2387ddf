/* SPDX-License-Identifier: MIT */
/*
 * Parses a perf map (/tmp/perf-PID.map), in which a program names the code that it generates at run time: one line for
 * each function, "START SIZE name", both numbers in hexadecimal; START is an address in the process. The program
 * appends a line when it has generated code, so of the lines for an address the last one applies.
 */
#include <string.h>
#include <sys/stat.h>

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/code/symbols.h"

enum { MAP_MAX = 64 << 20 };

static bool parse_line(const char *line, struct symbol_layer *ret)
{
	unsigned long long start, size;
	int at = 0;

	if (sscanf(line, "%llx %llx %n", &start, &size, &at) < 2 || !at || !line[at] || size > UINT64_MAX - start)
		return false;
	*ret = (struct symbol_layer){ start, size ? start + size : 0, (uint32_t)at };
	return true;
}

static int read_lines(char *text, struct symbol_layer **ret, size_t *ret_n)
{
	_cleanup_free_ struct symbol_layer *list = NULL;
	size_t n = 0, room = 0;
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct symbol_layer s;

		if (!parse_line(line, &s))
			continue;
		if (array_reserve(list, n, &room) < 0)
			return -ENOMEM;
		s.name += (uint32_t)(line - text);
		list[n++] = s;
	}
	*ret = TAKE_PTR(list);
	*ret_n = n;
	return 0;
}

int symbols_load_perf_map(int fd, struct symbols **ret)
{
	_cleanup_free_ struct symbol_layer *list = NULL;
	_cleanup_buf_ struct buf text = { 0 };
	struct stat st;
	uint8_t *room;
	ssize_t size;
	size_t n;
	int rc;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > MAP_MAX)
		return -EFBIG;
	room = buf_reserve(&text, (size_t)st.st_size + 1);
	if (!room)
		return -ENOMEM;
	size = io_pread(fd, room, (size_t)st.st_size, 0);
	if (size < 0)
		return (int)size;
	room[size] = 0;
	buf_grew(&text, (size_t)size + 1);
	rc = read_lines((char *)text.data, &list, &n);
	return rc == 0 ? symbols_from_layers(list, n, &text, ret) : rc;
}
