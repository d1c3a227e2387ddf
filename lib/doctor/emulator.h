/* SPDX-License-Identifier: MIT */
/* The emulator that has the emulated trace unit. */
#ifndef CSIGHT_DOCTOR_EMULATOR_H
#define CSIGHT_DOCTOR_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/reason.h"

/*
 * Finds a qemu-aarch64 that supports plugins: $QEMU_AARCH64, else the first on the PATH. The function runs the emulator
 * with the plugin, since its version does not show whether it supports them: static builds of every version do not. On
 * failure r has what to install.
 */
bool emulator_find(const char *plugin, char *ret, size_t size, struct reason *r);

#endif
