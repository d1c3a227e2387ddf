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

/* The content of the file. */
struct state_content {
	const char *boot;
	json_object *targets, *standing; /* lists */
	bool paused;                     /* all recording is paused */
};

/*
 * Reads the file. ret->boot is set by the caller. If the targets are of another boot, ret->targets is NULL and
 * *ret_past their number; ret->standing may be NULL. -ENOENT: there is no file; -ENOMEM, -EMFILE, -ENFILE: it cannot be
 * read now; other errors: csightd has not written it, for the reason in why.
 */
int state_file_read(int spool, struct state_content *ret, size_t *ret_past, struct reason *why);

/*
 * Composes the text of the file, and takes ownership of the lists in content. -ENOMEM; -EFBIG: state_file_read() would
 * refuse it.
 */
int state_file_text(const struct state_content *content, char **ret);

/* A target of an earlier daemon. */
struct state_entry {
	pid_t pid;
	uint64_t start; /* proc_file_start() */
	uid_t uid, requester;
	const char *name, *exe; /* borrowed from the JSON object */
	bool perf;
	struct capture_options options; /* its texts are borrowed as well */
	json_object *triggers;          /* or NULL */
	uint32_t standing;              /* the standing target that it is of; 0: none */
};

/* Parses the JSON object of a target. Returns 0 or -EBADMSG. */
int state_file_parse(json_object *o, struct state_entry *ret);

/* Returns the most bytes of that object. */
uint64_t state_file_size(const struct target *t);

/* Returns a new JSON object for a target, without its triggers. */
json_object *state_file_entry(const struct target *t);

#endif
