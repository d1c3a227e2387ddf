/*
 * Ini files as Arm's tools write them: sections in brackets, keys and values with '=' between them, comments behind ';'
 * or '#'. The file is hostile: what is neither of these is an error, with its line.
 */
#ifndef CSIGHT_CORESIGHT_INI_H
#define CSIGHT_CORESIGHT_INI_H

#include <stddef.h>
#include <stdint.h>

enum { INI_SIZE_MAX = 4 << 20, INI_LINE_MAX = 4096 };

/* One key; all three are text without blanks at their ends, "" for what stands before the first section. */
struct ini_entry {
	const char *section, *key, *value;
	unsigned line;
};

/* A negative return ends the reading, which returns it. *ret_line: where it ended. -EBADMSG; -EFBIG: a line too long.
 */
int ini_read(const char *text, size_t size, int (*entry)(void *user, const struct ini_entry *e), void *user,
	     unsigned *ret_line);

/* A whole number, decimal or 0x…: -EINVAL where it is not just that, or above most. */
int ini_number(const char *value, uint64_t most, uint64_t *ret);

#endif
