/* SPDX-License-Identifier: MIT */
/* Finds the call that triggered a snapshot. */
#ifndef CSIGHT_STORE_TRIGGER_CALL_H
#define CSIGHT_STORE_TRIGGER_CALL_H

#include "lib/store/finder.h"

/*
 * Finds the call of which store_trigger() has the thread, the time and the duration: of the trigger's function, or, for
 * a system call or a wait, of any system call; times may differ by the thread's error bound, and the closest call is
 * returned. Of a call that began before the trace, or that a goroutine continues, it is the part in which it ended.
 * Returns 1, or 0 if there is none. Errors as of iterators.
 */
int store_trigger_call(const struct store *s, struct store_found_call *ret);

#endif
