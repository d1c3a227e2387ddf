/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/csight/csight-internal.h"

/* No struct of options is as large: what is beyond it is an uninitialized size. */
enum { OPTIONS_MAX = 4096 };

int csight_options_read(void *ret, size_t known, const void *from)
{
	const uint8_t *bytes = from;
	size_t size;

	memset(ret, 0, known);
	if (!from)
		return 0;
	memcpy(&size, from, sizeof(size));
	if (size < sizeof(size) || size > OPTIONS_MAX)
		return -EINVAL;
	for (size_t i = known; i < size; i++)
		if (bytes[i])
			return -E2BIG;
	memcpy(ret, from, MIN(size, known));
	return 0;
}

int csight_options_write(void *ret, size_t known, const void *from)
{
	size_t size;

	memcpy(&size, ret, sizeof(size));
	if (size < sizeof(size) || size > OPTIONS_MAX)
		return -EINVAL;
	memset(ret, 0, size);
	memcpy(ret, from, MIN(size, known));
	memcpy(ret, &size, sizeof(size));
	return 0;
}

unsigned csight_version(void)
{
	return CSIGHT_VERSION;
}
