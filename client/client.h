/*
 * csight: one file a verb. A verb is a struct verb that its cmd-VERB.c defines and main.c lists; its options are a
 * table, from which parsing, --help and usage errors come.
 *
 *	static int run(struct client *c)
 *	{
 *		const char *value;
 *		int o;
 *
 *		while ((o = client_option(c, &value)) >= 0)
 *			switch (o) {		// an index into the verb's options
 *			...
 *			}
 *		if (o == CLIENT_STOP)		// --help was shown, or the usage was wrong
 *			return c->status;
 *		... c->argc, c->argv: what is left
 *	}
 */
#ifndef CSIGHT_CLIENT_H
#define CSIGHT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/parse.h"
#include "lib/base/util.h"
#include "lib/csight/csight.h"

static inline void csight_object_freep(struct csight_object **o)
{
	csight_object_free(*o);
}
#define _cleanup_object_ _cleanup_(csight_object_freep)

/* Exit statuses, as csight(1) tells them. */
enum { STATUS_OK, STATUS_FAILED, STATUS_USAGE, STATUS_NO_DAEMON, STATUS_DENIED, STATUS_NOT_FOUND };

struct verb_option {
	const char *name;     /* the long one */
	char letter;          /* or 0 */
	const char *argument; /* as --help shows it; NULL: takes none */
	const char *help;
};

enum {
	VERB_SOCKET = 1,  /* takes --socket */
	VERB_JSON = 2,    /* takes --json */
	VERB_QUIET = 4,   /* takes --quiet */
	VERB_PROGRAM = 8, /* options end at the first word that is none: the rest is another program's */
};

struct client;

struct verb {
	const char *name;
	const char *arguments; /* as usage shows them, after the options; "" for none */
	const char *summary;   /* one line, without a stop */
	unsigned flags;
	const struct verb_option *options; /* ends with a nameless one; NULL: none of its own */
	int (*run)(struct client *c);      /* returns the exit status */
};

struct client {
	const struct verb *verb;
	int argc;
	char **argv; /* [0] is the verb, until client_option is done */
	int status;  /* with CLIENT_STOP */
	const char *socket;
	bool json, quiet;
	struct csight *daemon; /* after client_connect */
};

enum { CLIENT_DONE = -1, CLIENT_STOP = -2 };

/* The next of the verb's own options; shared ones are taken care of. */
int client_option(struct client *c, const char **ret_value);

/* Says what is wrong with the arguments and how they go; returns STATUS_USAGE. */
int client_usage(struct client *c, const char *fmt, ...) _printf_(2, 3);

/* "csight: …" on standard error; text from outside goes through esc(). */
void client_error(const char *fmt, ...) _printf_(1, 2);

/* Says why a call of libcsight failed; returns the exit status for it. */
int client_daemon_failed(struct client *c, int rc);

/* Makes c->daemon; 0 or an exit status. */
int client_connect(struct client *c);

/*
 * For a verb that asks one question and takes no arguments: its options, the connection, the question, and the answer
 * as JSON where that is wanted. True where the caller has *ret to tell; else the exit status is in c->status.
 */
bool client_answer(struct client *c, int (*ask)(struct csight *c, struct csight_object **ret),
		   struct csight_object **ret);

/* PID from --pid or the only argument; 0 or an exit status. */
int client_pid(struct client *c, const char *option, pid_t *ret);

/* The snapshot that name means: its id, an unambiguous beginning of it, or "last"; 0 or an exit status. */
int client_find(struct client *c, const char *name, struct csight_object **ret);

/* A progress function for a terminal's last line, to be ended by client_progress_end; userdata is the client. */
int client_progress(void *userdata, const char *phase, uint64_t done, uint64_t total);
void client_progress_end(struct client *c);

/* What people are told of a snapshot: some lines. */
void client_print_snapshot(FILE *to, const struct csight_object *snapshot);

/* The same, as JSON or its id where that is wanted; returns the exit status: one that could not be decoded is a
 * failure. */
int client_report_snapshot(struct client *c, FILE *to, const struct csight_object *snapshot);

extern const struct verb cmd_arm, cmd_decode, cmd_diff, cmd_disarm, cmd_doctor, cmd_export, cmd_grep, cmd_info,
    cmd_list, cmd_open, cmd_remove, cmd_report, cmd_run, cmd_show, cmd_snapshot, cmd_status, cmd_targets, cmd_version;

#endif
