/* SPDX-License-Identifier: MIT */
/*
 * Copies the code that the kernel executes, as it is now, patches included, out of /proc/kcore: its own, that of
 * modules and trampolines as far as /proc/kallsyms lists them, and the trampoline of kpti (trampoline.h); not BPF
 * programs, which come and go. The copy is a core file with the names of the functions. Of the kernel's data it has
 * what lies in the same pages as code, and between pieces of code that are neighbours.
 */
#ifndef CSIGHT_DAEMON_KERNEL_COPY_H
#define CSIGHT_DAEMON_KERNEL_COPY_H

#include <stdint.h>

#include "lib/base/reason.h"

struct kernel_copy {
	int fd; /* a sealed memfd */
	uint64_t size;
	uint64_t start, length; /* of the kernel's own code */
};

/* Reads DIR/kcore and DIR/kallsyms; dir is /proc, except in tests. The caller closes ret->fd. 0, or negative errno with
 * the reason. */
int kernel_copy_make(const char *dir, struct kernel_copy *ret, struct reason *why);

#endif
