/* SPDX-License-Identifier: MIT */
/* The text of an error for a person, beside the negative errno that a function returns. */
#ifndef CSIGHT_REASON_H
#define CSIGHT_REASON_H

#include "lib/base/util.h"

/* Initialize with { "" }. The text is empty where no function has set it; a longer one is cut. */
struct reason {
	char text[512];
};

/* Formats the text of r, which may be NULL, and returns error: `return reason_set(r, -EINVAL, "…");`. */
int reason_set(struct reason *r, int error, const char *fmt, ...) _printf_(3, 4);

#endif
