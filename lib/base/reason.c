/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "lib/base/reason.h"

int reason_setv(struct reason *r, int error, const char *fmt, va_list args)
{
	if (r)
		vsnprintf(r->text, sizeof(r->text), fmt, args);
	return error;
}

int reason_set(struct reason *r, int error, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	error = reason_setv(r, error, fmt, args);
	va_end(args);
	return error;
}
