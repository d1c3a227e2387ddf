/* SPDX-License-Identifier: MIT */
/*
 * The settings of csightd, from its configuration file and its command line, which takes precedence. The file consists
 * of lines key = value and comments that begin with #. Its drop-ins, the files *.conf in the directory FILE.d in the
 * order of their names, override it.
 */
#ifndef CSIGHT_DAEMON_SETTINGS_H
#define CSIGHT_DAEMON_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct settings {
	bool system;
	bool check_only;
	bool verbose;
	char socket[PATH_MAX], spool[PATH_MAX], config[PATH_MAX];
	char capture[16];
	char decode_user[64];
	char arm[16];                /* request, machine */
	char sink[64];               /* the trace sink to use; "auto": the best one of the machine */
	char shared_sink[64];        /* who may use a shared sink: all, root, the name of a group */
	uint64_t ring_size;          /* bytes for each CPU */
	uint64_t rings_max;          /* bytes of all private rings */
	uint64_t spool_max;          /* bytes of all snapshots */
	uint64_t spool_keep_free;    /* bytes that stay free on the spool's file system */
	uint64_t snapshot_max;       /* bytes of trace in one snapshot */
	uint64_t jobs;               /* decodes that run at a time */
	uint64_t job_timeout;        /* seconds of one decode */
	uint64_t symbols_max;        /* bytes of cached symbol tables */
	uint64_t targets_per_user;   /* that have not ended */
	uint64_t snapshots_per_user; /* that wait for their decode */
	uint64_t history_targets;    /* ended targets of one user that are kept, */
	uint64_t history_seconds;    /* for how long, */
	uint64_t history_bytes;      /* and their memory */
};

/*
 * Returns 0, or 1 if --help or --version was answered. On failure an error is printed to standard error; -EINVAL: an
 * invalid argument or file.
 */
int settings_load(int argc, char **argv, struct settings *ret);

#endif
