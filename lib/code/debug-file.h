/*
 * The debug file of an image: a file apart that has the symbols, or the DWARF, that the image itself was stripped of.
 * The image names it by its build-id, or by a name and a checksum (.gnu_debuglink). Hostile files.
 */
#ifndef CSIGHT_CODE_DEBUG_FILE_H
#define CSIGHT_CODE_DEBUG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/code/image.h"

enum { DEBUG_LINK_MAX = 256 };

struct debug_wanted {
	uint8_t id[IMAGE_BUILD_ID_MAX];
	size_t id_size;            /* 0: none */
	char link[DEBUG_LINK_MAX]; /* a name without a slash; "": none */
	uint32_t crc;
};

/* False where the file has all of it, or does not say what its debug file is. */
bool debug_file_wanted(int fd, struct debug_wanted *ret);

/* Whether fd is that file, and has anything to tell. The build-id decides; the checksum where either has none. */
bool debug_file_is(int fd, const struct debug_wanted *wanted);

#endif
