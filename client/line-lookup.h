/* SPDX-License-Identifier: MIT */
/* Finds the code of a source line in an ELF file with DWARF. The file may be hostile: for function-lookup.c's child. */
#ifndef CSIGHT_CLIENT_LINE_LOOKUP_H
#define CSIGHT_CLIENT_LINE_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#include "client/function-lookup.h"

/*
 * Finds where control reaches a line, FILE:N: FILE is the end of a path. Each function, and each inlined copy of one,
 * has one place. *ret_n is the number of all that were found, of which ret has the first FUNCTION_PLACES_MAX; if there
 * are none, *ret_next is the next line with code, or 0. -ENODATA: no DWARF; -EINVAL; errors of dwarf_open().
 */
int line_lookup(int fd, const char *line, struct function_place *ret, size_t *ret_n, uint64_t *ret_next);

#endif
