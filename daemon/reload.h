/* SPDX-License-Identifier: MIT */
/*
 * Reads the configuration again while the daemon runs. The files are parsed on the names queue, since users and groups
 * are looked up; the result is applied on the loop's thread. A configuration with an error changes nothing.
 */
#ifndef CSIGHT_DAEMON_RELOAD_H
#define CSIGHT_DAEMON_RELOAD_H

#include "daemon/call.h"

struct daemon;

/*
 * Begins to read the configuration again. c: the call that gets the result; NULL: a signal requested it, and systemd is
 * notified of its begin and end.
 */
void reload_begin(struct daemon *d, struct call *c);

#endif
