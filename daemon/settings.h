/*
 * What csightd was told by its configuration file and its command line; the latter wins. A file has lines of key =
 * value, # comments, and may have a directory of drop-ins beside it (FILE.d, *.conf in the order of their names).
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
	char arm[16];             /* request, machine */
	char sink[64];            /* the trace sink to use; "auto": the best there is */
	char shared_sink[64];     /* who may use one that all share: all, root, a group's name */
	uint64_t ring_size;       /* bytes a CPU */
	uint64_t rings_max;       /* bytes all private rings may take together */
	uint64_t spool_max;       /* bytes the snapshots may take together */
	uint64_t spool_keep_free; /* bytes left free on the spool's file system */
	uint64_t snapshot_max;    /* bytes of trace copied for one snapshot */
	uint64_t jobs;            /* decodes at a time */
	uint64_t job_timeout;     /* seconds */
	uint64_t symbols_max;     /* bytes of symbols that decodes leave for others of the same user */
	uint64_t targets_per_user;
	uint64_t snapshots_per_user; /* waiting for their decode */
	uint64_t history_targets;    /* ended processes kept, a user */
	uint64_t history_seconds;
	uint64_t history_bytes; /* memory of ended processes kept, a user */
};

/*
 * 0: go on. 1: --help or --version was answered. Negative errno: said on standard error what is wrong; -EINVAL for
 * wrong arguments or a wrong file.
 */
int settings_load(int argc, char **argv, struct settings *ret);

#endif
