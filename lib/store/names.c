/* SPDX-License-Identifier: MIT */
/* Names of functions as users type them. */
#include <fnmatch.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/store/store.h"

size_t store_plain_name(const char *name, size_t size)
{
	size_t end = size, at;
	int depth = 0;

	while (end && name[end - 1] != ')')
		end--;
	for (at = end; at; at--) {
		depth += name[at - 1] == ')';
		depth -= name[at - 1] == '(';
		if (depth == 0)
			break;
	}
	/* What follows a parameter list is a qualifier such as const; in Go, main.(*type).method has none. */
	return at > 1 && !memchr(name + end, ':', size - end) && (end == size || name[end] != '.') ? at - 1 : size;
}

static bool match_part(const char *name, size_t size, const char *pattern)
{
	_cleanup_free_ char *part = strndup(name, size);

	return part && (strcmp(part, pattern) == 0 || fnmatch(pattern, part, 0) == 0);
}

bool store_name_matches(const char *name, const char *pattern)
{
	size_t all = strlen(name), base = store_base_name(name), plain = store_plain_name(name, base);
	_cleanup_free_ char *wanted = NULL;

	if (match_part(name, all, pattern) || (base != all && match_part(name, base, pattern)) ||
	    (plain != base && match_part(name, plain, pattern)))
		return true;
	/* The name of a clone matches its function where clones are merged. */
	if (base != all || store_base_name(pattern) == strlen(pattern))
		return false;
	wanted = strndup(pattern, store_base_name(pattern));
	return wanted && (match_part(name, base, wanted) || match_part(name, plain, wanted));
}
