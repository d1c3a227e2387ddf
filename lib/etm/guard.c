#include <signal.h>
#include <stddef.h>

#include "lib/base/util.h"
#include "lib/etm/guard.h"

static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
static struct sigaction before[ELEMENTS(crashes)];
static _Thread_local sigjmp_buf *volatile landing;

sigjmp_buf *guard_set(sigjmp_buf *to)
{
	sigjmp_buf *from = landing;

	landing = to;
	return from;
}

static void on_crash(int signal)
{
	sigjmp_buf *to = guard_set(NULL);

	if (to)
		siglongjmp(*to, signal);
	/* Returning does the same again, to whoever it would have met. */
	for (size_t i = 0; i < ELEMENTS(crashes); i++)
		if (crashes[i] == signal)
			sigaction(signal, &before[i], NULL);
}

void guard_install(void)
{
	struct sigaction a = { .sa_handler = on_crash };

	for (size_t i = 0; i < ELEMENTS(crashes); i++)
		sigaction(crashes[i], &a, &before[i]);
}
