/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <string.h>

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
enum { MANGLED_MAX = 2048, NAME_MAX_SHOWN = 480, REFERENCES_MAX = 40 };

struct text {
	char at[NAME_MAX_SHOWN + 2]; /* room for one character more than is shown */
	size_t size;
	jmp_buf full;
};

/* 300 bytes can stand for gigabytes of text: the demangler is left when there is more than is shown. */
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

static char *demangle_cpp(const char *name)
{
	struct text t;

	t.size = 0;
	if (strncmp(name, "_Z", 2) != 0 || is_endless(name) ||
	    (setjmp(t.full) == 0 && __gcclibcxx_demangle_callback(name, print_text, &t) != 0))
		return NULL;
	t.at[t.size] = 0;
	return strdup(t.at);
}

char *demangle_symbol(const char *name)
{
	_cleanup_free_ char *plain = NULL;
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
		name = plain;
	if (strnlen(name, NAME_MAX_SHOWN + 1) <= NAME_MAX_SHOWN)
		return strdup(name);
	ret = malloc(NAME_MAX_SHOWN + 4);
	if (!ret)
		return NULL;
	memcpy(ret, name, NAME_MAX_SHOWN);
	strcpy(ret + NAME_MAX_SHOWN, "...");
	return ret;
}
