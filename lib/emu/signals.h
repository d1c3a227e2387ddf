/*
 * Which addresses are signal handlers, and what a handler's frame tells. QEMU does not tell a plugin of signals: a
 * handler is known from rt_sigaction, and a delivery by the return address in x30.
 */
#ifndef CSIGHT_EMU_SIGNALS_H
#define CSIGHT_EMU_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* The guest calls rt_sigaction with this struct. */
void signals_action(uint64_t base, uint64_t action);

/* Cheap, and wrong in one direction only: true for some addresses that are no handlers. */
extern uint64_t signals_filter;
static inline bool signals_maybe(uint64_t pc)
{
	return signals_filter >> (pc >> 2 & 63) & 1;
}

struct delivery {
	uint64_t pc; /* where the thread was */
	uint32_t signo;
	bool fault; /* an instruction caused it: that at pc did not execute */
};

/* A block at pc is about to run: is it a handler that a signal was just delivered to? */
bool signals_delivered(uint64_t base, uint64_t pc, struct delivery *ret);

#endif
