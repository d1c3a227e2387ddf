/* SPDX-License-Identifier: MIT */
/*
 * ELF files of 32 and 64 bits, read through libelf. This is the only module that includes libelf's headers.
 *
 * Files are hostile. Each size that a file states is compared with the size of the file and with the budget of the
 * handle before libelf allocates memory for it, and compressed sections pass through lib/code/inflate.h. libelf reads
 * a descriptor by pread and never maps it, so a file that shrinks causes an error, not a signal.
 *
 * A handle is used by one thread at a time; several threads may each use a handle of their own. Whatever a function
 * returns by reference belongs to the handle and is valid until elf_free().
 *
 * Errors: -EBADMSG: not a little-endian ELF file, or damaged; -EFBIG: beyond the limits of this module; -ENOENT: the
 * file has no such part; -ENOMEM; -EIO.
 */
#ifndef CSIGHT_CODE_ELF_H
#define CSIGHT_CODE_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "lib/code/image.h"

struct elf;

/* The numbers of the ELF specification. */
enum { ELF_MACHINE_ARM = 40, ELF_MACHINE_AARCH64 = 183 };
enum { ELF_TYPE_RELOCATABLE = 1, ELF_TYPE_EXECUTABLE = 2, ELF_TYPE_SHARED = 3, ELF_TYPE_CORE = 4 };
enum {
	ELF_SEGMENT_LOAD = 1,
	ELF_SEGMENT_INTERPRETER = 3,
	ELF_SEGMENT_NOTE = 4,
	ELF_SEGMENT_UNWIND = 0x6474e550,     /* .eh_frame_hdr */
	ELF_SEGMENT_ARM_UNWIND = 0x70000001, /* .ARM.exidx; of ELF_MACHINE_ARM only */
};
enum {
	ELF_SECTION_NONE = 0,
	ELF_SECTION_PROGRAM = 1,
	ELF_SECTION_SYMBOLS = 2,
	ELF_SECTION_STRINGS = 3,
	ELF_SECTION_RELA = 4,
	ELF_SECTION_NOTE = 7,
	ELF_SECTION_NO_BYTES = 8,
	ELF_SECTION_REL = 9,
	ELF_SECTION_DYNAMIC_SYMBOLS = 11,
};

/* What the first bytes of a file state. */
struct elf_identity {
	unsigned bits; /* 32 or 64 */
	bool big_endian;
	uint16_t type, machine;
	uint64_t entry; /* address where the program begins, of an Arm one without the Thumb bit; 0: none */
};

struct elf_segment {
	uint32_t type;
	bool code; /* PF_X */
	uint64_t address, offset, size, memory_size;
};

struct elf_section {
	const char *name; /* "": none */
	uint32_t index, type, link;
	bool allocated, code, compressed;
	uint64_t address, offset, size, entry_size;
};

/* A table of symbols, or of relocations. */
struct elf_table {
	struct elf *elf;
	void *data;
	size_t n;
	const struct elf_section *names; /* of symbols: the string table, whose contents need not end with a NUL */
};

struct elf_symbol {
	uint64_t name; /* an offset in the table's names */
	bool function, defined, global, weak;
	uint32_t section;
	uint64_t value; /* of an Arm function without the Thumb bit */
	uint64_t size;
};

struct elf_relocation {
	uint64_t place, symbol; /* an address; an index in the table of symbols */
};

/* Parses no more than the header. Accepts both byte orders, unlike elf_open(). */
int elf_identify(int fd, struct elf_identity *ret);

/* Reads the header and the program headers. fd or bytes remain the caller's and must outlive the handle. */
int elf_open(int fd, struct elf **ret);
int elf_open_memory(const void *bytes, size_t size, struct elf **ret);
struct elf *elf_free(struct elf *e);

static inline void elf_freep(struct elf **e)
{
	elf_free(*e);
}

const struct elf_identity *elf_identity(const struct elf *e);

/* Returns the name of a machine for messages, or "another machine". */
const char *elf_machine_name(uint16_t machine);

const struct elf_segment *elf_segments(const struct elf *e, size_t *ret_n);

/* Returns the first segment of a type, or NULL. */
const struct elf_segment *elf_segment(const struct elf *e, uint32_t type);

/* Converts an address into a file offset; *ret_left is the number of bytes of its segment from there on. */
int elf_offset(const struct elf *e, uint64_t address, uint64_t *ret, uint64_t *ret_left);

/* Converts a file offset into an address. */
int elf_address(const struct elf *e, uint64_t offset, uint64_t *ret);

/*
 * True of a file that has the segments of a program but not the bytes of its code, as debug files are. Those of
 * eu-strip say so in their sections alone.
 */
bool elf_only_symbols(struct elf *e);

/* Bytes of the file. */
int elf_bytes(struct elf *e, uint64_t offset, uint64_t size, struct reader *ret);

/* The section table, read at the first call. A file may have none: 0 with *ret_n = 0. */
int elf_sections(struct elf *e, const struct elf_section **ret, size_t *ret_n);

/* Returns the section of an index, or NULL. */
const struct elf_section *elf_section(struct elf *e, uint64_t index);

/* Finds the first section of a type or name. */
int elf_section_of_type(struct elf *e, uint32_t type, const struct elf_section **ret);
int elf_section_named(struct elf *e, const char *name, const struct elf_section **ret);

/* Reads a section, decompressed if the file has it compressed; empty for one without bytes in the file. */
int elf_contents(struct elf *e, const struct elf_section *section, struct reader *ret);

/* Appends the contents of a section to a buffer. They are read into it directly, for sections that are kept elsewhere.
 */
int elf_append(struct elf *e, const struct elf_section *section, struct buf *to);

/* Opens a table of symbols, or of relocations (REL or RELA). */
int elf_symbols(struct elf *e, const struct elf_section *section, struct elf_table *ret);
int elf_relocations(struct elf *e, const struct elf_section *section, struct elf_table *ret);

/* False beyond the end. */
bool elf_table_symbol(const struct elf_table *t, size_t index, struct elf_symbol *ret);
bool elf_table_relocation(const struct elf_table *t, size_t index, struct elf_relocation *ret);

/* Finds the value of a defined symbol of .symtab by its name. */
int elf_symbol_value(struct elf *e, const char *name, uint64_t *ret);

/* The size of the build-id, from a note segment or else a note section; 0: none. That of kernel memory (a core file) is
 * the kernel's. */
size_t elf_build_id(struct elf *e, uint8_t ret[IMAGE_BUILD_ID_MAX]);

#endif
