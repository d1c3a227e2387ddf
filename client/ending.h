/* SPDX-License-Identifier: MIT */
/*
 * What is done before SIGINT, SIGTERM, SIGHUP or SIGPIPE ends csight: incomplete files are removed, and what serves
 * this process alone. A signal that is ignored or handled when the first action is added stays so. The actions run in
 * the handler of the signal: they may call async-signal-safe functions alone.
 */
#ifndef CSIGHT_CLIENT_ENDING_H
#define CSIGHT_CLIENT_ENDING_H

/* Adds an action, which is done before those that were added earlier. The caller drops it, by the same argument. */
void ending_add(void (*action)(void *argument), void *argument);
void ending_drop(const void *argument);

#endif
