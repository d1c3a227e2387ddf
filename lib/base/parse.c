/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/parse.h"

/* The strto…() functions skip blanks and accept signs. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret)
{
	long long v;
	char *end;

	if (!is_digit(text[*text == '-']))
		return -EINVAL;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno || *end || v < min || v > max)
		return -EINVAL;
	*ret = v;
	return 0;
}

int parse_u64(const char *text, uint64_t max, uint64_t *ret)
{
	/* A leading 0 alone does not mean octal. */
	int base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
	unsigned long long v;
	char *end;

	if (!is_digit(*text))
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, base);
	if (errno || *end || v > max)
		return -EINVAL;
	*ret = v;
	return 0;
}

int parse_digits(const char **text, uint32_t limit, uint32_t *ret)
{
	uint32_t v = 0;

	if (!is_digit(**text))
		return -EINVAL;
	for (; is_digit(**text); (*text)++) {
		v = 10 * v + (uint32_t)(**text - '0');
		if (v >= limit)
			return -EINVAL;
	}
	*ret = v;
	return 0;
}

int parse_ranges(const char *text, bool *ret, uint32_t n)
{
	while (*text) {
		uint32_t first, last;

		if (parse_digits(&text, n, &first) < 0)
			return -EINVAL;
		last = first;
		if (*text == '-' && (text++, parse_digits(&text, n, &last) < 0))
			return -EINVAL;
		if (last < first)
			return -EINVAL;
		for (uint32_t i = first; i <= last; i++)
			ret[i] = true;
		if (*text == ',')
			text++;
		else if (*text)
			return -EINVAL;
	}
	return 0;
}

int parse_size(const char *text, uint64_t *ret)
{
	static const char units[] = "KMGT";
	unsigned long long v;
	const char *unit;
	char *end;

	if (!is_digit(*text))
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (errno || (*end && !unit) || (unit && end[1]))
		return -EINVAL;
	if (__builtin_mul_overflow(v, unit ? 1ull << (10 * (unit - units + 1)) : 1, &v))
		return -EINVAL;
	*ret = v;
	return 0;
}
