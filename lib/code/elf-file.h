/*
 * An ELF file of 64 bits and little-endian, its own or a debug file, of which only the tables that are needed are in
 * memory. Files are hostile: all of what is read of one, and what comes of compressed parts, is bounded.
 */
#ifndef CSIGHT_CODE_ELF_FILE_H
#define CSIGHT_CODE_ELF_FILE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/code/image.h"

enum { ELF_LOADS_MAX = 256 };

struct elf_file {
	int fd;
	uint64_t left; /* bytes that may still be read */
	Elf64_Ehdr header;
	struct buf sections; /* Elf64_Shdr each */
	size_t n_sections;
	Elf64_Shdr names; /* type SHT_NULL: none */
	Elf64_Phdr loads[ELF_LOADS_MAX];
	size_t n_loads;
	Elf64_Phdr unwind; /* .eh_frame_hdr; type 0: none */
};

/* fd stays the caller's. -EBADMSG: no such file, or broken; -EFBIG: tables beyond all reason; -ENOMEM, -EIO. */
int elf_file_open(int fd, struct elf_file *ret);
void elf_file_done(struct elf_file *e);

/* Appends bytes of the file; no more than its budget. */
int elf_file_read(struct elf_file *e, uint64_t offset, uint64_t size, struct buf *to);

int elf_file_section(const struct elf_file *e, size_t index, Elf64_Shdr *ret);

/* -ENOENT */
int elf_file_section_of_type(const struct elf_file *e, uint32_t type, Elf64_Shdr *ret);
int elf_file_section_named(const struct elf_file *e, const char *name, Elf64_Shdr *ret);
bool elf_file_section_is(const struct elf_file *e, const Elf64_Shdr *section, const char *name);

/* Appends what a section holds, decompressed where it is compressed. One that has no bytes in the file gives none. */
int elf_file_bytes(struct elf_file *e, const Elf64_Shdr *section, struct buf *to);

/* The file's offset of an address, and how far the bytes go from there; -ENOENT. */
int elf_file_offset(const struct elf_file *e, uint64_t address, uint64_t *ret, uint64_t *ret_left);

/* The size of the build-id that a section of notes has; 0: none. */
size_t elf_file_build_id(struct elf_file *e, uint8_t ret[IMAGE_BUILD_ID_MAX]);

#endif
