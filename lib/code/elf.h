/* What images need to know of ELF files: 64-bit, little-endian, and hostile. Nothing is known of others. */
#ifndef CSIGHT_CODE_ELF_H
#define CSIGHT_CODE_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/code/bytes.h"
#include "lib/code/image.h"

enum { ELF_SEGMENTS_MAX = 512 };

struct elf_segment {
	uint64_t address, offset, size;
};

/* The size of the build-id; 0: none. That of a kernel's memory is the kernel's. */
size_t elf_build_id(struct bytes *b, uint8_t ret[IMAGE_BUILD_ID_MAX]);

/* A file of symbols has the segments of the one that it was made from, and of code not the bytes. */
bool elf_only_symbols(struct bytes *b);

/* A core file: memory, as /proc/kcore has it. */
bool elf_is_core(struct bytes *b);

/* The segments that have code, or of a core file all. */
unsigned elf_segments(struct bytes *b, struct elf_segment ret[ELF_SEGMENTS_MAX]);

/* The value of a symbol of .symtab. */
bool elf_symbol(struct bytes *b, const char *name, uint64_t *ret);

#endif
