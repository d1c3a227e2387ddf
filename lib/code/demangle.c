/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/util.h"
#include "lib/code/demangle.h"

/* Declared here, since <cxxabi.h> is for C++ only. libstdc++ is linked anyway, for OpenCSD. */
extern char *__cxa_demangle(const char *mangled, char *buffer, size_t *size, int *status);

/* Longer names are truncated: they slow down demangling, and their tail does not help a reader. */
enum { MANGLED_MAX = 2048, NAME_MAX_SHOWN = 480 };

char *demangle_symbol(const char *name)
{
	_cleanup_free_ char *plain = NULL;
	int status;
	char *ret;

	if (strnlen(name, MANGLED_MAX) < MANGLED_MAX) {
		plain = demangle_rust(name);
		if (!plain)
			plain = demangle_ocaml(name);
		if (!plain)
			plain = demangle_d(name);
		if (!plain)
			plain = demangle_go(name);
		if (!plain && strncmp(name, "_Z", 2) == 0)
			plain = __cxa_demangle(name, NULL, NULL, &status);
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
