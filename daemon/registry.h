/* SPDX-License-Identifier: MIT */
/*
 * The registration socket of programs under the emulated ETM (lib/emu/ring.h). A program that registers becomes a
 * target of the user that its socket's credentials name. Programs give csightd their notes here, too
 * (lib/notes/notes.h). On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_REGISTRY_H
#define CSIGHT_DAEMON_REGISTRY_H

#include "daemon/audit.h"
#include "daemon/settings.h"
#include "daemon/target.h"
#include "daemon/turns.h"

struct registry;

struct registry_options {
	struct event_base *base;
	const char *path;
	unsigned mode; /* of the socket file */
	const struct settings *settings;
	struct user_queues *queues; /* check and close files of users */
	struct target_list *targets;
	struct turns *turns;
	struct ledger *ledger;
	void (*hits)(void *data, struct target *t); /* a target has hits of its watch points */
	void *data;
	struct audit *audit; /* or NULL */
};

int registry_new(const struct registry_options *options, struct registry **ret);
struct registry *registry_free(struct registry *r);
/* Gives a target the notes that its program has registered, if there are any. r may be NULL. */
void registry_add_notes(const struct registry *r, struct target *t);
const char *registry_path(const struct registry *r);

#endif
