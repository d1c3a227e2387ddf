/* SPDX-License-Identifier: MIT */
/* Finds a function of an ELF file by name. */
#ifndef CSIGHT_CLIENT_FUNCTION_LOOKUP_H
#define CSIGHT_CLIENT_FUNCTION_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FUNCTION_PLACES_MAX = 16, FUNCTION_PLACE_NAME = 200 };

struct function_place {
	uint64_t start, end; /* file offsets */
	/* Of function_lookup_all(): the readable name; whether it is code of Go, not of another language in a program
	 * of Go. */
	char name[FUNCTION_PLACE_NAME];
	bool go;
};

/*
 * Looks up name, as the file has it or demangled, in the symbols of the ELF file fd. A child process parses the file,
 * without privileges if the caller is root, because the file may be hostile; a crash of the child is -EFAULT. Other
 * errors: -ENODATA, no symbol table; -ENOENT, no such function; -ENOTUNIQ, several; and those of symbols_load().
 */
int function_lookup(int fd, const char *name, struct function_place *ret);

/*
 * The same for all functions that match as store_name_matches() defines it, at most FUNCTION_PLACES_MAX; *ret_n: 0
 * if there is none.
 */
int function_lookup_all(int fd, const char *pattern, struct function_place *ret, size_t *ret_n);

/* The same for the code of a source line, FILE:N: line_lookup(), which the child calls. */
int function_lookup_line(int fd, const char *line, struct function_place *ret, size_t *ret_n, uint64_t *ret_next);

#endif
