/* SPDX-License-Identifier: MIT */
/* The methods of org.csight about triggers; methods.c has their rows. */
#ifndef CSIGHT_DAEMON_TRIGGER_METHODS_H
#define CSIGHT_DAEMON_TRIGGER_METHODS_H

#include "daemon/methods-internal.h"

/* Finds the trigger that a call names, and checks the right to it. Returns false after an error reply. */
bool trigger_methods_find(struct daemon *d, struct call *c, struct methods_subject *ret);

void trigger_methods_watch(struct daemon *d, struct call *c, struct methods_subject *s);
void trigger_methods_list(struct daemon *d, struct call *c, struct methods_subject *s);
void trigger_methods_set(struct daemon *d, struct call *c, struct methods_subject *s);
void trigger_methods_remove(struct daemon *d, struct call *c, struct methods_subject *s);

#endif
