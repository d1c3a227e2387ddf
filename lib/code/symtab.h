/* What symbols.c (the table) and symbols-elf.c (where it comes from) share. */
#ifndef CSIGHT_CODE_SYMTAB_H
#define CSIGHT_CODE_SYMTAB_H

#include "lib/base/buf.h"
#include "lib/code/symbols.h"

enum { SYMBOLS_MAX = 8 << 20 };

#define NO_NAME UINT32_MAX

/* A piece of a function: one whose middle another symbol takes has several. */
struct piece {
	uint64_t start, end;
	uint64_t function, function_end; /* of the piece that has the function's entry */
	uint32_t name;
	uint8_t rank; /* among names of one address the lowest wins */
	bool plt;
	bool open; /* of unknown size: to end or the next function */
};

struct symbols {
	struct piece *pieces; /* sorted, without overlap */
	size_t n;
	struct buf names;
};

struct pieces {
	struct piece *items;
	size_t n, room;
};

int pieces_add(struct pieces *p, const struct piece *piece);
void pieces_done(struct pieces *p);

/* Makes the table: of what has a name, and of functions without one where there is nothing else. Sorts both. */
int symbols_make(struct symbols *s, struct pieces *named, struct pieces *nameless);

#endif
