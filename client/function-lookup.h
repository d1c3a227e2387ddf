/* SPDX-License-Identifier: MIT */
/* Finds a function of an ELF file by name. */
#ifndef CSIGHT_CLIENT_FUNCTION_LOOKUP_H
#define CSIGHT_CLIENT_FUNCTION_LOOKUP_H

#include <stdint.h>

struct function_place {
	uint64_t start, end; /* file offsets */
};

/*
 * Looks up name, as the file has it or demangled, in the symbols of the ELF file fd. A child process parses the file,
 * without privileges if the caller is root, because the file may be hostile; a crash of the child is -EFAULT. Other
 * errors: -ENODATA, no symbol table; -ENOENT, no such function; -ENOTUNIQ, several; and those of symbols_load().
 */
int function_lookup(int fd, const char *name, struct function_place *ret);

#endif
