/* SPDX-License-Identifier: MIT */
/* The kernel's names of mapped memory that no directory has a name for. */
#ifndef CSIGHT_CODE_MEMORY_PATH_H
#define CSIGHT_CODE_MEMORY_PATH_H

#include <stdbool.h>
#include <string.h>

#include "lib/base/util.h"

/*
 * True for the path of anonymous, shared or named memory. Unless it is an ELF file, code there was generated: compilers
 * map a memory twice, to write code in one place and to execute it in the other.
 */
static inline bool is_memory_path(const char *path)
{
	static const char *const names[] = { "//",    "/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage",
					     "[anon", "[heap]",  "[stack" };

	for (size_t i = 0; i < ELEMENTS(names); i++)
		if (strncmp(path, names[i], strlen(names[i])) == 0)
			return true;
	return !path[0];
}

#endif
