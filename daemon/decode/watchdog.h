/* SPDX-License-Identifier: MIT */
/* The watchdog of csight-decode@.service: systemd ends a server whose loop does not turn. */
#ifndef CSIGHT_DECODE_WATCHDOG_H
#define CSIGHT_DECODE_WATCHDOG_H

struct watchdog {
	int fd;        /* of systemd; -1: it does not watch this process */
	int period_ms; /* how often it is fed; -1: never, as poll() takes it */
};

/* The caller closes the descriptor. */
struct watchdog watchdog_open(void);

/* Never waits. */
void watchdog_feed(const struct watchdog *w);

#endif
