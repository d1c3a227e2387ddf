/* SPDX-License-Identifier: MIT */
/*
 * Where the debug file of an image may be. csightd and csight search the same places, in this order:
 *
 *   ROOT/usr/lib/debug/.build-id/xx/yyy.debug   for each directory ROOT that contains the image, the closest first:
 *                                               that of a sysroot or container, at last /
 *   DIR/.build-id/xx/yyy.debug                  for the directories of the image and of the program
 *   DIR/LINK, DIR/.debug/LINK                   for the directory of the image; LINK is the name in .gnu_debuglink
 *   ROOT/usr/lib/debug/REST/LINK                the image's directory is ROOT/REST
 *   CACHE/BUILD-ID/debuginfo                    what debuginfod-find, gdb or csight have fetched
 *
 * Whether a file is the right one its reader decides, by build-id or checksum (lib/code/debug-file.h).
 */
#ifndef CSIGHT_DEBUG_PLACES_H
#define CSIGHT_DEBUG_PLACES_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/util.h"

/* Any member may be NULL: unknown. They may be hostile: what would lead out of a place is not used. */
struct debug_wish {
	const char *path;     /* of the image, as it was mapped */
	const char *program;  /* path of the program that mapped it */
	const char *build_id; /* hexadecimal */
	const char *link;
	const char *cache;
};

struct debug_places {
	char **paths;
	size_t n, capacity;
};

/* -ENOMEM. */
int debug_places_list(const struct debug_wish *wish, struct debug_places *ret);
void debug_places_done(struct debug_places *p);

/* True for a build-id that may be part of a path. */
bool debug_places_id_valid(const char *build_id);

/* Finds the directory in which debuginfod's client keeps files for this user. Returns false if it is unknown. */
bool debug_places_cache(char *ret, size_t size);

#endif
