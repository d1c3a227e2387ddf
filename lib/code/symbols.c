/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/array.h"
#include "lib/code/demangle.h"
#include "lib/code/symtab.h"

int symbols_pieces_add(struct pieces *l, const struct piece *p)
{
	int rc = l->n < 2 * (size_t)SYMBOLS_MAX ? array_reserve(l->items, l->n, &l->capacity) : -EFBIG;

	if (rc == 0)
		l->items[l->n++] = *p;
	return rc;
}

void symbols_pieces_done(struct pieces *l)
{
	free(l->items);
}

static const char *piece_name(const struct symbols *s, const struct piece *p)
{
	return p->name != NO_NAME ? (const char *)s->names.data + p->name : "";
}

static int compare_pieces(const void *a, const void *b, void *user)
{
	const struct piece *x = a, *y = b;
	const struct symbols *s = user;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return strcmp(piece_name(s, x), piece_name(s, y));
}

/* Unites symbols of one address; a function without a size ends at the next one. */
static void unite_aliases(struct pieces *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct piece *last = n ? &l->items[n - 1] : NULL;

		if (!last || last->start != l->items[i].start) {
			l->items[n++] = l->items[i];
		} else if (last->open == l->items[i].open) {
			last->end = MAX(last->end, l->items[i].end);
		} else if (last->open) {
			last->end = l->items[i].end;
			last->open = false;
		}
	}
	l->n = n;
	for (size_t i = 0; i < n; i++) {
		if (l->items[i].open && i + 1 < n)
			l->items[i].end = MIN(l->items[i].end, l->items[i + 1].start);
	}
}

static int flatten_piece(struct pieces *out, const struct piece *from, uint64_t start, uint64_t end)
{
	struct piece p = *from;

	if (start >= end)
		return 0;
	p.function = from->start;
	p.function_end = from->end;
	p.start = start;
	p.end = end;
	return symbols_pieces_add(out, &p);
}

/* Splits overlapping functions so that an address has one: the one with the last start at or before it. */
static int flatten(const struct pieces *in, struct pieces *out)
{
	_cleanup_free_ uint32_t *stack = malloc((in->n + 1) * sizeof(*stack));
	uint64_t at = 0;
	size_t depth = 0;

	if (!stack)
		return -ENOMEM;
	for (size_t i = 0; i <= in->n; i++) {
		uint64_t start = i < in->n ? in->items[i].start : UINT64_MAX;

		while (depth) {
			uint32_t top = stack[depth - 1];
			uint64_t end = MIN(in->items[top].end, start);
			int rc = flatten_piece(out, &in->items[top], at, end);

			if (rc < 0)
				return rc;
			at = MAX(at, end);
			if (in->items[top].end > start)
				break;
			depth--;
		}
		at = start;
		stack[depth++] = (uint32_t)i;
	}
	return 0;
}

struct named {
	const char *name;
	size_t length;
	const struct piece *piece; /* NULL: several functions have the name */
};

static int compare_named(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = memcmp(x->name, y->name, MIN(x->length, y->length));

	return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* Where the suffix .cold of a name begins, of which a number may follow; NULL: it has none. */
static const char *find_cold(const char *name)
{
	const char *found = name;

	while ((found = strstr(found, ".cold")) && found[5] && found[5] != '.')
		found++;
	return found;
}

/*
 * gcc moves code that it expects to run rarely into NAME.cold, which is entered by a jump and jumps back: it is part of
 * the same function. Where several functions have the name, the function is ambiguous and NAME.cold stays apart.
 */
static int merge_cold_parts(struct symbols *s)
{
	_cleanup_free_ struct named *names = NULL;
	size_t colds = 0, n = 0;

	for (size_t i = 0; i < s->n; i++)
		colds += find_cold(piece_name(s, &s->pieces[i])) != NULL;
	if (!colds)
		return 0;
	names = malloc(s->n * sizeof(*names));
	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		const char *name = piece_name(s, &s->pieces[i]);

		names[i] = (struct named){ name, strlen(name), &s->pieces[i] };
	}
	qsort(names, s->n, sizeof(*names), compare_named);
	/* Keep one of each name, without a piece if it is ambiguous. */
	for (size_t i = 0; i < s->n; i++) {
		if (!n || compare_named(&names[n - 1], &names[i]) != 0)
			names[n++] = names[i];
		else if (names[n - 1].piece && names[n - 1].piece->function != names[i].piece->function)
			names[n - 1].piece = NULL;
	}
	for (size_t i = 0; i < s->n; i++) {
		const char *name = piece_name(s, &s->pieces[i]), *cold = find_cold(name);
		struct named key = { name, cold ? (size_t)(cold - name) : 0, NULL }, *found;

		found = key.length ? bsearch(&key, names, n, sizeof(*names), compare_named) : NULL;
		if (!found || !found->piece)
			continue;
		s->pieces[i].name = found->piece->name;
		s->pieces[i].function = found->piece->function;
		s->pieces[i].function_end = found->piece->function_end;
	}
	return 0;
}

/* Returns the number of pieces that start at or before offset. */
static size_t count_until(const struct piece *pieces, size_t n, uint64_t offset)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (pieces[middle].start <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Adds functions without a name in the intervals between those with one. */
static int fill_gaps(struct symbols *s, struct pieces *flat, struct pieces *nameless)
{
	size_t n = flat->n;
	int rc = 0;

	if (!nameless->n)
		return 0;
	qsort_r(nameless->items, nameless->n, sizeof(*nameless->items), compare_pieces, s);
	for (size_t i = 0; rc == 0 && i < nameless->n; i++) {
		struct piece p = nameless->items[i];
		size_t k = count_until(flat->items, n, p.start);

		if (k && p.start < flat->items[k - 1].end)
			continue;
		if (k < n)
			p.end = MIN(p.end, flat->items[k].start);
		if (i + 1 < nameless->n)
			p.end = MIN(p.end, nameless->items[i + 1].start);
		rc = flatten_piece(flat, &p, p.start, p.end);
	}
	if (rc == 0)
		qsort_r(flat->items, flat->n, sizeof(*flat->items), compare_pieces, s);
	return rc;
}

int symbols_make(struct symbols *s, struct pieces *named, struct pieces *nameless)
{
	_cleanup_(symbols_pieces_done) struct pieces flat = { 0 };
	int rc;

	if (named->n)
		qsort_r(named->items, named->n, sizeof(*named->items), compare_pieces, s);
	unite_aliases(named);
	rc = flatten(named, &flat);
	if (rc == 0)
		rc = fill_gaps(s, &flat, nameless);
	if (rc < 0)
		return rc;
	s->pieces = TAKE_PTR(flat.items);
	s->n = flat.n;
	return merge_cold_parts(s);
}

struct symbols *symbols_free(struct symbols *s)
{
	if (!s)
		return NULL;
	free(s->pieces);
	buf_done(&s->names);
	free(s);
	return NULL;
}

size_t symbols_count(const struct symbols *s)
{
	return s->n;
}

void symbols_find(const struct symbols *s, uint64_t offset, struct symbols_at *ret)
{
	size_t k = count_until(s->pieces, s->n, offset);
	const struct piece *p = k ? &s->pieces[k - 1] : NULL;

	if (!p || offset >= p->end) {
		*ret =
		    (struct symbols_at){ .start = p ? p->end : 0, .end = k < s->n ? s->pieces[k].start : UINT64_MAX };
		ret->function = ret->start;
		ret->function_end = ret->end;
		return;
	}
	*ret = (struct symbols_at){ .start = p->start,
				    .end = p->end,
				    .known = true,
				    .name = p->name != NO_NAME ? piece_name(s, p) : NULL,
				    .plt = p->plt,
				    .function = p->function,
				    .function_end = p->function_end };
}

static int has_name(const struct symbols *s, const struct piece *p, const char *name)
{
	_cleanup_free_ char *readable = NULL;

	if (p->name == NO_NAME || p->plt)
		return 0;
	if (strcmp(piece_name(s, p), name) == 0)
		return 1;
	readable = demangle_symbol(piece_name(s, p));
	return readable ? strcmp(readable, name) == 0 : -ENOMEM;
}

int symbols_named(const struct symbols *s, const char *name, struct symbols_at *ret)
{
	const struct piece *found = NULL;

	for (size_t k = 0; k < s->n; k++) {
		const struct piece *p = &s->pieces[k];
		int rc = has_name(s, p, name);

		if (rc < 0)
			return rc;
		if (rc && found && found->function != p->function)
			return -ENOTUNIQ;
		if (rc)
			found = p;
	}
	if (!found)
		return -ENOENT;
	symbols_find(s, found->function, ret);
	return 0;
}
