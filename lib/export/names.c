/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/hash.h"
#include "lib/base/util.h"
#include "lib/export/names.h"

struct names_one {
	const char *full;
	char *text;    /* the short name; NULL: the full one */
	uint32_t next; /* of those with the same plain name */
	bool linked;   /* it is not the first of these */
	bool settled;  /* no other of these has this text */
	bool shared;   /* another one that is not settled has this text */
};

struct names {
	bool is_full;
	struct names_one *list;
	size_t n, capacity;
	struct hash by_full;
};

#define NO_NAME UINT32_MAX
/* What begins the end of a full name that was cut: only its beginning is known. */
#define CUT "..."
/* Only names that are made for it need more than two. */
enum { ROUNDS = 16 };

struct names *names_new(bool full)
{
	struct names *n = calloc(1, sizeof(*n));

	if (n)
		n->is_full = full;
	return n;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

/* Returns the size of "operator" with its symbol at text, such as operator<< or operator(); 0: no such. */
static size_t operator_size(const char *text, const char *start)
{
	static const char *const symbols[] = {
		"()", "<=>", "<<=", ">>=", "->*", "->", "<<", ">>", "<=", ">=", "<", ">"
	};
	size_t size = strlen("operator");

	if (strncmp(text, "operator", size) != 0 || (text > start && is_word(text[-1])) || is_word(text[size]))
		return 0;
	for (size_t i = 0; i < ELEMENTS(symbols); i++)
		if (strncmp(text + size, symbols[i], strlen(symbols[i])) == 0)
			return size + strlen(symbols[i]);
	return size;
}

/* Returns the end of the bracketed text that begins here; the end of the name where the bracket is not closed. */
static const char *skip_brackets(const char *at, const char *start)
{
	int depth = 0;
	size_t n;

	for (; *at; at++) {
		n = operator_size(at, start);
		if (n) {
			at += n - 1;
			continue;
		}
		depth += strchr("(<[{", *at) != NULL;
		/* The arrow of a type is no bracket. */
		if (strchr(")>]}", *at) && !(*at == '>' && at > start && at[-1] == '-') && --depth == 0)
			return at + 1;
	}
	return at;
}

/* Returns how a full name ends of which only the beginning is known: "...", or "...#01234567"; or NULL. */
static const char *find_cut(const char *name)
{
	size_t size = strlen(name), mark = strlen(CUT "#01234567");

	if (size > mark && strncmp(name + size - mark, CUT "#", strlen(CUT "#")) == 0)
		return name + size - mark;
	return size > strlen(CUT) && strcmp(name + size - strlen(CUT), CUT) == 0 ? name + size - strlen(CUT) : NULL;
}

/* Returns the length of a name without the hash that Rust's older scheme appends: "::h" and 16 hexadecimal digits. */
static size_t without_hash(const char *name)
{
	size_t size = strlen(name);
	const char *hash = name + size - MIN(size, (size_t)19);

	if (size <= 19 || strncmp(hash, "::h", 3) != 0)
		return size;
	return strspn(hash + 3, "0123456789abcdef") == 16 ? size - 19 : size;
}

/* Words that stand before the name of the function that they are about, as in "virtual thunk to f()". */
static bool is_about(const char *name, size_t size)
{
	return (size >= 3 && strncmp(name + size - 3, " to", 3) == 0) ||
	       (size >= 4 && strncmp(name + size - 4, " for", 4) == 0);
}

struct shortening {
	const char *start;
	enum names_level level;
	struct buf out;
	size_t begin; /* in out: where the name begins, after its return type */
	bool in_operator;
	const char *mark; /* how a full name ends that was cut, or NULL */
	bool cut;         /* the full name was cut within a bracket, and the short name lacks what follows */
};

/* Copies text without what stands in brackets of this kind. */
static void copy_without(struct buf *out, const char *text, size_t size, char bracket)
{
	_cleanup_free_ char *copy = strndup(text, size);

	for (const char *at = copy; at && *at;)
		if (*at == bracket)
			at = skip_brackets(at, copy);
		else
			buf_u8(out, (uint8_t)*at++);
}

/* Copies template arguments without those of the standard library that are usually the default. */
static void copy_arguments(struct buf *out, const char *text, size_t size)
{
	static const char *const defaults[] = { ", std::allocator<", ", std::char_traits<", ", std::less<",
						", std::default_delete<" };
	_cleanup_free_ char *copy = strndup(text, size);

	for (const char *at = copy; at && *at;) {
		size_t skip = 0;

		for (size_t i = 0; i < ELEMENTS(defaults); i++)
			if (strncmp(at, defaults[i], strlen(defaults[i])) == 0)
				skip = strlen(defaults[i]) - 1;
		/* "A<B<int>, std::allocator<int> >" becomes "A<B<int>>". */
		if (skip)
			at = skip_brackets(at + skip, copy);
		else if (at[0] == ' ' && at[1] == '>')
			at++;
		else
			buf_u8(out, (uint8_t)*at++);
	}
}

/* Copies parameters without template arguments and without the scopes of types. */
static void copy_parameters(struct buf *out, const char *text, size_t size)
{
	_cleanup_free_ char *copy = strndup(text, size);

	for (const char *at = copy; at && *at;) {
		if (*at == '<') {
			at = skip_brackets(at, copy);
		} else if (at[0] == ':' && at[1] == ':' && is_word(at[2])) {
			while (out->size && is_word((char)out->data[out->size - 1]))
				out->size--;
			at += 2;
		} else {
			buf_u8(out, (uint8_t)*at++);
		}
	}
}

static bool ends_in(const struct buf *b, const char *end)
{
	size_t size = strlen(end);

	return b->size >= size && memcmp(b->data + b->size - size, end, size) == 0;
}

/* Handles a bracket; returns where to go on. */
static const char *take_bracket(struct shortening *s, const char *at)
{
	const char *after = skip_brackets(at, s->start);
	size_t size = (size_t)(after - at);
	char before = s->out.size ? (char)s->out.data[s->out.size - 1] : ' ';
	/* What is not attached to a name is a name: "(anonymous namespace)", "<Type as Trait>". */
	bool attached = s->in_operator || is_word(before) || strchr(">)]}", before);

	if (*at == '[' && strncmp(at, "[abi:", 5) == 0)
		return after;
	/* If the full name was cut within this bracket so is the short name, unless it omits these parameters. */
	s->cut = s->mark && !*after && (*at != '(' || s->level == NAMES_PARAMETERS);
	if (*at == '<' && !attached && s->level != NAMES_ARGUMENTS) {
		if (!ends_in(&s->out, "::") || strncmp(at, "<impl", 5) == 0) {
			buf_u8(&s->out, '<');
			copy_without(&s->out, at + 1, size - 1, '<');
		} else {
			/* "name::<Type>" of Rust */
			s->out.size -= 2;
		}
	} else if (*at == '<' && s->level != NAMES_ARGUMENTS) {
		return after;
	} else if (*at == '(' && attached) {
		if (s->level != NAMES_PARAMETERS)
			return after;
		copy_parameters(&s->out, at, size);
	} else if (*at == '{' && s->level != NAMES_PARAMETERS) {
		copy_without(&s->out, at, size, '(');
	} else if (*at == '<') {
		copy_arguments(&s->out, at, size);
	} else {
		buf_add(&s->out, at, size);
	}
	return after;
}

/* A space ends a return type, or begins the qualifiers after the parameters. */
static const char *take_space(struct shortening *s, const char *at)
{
	static const char *const qualifiers[] = { " const", " volatile", " &", " &&", " noexcept" };

	for (size_t i = 0; i < ELEMENTS(qualifiers); i++) {
		size_t size = strlen(qualifiers[i]);

		if (strncmp(at, qualifiers[i], size) != 0 || is_word(at[size]))
			continue;
		/* After a return type, "T const& f()", the name follows. */
		if (s->level == NAMES_PARAMETERS && (!at[size] || at[size] == ' ' || at[size] == '['))
			buf_add(&s->out, at, size);
		at += size + strspn(at + size, "&*");
		return at;
	}
	if (s->in_operator || strncmp(at, " [clone ", 8) == 0 ||
	    is_about((const char *)s->out.data + s->begin, s->out.size - s->begin)) {
		buf_u8(&s->out, ' ');
		if (!s->in_operator && at[1] != '[')
			s->begin = s->out.size;
	} else if (strncmp(at, " to ", 4) == 0 || strncmp(at, " for ", 5) == 0 || strncmp(at, " thunk", 6) == 0 ||
		   strncmp(at, " variable", 9) == 0) {
		buf_u8(&s->out, ' ');
	} else {
		s->out.size = s->begin;
	}
	return at + 1;
}

char *names_shorten(const char *full, enum names_level level)
{
	struct shortening s = { .start = full, .level = level };
	size_t size = level == NAMES_FULL ? strlen(full) : without_hash(full), n;
	_cleanup_free_ char *whole = strndup(full, size);

	/* Names in brackets are placeholders; those of Objective-C begin with a sign. */
	if (!whole || level == NAMES_FULL || !strpbrk(full, "(<") || strchr("[-+", *full))
		return TAKE_PTR(whole);
	s.start = whole;
	s.mark = find_cut(whole);
	for (const char *at = whole; *at;) {
		n = operator_size(at, whole);
		if (n) {
			buf_add(&s.out, at, n);
			at += n;
			s.in_operator = true;
		} else if (strchr("(<[{", *at)) {
			/* "operator< <int>(...)" has its parameters after the arguments. */
			bool stays = s.in_operator && *at == '<';

			at = take_bracket(&s, at);
			s.in_operator = stays;
		} else if (*at == ' ') {
			at = take_space(&s, at);
		} else {
			buf_u8(&s.out, (uint8_t)*at++);
		}
	}
	while (s.out.size && s.out.data[s.out.size - 1] == ' ')
		s.out.size--;
	if (s.cut && !ends_in(&s.out, s.mark))
		buf_add(&s.out, s.mark, strlen(s.mark));
	buf_u8(&s.out, 0);
	if (buf_error(&s.out) || s.out.size < 2) {
		buf_done(&s.out);
		return TAKE_PTR(whole);
	}
	return (char *)s.out.data;
}

static int find_text(const struct names *n, struct hash *h, const char *text, uint32_t **ret)
{
	uint64_t key = hash_bytes(text, strlen(text));
	int rc;

	for (uint64_t i = 0;; i++) {
		const struct names_one *one;

		rc = hash_find(h, key, i, ret);
		if (rc != 0)
			return rc;
		one = &n->list[**ret];
		if (strcmp(one->text ? one->text : one->full, text) == 0)
			return 0;
	}
}

int names_add(struct names *n, const char *full)
{
	uint32_t *index;
	int rc;

	if (array_reserve(n->list, n->n, &n->capacity) < 0)
		return -ENOMEM;
	rc = find_text(n, &n->by_full, full, &index);
	if (rc != 1)
		return rc;
	*index = (uint32_t)n->n;
	n->list[n->n++] = (struct names_one){ .full = full, .next = NO_NAME };
	return 0;
}

int names_add_store(struct names *n, const struct store *s)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < store_functions(s); i++)
		rc = names_add(n, store_function(s, i)->name);
	return rc;
}

/* Sets the texts of the names that are linked from first on and not settled. Settles those that no other one has. */
static int settle(struct names *n, uint32_t first, enum names_level level)
{
	_cleanup_(hash_done) struct hash h = { 0 };
	uint32_t *index;
	int rc = 0;

	for (uint32_t i = first; i != NO_NAME; i = n->list[i].next) {
		struct names_one *one = &n->list[i];

		if (one->settled)
			continue;
		free(one->text);
		one->text = names_shorten(one->full, level);
		if (!one->text)
			return -ENOMEM;
		one->shared = false;
		rc = find_text(n, &h, one->text, &index);
		if (rc < 0)
			return rc;
		if (rc == 1)
			*index = i;
		else
			one->shared = n->list[*index].shared = true;
	}
	for (uint32_t i = first; i != NO_NAME; i = n->list[i].next)
		n->list[i].settled = n->list[i].settled || !n->list[i].shared;
	return 0;
}

/* Gives each of a group of names that share their plain form the first level at which it differs. */
static int separate(struct names *n, uint32_t first)
{
	int rc = 0;

	for (unsigned level = NAMES_PARAMETERS; rc == 0 && level < NAMES_LEVELS; level++)
		rc = settle(n, first, level);
	return rc;
}

/* Links names of one plain form to groups, and separates those. */
static int group_names(struct names *n)
{
	_cleanup_(hash_done) struct hash plain = { 0 };
	uint32_t *first;
	int rc = 0;

	for (uint32_t i = 0; rc >= 0 && i < n->n; i++) {
		n->list[i].text = names_shorten(n->list[i].full, NAMES_PLAIN);
		if (!n->list[i].text)
			return -ENOMEM;
		rc = find_text(n, &plain, n->list[i].text, &first);
		if (rc == 1) {
			*first = i;
		} else if (rc == 0) {
			n->list[i].next = n->list[*first].next;
			n->list[*first].next = i;
			n->list[i].linked = true;
		}
	}
	for (uint32_t i = 0; rc >= 0 && i < n->n; i++)
		if (!n->list[i].linked && n->list[i].next != NO_NAME)
			rc = separate(n, i);
	return MIN(rc, 0);
}

/* Lets names that look like those of another group be the full ones. Returns how many those are. */
static int separate_groups(struct names *n)
{
	_cleanup_(hash_done) struct hash all = { 0 };
	uint32_t *other;
	int rc = 0, found = 0;

	for (uint32_t i = 0; rc >= 0 && i < n->n; i++) {
		rc = find_text(n, &all, n->list[i].text ? n->list[i].text : n->list[i].full, &other);
		if (rc == 1) {
			*other = i;
		} else if (rc == 0) {
			struct names_one *one = n->list[i].text ? &n->list[i] : &n->list[*other];

			found++;
			free(one->text);
			one->text = NULL;
			/* The entry in the table is stale now: the next round finds what remains. */
		}
	}
	return rc < 0 ? rc : found;
}

int names_finish(struct names *n)
{
	int rc = n->is_full ? 0 : group_names(n);

	/* Each round makes at least one more name full, and full names differ. */
	for (unsigned i = 0; i < ROUNDS && rc >= 0 && !n->is_full; i++) {
		rc = separate_groups(n);
		if (rc == 0)
			return 0;
	}
	n->is_full = true;
	return MIN(rc, 0);
}

const char *names_short(const struct names *n, const char *full)
{
	uint64_t key;

	if (!n || n->is_full)
		return full;
	key = hash_bytes(full, strlen(full));
	for (uint64_t i = 0;; i++) {
		const uint32_t *index = hash_get(&n->by_full, key, i);

		if (!index)
			return full;
		if (strcmp(n->list[*index].full, full) == 0)
			return n->list[*index].text ? n->list[*index].text : full;
	}
}

struct names *names_free(struct names *n)
{
	for (size_t i = 0; n && i < n->n; i++)
		free(n->list[i].text);
	if (n) {
		free(n->list);
		hash_done(&n->by_full);
	}
	free(n);
	return NULL;
}
