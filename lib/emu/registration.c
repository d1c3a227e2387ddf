/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "lib/base/util.h"
#include "lib/emu/files.h"
#include "lib/emu/registration.h"
#include "lib/emu/tracing.h"

enum { STACK_SIZE = 256 << 10, PAUSE_MS = 50, PAUSE_MAX_MS = 1000, REFUSED_PAUSE_MS = 10000 };

/* Held while a connection exists that is not in tracing.shared: a child could not close it. */
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

/* Waits until the daemon has closed the connection. */
static void wait_for_end(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	/* The program may have closed the descriptor: nothing is read, since that could be the program's. */
	while (fd >= 0 && poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

static void sleep_ms(unsigned ms)
{
	struct timespec pause = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		;
}

/* Returns 0, or a negative errno as shared_announce() does. */
static int try_register(struct shared *s)
{
	int rc;

	pthread_mutex_lock(&registering);
	rc = shared_announce(s, tracing.options.socket);
	if (rc >= 0) {
		pthread_mutex_lock(&tracing.lock);
		shared_connected(s, rc);
		files_send(s);
		pthread_mutex_unlock(&tracing.lock);
	}
	pthread_mutex_unlock(&registering);
	return MIN(rc, 0);
}

/* Registers again, as soon as that succeeds. Returns false if it never will. */
static bool register_again(void)
{
	struct shared *s = &tracing.shared;
	unsigned pause = PAUSE_MS;
	int rc;

	for (;;) {
		sleep_ms(pause);
		pthread_mutex_lock(&tracing.lock);
		shared_disconnect(s);
		pthread_mutex_unlock(&tracing.lock);
		rc = try_register(s);
		if (rc == 0)
			return true;
		if (rc == -EPROTONOSUPPORT || rc == -EBADF)
			return false;
		/* A daemon that refuses the process, for a limit perhaps, is asked less often than an absent one. */
		pause = rc == -EUSERS || rc == -EPERM ? REFUSED_PAUSE_MS : MIN(2 * pause, (unsigned)PAUSE_MAX_MS);
	}
}

static void *run_registration(void *data)
{
	int fd;

	do {
		pthread_mutex_lock(&tracing.lock);
		fd = descriptor_fd(&tracing.shared.socket);
		pthread_mutex_unlock(&tracing.lock);
		wait_for_end(fd);
	} while (register_again());
	return NULL;
}

void registration_watch(void)
{
	pthread_attr_t attributes;
	sigset_t all, saved;
	pthread_t thread;

	if (!tracing.options.socket || descriptor_fd(&tracing.shared.socket) < 0)
		return;
	/* Signals are the program's: QEMU's handlers run on the threads of the program alone. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	/* Without the thread the program is traced until csightd ends. */
	pthread_create(&thread, &attributes, run_registration, NULL);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

void registration_before_fork(void)
{
	pthread_mutex_lock(&registering);
}

void registration_after_fork(void)
{
	pthread_mutex_unlock(&registering);
}
