/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/export/decode-formats.h"

#define ROW(id, name, basis, content, export) \
	[DECODE_FORMAT_##id] = { DECODE_FORMAT_##id, name, basis, content, export },

// clang-format off
const struct decode_format decode_formats[DECODE_FORMAT_COUNT] = {
	DECODE_FORMATS(ROW, ROW)
	ROW(INFO, "info", DECODE_FORMAT_FROM_INPUT, DECODE_FORMAT_TEXT, NULL)
	ROW(INFO_JSON, "info-json", DECODE_FORMAT_FROM_INPUT, DECODE_FORMAT_TEXT, NULL)
	ROW(LIVE, "live", DECODE_FORMAT_FROM_LIVE, DECODE_FORMAT_TEXT, NULL)
	ROW(LIVE_JSON, "live-json", DECODE_FORMAT_FROM_LIVE, DECODE_FORMAT_TEXT, NULL)
};
// clang-format on

const struct decode_format *decode_format_find(const char *name)
{
	for (size_t i = 0; i < DECODE_FORMAT_COUNT; i++)
		if (strcmp(decode_formats[i].name, name) == 0)
			return &decode_formats[i];
	return NULL;
}
