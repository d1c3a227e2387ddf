/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "lib/base/util.h"
#include "lib/code/demangle.h"

/*
 * The demangler of libstdc++, which is linked anyway, for OpenCSD; declared in no header. It passes the text to print()
 * in pieces, and allocates no memory. Returns 0 if the name is valid.
 */
extern int __gcclibcxx_demangle_callback(const char *mangled, void (*print)(const char *text, size_t size, void *data),
					 void *data);

/*
 * Longer names are truncated: they slow down demangling, and their tail does not help a reader. Few names that
 * compilers make have as many references and a pack expansion; the worst name with so many takes 40 ms.
 */
enum { MANGLED_MAX = 2048, NAME_MAX_SHOWN = 2000, REFERENCES_MAX = 40, MARK_SIZE = sizeof("...#01234567") };

struct text {
	char at[NAME_MAX_SHOWN + 2]; /* room for one character more than is shown */
	size_t size;
	jmp_buf full;
};

/* Appends a piece; ends the demangling when there is more than is shown: 300 bytes can stand for gigabytes. */
static void print_text(const char *piece, size_t size, void *data)
{
	struct text *t = data;
	size_t room = sizeof(t->at) - 1 - t->size;

	memcpy(t->at + t->size, piece, MIN(size, room));
	t->size += MIN(size, room);
	if (size >= room)
		longjmp(t->full, 1);
}

/*
 * Returns whether libstdc++ could search the types of a name for ever. For what a pack expansion repeats it searches
 * each type as often as the name refers to it (S_, S0_), and of each of those the types that they refer to.
 */
static bool is_endless(const char *name)
{
	size_t references = 0;

	if (!strstr(name, "Dp") && !strstr(name, "sp"))
		return false;
	for (const char *at = name; (at = strchr(at, 'S')); at++)
		references += at[1 + strspn(at + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '_';
	return references > REFERENCES_MAX;
}

/*
 * In an unresolved name (sr), libstdc++ loops for ever at such a letter, unless one of the characters `followed` is
 * next: then a constructor, a destructor or an unnamed type begins. hide_stops() replaces the letter by `hidden`.
 */
static const struct {
	char letter, hidden;
	const char *followed;
} stops[] = { { 'C', 1, "12345I" }, { 'D', 2, "01245Tt" }, { 'U', 3, "lt" } };

/* Returns where the first expression of a name may begin, since an unresolved name is in one; or NULL. */
static char *find_expression(char *name)
{
	for (; *name; name++)
		if (*name == 'X' || (*name == 'D' && strspn(name + 1, "TtOv")) ||
		    (*name == 'A' && strspn(name + 1, "LTabcdefghijklmnopqrstuvwxyz")))
			return name;
	return NULL;
}

/* Replaces these letters. Within identifiers, where most are, it passes on what they are replaced by. */
static void hide_stops(char *name)
{
	char *at = find_expression(name);

	if (at)
		at = strstr(at, "sr");

	for (; at && *at; at++)
		for (size_t i = 0; i < ELEMENTS(stops); i++)
			if (*at == stops[i].letter && (!at[1] || !strchr(stops[i].followed, at[1])))
				*at = stops[i].hidden;
}

static void show_stops(char *text)
{
	for (; *text; text++)
		for (size_t i = 0; i < ELEMENTS(stops); i++)
			if (*text == stops[i].hidden)
				*text = stops[i].letter;
}

static char *demangle_cpp(const char *name)
{
	char copy[MANGLED_MAX];
	struct text t;

	t.size = 0;
	if (strncmp(name, "_Z", 2) != 0 || is_endless(name) || strpbrk(name, "\1\2\3"))
		return NULL;
	strcpy(copy, name);
	hide_stops(copy);
	if (setjmp(t.full) == 0 && __gcclibcxx_demangle_callback(copy, print_text, &t) != 0)
		return NULL;
	t.at[t.size] = 0;
	show_stops(t.at);
	return strdup(t.at);
}

char *demangle_symbol(const char *name)
{
	_cleanup_free_ char *plain = NULL;
	const char *shown = name;
	char *ret;

	if (strnlen(name, MANGLED_MAX) < MANGLED_MAX) {
		plain = demangle_rust(name);
		if (!plain)
			plain = demangle_ocaml(name);
		if (!plain)
			plain = demangle_d(name);
		if (!plain)
			plain = demangle_go(name);
		if (!plain)
			plain = demangle_cpp(name);
	}
	if (plain)
		shown = plain;
	if (strnlen(shown, NAME_MAX_SHOWN + 1) <= NAME_MAX_SHOWN)
		return strdup(shown);
	ret = malloc(NAME_MAX_SHOWN + MARK_SIZE);
	if (!ret)
		return NULL;
	memcpy(ret, shown, NAME_MAX_SHOWN);
	/* Different names stay different, and equal ones equal in all processes. */
	snprintf(ret + NAME_MAX_SHOWN, MARK_SIZE, "...#%08x", (uint32_t)crc32_z(0, (const Bytef *)name, strlen(name)));
	return ret;
}
