/* What came from outside is escaped when it goes out; one function a target. JSON is escaped by json-c. */
#ifndef CSIGHT_ESCAPE_H
#define CSIGHT_ESCAPE_H

#include <stddef.h>
#include <stdint.h>

/* Length of the valid UTF-8 character at s (which ends in NUL), or 0; the code point goes to *ret. */
size_t escape_utf8(const unsigned char *s, uint32_t *ret);

/*
 * For a terminal or a log: valid printable UTF-8 stays; control characters, DEL, C1, bidirectional overrides and broken
 * UTF-8 become \xNN. Always terminates; cuts at whole characters. Returns ret.
 */
char *escape_text(const char *text, char *ret, size_t size);

/* The same into static per-thread storage of 8 rotating buffers, for use in an argument list of a log call. */
const char *esc(const char *text);

#endif
