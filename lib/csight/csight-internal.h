/* SPDX-License-Identifier: MIT */
/* What the files of libcsight share. Nothing of this is exported. */
#ifndef CSIGHT_CSIGHT_INTERNAL_H
#define CSIGHT_CSIGHT_INTERNAL_H

#include <stdatomic.h>

#include "lib/csight/csight.h"
#include "lib/varlink/varlink.h"

#define INTERFACE "org.csight."

/* The daemon's event loop never blocks: if it does not reply within this time, it is broken. */
enum { ANSWER_MS = 60000 };

struct async;
struct notes;

struct csight {
	struct varlink_stream *stream;
	struct async *async;
	_Atomic(struct notes *) notes; /* NULL: csight_notes_enable() was not called */
	pid_t owner;                   /* the process that opened the handle */
	int timeout_ms;                /* of a call; 0: the default */
	char *socket;
	bool chosen;     /* the caller or $CSIGHT_SOCKET named the socket */
	char doing[128]; /* the current call's action, for its error text */
	char *error_name;
	char error[1024];
};

/* A struct csight_object is a json_object under another name, which keeps json-c out of the interface. */
static inline struct csight_object *csight_object_of(json_object *o)
{
	return (struct csight_object *)o;
}

static inline json_object *csight_object_json(const struct csight_object *o)
{
	return (json_object *)o;
}

/* Sets what the current call does, for its message, and clears the message. */
void csight_begin_call(struct csight *c, const char *fmt, ...) _printf_(2, 3);

/* Set the message of the current call, and return rc or the errno for it. */
int csight_set_error(struct csight *c, int rc, const char *fmt, ...) _printf_(3, 4);
int csight_set_connect_error(struct csight *c, int rc, uid_t uid);
int csight_set_reply_error(struct csight *c, const struct varlink_reply *reply); /* -ENOSYS: see the next one */
int csight_set_version_error(struct csight *c, const char *version);             /* version: the daemon's, or NULL */
int csight_set_receive_error(struct csight *c, int rc);
int csight_set_options_error(struct csight *c, int rc);

/*
 * A socket at a default path may have been created by another user as a trap: -EACCES unless a daemon of this user or
 * of root serves it. *ret_uid: who does; -1: unknown, or any may.
 */
int csight_check_peer(struct csight *c, int fd, uid_t *ret_uid);

const char *csight_text_or(json_object *o, const char *key, const char *otherwise);

struct csight_request {
	const char *method;
	json_object *parameters; /* owned */
	bool more;
	csight_progress_fn progress;
	void *userdata;
	int *ret_fd; /* set if the reply carries a descriptor; else NULL */
	bool bare;   /* without parameters; otherwise NULL means that there was no memory for them */
	/* Called for each reply but the last, instead of progress; a non-zero return abandons the call. */
	int (*event)(void *userdata, const struct csight_object *reply);
};

/* Makes a call, passes progress on until the last reply, and stores its parameters in *ret unless NULL. */
int csight_call_method(struct csight *c, struct csight_request q, json_object **ret);

/* Calls a method that replies a list in pages; *ret is an object with the whole list in the field. */
int csight_call_for_list(struct csight *c, const char *method, const char *field, struct csight_object **ret);

/* Calls, and returns the object of a field of the reply; ret may be NULL. */
int csight_call_for_field(struct csight *c, struct csight_request q, const char *field, struct csight_object **ret);

/* Adds the options of Arm to its parameters. Errors of csight_options_read(). */
int csight_add_arm_options(json_object *parameters, const struct csight_arm_options *options);

/* Makes the parameters of Arm; the caller frees *ret. Errors of csight_options_read(). */
int csight_arm_parameters(pid_t pid, const struct csight_arm_options *options, json_object **ret);

/* The asynchronous calls of a handle (async.c). */
struct async *csight_async_new(struct csight *c);
struct async *csight_async_free(struct async *a);

/* note.c: sends the notes of a handle, if it records any, to a csightd that does not have them, as after a restart. */
void csight_notes_check(struct csight *c);

/* Ends the notes of a handle. */
void csight_notes_close(struct csight *c);

/*
 * Copies a caller's struct of options, which begins with its size in a size_t, to one of known bytes; NULL stands for
 * zeros. A caller that was built with an older header has a smaller struct: the fields that it lacks are zero. -E2BIG:
 * the struct is larger, and a byte that this version does not know is not zero; -EINVAL: the size is not set.
 */
int csight_options_read(void *ret, size_t known, const void *from);

/* Fills a caller's struct, which begins with the size that the caller has set, from one of known bytes. -EINVAL. */
int csight_options_write(void *ret, size_t known, const void *from);

/* Begins a call of Snapshot, and sets *ret to its parameters. */
int csight_snapshot_parameters(struct csight *c, pid_t pid, const struct csight_snapshot_options *options,
			       json_object **ret);

#endif
