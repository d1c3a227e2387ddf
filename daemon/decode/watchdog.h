/* SPDX-License-Identifier: MIT */
/* The watchdog of csight-decode@.service: systemd ends a server whose loop does not turn. */
#ifndef CSIGHT_DECODE_WATCHDOG_H
#define CSIGHT_DECODE_WATCHDOG_H

struct watchdog {
	int fd;        /* socket to systemd; -1: systemd does not watch this process */
	int period_ms; /* period of watchdog_feed(), as a timeout of poll(): -1: never */
};

/* Connects to systemd, if it watches this process. The caller closes the descriptor. */
struct watchdog watchdog_open(void);

/* Sends the message that keeps systemd from ending the server. Never waits. */
void watchdog_feed(const struct watchdog *w);

#endif
