/* Names of OCaml and Go, which are readable but for what assemblers do not take. */
#include <ctype.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/hex.h"
#include "lib/code/demangle.h"

static bool hex_byte(const char *at, char *ret)
{
	int high = at[0] ? hex_digit(at[0]) : -1, low = high >= 0 ? hex_digit(at[1]) : -1;

	if (low < 0)
		return false;
	*ret = (char)(high << 4 | low);
	return isprint((unsigned char)*ret);
}

/* The number that makes a name one of its unit's; an anonymous function has nothing else to tell it by. */
static size_t without_number(const char *name, size_t size)
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
	bool apart = false;

	/* What begins with a small letter is the runtime's. */
	if (strncmp(name, "caml", 4) != 0 || !isupper((unsigned char)name[4]))
		return NULL;
	name += 4;
	size = without_number(name, strlen(name));
	ret = malloc(size + 1);
	if (!ret)
		return NULL;
	for (size_t i = 0; i < size; i++) {
		if (i && i + 2 < size && name[i] == '_' && name[i + 1] == '_' && name[i + 2] != '_') {
			ret[n++] = '.';
			apart = true;
			i++;
		} else if (name[i] == '$' && i + 2 < size && hex_byte(name + i + 1, &ret[n])) {
			n++;
			i += 2;
		} else {
			apart = apart || name[i] == '.';
			ret[n++] = name[i];
		}
	}
	ret[n] = 0;
	return apart ? TAKE_PTR(ret) : NULL;
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
