/* SPDX-License-Identifier: MIT */
/*
 * Observes that a signal ends the program. QEMU reports to plugins neither faults nor signals. It ends a program that a
 * guest signal kills by sending itself the host's signal, by kill(), in the thread that died, with that thread's
 * registers as the program left them. So the plugin takes the place of kill() among the functions that QEMU imports.
 * System calls of the program do not go through it.
 */
#ifndef CSIGHT_EMU_DEATH_H
#define CSIGHT_EMU_DEATH_H

#include <stdbool.h>

/* Calls died(signal) just before QEMU dies. False: this QEMU does not import kill(), or its table cannot be written. */
bool death_watch(void (*died)(int signal));

#endif
