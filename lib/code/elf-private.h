/* SPDX-License-Identifier: MIT */
/* What elf.c, elf-notes.c and elf-tables.c share; no other file includes this, and with it libelf's headers. */
#ifndef CSIGHT_CODE_ELF_PRIVATE_H
#define CSIGHT_CODE_ELF_PRIVATE_H

#include <errno.h>
#include <gelf.h>

#include "lib/code/elf.h"

enum { ELF_LOADS_MAX = 256 };

/* What has been read of a section. */
struct elf_contents {
	bool read;
	struct reader bytes;
	struct buf inflated;
};

struct elf {
	Elf *elf;
	int fd; /* -1: in memory */
	const uint8_t *memory;
	uint64_t size; /* of the file */
	uint64_t left; /* of the budget, in bytes */
	GElf_Ehdr header;
	struct elf_identity identity;
	struct elf_segment *segments;
	size_t n_segments;
	struct elf_segment loads[ELF_LOADS_MAX]; /* those that have bytes in the file */
	size_t n_loads;
	bool sections_read;
	int sections_error;
	struct elf_section *sections;
	struct elf_contents *contents; /* of each section */
	size_t n_sections;
};

/* Charges the budget for bytes of the file, before libelf allocates memory for them. */
int elf_charge(struct elf *e, uint64_t offset, uint64_t size);

/* Returns the error of a call of libelf, before which errno was 0: the numbers of libelf itself are not public. */
static inline int elf_libelf_error(void)
{
	return errno == ENOMEM ? -ENOMEM : errno == EIO ? -EIO : -EBADMSG;
}

#endif
