/* SPDX-License-Identifier: MIT */
/*
 * Catches a crash inside OpenCSD, so that it costs one trace source and not the decode. The handlers of SIGSEGV and
 * other crash signals jump to a landing point of the thread that crashed. guard_install() is called once, by
 * csight-decode only: its process is disposable and in a cage, and does not use the crashed tree again. Without
 * guard_install() no signal is caught.
 *
 *   if (sigsetjmp(here, 1) == 0) { guard_begin(&here); library(); guard_set(NULL); } else { the library crashed }
 *
 * A callback of ours disables the guard with guard_set(NULL) on entry, and passes the returned landing point to
 * guard_set() before it returns: a crash of our own code ends the process.
 *
 * The alternative is a second child process that continues behind the crash. It would have to decode the source again
 * up to there, without knowing whether the same crash returns; with the jump, the elements before the crash are kept.
 */
#ifndef CSIGHT_ETM_GUARD_H
#define CSIGHT_ETM_GUARD_H

#include <setjmp.h>

void guard_install(void);

/*
 * Treats a library call that uses more than this much processor time, and at most twice as much, since guard_begin() as
 * a crash. Called at most once.
 */
void guard_watch(unsigned seconds);

/* guard_set() for a new call of the library; restarts the measurement of its processor time. */
void guard_begin(sigjmp_buf *landing);

/*
 * Sets where a crash of this thread jumps to, or NULL, and returns the previous landing point. A landing point is used
 * at most once.
 */
sigjmp_buf *guard_set(sigjmp_buf *landing);

#endif
