/* SPDX-License-Identifier: MIT */
/* Escaping of untrusted text for a terminal, a log, or JSON that a terminal may show. */
#ifndef CSIGHT_ESCAPE_H
#define CSIGHT_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the length of the valid UTF-8 character at s, a NUL-terminated text, or 0; its code point goes to *ret. */
size_t escape_utf8(const unsigned char *s, uint32_t *ret);

/* False for control characters, and for those that change the direction or the lines of text. */
bool escape_is_printable(uint32_t c);

/*
 * Keeps valid printable UTF-8; control characters, DEL, C1, bidirectional overrides and invalid UTF-8 become \xNN. The
 * result is always NUL-terminated, and cut at a whole character if it does not fit. Returns ret.
 */
char *escape_text(const char *text, char *ret, size_t size);

/* The same as escape_text(), into one of 8 rotating static buffers of the calling thread, for use in the argument list
 * of a log call. */
const char *esc(const char *text);

#endif
