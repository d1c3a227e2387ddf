/* SPDX-License-Identifier: MIT */
/*
 * A table of strings: each different string is stored once, with its NUL, one after another in a buffer. A string's
 * number is its offset in that buffer.
 */
#ifndef CSIGHT_TEXTS_H
#define CSIGHT_TEXTS_H

#include "lib/base/buf.h"
#include "lib/base/hash.h"

/* Zeros are an empty table. */
struct texts {
	struct buf bytes;
	struct hash offsets;
};

/* Finds or adds a string; its offset goes to *ret. -ENOMEM. */
int texts_find(struct texts *s, const char *text, uint32_t *ret);
void texts_done(struct texts *s);

#endif
