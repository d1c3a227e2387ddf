/* SPDX-License-Identifier: MIT */
/* Writes core files of 64 bits, little-endian: segments of memory, and the functions in them. Errors: -errno. */
#ifndef CSIGHT_CODE_ELF_CORE_H
#define CSIGHT_CODE_ELF_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_core_segment {
	uint64_t address, size;
	uint64_t offset; /* in the file; set by elf_core_write() */
};

struct elf_core_function {
	uint64_t address, size;
	const char *name;
	bool global, weak;
};

struct elf_core {
	uint16_t machine;
	struct elf_core_segment *segments;
	size_t n_segments;
	struct elf_core_function *functions;
	size_t n_functions;
};

/*
 * Writes everything but the bytes of the segments, which the caller writes at their offsets; what it does not write is
 * zero. -EFBIG: more segments or names than the format can hold. Returns the size of the file in *ret_size.
 */
int elf_core_write(int fd, const struct elf_core *core, uint64_t *ret_size);

#endif
