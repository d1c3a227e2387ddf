/* SPDX-License-Identifier: MIT */
/* Demangles OCaml and Go names, in which only characters that assemblers do not accept are escaped. */
#include <ctype.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/hex.h"
#include "lib/code/demangle.h"

/* Decodes a byte written as two hexadecimal digits. false: malformed, or not a printable character. */
static bool hex_byte(const char *at, char *ret)
{
	int high = at[0] ? hex_digit(at[0]) : -1, low = high >= 0 ? hex_digit(at[1]) : -1;

	if (low < 0)
		return false;
	*ret = (char)(high << 4 | low);
	return isprint((unsigned char)*ret);
}

/*
 * Returns the size of a name without the suffix _NUMBER, which makes it unique in its unit. Anonymous functions
 * (fun_123) keep it.
 */
static size_t size_without_number(const char *name, size_t size)
{
	size_t n = size;

	while (n && isdigit((unsigned char)name[n - 1]))
		n--;
	if (n == size || n < 2 || name[n - 1] != '_')
		return size;
	n--;
	return n >= 3 && memcmp(name + n - 3, "fun", 3) == 0 && (n == 3 || name[n - 4] == '_' || name[n - 4] == '.')
		   ? size
		   : n;
}

char *demangle_ocaml(const char *name)
{
	_cleanup_free_ char *ret = NULL;
	size_t size, n = 0;
	bool has_module = false;

	/* Functions of the OCaml runtime continue with a lower-case letter or an underscore. */
	if (strncmp(name, "caml", 4) != 0 || !isupper((unsigned char)name[4]))
		return NULL;
	name += 4;
	size = size_without_number(name, strlen(name));
	ret = malloc(size + 1);
	if (!ret)
		return NULL;
	for (size_t i = 0; i < size; i++) {
		if (i && i + 2 < size && name[i] == '_' && name[i + 1] == '_' && name[i + 2] != '_') {
			ret[n++] = '.';
			has_module = true;
			i++;
		} else if (name[i] == '$' && i + 2 < size && hex_byte(name + i + 1, &ret[n])) {
			n++;
			i += 2;
		} else {
			has_module = has_module || name[i] == '.';
			ret[n++] = name[i];
		}
	}
	ret[n] = 0;
	return has_module ? TAKE_PTR(ret) : NULL;
}

char *demangle_go(const char *name)
{
	char *ret;
	size_t n = 0;

	if (!strchr(name, '%') || !strchr(name, '/') || !strchr(name, '.'))
		return NULL;
	ret = malloc(strlen(name) + 1);
	if (!ret)
		return NULL;
	for (; *name; name++) {
		if (*name == '%' && hex_byte(name + 1, &ret[n]))
			name += 2;
		else
			ret[n] = *name;
		n++;
	}
	ret[n] = 0;
	return ret;
}
