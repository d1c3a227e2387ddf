/*
 * libcsight: asks csightd for what programs were doing just before now.
 *
 *	struct csight_object *snapshot = NULL;
 *	struct csight *c = NULL;
 *
 *	if (csight_open(NULL, &c) < 0)
 *		...
 *	if (csight_snapshot(c, pid, 0, NULL, NULL, &snapshot) < 0)
 *		fprintf(stderr, "%s\n", csight_error(c));
 *	else
 *		printf("%s\n", csight_text(snapshot, "id"));
 *	csight_object_free(snapshot);
 *	csight_close(c);
 *
 * A handle is one connection; it is made at the first call, and again after it broke. A handle and the objects that
 * came from it are used by one thread at a time; different handles have nothing in common. The library prints nothing,
 * starts no threads, raises no signals and keeps no state of its own.
 *
 * Functions that return int return 0 or a negative errno, and leave their outputs untouched on failure:
 *
 *	-ENOTCONN	no daemon answers, or it went away
 *	-EACCES		the socket is not for this user
 *	-EPERM		the process or snapshot is another user's
 *	-ESRCH		no such process
 *	-ENOENT		no such snapshot, or it has no such file
 *	-EOPNOTSUPP	the process cannot be traced here
 *	-ENODATA	the process is not armed, and CSIGHT_NO_ARM was asked for
 *	-EBUSY		the snapshot is not in a state that allows this
 *	-EDQUOT		a limit of this user was reached
 *	-EIO		no snapshot could be made
 *	-EINVAL		the daemon refused an argument
 *	-ENOSYS		the daemon knows no such method: it is older than this library
 *	-EPROTO		what answers does not speak as csightd does
 *	-ETIMEDOUT	no answer came in time
 *	-ECANCELED	the progress function asked to stop
 *	-ENOMEM
 *
 * csight_error() has the whole sentence.
 */
#ifndef CSIGHT_H
#define CSIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct csight;

/* The daemon's answer: a value with named fields, as org.csight.varlink describes them. */
struct csight_object;

/*
 * socket NULL: $CSIGHT_SOCKET where it is set, else the socket of this user's own daemon where there is one, else the
 * system's. Nothing is connected yet. -ENOMEM, -ENAMETOOLONG.
 */
int csight_open(const char *socket, struct csight **ret);

/* NULL is fine; returns NULL. */
struct csight *csight_close(struct csight *c);

/* The socket's path. */
const char *csight_socket(const struct csight *c);

/* About the last call that failed: a sentence for people, free of control characters; never NULL. */
const char *csight_error(const struct csight *c);

/* The name of the error that the daemon replied with, as "org.csight.NoSuchProcess"; NULL where it was another. */
const char *csight_error_name(const struct csight *c);

int csight_status(struct csight *c, struct csight_object **ret);

/* The caller's targets, in the field "targets"; root's are all. */
int csight_targets(struct csight *c, struct csight_object **ret);

/* What a trace is to hold, where the machine's own trace units give it; what is left 0 is as by default. */
struct csight_arm_options {
	bool kernel;        /* what the process does in the kernel, too; for root */
	bool cycles;        /* cycle counts */
	bool no_timestamps; /* fewer bytes, and no times */
	bool no_contexts;
	const char *filter; /* address filters, in the kernel's words */
	const char *sink;   /* the trace sink's name */
};

/* options may be NULL. ret may be NULL; else it receives the target. */
int csight_arm(struct csight *c, pid_t pid, const struct csight_arm_options *options, struct csight_object **ret);
int csight_disarm(struct csight *c, pid_t pid);

/*
 * Called at each step and as bytes are done: phase is "arming", "freezing", "copying", "queued" or "decoding", others
 * may come; total is 0 where it is not known. Not 0 stops the wait with -ECANCELED; the daemon goes on by itself.
 */
typedef int (*csight_progress_fn)(void *userdata, const char *phase, uint64_t done, uint64_t total);

enum {
	CSIGHT_NO_ARM = 1,  /* refuse a process that is not armed, instead of arming it */
	CSIGHT_NO_WAIT = 2, /* return when the copy is safe, without waiting for the decode */
};

/* Takes a snapshot and waits for its decode; the snapshot's "state" then is "ready", or "raw" with a "reason". */
int csight_snapshot(struct csight *c, pid_t pid, unsigned flags, csight_progress_fn progress, void *userdata,
		    struct csight_object **ret);

/* Waits until a snapshot is ready or raw. */
int csight_wait(struct csight *c, const char *id, csight_progress_fn progress, void *userdata,
		struct csight_object **ret);

/* The caller's snapshots, oldest first, in the field "snapshots". */
int csight_list(struct csight *c, struct csight_object **ret);
int csight_get(struct csight *c, const char *id, struct csight_object **ret);

/* file: "store", "perfetto", "perfdata" or "json". *ret is a descriptor to read from, close-on-exec. */
int csight_open_file(struct csight *c, const char *id, const char *file, int *ret);

int csight_remove(struct csight *c, const char *id);

/*
 * Fields. What is returned belongs to the object it came from. An absent field, or one of another type, is NULL,
 * otherwise, false or 0. field NULL means the object itself: the items of a list of texts are read so.
 */
const char *csight_text(const struct csight_object *o, const char *field);
int64_t csight_number(const struct csight_object *o, const char *field, int64_t otherwise);
bool csight_flag(const struct csight_object *o, const char *field);
const struct csight_object *csight_field(const struct csight_object *o, const char *field);

/* A list's length, and one of its items: NULL past its end. */
size_t csight_count(const struct csight_object *o, const char *field);
const struct csight_object *csight_item(const struct csight_object *o, const char *field, size_t index);

/* The object as JSON, on one line; valid until the next call for the same object. */
const char *csight_json(const struct csight_object *o);

/* For objects that a call returned, not for fields and items; NULL is fine; returns NULL. */
struct csight_object *csight_object_free(struct csight_object *o);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
