/* SPDX-License-Identifier: MIT */
#include "lib/base/ini.h"

#include <errno.h>
#include <string.h>

#include "lib/base/reader.h"

char *ini_trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	for (n = strlen(s); n && strchr(" \t\r", s[n - 1]); n--)
		;
	s[n] = 0;
	return s;
}

/* Reads the next line, without its newline and its comment. */
static int next_line(struct reader *r, enum ini_comments comments, char line[INI_LINE_MAX])
{
	size_t n = 0;
	uint8_t c = 0;

	while (rd_u8(r, &c) == 0 && c != '\n') {
		if (!c)
			return -EBADMSG;
		if (n == INI_LINE_MAX - 1)
			return -EFBIG;
		line[n++] = (char)c;
	}
	line[n] = 0;
	if (comments == INI_COMMENTS_ANYWHERE)
		line[strcspn(line, ";#")] = 0;
	else if (line[strspn(line, " \t\r")] == '#')
		line[0] = 0;
	return 0;
}

int ini_read(const char *text, size_t size, enum ini_comments comments, ini_visit *visit, void *user,
	     unsigned *ret_line)
{
	char line[INI_LINE_MAX], section[INI_LINE_MAX] = "";
	struct reader r = reader_of(text, size);
	struct ini_entry e = { .section = section };
	int rc = 0;

	while (rc == 0 && rd_left(&r)) {
		char *at, *value;

		*ret_line = ++e.line;
		rc = next_line(&r, comments, line);
		if (rc < 0)
			return rc;
		at = ini_trim(line);
		if (!*at)
			continue;
		if (*at == '[') {
			value = strchr(at, ']');
			if (!value || value[1])
				return -EBADMSG;
			*value = 0;
			strcpy(section, ini_trim(at + 1));
			continue;
		}
		value = strchr(at, '=');
		if (!value)
			return -EBADMSG;
		*value++ = 0;
		e.key = ini_trim(at);
		e.value = ini_trim(value);
		rc = visit(user, &e);
	}
	return rc;
}
