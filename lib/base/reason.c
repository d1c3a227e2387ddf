/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>

#include "lib/base/reason.h"

int reason_set(struct reason *r, int error, const char *fmt, ...)
{
	va_list args;

	if (!r)
		return error;
	va_start(args, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, args);
	va_end(args);
	return error;
}
