/* SPDX-License-Identifier: MIT */
/*
 * Detects signal deliveries, which QEMU does not report to plugins: handlers are known from rt_sigaction, and a
 * delivery is recognized by the return address in x30. The signal frame holds the interrupted address.
 */
#ifndef CSIGHT_EMU_SIGNALS_H
#define CSIGHT_EMU_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* Adds the handler in the guest's struct sigaction at this address. */
void signals_action(uint64_t base, uint64_t action);

/* A cheap filter: false only for addresses that are not handlers. */
extern uint64_t signals_filter;
static inline bool signals_maybe(uint64_t pc)
{
	return signals_filter >> (pc >> 2 & 63) & 1;
}

struct delivery {
	uint64_t pc; /* the interrupted address */
	uint32_t signo;
	bool fault; /* caused by the instruction at pc, which did not execute */
};

/* True if the block at pc, which is about to run, is a handler to which a signal has just been delivered. */
bool signals_delivered(uint64_t base, uint64_t pc, struct delivery *ret);

#endif
