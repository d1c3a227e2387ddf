/* SPDX-License-Identifier: MIT */
/* A file with DWARF, for programs of tests that are dynamic, or have inlined functions. */
#ifndef CSIGHT_TESTS_DYNAMIC_FILE_H
#define CSIGHT_TESTS_DYNAMIC_FILE_H

#include <sys/mman.h>

#include "lib/base/io.h"
#include "tests/calls/elements.h"
#include "tests/code/dwarfgen.h"

/* Makes the file of tests/code/dwarfgen.h, a program that begins at LINKER_ENTRY, with code at LINKER_SWITCH. */
static inline int dynamic_file(void)
{
	/* mov x9, sp; str x9, [x0]; ldr x9, [x1]; mov sp, x9; ret */
	static const uint32_t code[] = { 0x910003e9, 0xf9000009, 0xf9400029, 0x9100013f, 0xd65f03c0 };
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct buf sections[DWARF_SECTIONS] = { 0 };
	_cleanup_buf_ struct buf b = { 0 };

	dwarfgen_sections(sections, 5);
	dwarfgen_elf(&b, sections);
	((Elf64_Ehdr *)(void *)b.data)->e_entry = DWARF_TEXT + LINKER_ENTRY - LINKER;
	CHECK_EQ(io_write(fd, b.data, b.size), 0);
	CHECK_EQ(pwrite(fd, code, sizeof(code), DWARF_TEXT_OFFSET + LINKER_SWITCH - LINKER), sizeof(code));
	for (int i = 0; i < DWARF_SECTIONS; i++)
		buf_done(&sections[i]);
	return fd;
}

#endif
