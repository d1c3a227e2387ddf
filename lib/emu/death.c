/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/emu/death.h"

/* The relocations that fill a table of imported functions. */
#if defined(__x86_64__)
enum { IMPORT = R_X86_64_GLOB_DAT, IMPORT_OF_CALL = R_X86_64_JUMP_SLOT };
#elif defined(__aarch64__)
enum { IMPORT = R_AARCH64_GLOB_DAT, IMPORT_OF_CALL = R_AARCH64_JUMP_SLOT };
#else
enum { IMPORT = -1, IMPORT_OF_CALL = -1 };
#endif

static void (*on_death)(int signal);

static int send_signal(pid_t pid, int signal)
{
	if (pid == getpid() && signal > 0)
		on_death(signal);
	return kill(pid, signal);
}

struct imports {
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * tables[2]; /* of data, of calls */
	size_t sizes[2];              /* in bytes */
};

static void read_dynamic(const ElfW(Dyn) * d, struct imports *ret)
{
	for (; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			ret->symbols = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			ret->names = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_RELA)
			ret->tables[0] = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_RELASZ)
			ret->sizes[0] = d->d_un.d_val;
		else if (d->d_tag == DT_JMPREL)
			ret->tables[1] = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_PLTRELSZ)
			ret->sizes[1] = d->d_un.d_val;
	}
}

/* The table is read-only after relocation (RELRO). */
static bool replace(void **slot)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)slot & ~(page - 1);

	if (mprotect((void *)start, page, PROT_READ | PROT_WRITE) < 0)
		return false;
	*slot = (void *)send_signal;
	return true;
}

static int find_import(struct dl_phdr_info *info, size_t size, void *user)
{
	struct imports imports = { 0 };
	bool *found = user;

	for (size_t i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			read_dynamic((const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), &imports);
	for (size_t t = 0; t < ELEMENTS(imports.tables) && imports.symbols && imports.names; t++) {
		for (size_t i = 0; imports.tables[t] && i < imports.sizes[t] / sizeof(ElfW(Rela)); i++) {
			const ElfW(Rela) *r = &imports.tables[t][i];
			int type = (int)ELF64_R_TYPE(r->r_info);

			if ((type == IMPORT || type == IMPORT_OF_CALL) &&
			    strcmp(imports.names + imports.symbols[ELF64_R_SYM(r->r_info)].st_name, "kill") == 0)
				*found = replace((void **)(info->dlpi_addr + r->r_offset)) || *found;
		}
	}
	/* The first object is the program itself. */
	return 1;
}

bool death_watch(void (*died)(int signal))
{
	bool found = false;

	on_death = died;
	dl_iterate_phdr(find_import, &found);
	return found;
}
