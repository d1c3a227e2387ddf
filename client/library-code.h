/* SPDX-License-Identifier: MIT */
/* Which functions are a program's own, and which are of the libraries, runtimes and the kernel beneath it. */
#ifndef CSIGHT_CLIENT_LIBRARY_CODE_H
#define CSIGHT_CLIENT_LIBRARY_CODE_H

#include "lib/store/store.h"

/*
 * Returns true if a function is library code in a program that `own` is a function of: by its source file, or where
 * that is unknown by its image and name. If `own` is library code itself, all of its image counts as own.
 */
bool library_code_has(const struct store_function *f, const struct store_function *own);

#endif
