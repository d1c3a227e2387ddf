/* SPDX-License-Identifier: MIT */
/*
 * The debug file of an image: a separate file with the symbols, or the DWARF, that the image itself was stripped of.
 * The image identifies it by its build-id, or by a name and a checksum (.gnu_debuglink). That of a copy of the kernel's
 * memory is the list of its symbols, kallsyms, beside it. Files are hostile.
 */
#ifndef CSIGHT_CODE_DEBUG_FILE_H
#define CSIGHT_CODE_DEBUG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/code/image.h"

enum { DEBUG_LINK_MAX = 256 };

/* The size of all files of one job whose checksum is computed: one without data costs its owner nothing. */
#define DEBUG_SUMS_MAX ((uint64_t)4 << 30)

struct debug_wanted {
	uint8_t id[IMAGE_BUILD_ID_MAX];
	size_t id_size;            /* 0: none */
	char link[DEBUG_LINK_MAX]; /* a name without a slash; "": none */
	uint32_t crc;
	bool kernel; /* it is a list of the kernel's symbols */
};

/* False if the file has both symbols and DWARF itself, or does not identify its debug file. */
bool debug_file_wanted(int fd, struct debug_wanted *ret);

/*
 * Returns 1 if fd is that file and has symbols or DWARF, else 0. The build-ids are compared; if either file has none,
 * the checksum of the whole file, whose size is added to *used. -EFBIG: *used would exceed DEBUG_SUMS_MAX; the file was
 * not read.
 */
int debug_file_is(int fd, const struct debug_wanted *wanted, uint64_t *used);

#endif
