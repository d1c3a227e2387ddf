/* SPDX-License-Identifier: MIT */
/* How traced threads and the process end. */
#ifndef CSIGHT_EMU_ENDINGS_H
#define CSIGHT_EMU_ENDINGS_H

#include "lib/emu/qemu.h"

/* Registers callbacks at QEMU, and for signals that kill the process (lib/emu/death.h). */
void endings_watch(qemu_plugin_id_t id);

#endif
