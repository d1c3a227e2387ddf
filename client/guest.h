/* What `run --emu` must know before it starts a program: the emulator, and whether the program is one for it. */
#ifndef CSIGHT_CLIENT_GUEST_H
#define CSIGHT_CLIENT_GUEST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define GUEST_SYSROOT "/usr/aarch64-linux-gnu"

struct guest {
	char why[512];              /* where it is no program for the emulator: what it is instead, what to do */
	char interpreter[PATH_MAX]; /* "" for a static program */
};

/* Whether path is a program for aarch64 Linux; else why says why not. */
bool guest_program(const char *path, struct guest *ret);

/* Whether the interpreter is there, beneath the sysroot where that is not NULL. */
bool guest_interpreter_in(const struct guest *g, const char *sysroot);

/*
 * A qemu-aarch64 that takes plugins: $QEMU_AARCH64, else the first on the PATH. Whether it does is tried with this very
 * plugin: a version tells nothing, as static builds of any lack them. On failure why says what to install.
 */
bool guest_emulator(const char *plugin, char *ret, size_t size, char *ret_why, size_t why_size);

#endif
