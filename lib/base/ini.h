/* SPDX-License-Identifier: MIT */
/*
 * Ini files: sections in brackets, lines of KEY = VALUE, and comments. Any other line is an error. The files may be
 * hostile.
 */
#ifndef CSIGHT_INI_H
#define CSIGHT_INI_H

#include <stddef.h>
#include <stdint.h>

enum { INI_SIZE_MAX = 4 << 20, INI_LINE_MAX = 8192 };

enum ini_comments {
	INI_COMMENTS_ANYWHERE, /* ';' or '#' begins a comment, as Arm's tools write them */
	INI_COMMENTS_LINES,    /* a line that begins with '#' is a comment; values may hold any character */
};

/* One key. The texts have no blanks at their ends; section is "" before the first section. */
struct ini_entry {
	const char *section, *key, *value;
	unsigned line;
};

/* Handles one entry; the texts are valid during the call. A negative return ends ini_read(), which returns it. */
typedef int ini_visit(void *user, const struct ini_entry *e);

/* ret_line is the last line read. -EBADMSG: neither section nor entry; -EFBIG: a line of INI_LINE_MAX or more bytes. */
int ini_read(const char *text, size_t size, enum ini_comments comments, ini_visit *visit, void *user,
	     unsigned *ret_line);

/* Removes the blanks at both ends of s, in place; returns the new beginning. */
char *ini_trim(char *s);

#endif
