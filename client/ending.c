/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "client/ending.h"
#include "lib/base/util.h"
#include "lib/decoder/decoder.h"

/* Those of outputs, of a private daemon, and of csight selftest. */
enum { ENDINGS_MAX = DECODER_OUTPUTS_MAX + 3 };

static struct {
	void (*volatile action)(void *argument); /* NULL: none */
	void *argument;
} endings[ENDINGS_MAX];
static pid_t owner;

/* A child that has not yet executed another program has the handler, too. */
static void on_signal(int signal)
{
	for (size_t i = getpid() == owner ? ENDINGS_MAX : 0; i--;)
		if (endings[i].action)
			endings[i].action(endings[i].argument);
	raise(signal);
}

static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
	/* A second signal does not wait for the actions. */
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER) };
	struct sigaction before;

	for (size_t i = 0; i < ELEMENTS(signals); i++)
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
			sigaction(signals[i], &action, NULL);
	owner = getpid();
}

void ending_add(void (*action)(void *argument), void *argument)
{
	size_t i = ENDINGS_MAX;

	if (!owner)
		catch_signals();
	while (i && !endings[i - 1].action)
		i--;
	assert(i < ENDINGS_MAX);
	endings[i].argument = argument;
	endings[i].action = action;
}

void ending_drop(const void *argument)
{
	for (size_t i = 0; i < ENDINGS_MAX; i++)
		if (endings[i].argument == argument)
			endings[i].action = NULL;
}
