/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/client.h"
#include "client/function-name.h"
#include "client/similar.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"

enum { SUGGESTIONS = 3 };

struct suggestion {
	const char *name;
	size_t size;
	unsigned distance;
};

/*
 * Returns how far a name is from what was typed: also from a later part on, and as far as the limit if it contains
 * that.
 */
static unsigned name_distance(const char *name, size_t size, const char *typed, unsigned limit)
{
	size_t typed_size = strlen(typed);
	unsigned best = similar_distance(name, size, typed, typed_size, limit);

	for (size_t i = 1; i < size; i++) {
		bool begins = strchr(":./_", name[i - 1]) != NULL;

		if (begins)
			best = MIN(best, similar_distance(name + i, size - i, typed, typed_size, limit));
		if (typed_size >= 3 && typed_size <= size - i && strncasecmp(name + i, typed, typed_size) == 0)
			best = MIN(best, limit);
	}
	return typed_size >= 3 && strncasecmp(name, typed, typed_size) == 0 ? MIN(best, limit) : best;
}

/* Adds a name to the best ones, ordered by distance. */
static void suggest_name(struct suggestion *list, size_t *n, const struct suggestion *name)
{
	size_t at = 0;

	while (at < *n && list[at].distance <= name->distance)
		at++;
	for (size_t i = 0; i < *n; i++)
		if (list[i].size == name->size && memcmp(list[i].name, name->name, name->size) == 0)
			return;
	if (at == SUGGESTIONS)
		return;
	*n = MIN(*n + 1, (size_t)SUGGESTIONS);
	memmove(&list[at + 1], &list[at], (*n - at - 1) * sizeof(*list));
	list[at] = *name;
}

static void suggest_from(const struct store *s, const char *typed, struct suggestion *list, size_t *n)
{
	unsigned limit = (unsigned)MAX(strlen(typed) / 3, (size_t)1);

	for (size_t i = 0; i < store_functions(s); i++) {
		const struct store_function *f = store_function(s, i);
		struct suggestion name = { f->name, store_plain_name(f->name, store_base_name(f->name)), 0 };

		/* A name in brackets is an address. */
		if (!f->calls || f->name[0] == '[' || name.size > SIMILAR_MAX)
			continue;
		name.distance = name_distance(name.name, name.size, typed, limit);
		if (name.distance <= limit)
			suggest_name(list, n, &name);
	}
}

void function_name_suggest(const char *pattern, const struct store *const *stores, size_t n)
{
	const char *where = n > 1 ? "either snapshot" : "this trace";
	struct suggestion list[SUGGESTIONS];
	_cleanup_(buf_done) struct buf names = { 0 };
	_cleanup_free_ char *typed = strdup(pattern);
	size_t found = 0, size = 0;

	if (!typed)
		return;
	for (const char *from = pattern; *from; from++)
		if (!strchr("*?[]", *from))
			typed[size++] = *from;
	typed[size] = 0;
	typed[store_plain_name(typed, size)] = 0;
	for (size_t i = 0; *typed && i < n; i++)
		suggest_from(stores[i], typed, list, &found);
	/* Only names about as similar as the best one. */
	while (found && list[found - 1].distance > list[0].distance + 1)
		found--;
	for (size_t i = 0; i < found; i++)
		buf_printf(&names, "%s'%.*s'",
			   !i              ? ""
			   : i + 1 < found ? ", "
					   : " or ",
			   (int)list[i].size, list[i].name);
	buf_u8(&names, 0);
	if (found && buf_error(&names) == 0)
		client_error("no function '%s' ran in %s; did you mean %s?", esc(pattern), where,
			     esc((const char *)names.data));
	else
		client_error("no function '%s' ran in %s; 'csight report --limit=0' lists the functions that ran",
			     esc(pattern), where);
}
