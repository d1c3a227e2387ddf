/* SPDX-License-Identifier: MIT */
/* Checks of `run --emu` before it starts a program: is there an emulator, and is the program one for it? */
#ifndef CSIGHT_CLIENT_GUEST_H
#define CSIGHT_CLIENT_GUEST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/reason.h"

#define GUEST_SYSROOT "/usr/aarch64-linux-gnu"

struct guest {
	char interpreter[PATH_MAX]; /* "" for a static program */
};

/* Finds a program as a shell does: a name without a slash on the PATH. On failure r has the reason. */
bool guest_find(const char *name, char *ret, size_t size, struct reason *r);

/* True if path is a program for aarch64 Linux; else r has what it is instead, and what to do. */
bool guest_program(const char *path, struct guest *ret, struct reason *r);

/* True if the interpreter exists, beneath the sysroot unless that is NULL, or the program needs none. */
bool guest_interpreter_in(const struct guest *g, const char *sysroot);

#endif
