/*
 * Which function a piece of code was written as, and what was inlined there: by the DWARF of a file, or of its debug
 * file. Offsets are those of the file itself, as in lib/code/symbols.h.
 *
 * A unit's part is read when something of it is first asked for, and is a table from then on. Any thread may ask.
 * Files are hostile: a cut, lying or looping one gives an error or fewer answers, never a crash.
 */
#ifndef CSIGHT_CODE_INLINES_H
#define CSIGHT_CODE_INLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INLINES_MAX = 64 }; /* frames; what is inlined deeper is told as part of the last one */

struct inlines;

/* debug: its debug file, or -1. Both are read here alone. -ENODATA: there is no DWARF; else as symbols_load(). */
int inlines_load(int fd, int debug, struct inlines **ret);

/* The same when something is first asked, from descriptors of its own; where it fails then, nothing is known. */
int inlines_open_lazily(int fd, int debug, struct inlines **ret);
struct inlines *inlines_free(struct inlines *s);

static inline void inlines_freep(struct inlines **s)
{
	inlines_free(*s);
}

/* Texts live as long as the table; names are as the file has them, mangled, and all may be NULL, lines 0. */
struct inlines_frame {
	uint64_t instance; /* all that has this is one instance */
	uint64_t origin;   /* and all that has this are instances of one function; numbers of this table */
	const char *name;
	const char *file; /* where it is declared */
	uint32_t line;
	const char *call_file; /* where it is called in the frame around it; not of the outermost */
	uint32_t call_line;
};

struct inlines_at {
	uint64_t start, end; /* the same holds for all of these offsets */
	size_t n;            /* frames, outermost first; 0: nothing is known */
	struct inlines_frame frames[INLINES_MAX];
};

void inlines_find(struct inlines *s, uint64_t offset, struct inlines_at *ret);

#endif
