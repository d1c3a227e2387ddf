/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>

#include "lib/base/util.h"
#include "lib/etm/guard.h"

static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
static struct sigaction before[ELEMENTS(crashes)];
static _Thread_local sigjmp_buf *volatile landing;
static _Thread_local volatile unsigned long begun, seen;

sigjmp_buf *guard_set(sigjmp_buf *to)
{
	sigjmp_buf *from = landing;

	landing = to;
	return from;
}

void guard_begin(sigjmp_buf *to)
{
	begun++;
	landing = to;
}

/*
 * Runs on the thread that uses the processor. A call that has been running since the previous tick is stuck. While a
 * callback of ours runs, the guard is off and the tick is ignored; the next one decides.
 */
static void on_tick(int signal)
{
	sigjmp_buf *to = landing;
	bool stuck = seen == begun;

	if (!to)
		return;
	seen = begun;
	if (stuck) {
		landing = NULL;
		siglongjmp(*to, signal);
	}
}

void guard_watch(unsigned seconds)
{
	const struct itimerval each = { { seconds, 0 }, { seconds, 0 } };
	struct sigaction a = { .sa_handler = on_tick, .sa_flags = SA_RESTART };

	sigaction(SIGPROF, &a, NULL);
	setitimer(ITIMER_PROF, &each, NULL);
}

static void on_crash(int signal)
{
	sigjmp_buf *to = guard_set(NULL);

	if (to)
		siglongjmp(*to, signal);
	/* Not guarded: restore the previous handler, which gets the signal as soon as this one returns. */
	for (size_t i = 0; i < ELEMENTS(crashes); i++)
		if (crashes[i] == signal)
			sigaction(signal, &before[i], NULL);
	raise(signal);
}

void guard_install(void)
{
	struct sigaction a = { .sa_handler = on_crash };

	for (size_t i = 0; i < ELEMENTS(crashes); i++)
		sigaction(crashes[i], &a, &before[i]);
}
