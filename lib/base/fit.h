/* SPDX-License-Identifier: MIT */
/*
 * Fits texts into columns of a terminal. A text that is too wide is shortened; an ellipsis stands where something was
 * left out. Within one struct fit, two different texts never become the same.
 */
#ifndef CSIGHT_FIT_H
#define CSIGHT_FIT_H

#include <stdbool.h>

#include "lib/base/hash.h"
#include "lib/base/texts.h"

/* Initialise with zeros; ascii: the ellipsis is "...", else U+2026. */
struct fit {
	bool ascii;
	struct texts texts; /* results and their sources */
	struct hash taken;  /* from the number of a result to the number of its source */
	struct buf result;
};

/*
 * Returns the number of columns that a terminal needs for an escaped text in UTF-8: two for wide characters, none for
 * combining ones.
 */
size_t fit_width(const char *text);

/*
 * Returns text, or a shorter form of it that is unlike the result for every other text so far, valid until the next
 * call. Of a text with "::" the end is kept if its last part fits, of "[file+0x12]" both ends, of others the
 * beginning. The result has at most `width`
 * columns, but never fewer than FIT_MIN. Without memory, or with width 0, text itself is returned.
 */
enum { FIT_MIN = 8 };
const char *fit_text(struct fit *f, const char *text, size_t width);
void fit_done(struct fit *f);

#endif
