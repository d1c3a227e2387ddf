/* SPDX-License-Identifier: MIT */
/* Tables of symbols and of relocations. */
#include <limits.h>
#include <string.h>

#include "lib/code/elf-private.h"

/* Checks the entries of a table, and has libelf read it. */
static int open_table(struct elf *e, const struct elf_section *section, Elf_Type type, struct elf_table *ret)
{
	size_t entry = gelf_fsize(e->elf, type, 1, EV_CURRENT);
	struct reader ignored;
	Elf_Data *data;
	int rc;

	if (section->entry_size != entry || section->compressed)
		return -EBADMSG;
	rc = elf_contents(e, section, &ignored);
	if (rc < 0)
		return rc;
	errno = 0;
	data = elf_getdata(elf_getscn(e->elf, section->index), NULL);
	if (!data || data->d_type != type || (!data->d_buf && data->d_size))
		return elf_libelf_error();
	*ret = (struct elf_table){ .elf = e, .data = data, .n = data->d_size / entry };
	return 0;
}

int elf_symbols(struct elf *e, const struct elf_section *section, struct elf_table *ret)
{
	const struct elf_section *strings = elf_section(e, section->link);
	int rc;

	if (!strings || strings->type != SHT_STRTAB || (section->type != SHT_SYMTAB && section->type != SHT_DYNSYM))
		return -EBADMSG;
	rc = open_table(e, section, ELF_T_SYM, ret);
	if (rc == 0)
		ret->names = strings;
	return rc;
}

int elf_relocations(struct elf *e, const struct elf_section *section, struct elf_table *ret)
{
	if (section->type != SHT_RELA && section->type != SHT_REL)
		return -EBADMSG;
	return open_table(e, section, section->type == SHT_RELA ? ELF_T_RELA : ELF_T_REL, ret);
}

bool elf_table_symbol(const struct elf_table *t, size_t index, struct elf_symbol *ret)
{
	unsigned type, bind;
	GElf_Sym s;

	if (index >= MIN(t->n, (size_t)INT_MAX) || !gelf_getsym(t->data, (int)index, &s))
		return false;
	type = GELF_ST_TYPE(s.st_info);
	bind = GELF_ST_BIND(s.st_info);
	*ret = (struct elf_symbol){ .name = s.st_name,
				    .function = type == STT_FUNC || type == STT_GNU_IFUNC,
				    .defined = s.st_shndx != SHN_UNDEF,
				    .global = bind == STB_GLOBAL,
				    .weak = bind == STB_WEAK,
				    .section = s.st_shndx,
				    .value = s.st_value,
				    .size = s.st_size };
	if (ret->function && t->elf->identity.machine == EM_ARM)
		ret->value &= ~(uint64_t)1;
	return true;
}

bool elf_table_relocation(const struct elf_table *t, size_t index, struct elf_relocation *ret)
{
	Elf_Data *data = t->data;
	GElf_Rela rela;
	GElf_Rel rel;

	if (index >= MIN(t->n, (size_t)INT_MAX))
		return false;
	if (data->d_type == ELF_T_RELA) {
		if (!gelf_getrela(data, (int)index, &rela))
			return false;
		*ret = (struct elf_relocation){ rela.r_offset, GELF_R_SYM(rela.r_info) };
	} else {
		if (!gelf_getrel(data, (int)index, &rel))
			return false;
		*ret = (struct elf_relocation){ rel.r_offset, GELF_R_SYM(rel.r_info) };
	}
	return true;
}

int elf_symbol_value(struct elf *e, const char *name, uint64_t *ret)
{
	const struct elf_section *section;
	size_t size = strlen(name) + 1;
	struct reader names;
	struct elf_symbol s;
	struct elf_table t;
	int rc = elf_section_of_type(e, SHT_SYMTAB, &section);

	if (rc == 0)
		rc = elf_symbols(e, section, &t);
	if (rc == 0)
		rc = elf_contents(e, t.names, &names);
	for (size_t i = 0; rc == 0 && elf_table_symbol(&t, i, &s); i++) {
		struct reader r = names;

		if (s.defined && s.name <= rd_left(&r) && rd_skip(&r, (size_t)s.name) == 0 && rd_left(&r) >= size &&
		    memcmp(r.at, name, size) == 0) {
			*ret = s.value;
			return 0;
		}
	}
	return rc < 0 ? rc : -ENOENT;
}
