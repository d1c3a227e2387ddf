/* SPDX-License-Identifier: MIT */
/* Build-ids, from notes. */
#include <string.h>

#include "lib/base/hex.h"
#include "lib/code/elf-private.h"

enum { NOTES_MAX = 64 << 10, NOTE_SEGMENTS_MAX = 256 };

/* VMCOREINFO is text, with a line BUILD-ID=hex. */
static size_t kernel_id(const uint8_t *text, size_t size, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	static const char key[] = "BUILD-ID=";
	const uint8_t *at = memmem(text, size, key, sizeof(key) - 1);

	if (!at)
		return 0;
	at += sizeof(key) - 1;
	return hex_decode((const char *)at, (size_t)(text + size - at), ret, IMAGE_BUILD_ID_MAX);
}

static size_t find_id(Elf_Data *notes, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	size_t name, desc, next;
	GElf_Nhdr note;

	for (size_t at = 0; (next = gelf_getnote(notes, at, &note, &name, &desc)) > at; at = next) {
		const uint8_t *bytes = notes->d_buf;

		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(bytes + name, "GNU", 4) == 0 &&
		    note.n_descsz && note.n_descsz <= IMAGE_BUILD_ID_MAX) {
			memcpy(ret, bytes + desc, note.n_descsz);
			return note.n_descsz;
		}
		if (note.n_namesz == sizeof("VMCOREINFO") && memcmp(bytes + name, "VMCOREINFO", note.n_namesz) == 0)
			return kernel_id(bytes + desc, note.n_descsz, ret);
	}
	return 0;
}

size_t elf_build_id(struct elf *e, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	const struct elf_section *sections;
	size_t found = 0, n, left = NOTE_SEGMENTS_MAX;

	for (size_t i = 0; !found && left && i < e->n_segments; i++) {
		const struct elf_segment *s = &e->segments[i];
		uint64_t size = MIN(s->size, (uint64_t)NOTES_MAX);
		Elf_Data *data;

		if (s->type != PT_NOTE || s->offset > e->size)
			continue;
		left--; /* libelf looks each up in a list of all */
		size = MIN(size, e->size - s->offset);
		if (elf_charge(e, s->offset, size) < 0)
			break;
		data = elf_getdata_rawchunk(e->elf, (int64_t)s->offset, (size_t)size, ELF_T_NHDR);
		found = data ? find_id(data, ret) : 0;
	}
	if (found || elf_sections(e, &sections, &n) < 0)
		return found;
	for (size_t i = 0; !found && i < n; i++) {
		struct reader ignored;

		if (sections[i].type == SHT_NOTE && !sections[i].compressed && sections[i].size <= NOTES_MAX &&
		    elf_contents(e, &sections[i], &ignored) == 0)
			found = find_id(elf_rawdata(elf_getscn(e->elf, sections[i].index), NULL), ret);
	}
	return found;
}
