/* SPDX-License-Identifier: MIT */
/*
 * Short names of functions for terminals: without parameters, template arguments and the hashes of Rust. Where several
 * functions of one set would get the same short name, theirs keep what makes them differ: the parameters, the template
 * arguments, or all.
 */
#ifndef CSIGHT_NAMES_H
#define CSIGHT_NAMES_H

#include <stdbool.h>

#include "lib/store/store.h"

struct names;

/* full: the short names are the full ones. NULL: out of memory. */
struct names *names_new(bool full);

/* Adds a function, or those of a store that ran. The names must outlive the struct. -ENOMEM. */
int names_add(struct names *n, const char *full);
int names_add_store(struct names *n, const struct store *s);

/* Chooses the short names, after all have been added. -ENOMEM. */
int names_finish(struct names *n);

/* Returns the short name of a full one, valid until names_free(); the full name if it was not added. n may be NULL. */
const char *names_short(const struct names *n, const char *full);
struct names *names_free(struct names *n);

static inline void names_freep(struct names **n)
{
	names_free(*n);
}

/* How much of a name is left out. */
enum names_level { NAMES_PLAIN, NAMES_PARAMETERS, NAMES_ARGUMENTS, NAMES_FULL, NAMES_LEVELS };

/* Returns the name with what the level leaves in, to be freed; NULL: out of memory. */
char *names_shorten(const char *full, enum names_level level);

#endif
