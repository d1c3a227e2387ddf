/* SPDX-License-Identifier: MIT */
/* Notifications of systemd: what state the service is in, and that its loop turns. Without systemd they do nothing. */
#ifndef CSIGHT_DAEMON_NOTIFY_H
#define CSIGHT_DAEMON_NOTIFY_H

#include <event2/event.h>
#include <stdint.h>

void notify_ready(void);
void notify_reloading(void);

/* The end of a reload. why: the error; NULL: it succeeded. */
void notify_reloaded(const char *why);

/* text: what systemctl status shows, one line. */
void notify_status(const char *text);

/* The end goes on: what was recorded is being written. On any thread. */
void notify_saving(void);

/* seconds: how long the end may take. */
void notify_stopping(uint64_t seconds);

/* Reports that the loop turns, twice as often as systemd wants to know. Returns NULL if it does not. */
struct event *notify_watchdog(struct event_base *base);

#endif
