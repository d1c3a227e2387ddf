/* SPDX-License-Identifier: MIT */
/*
 * The function table of one file, in file offsets, so that one table serves all mappings of the file.
 *
 * Files are hostile: one that is truncated or inconsistent causes an error or fewer names, never a crash. Threads may
 * share a struct symbols once it is loaded.
 */
#ifndef CSIGHT_CODE_SYMBOLS_H
#define CSIGHT_CODE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/util.h"

struct buf;
struct symbols;

/*
 * Reads .symtab, else .dynsym and MiniDebugInfo (.gnu_debugdata), of a little-endian ELF file of 32 or 64 bits; and the
 * starts of functions without a symbol from .eh_frame_hdr or .ARM.exidx. fd stays the caller's. -ENODATA: no symbol
 * table; -EBADMSG: not such a file, or damaged; -EFBIG: over the limits; -ENOMEM, -EIO.
 */
int symbols_load(int fd, struct symbols **ret);

/* As symbols_load(), but reads .symtab of the debug file (lib/code/debug-file.h; -1: none) if the file has none. */
int symbols_load_with(int fd, int debug, struct symbols **ret);

struct symbol_layer {
	uint64_t start, end; /* end 0: the start of the next function */
	uint32_t name;       /* offset in a buffer */
};

/*
 * Makes a table from a list in order of time: each function replaces what it overlaps of earlier ones. names has
 * strings with their NULs, and is taken on success. -EFBIG: too many; -ENOMEM.
 */
int symbols_from_layers(const struct symbol_layer *layers, size_t n, struct buf *names, struct symbols **ret);

/* Makes a table from a perf map (/tmp/perf-PID.map); its offsets are addresses. Malformed lines are ignored. */
int symbols_load_perf_map(int fd, struct symbols **ret);
struct symbols *symbols_free(struct symbols *s);

/* A key of everything that symbols_load_with() reads: files of the same key have the same table. Errors as there. */
enum { SYMBOLS_KEY_SIZE = 33 };

int symbols_key(int fd, int debug, char ret[SYMBOLS_KEY_SIZE]);

/* Write and read a table as a file, in a format of this program alone. The file is hostile: -EBADMSG. */
int symbols_write(const struct symbols *s, int fd);
int symbols_read(int fd, struct symbols **ret);

size_t symbols_count(const struct symbols *s);

/* The interval around an offset that belongs to one function, or to none. */
struct symbols_at {
	uint64_t start, end;
	bool known;        /* a function; else the interval lies between functions */
	const char *name;  /* mangled; NULL: none */
	uint64_t function; /* start of the function, which may be in another of its pieces */
	uint64_t function_end;
	bool plt;
};

void symbols_find(const struct symbols *s, uint64_t offset, struct symbols_at *ret);

/* Finds a function by its name, mangled or demangled. -ENOENT; -ENOTUNIQ: several have it; -ENOMEM. */
int symbols_named(const struct symbols *s, const char *name, struct symbols_at *ret);

static inline void symbols_freep(struct symbols **s)
{
	symbols_free(*s);
}

#endif
