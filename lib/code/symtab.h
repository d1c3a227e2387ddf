/* SPDX-License-Identifier: MIT */
/* The table of functions, for symbols.c, which makes it, and symbols-*.c, which read what it is made of. */
#ifndef CSIGHT_CODE_SYMTAB_H
#define CSIGHT_CODE_SYMTAB_H

#include <string.h>

#include "lib/base/buf.h"
#include "lib/code/symbols.h"

enum { SYMBOLS_MAX = 8 << 20 };

#define NO_NAME UINT32_MAX

/* An interval of a function; a function that has another one inside has several. */
struct piece {
	uint64_t start, end;
	uint64_t function, function_end; /* the bounds of the piece with the entry of the function */
	uint32_t name;
	uint8_t rank; /* of several names of one address the lowest is chosen */
	bool plt;
	bool open; /* of unknown size: ends at end or at the next function */
};

struct symbols {
	struct piece *pieces; /* sorted; they do not overlap */
	size_t n;
	struct buf names;
};

struct pieces {
	struct piece *items;
	size_t n, capacity;
};

/* Returns true for the name of a place where a linker script begins or ends something, as __sched_text_start. */
static inline bool symbols_is_mark(const char *name)
{
	const char *last = strrchr(name, '_');

	return strcmp(last, "_start") == 0 || strcmp(last, "_end") == 0 || strcmp(last, "_begin") == 0;
}

/*
 * Of several symbols at one address, the one with the lowest rank names it: the name that the author of the code is
 * most likely to know.
 */
static inline uint8_t symbols_name_rank(bool global, bool weak, const char *name)
{
	uint8_t rank = global ? 0 : weak ? 1 : 2;

	if (name[0] != '_')
		return rank;
	return (uint8_t)(rank + (name[1] != '_' ? 3 : symbols_is_mark(name) ? 9 : 6));
}

int symbols_pieces_add(struct pieces *p, const struct piece *piece);
void symbols_pieces_done(struct pieces *p);

struct elf;

/* Adds the functions that a list of the kernel's symbols has in a copy of its memory. A damaged list has none. */
int symbols_add_kernel(struct symbols *s, const struct elf *e, int list, struct pieces *named);

/* Adds the stubs through which modules reach code that is far away. They are behind a module's last function. */
int symbols_add_kernel_stubs(struct symbols *s, struct elf *e, struct pieces *found);

/* Makes the table of functions with a name, and of those without one in the intervals between them. Sorts both. */
int symbols_make(struct symbols *s, struct pieces *named, struct pieces *nameless);

#endif
