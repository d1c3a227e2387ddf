/* SPDX-License-Identifier: MIT */
/* csight: the command-line client of csightd. Finds the verb and runs it. */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "client/client.h"
#include "client/private-daemon.h"
#include "client/similar.h"
#include "client/terminal.h"
#include "lib/base/escape.h"

struct group {
	const char *title;
	const struct verb *verbs[12];
};

static const struct group groups[] = {
	{ "Record",
	  { &cmd_run, &cmd_record, &cmd_arm, &cmd_disarm, &cmd_targets, &cmd_wait_armed, &cmd_snapshot, &cmd_stream,
	    &cmd_tail, &cmd_wait, &cmd_watch, &cmd_triggers } },
	{ "View snapshots",
	  { &cmd_list, &cmd_show, &cmd_report, &cmd_grep, &cmd_explain, &cmd_diff, &cmd_assert, &cmd_open, &cmd_export,
	    &cmd_keep, &cmd_remove } },
	{ "Decode files", { &cmd_decode, &cmd_info } },
	{ "Others", { &cmd_status, &cmd_doctor, &cmd_selftest, &cmd_pause, &cmd_resume, &cmd_reload, &cmd_version } },
};

static void print_help(FILE *f)
{
	fputs("usage: csight VERB [options] ...\n"
	      "\n"
	      "A flight recorder for programs: csightd keeps a history of their control flow, and csight shows it.\n",
	      f);
	for (size_t i = 0; i < ELEMENTS(groups); i++) {
		fprintf(f, "\n%s:\n", groups[i].title);
		for (size_t j = 0; j < ELEMENTS(groups[i].verbs) && groups[i].verbs[j]; j++)
			fprintf(f, "  %-10s  %s\n", groups[i].verbs[j]->name, groups[i].verbs[j]->summary);
	}
	fputs("\n'csight VERB --help' lists the options of a verb; csight(1) describes all.\n", f);
}

static const struct verb *find_verb(const char *name)
{
	if (strcmp(name, "--version") == 0)
		return &cmd_version;
	for (size_t i = 0; i < ELEMENTS(groups); i++)
		for (size_t j = 0; j < ELEMENTS(groups[i].verbs) && groups[i].verbs[j]; j++)
			if (strcmp(groups[i].verbs[j]->name, name) == 0)
				return groups[i].verbs[j];
	return NULL;
}

static int unknown_verb(const char *name)
{
	const char *names[ELEMENTS(groups) * ELEMENTS(groups[0].verbs)], *similar;
	size_t n = 0;

	for (size_t i = 0; i < ELEMENTS(groups); i++)
		for (size_t j = 0; j < ELEMENTS(groups[i].verbs) && groups[i].verbs[j]; j++)
			names[n++] = groups[i].verbs[j]->name;
	similar = similar_word(name, names, n);
	if (similar)
		client_error("unknown verb '%s'; did you mean %s? 'csight --help' lists the verbs", esc(name), similar);
	else
		client_error("unknown verb '%s'; 'csight --help' lists the verbs", esc(name));
	return STATUS_USAGE;
}

int main(int argc, char **argv)
{
	struct client c = { .argc = argc - 1, .argv = argv + 1 };
	static char name[] = "csight";

	terminal_begin();
	if (argc < 2) {
		print_help(stderr);
		return STATUS_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
	} else {
		c.verb = find_verb(argv[1]);
		if (!c.verb) {
			return unknown_verb(argv[1]);
		}
		/* getopt_long() begins its messages with this name. */
		argv[1] = name;
		c.status = c.verb->run(&c);
		csight_close(c.daemon);
		if (c.private)
			private_daemon_end(c.private);
	}
	/* A reader that closes the pipe early, or leaves the pager, is not an error. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && errno != EPIPE && !terminal_is_paged()) {
		client_error("cannot write to standard output: %s", strerror(errno));
		return STATUS_FAILED;
	}
	terminal_end();
	return client_print_failed() && c.status == STATUS_OK ? STATUS_FAILED : c.status;
}
