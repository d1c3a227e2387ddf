/* SPDX-License-Identifier: MIT */
/* The interfaces that csightd serves, for org.varlink.service: their list and their texts. */
#ifndef CSIGHT_DAEMON_INTERFACES_H
#define CSIGHT_DAEMON_INTERFACES_H

#include "daemon/call.h"

/* Reply to GetInfo and GetInterfaceDescription. */
void interfaces_list(struct call *c);
void interfaces_describe(struct call *c);

/* Replies that a served interface lacks the method, or that the interface is not served. */
void interfaces_lack(struct call *c, const char *name);

#endif
