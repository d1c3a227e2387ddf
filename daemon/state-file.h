/* SPDX-License-Identifier: MIT */
/* The file of the state: csight-formats(5), targets.json. It holds one object for each target. */
#ifndef CSIGHT_DAEMON_STATE_FILE_H
#define CSIGHT_DAEMON_STATE_FILE_H

#include "daemon/target.h"
#include "lib/base/reason.h"

#define STATE_FILE "targets.json"

enum { STATE_BOOT_SIZE = 40 };

/* Reads the name of the running boot; "" if it is unknown. */
void state_file_boot(char ret[STATE_BOOT_SIZE]);

/*
 * Reads the list of targets. *ret is NULL, and ret_past counts them, if all are of another boot. -ENOENT: there is no
 * file; other errors: it is not one that csightd wrote, for the reason in why.
 */
int state_file_read(int spool, const char *boot, json_object **ret, bool *ret_paused, size_t *ret_past,
		    struct reason *why);

/* Returns the text for a list of targets, which it takes, and whether all recording is paused; NULL: out of memory. */
char *state_file_text(const char *boot, json_object *list, bool paused);

/* One target. */
struct state_entry {
	pid_t pid;
	uint64_t start; /* proc_file_start() */
	uid_t uid, requester;
	const char *name, *exe; /* of json, */
	bool perf;
	struct capture_options options; /* whose texts are as well */
	json_object *triggers;          /* or NULL */
};

/* -EBADMSG. */
int state_file_parse(json_object *o, struct state_entry *ret);

/* Returns a new object, without triggers. */
json_object *state_file_entry(const struct target *t);

#endif
