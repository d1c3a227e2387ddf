/* SPDX-License-Identifier: MIT */
/* Names of functions as users type them: patterns, and suggestions for a name that no function has. */
#ifndef CSIGHT_CLIENT_FUNCTION_NAME_H
#define CSIGHT_CLIENT_FUNCTION_NAME_H

#include <stddef.h>

#include "lib/store/store.h"

#define FUNCTION_NAME_SUFFIXES_HELP "print the suffixes of compiler clones (.isra.0), and keep clones apart"

/*
 * Prints an error: no function matches the pattern, with the most similar names of functions that ran in the n stores.
 */
void function_name_suggest(const char *pattern, const struct store *const *stores, size_t n);

#endif
