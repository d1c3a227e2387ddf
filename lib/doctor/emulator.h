/* SPDX-License-Identifier: MIT */
/* The emulator that has the emulated trace unit. */
#ifndef CSIGHT_DOCTOR_EMULATOR_H
#define CSIGHT_DOCTOR_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/reason.h"

/*
 * Finds a qemu-aarch64 that supports plugins: $QEMU_AARCH64, else the first on the PATH. It is run with the plugin to
 * see whether it does, as its version does not decide that: static builds of every version lack them. On failure r has
 * what to install.
 */
bool emulator_find(const char *plugin, char *ret, size_t size, struct reason *r);

#endif
