/* SPDX-License-Identifier: MIT */
/* Words that are similar to what a user typed. */
#ifndef CSIGHT_CLIENT_SIMILAR_H
#define CSIGHT_CLIENT_SIMILAR_H

#include <stddef.h>

/* Longer texts are not similar to what a user types. */
enum { SIMILAR_MAX = 200 };

/*
 * Returns how many characters of one text have to be inserted, removed, replaced or swapped with the next to make the
 * other; more than limit: any number above it.
 */
unsigned similar_distance(const char *a, size_t a_size, const char *b, size_t b_size, unsigned limit);

/* Returns the most similar word of a list, or NULL if none is similar. */
const char *similar_word(const char *typed, const char *const *list, size_t n);

#endif
