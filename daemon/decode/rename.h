/* SPDX-License-Identifier: MIT */
/*
 * Renames the functions of a store: looks each up again in the file that holds it, for which better symbols may have
 * become available. No trace is decoded.
 */
#ifndef CSIGHT_DECODE_RENAME_H
#define CSIGHT_DECODE_RENAME_H

#include "daemon/decode/code-tables.h"
#include "lib/store/store.h"

/*
 * Adds the image that holds a function to the set; the same image gets the same number. *ret is IMAGE_NONE for a
 * function that cannot be looked up again: it has no name of its own, or its image has no build-id, so that the file
 * may have changed.
 */
int rename_find_image(struct image_set *images, const struct store_function *f, uint32_t *ret);

/*
 * Writes to the empty file `to` a copy of the store with the names that the tables have. *ret_renamed counts functions
 * whose name or source line changed.
 */
int rename_store(const struct store *store, const struct code_tables *tables, int to, uint64_t *ret_renamed);

#endif
