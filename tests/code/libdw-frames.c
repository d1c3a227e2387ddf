/* SPDX-License-Identifier: MIT */
/*
 * libdw-frames FILE STEP: which frames elfutils' libdw finds at every STEP-th byte of each function of FILE, in the
 * form of "symbols-dump --inlines", which the same addresses are then given to: an address, then two lines for each
 * frame, innermost first: its function, and where it is called.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct walk {
	Dwarf_Die *unit;
	uint64_t step;
};

static const char *name_of(Dwarf_Die *die)
{
	static const unsigned names[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name };
	Dwarf_Attribute a;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (dwarf_attr_integrate(die, names[i], &a))
			return dwarf_formstring(&a);
	return NULL;
}

/* Where an inlined function is called: of the frame around it. */
static void print_call(Dwarf_Die *unit, Dwarf_Die *die)
{
	const char *file = NULL, *dir = NULL;
	Dwarf_Attribute a;
	Dwarf_Files *files;
	Dwarf_Word n, line = 0;

	if (dwarf_attr(die, DW_AT_call_file, &a) && dwarf_formudata(&a, &n) == 0 &&
	    dwarf_getsrcfiles(unit, &files, NULL) == 0)
		file = dwarf_filesrc(files, n, NULL, NULL);
	if (dwarf_attr(die, DW_AT_call_line, &a))
		dwarf_formudata(&a, &line);
	if (file && file[0] != '/' && dwarf_attr(unit, DW_AT_comp_dir, &a))
		dir = dwarf_formstring(&a);
	printf("%s%s%s:%ju\n", dir ? dir : "", dir ? "/" : "", file ? file : "??", (uintmax_t)line);
}

/* By the nesting of the entries themselves: libdw's own scopes go on in the abstract origin. */
static void print_frames(Dwarf_Die *unit, uint64_t address)
{
	Dwarf_Die *scopes = NULL, *nested = NULL, *inner = NULL;
	int n = dwarf_getscopes(unit, address, &scopes);

	printf("0x%016" PRIx64 "\n", address);
	n = n > 0 ? dwarf_getscopes_die(&scopes[0], &nested) : 0;
	for (int i = 0; i < n; i++) {
		int tag = dwarf_tag(&nested[i]);
		const char *name;

		if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine)
			continue;
		name = name_of(&nested[i]);
		puts(name ? name : "??");
		if (inner)
			print_call(unit, inner);
		else
			puts("");
		inner = &nested[i];
	}
	free(scopes);
	free(nested);
}

static int on_function(Dwarf_Die *die, void *user)
{
	const struct walk *w = user;
	Dwarf_Addr base, start = 0, end = 0;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0)
		for (uint64_t a = start; a < end; a += w->step)
			print_frames(w->unit, a);
	return DWARF_CB_OK;
}

int main(int argc, char **argv)
{
	uint64_t step = argc > 2 ? strtoull(argv[2], NULL, 0) : 4;
	int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	Dwarf *dwarf = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	uint8_t type;

	if (!dwarf || step == 0) {
		fprintf(stderr, "usage: libdw-frames FILE [STEP]: %s\n",
			fd < 0 ? "cannot open FILE" : dwarf_errmsg(-1));
		return 2;
	}
	while (dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, NULL) == 0) {
		struct walk w = { &die, step };

		if (type == DW_UT_compile || type == DW_UT_partial)
			dwarf_getfuncs(&die, on_function, &w, 0);
	}
	dwarf_end(dwarf);
	close(fd);
	return 0;
}
