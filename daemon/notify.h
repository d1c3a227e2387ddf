/* SPDX-License-Identifier: MIT */
/* Notifications of systemd: what state the service is in, and that its loop turns. Without systemd they do nothing. */
#ifndef CSIGHT_DAEMON_NOTIFY_H
#define CSIGHT_DAEMON_NOTIFY_H

#include <event2/event.h>
#include <stdint.h>

void notify_ready(void);
void notify_reloading(void);

/* Reports the end of a reload. why: the error; NULL: it succeeded. */
void notify_reloaded(const char *why);

/* Sends the line that systemctl status shows. */
void notify_status(const char *text);

/* Extends the time in which the daemon must end, since a recording is being written. On any thread. */
void notify_saving(void);

/* Reports that the daemon ends, which may take this time. */
void notify_stopping(uint64_t seconds);

/* Reports that the loop turns, twice in each watchdog interval of systemd. Returns NULL if systemd sets none. */
struct event *notify_watchdog(struct event_base *base);

#endif
