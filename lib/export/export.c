/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/export/decode-formats.h"
#include "lib/export/export.h"

const struct export_ops *export_find(const char *name)
{
	for (size_t i = 0; i < DECODE_FORMAT_COUNT; i++)
		if (decode_formats[i].export && strcmp(decode_formats[i].export->name, name) == 0)
			return decode_formats[i].export;
	return NULL;
}
