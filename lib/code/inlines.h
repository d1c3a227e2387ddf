/* SPDX-License-Identifier: MIT */
/*
 * The function that each piece of code of a file belongs to, and the functions inlined there, from the DWARF of the
 * file or of its debug file. Offsets are those of the file itself, as in lib/code/symbols.h.
 *
 * The DWARF of a compile unit is parsed at the first look-up in the unit. Any thread may look up. Files are hostile:
 * one that is truncated, inconsistent or cyclic causes an error or fewer results, never a crash.
 */
#ifndef CSIGHT_CODE_INLINES_H
#define CSIGHT_CODE_INLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INLINES_MAX = 64 }; /* frames in a result; deeper ones are left out */

struct inlines;

/*
 * Loads the DWARF of fd, or else of its debug file (-1: none). The descriptors are not used afterwards. -ENODATA: no
 * DWARF; else as symbols_load().
 */
int inlines_load(int fd, int debug, struct inlines **ret);

/*
 * Duplicates the descriptors; the first look-up loads the DWARF as inlines_load() does. If that fails, look-ups find
 * nothing, and inlines_error() is not 0 where there is DWARF.
 */
int inlines_open_lazily(int fd, int debug, struct inlines **ret);
int inlines_error(const struct inlines *s);
struct inlines *inlines_free(struct inlines *s);

static inline void inlines_freep(struct inlines **s)
{
	inlines_free(*s);
}

/* Strings live as long as the table, names are mangled. Each string may be NULL and each line 0: unknown. */
struct inlines_frame {
	uint64_t instance; /* identifies the inlined instance in this table */
	uint64_t origin;   /* identifies the function in this table: the same for all its instances */
	const char *name;
	const char *file; /* source file of the declaration */
	uint32_t line;
	const char *call_file; /* source file of the call, in the previous frame; of the outermost frame NULL */
	uint32_t call_line;
	bool uncertain; /* where a call of this instance begins is a guess */
};

struct inlines_at {
	uint64_t start, end; /* the interval of offsets in which the result is valid */
	size_t n_entries;    /* calls of inlined functions that begin when control reaches start: inlines_entry() */
	size_t n;            /* frames, outermost first; 0: unknown */
	struct inlines_frame frames[INLINES_MAX];
};

/* Finds the source file, which lives as long as the table, and line of the instruction at an offset. */
bool inlines_line(struct inlines *s, uint64_t offset, const char **ret_file, uint32_t *ret_line);

/* Looks up an offset. Always sets *ret, with start <= offset < end unless offset is UINT64_MAX. */
void inlines_find(struct inlines *s, uint64_t offset, struct inlines_at *ret);

/*
 * Sets *ret to the frames of one of the calls that begin at the start of the interval around offset, from 0 up to
 * n_entries, outer ones first. The instruction at start need not be in the function called.
 */
void inlines_entry(struct inlines *s, uint64_t offset, size_t number, struct inlines_at *ret);

#endif
