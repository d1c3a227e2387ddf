/* SPDX-License-Identifier: MIT */
/* The kernel's symbols, as /proc/kallsyms lists them, sorted by address. */
#ifndef CSIGHT_CODE_KALLSYMS_H
#define CSIGHT_CODE_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/reason.h"
#include "lib/code/elf-core.h"

struct kallsyms_symbol {
	uint64_t address;
	uint64_t next; /* address of the next symbol behind this one; 0: there is none */
	const char *name;
	const char *owner; /* a module, "bpf", "__builtin__ftrace" …; "": the kernel */
	bool code, global, weak;
};

struct kallsyms {
	char *text;
	struct kallsyms_symbol *symbols;
	size_t n;
	uint64_t start, end; /* of the kernel's own code: _stext and _etext */
};

/* True if a file begins with a line of such a list. */
bool kallsyms_is(int fd);

/* -EACCES: the addresses are hidden; -EBADMSG: lines are damaged, or the kernel's own code has no bounds. */
int kallsyms_read(int fd, struct kallsyms *ret, struct reason *why);
void kallsyms_done(struct kallsyms *k);

/*
 * Finds the memory that holds code, in pages: the kernel's own, and what modules and trampolines have by their symbols;
 * not BPF programs. At most max ranges: the closest ones are joined. The caller frees *ret.
 */
int kallsyms_code(const struct kallsyms *k, size_t max, struct elf_core_segment **ret, size_t *ret_n);

/* Returns the functions, but for BPF programs; one extends to the next symbol. The caller frees *ret; the names are
 * k's. */
int kallsyms_functions(const struct kallsyms *k, struct elf_core_function **ret, size_t *ret_n);

#endif
