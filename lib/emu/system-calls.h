/* SPDX-License-Identifier: MIT */
/* System calls of traced threads: their trace, their time, and what they change of mappings, handlers and names. */
#ifndef CSIGHT_EMU_SYSTEM_CALLS_H
#define CSIGHT_EMU_SYSTEM_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/emu/qemu.h"

/* Registers callbacks at QEMU. */
void system_calls_watch(qemu_plugin_id_t id);

/* Returns true if the calling thread is in a system call that ends it or the process. */
bool system_calls_exit(int *ret_status);

#endif
