/* SPDX-License-Identifier: MIT */
/* The methods of org.csight about standing targets. */
#ifndef CSIGHT_DAEMON_STANDING_METHODS_H
#define CSIGHT_DAEMON_STANDING_METHODS_H

#include "daemon/methods-internal.h"

/* Finds the standing target that a call names, and checks the right to it. Returns false after an error reply. */
bool standing_methods_find(struct daemon *d, struct call *c, struct methods_subject *ret);

void standing_methods_arm(struct daemon *d, struct call *c, struct methods_subject *s);
void standing_methods_disarm(struct daemon *d, struct call *c, struct methods_subject *s);
void standing_methods_list(struct daemon *d, struct call *c, struct methods_subject *s);

#endif
