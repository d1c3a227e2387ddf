/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/format.h"
#include "client/terminal.h"
#include "lib/base/duration.h"
#include "lib/base/util.h"

enum { TEXT_SIZE = 64 };

static char *next_text(void)
{
	static char store[8][TEXT_SIZE];
	static unsigned turn;

	return store[turn++ % 8];
}

const char *format_count(uint64_t n)
{
	char *text = next_text(), digits[24];
	int size = snprintf(digits, sizeof(digits), "%" PRIu64, n), out = 0;

	for (int i = 0; i < size; i++) {
		if (i && (size - i) % 3 == 0)
			text[out++] = ',';
		text[out++] = digits[i];
	}
	text[out] = 0;
	return text;
}

const char *format_calls(uint64_t n, bool uncertain)
{
	char *text = next_text();

	snprintf(text, TEXT_SIZE, "%s%s", uncertain ? "~" : "", format_count(n));
	return text;
}

const char *format_plural(uint64_t n, const char *noun)
{
	char *text = next_text();

	snprintf(text, TEXT_SIZE, "%s %s%s", format_count(n), noun, n == 1 ? "" : "s");
	return text;
}

const char *format_size(uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	char *text = next_text();
	double v = (double)bytes;
	size_t unit = 0;

	while (v >= 1024 && unit + 1 < ELEMENTS(units)) {
		v /= 1024;
		unit++;
	}
	snprintf(text, TEXT_SIZE, unit ? "%.1f %s" : "%.0f %s", v, units[unit]);
	return text;
}

const char *format_duration(uint64_t ns)
{
	return duration_text(ns, 0, next_text());
}

const char *format_duration_within(uint64_t ns, uint64_t bound)
{
	return duration_text(ns, bound, next_text());
}

const char *format_time(uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000u);
	char *text = next_text();
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || strftime(text, TEXT_SIZE, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		snprintf(text, TEXT_SIZE, "?");
	return text;
}

const char *format_time_exact(uint64_t ns)
{
	const char *seconds = format_time(ns);
	char *text = next_text();

	snprintf(text, TEXT_SIZE, "%s.%06u", seconds, (unsigned)(ns / 1000 % 1000000));
	return text;
}

const char *format_function_kind(enum region_kind kind)
{
	return kind == REGION_INLINED ? " (inlined)" : kind == REGION_SYSCALL ? " (system call)" : "";
}

const char *format_style(FILE *f, enum format_style style)
{
	static const char *const codes[] = { "\033[0m", "\033[1m", "\033[32m", "\033[31m", "\033[33m", "\033[2m" };
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	if ((none && *none) || !term || strcmp(term, "dumb") == 0 || !terminal_is(f))
		return "";
	return codes[style];
}
