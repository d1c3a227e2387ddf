/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/emu/buildid.h"

enum { SEGMENTS_MAX = 64, NOTES_MAX = 4096 };

static uint8_t find_note(const uint8_t *notes, size_t size, uint8_t ret[EMU_BUILD_ID_MAX])
{
	Elf64_Nhdr note;

	for (size_t at = 0; size - at >= sizeof(note);) {
		size_t name, desc;

		memcpy(&note, notes + at, sizeof(note));
		at += sizeof(note);
		name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
		desc = ((size_t)note.n_descsz + 3) & ~(size_t)3;
		if (name > size - at || desc > size - at - name)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + at, "GNU", 4) == 0 &&
		    note.n_descsz <= EMU_BUILD_ID_MAX) {
			memcpy(ret, notes + at + name, note.n_descsz);
			return (uint8_t)note.n_descsz;
		}
		at += name + desc;
	}
	return 0;
}

uint8_t buildid_read(int fd, uint8_t ret[EMU_BUILD_ID_MAX])
{
	uint8_t notes[NOTES_MAX], found = 0;
	Elf64_Ehdr header;

	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_phentsize != sizeof(Elf64_Phdr))
		return 0;
	for (unsigned i = 0; !found && i < MIN(header.e_phnum, SEGMENTS_MAX); i++) {
		off_t at = (off_t)(header.e_phoff + i * sizeof(Elf64_Phdr));
		Elf64_Phdr segment;
		ssize_t n;

		if (pread(fd, &segment, sizeof(segment), at) != sizeof(segment))
			return 0;
		if (segment.p_type != PT_NOTE)
			continue;
		n = pread(fd, notes, (size_t)MIN(segment.p_filesz, (uint64_t)NOTES_MAX), (off_t)segment.p_offset);
		if (n > 0)
			found = find_note(notes, (size_t)n, ret);
	}
	return found;
}
