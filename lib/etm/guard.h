/*
 * A crash of a library that is not ours ends its work and not the process. guard_install() is called once, by a program
 * that can lose all it holds and is held by a cage; without it nothing is caught.
 *
 *   if (sigsetjmp(here, 1) == 0) { guard_begin(&here); library(); guard_set(NULL); } else { it crashed }
 *
 * A function of ours that the library calls back takes the guard off, by guard_set(NULL), and gives what that returned
 * back to guard_set() when it is done: a crash of our own is a crash.
 */
#ifndef CSIGHT_ETM_GUARD_H
#define CSIGHT_ETM_GUARD_H

#include <setjmp.h>

void guard_install(void);

/* A library that uses this much processor time, and at most twice as much, for what was begun crashes then. Once. */
void guard_watch(unsigned seconds);

/* guard_set() at the beginning of a piece of work. */
void guard_begin(sigjmp_buf *landing);

/* Where this thread's crashes land; returns where they did before. They land once. */
sigjmp_buf *guard_set(sigjmp_buf *landing);

#endif
