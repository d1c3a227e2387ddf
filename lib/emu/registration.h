/* SPDX-License-Identifier: MIT */
/*
 * Keeps the process registered: a thread waits for the end of the connection to csightd, and registers the same memory
 * again when a daemon listens at the socket. Meanwhile the program is traced as before, so that a restart of csightd
 * costs no history.
 */
#ifndef CSIGHT_EMU_REGISTRATION_H
#define CSIGHT_EMU_REGISTRATION_H

/* Starts the thread, after the process has registered; the child of a fork calls it again. */
void registration_watch(void);

/* Called around a fork, by its thread: no registration is under way meanwhile. */
void registration_before_fork(void);
void registration_after_fork(void);

#endif
