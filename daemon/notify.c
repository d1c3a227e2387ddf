/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "daemon/notify.h"
#include "lib/base/escape.h"
#include "lib/base/util.h"

enum { STOP_EXTRA = 20 }; /* seconds to write what is being copied */

static void notify(const char *fmt, ...) _printf_(1, 2);

#ifdef HAVE_SYSTEMD
static void notify(const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	sd_notify(0, text);
}
#else
static void notify(const char *fmt, ...)
{
	(void)fmt;
}
#endif

void notify_ready(void)
{
	notify("READY=1\nSTATUS=ready");
}

void notify_reloading(void)
{
	notify("RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=reading the configuration again",
	       (unsigned long long)now_ns(CLOCK_MONOTONIC) / 1000);
}

void notify_reloaded(const char *why)
{
	if (why)
		notify("READY=1\nSTATUS=ready; the configuration has an error, and the old one is in effect: %s",
		       esc(why));
	else
		notify_ready();
}

void notify_status(const char *text)
{
	notify("STATUS=%s", text);
}

void notify_saving(void)
{
	notify("EXTEND_TIMEOUT_USEC=%llu", STOP_EXTRA * 1000000ull);
}

void notify_stopping(uint64_t seconds)
{
	notify("STOPPING=1\nSTATUS=finishing pending requests\nEXTEND_TIMEOUT_USEC=%llu",
	       (unsigned long long)(seconds + STOP_EXTRA) * 1000000);
}

static void on_watchdog(evutil_socket_t fd, short what, void *data)
{
	notify("WATCHDOG=1");
}

struct event *notify_watchdog(struct event_base *base)
{
	struct event *e = NULL;
#ifdef HAVE_SYSTEMD
	struct timeval period;
	uint64_t us;

	if (sd_watchdog_enabled(0, &us) <= 0)
		return NULL;
	period = (struct timeval){ (time_t)(us / 2000000), (suseconds_t)(us / 2 % 1000000) };
	e = event_new(base, -1, EV_PERSIST, on_watchdog, NULL);
	if (e)
		event_add(e, &period);
#else
	(void)base;
	(void)on_watchdog;
#endif
	return e;
}
