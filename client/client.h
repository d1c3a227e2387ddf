/* SPDX-License-Identifier: MIT */
/* csight: one file for each verb. cmd-VERB.c defines a struct verb, which main.c lists. The verb's table of options is
 * the single source for parsing, --help and usage errors.
 *
 *	static int run(struct client *c)
 *	{
 *		const char *value;
 *		int o;
 *
 *		while ((o = client_option(c, &value)) >= 0)
 *			switch (o) {		// index into the verb's options
 *			...
 *			}
 *		if (o == CLIENT_STOP)		// --help was printed, or the usage was wrong
 *			return c->status;
 *		... c->argc, c->argv: the remaining arguments
 *	}
 */
#ifndef CSIGHT_CLIENT_H
#define CSIGHT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/trace-options.h"
#include "lib/base/json.h"
#include "lib/base/parse.h"
#include "lib/base/util.h"
#include "lib/csight/csight.h"

static inline void csight_object_freep(struct csight_object **o)
{
	csight_object_free(*o);
}
#define _cleanup_object_ _cleanup_(csight_object_freep)

/* Exit statuses, documented in csight(1). */
enum { STATUS_OK, STATUS_FAILED, STATUS_USAGE, STATUS_NO_DAEMON, STATUS_DENIED, STATUS_NOT_FOUND, STATUS_DIFFERS };

struct verb_option {
	const char *name;     /* without the leading dashes */
	char letter;          /* or 0 */
	const char *argument; /* name of the argument in --help; NULL: none */
	const char *help;
};

enum {
	VERB_SOCKET = 1,  /* accepts --socket */
	VERB_JSON = 2,    /* accepts --json */
	VERB_QUIET = 4,   /* accepts --quiet */
	VERB_NAMES = 32,  /* accepts --full-names */
	VERB_PAGER = 64,  /* accepts --no-pager, and calls client_page() before it prints */
	VERB_PROGRAM = 8, /* options end at the first argument that is not one; the rest is a command line */
	VERB_TRACE = 16,  /* accepts --images, --buffer and --regs: it reads what csight decode reads, too */
};

struct client;

struct verb {
	const char *name;
	const char *arguments; /* as the usage line shows them after the options; "": none */
	const char *summary;   /* one line, without a full stop */
	unsigned flags;
	const struct verb_option *options; /* ends with an entry without a name; NULL: none */
	int (*run)(struct client *c);      /* returns the exit status */
};

struct client {
	const struct verb *verb;
	int argc;
	char **argv; /* [0] is the verb until client_option() returns CLIENT_DONE */
	int status;  /* exit status, after CLIENT_STOP */
	const char *socket;
	bool json, quiet, full_names, no_pager;
	struct trace_options trace;
	struct csight *daemon;          /* set by client_connect() */
	struct private_daemon *private; /* set by client_start_daemon(), or NULL */
};

enum { CLIENT_DONE = -1, CLIENT_STOP = -2 };

/*
 * Parses the next option. Returns the index of one of the verb's own options, with its argument in *ret_value;
 * CLIENT_DONE after the last one; CLIENT_STOP if --help was printed or the usage was wrong. Handles the options that
 * verbs share.
 */
int client_option(struct client *c, const char **ret_value);

/* Starts the pager for what the verb prints, unless --json or --no-pager was given or no terminal is there. */
void client_page(const struct client *c);

/* Prints a JSON text on a line of standard output, with what could change a terminal escaped; the object remains. */
void client_print_json(json_object *o);
void client_print_json_text(const char *text);
/* Prints an object with one member, the JSON text. */
void client_print_json_member(FILE *to, const char *key, const char *text);
/* Returns true if memory ran out in one of the functions above, which has printed an error. */
bool client_print_failed(void);

/* Prints an error unless the argument of an option is a directory. Returns 0 or an exit status. */
int client_check_directory(const char *option, const char *path);

/* Returns the text of an error of reading a store or a snapshot. */
const char *client_read_problem(int error);

/* Returns advice on an error of writing a file, to be appended to the text of the error; "" if there is none. */
const char *client_write_advice(int error);

/* Prints an error about the arguments, and the usage; returns STATUS_USAGE. */
int client_usage(struct client *c, const char *fmt, ...) _printf_(2, 3);

/*
 * Prints a usage error: value is none of the n known ones, which the error lists. noun: what value names, such as
 * "format". Returns STATUS_USAGE.
 */
int client_unknown(struct client *c, const char *noun, const char *value, const char *const *known, size_t n);

/* Prints "csight: …" on standard error. The caller escapes text from outside with esc(). */
void client_error(const char *fmt, ...) _printf_(1, 2);

/* Prints why the last call of libcsight failed; rc is what it returned. Returns the exit status for it. */
int client_daemon_failed(struct client *c, int rc);

/* Creates the handle c->daemon, unless there is one. Returns 0 or an exit status. */
int client_connect(struct client *c);

/*
 * Parses the options of a verb that has no arguments, and connects to the daemon. Returns false, with the exit status
 * in c->status, if the verb ends there.
 */
bool client_begin_query(struct client *c);

/* Does all the work of a verb without arguments that makes one call: parses its options, connects, calls, and with
 * --json prints the reply. Returns true if the caller has to print *ret; else the exit status is in c->status.
 */
bool client_query(struct client *c, int (*call)(struct csight *c, struct csight_object **ret),
		  struct csight_object **ret);

/*
 * Starts a daemon for this command, and connects to it. Nothing is done where a socket was named: -ENOTCONN then, as
 * without a daemon. Else returns 0 or an exit status, after an error was printed.
 */
int client_start_daemon(struct client *c);

/*
 * Lists the snapshots. Without a daemon, the user's own ones, by a daemon that runs for this command. Returns 0 with an
 * object that the caller frees, or an exit status.
 */
int client_list(struct client *c, struct csight_object **ret);

/* Parses the process ID given with --pid (option) or as the only argument. Returns 0 or an exit status. */
int client_pid(struct client *c, const char *option, pid_t *ret);

/*
 * As client_pid(), but the argument may also be a pattern of the name of an armed process. Requires client_connect().
 */
int client_find_process(struct client *c, const char *option, pid_t *ret);

/*
 * Finds a snapshot by its ID, a unique prefix of the ID, or "last", and prints why it cannot. Returns 0 with an object
 * that the caller frees, or an exit status.
 */
int client_find(struct client *c, const char *name, struct csight_object **ret);

/*
 * A csight_progress_fn, with the client as userdata: shows the progress on the last line of the terminal.
 * client_progress_end() clears that line.
 */
int client_progress(void *userdata, const char *phase, uint64_t done, uint64_t total);
void client_progress_end(struct client *c);

/* Options of a new snapshot; options.labels points to labels. Initialize with zeros and options.size. */
enum { CLIENT_LABELS_MAX = 8 };
#define CLIENT_REASON_HELP "why it is taken; stored with the snapshot"
#define CLIENT_LABEL_HELP "a label that is stored with the snapshot; repeatable"

struct client_annotation {
	struct csight_snapshot_options options;
	const char *labels[CLIENT_LABELS_MAX + 1];
	size_t n;
};

/* Parses the value of --label, NAME=VALUE, and adds it. Returns 0, or STATUS_USAGE after an error message. */
int client_add_label(struct client *c, struct client_annotation *a, const char *value);

/* Prints the state, size, losses and decode of a snapshot as text. */
void client_print_snapshot(FILE *to, const struct csight_object *snapshot);

/*
 * Prints a new snapshot as text, as JSON with --json, or its ID alone with --quiet. Returns the exit status, which is
 * STATUS_FAILED for a snapshot that could not be decoded.
 */
int client_report_snapshot(struct client *c, FILE *to, const struct csight_object *snapshot);

/* Returns true if the text is a mode of --mode: "ring" or "fill". */
bool client_is_mode(const char *text);

extern const struct verb cmd_arm, cmd_assert, cmd_decode, cmd_diff, cmd_disarm, cmd_doctor, cmd_explain, cmd_export,
    cmd_grep, cmd_info, cmd_keep, cmd_list, cmd_open, cmd_record, cmd_pause, cmd_reload, cmd_remove, cmd_report,
    cmd_resume, cmd_run, cmd_selftest, cmd_show, cmd_snapshot, cmd_status, cmd_stream, cmd_tail, cmd_targets,
    cmd_triggers, cmd_version, cmd_wait, cmd_wait_armed, cmd_watch;

#endif
