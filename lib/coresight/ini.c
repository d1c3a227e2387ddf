#include "lib/coresight/ini.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/reader.h"

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	for (n = strlen(s); n && strchr(" \t\r", s[n - 1]); n--)
		;
	s[n] = 0;
	return s;
}

/* The next line, without its newline and comment. */
static int next_line(struct reader *r, char line[INI_LINE_MAX])
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
	line[strcspn(line, ";#")] = 0;
	return 0;
}

int ini_read(const char *text, size_t size, int (*entry)(void *user, const struct ini_entry *e), void *user,
	     unsigned *ret_line)
{
	char line[INI_LINE_MAX], section[INI_LINE_MAX] = "";
	struct reader r = reader_of(text, size);
	struct ini_entry e = { .section = section };
	int rc = 0;

	while (rc == 0 && rd_left(&r)) {
		char *at, *value;

		*ret_line = ++e.line;
		rc = next_line(&r, line);
		if (rc < 0)
			return rc;
		at = trim(line);
		if (!*at)
			continue;
		if (*at == '[') {
			value = strchr(at, ']');
			if (!value || value[1])
				return -EBADMSG;
			*value = 0;
			strcpy(section, trim(at + 1));
			continue;
		}
		value = strchr(at, '=');
		if (!value)
			return -EBADMSG;
		*value++ = 0;
		e.key = trim(at);
		e.value = trim(value);
		rc = entry(user, &e);
	}
	return rc;
}

int ini_number(const char *value, uint64_t most, uint64_t *ret)
{
	unsigned long long v;
	char *end;

	/* strtoull takes signs and blanks, and a leading 0 for octal. */
	if (*value < '0' || *value > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(value, &end, value[0] == '0' && (value[1] == 'x' || value[1] == 'X') ? 16 : 10);
	if (errno || *end || v > most)
		return -EINVAL;
	*ret = v;
	return 0;
}
