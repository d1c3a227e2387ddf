/* SPDX-License-Identifier: MIT */
/* The tables of names, inlined functions and unwind information of an input's images, by the image's number. */
#ifndef CSIGHT_DECODE_CODE_TABLES_H
#define CSIGHT_DECODE_CODE_TABLES_H

#include "daemon/decode/input.h"
#include "lib/code/region-map.h"

struct code_table {
	struct symbols *symbols; /* each of them may be NULL */
	struct inlines *inlines;
	struct unwind *unwind;
};

struct code_tables {
	struct input *input;
	struct code_table *list;
	size_t n, room;
	uint64_t cached; /* images whose symbols came from another job */
};

/*
 * Loads the tables of the images up to the number of image_file_count(), without those that are loaded. An image with
 * invalid or without symbols is decoded all the same.
 */
int code_tables_load(struct code_tables *t);

/* Describes a mapping of an image, or of IMAGE_NONE, for a region map. id has the text of its build-id. */
struct region_mapping code_tables_mapping(const struct code_tables *t, uint32_t file, const struct image_mapping *m,
					  const char *path, char id[2 * IMAGE_BUILD_ID_MAX + 1]);
/* Warns of the images whose debug information could not be read when a look-up needed it. */
void code_tables_report(const struct code_tables *t);
void code_tables_done(struct code_tables *t);

#endif
