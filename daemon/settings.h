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

#include "daemon/quotas.h"
#include "daemon/standing/standing-sections.h"
#include "daemon/trigger/trigger-sections.h"
#include "lib/base/reason.h"

/* In place of a number of bytes: a percentage of a whole, which settings_space() resolves. */
#define SETTINGS_PERCENT (1ull << 63)

struct settings {
	bool system;
	bool check_only;
	bool verbose;
	bool starting; /* users who do not exist are ignored: deleting one must not keep csightd from starting */
	char socket[PATH_MAX], spool[PATH_MAX], config[PATH_MAX];
	/* Sockets of csight-keeper and of the units of the other helpers; empty: none. */
	char keeper[PATH_MAX], decoder[PATH_MAX], opener[PATH_MAX], runner[PATH_MAX], kernel[PATH_MAX];
	char capture[16];
	char decode_user[64];
	char arm[16];                    /* request, machine */
	char hazards[16];                /* refuse, allow: TRBE that is known to be unsafe here */
	char restore[16];                /* yes, no: the targets of an earlier daemon */
	char sink[64];                   /* the trace sink to use; "auto": the best one of the machine */
	char cpus[128];                  /* that are traced; "all" */
	char shared_sink[64];            /* who may use a shared sink: all, root, the name of a group */
	struct account_set shared_users; /* the group of shared_sink; empty for all and root */
	uint64_t ring_size;              /* bytes for each CPU */
	uint64_t rings_max;              /* bytes of all private rings */
	uint64_t spool_max;              /* bytes of all snapshots, or percent of the file system */
	uint64_t spool_keep_free;        /* bytes, or percent, that stay free on the spool's file system */
	uint64_t spool_max_age;          /* seconds for which a snapshot is kept; 0: without a limit */
	uint64_t memory_max;             /* bytes of copies and unread output, or percent of the machine's memory */
	uint64_t connections_max;        /* of clients */
	uint64_t targets_max;            /* that have not ended */
	uint64_t stored_max;             /* snapshots in the spool */
	uint64_t snapshot_max;           /* bytes of trace in one snapshot */
	uint64_t overhead_max;           /* parts per million of the machine's processor time; 0: without a limit */
	uint64_t jobs;                   /* decodes that run at a time */
	uint64_t job_timeout;            /* seconds of one decode */
	uint64_t stop_timeout;           /* seconds for which a daemon that ends waits for pending requests */
	uint64_t symbols_max;            /* bytes of cached symbol tables */
	struct quotas quotas;            /* limits of each user; bytes may be percent of the machine's limit */
	struct trigger_sections triggers;
	struct standing_sections standing;
	struct account_set allow, deny;  /* who may connect; nothing in allow: all */
	struct account_set kernel_users; /* who may, beside root, trace execution in the kernel */
	uint64_t history_targets;        /* number of ended targets of one user that are kept */
	uint64_t history_seconds;        /* seconds for which an ended target is kept */
	uint64_t history_bytes;          /* bytes of memory of the ended targets of one user */
	struct reason *why;              /* during settings_load() */
};

/*
 * Returns 0, or 1 if --help or --version was answered. -EINVAL: an invalid argument or file; ret_why has the file and
 * the line. Looks users and groups up, which may take long. On one thread at a time.
 */
int settings_load(int argc, char **argv, bool starting, struct settings *ret, struct reason *ret_why);
void settings_done(struct settings *s);

enum { SETTINGS_CHANGES_MAX = 64 };

/* The names of settings that a reload changed. */
struct settings_changes {
	const char *names[SETTINGS_CHANGES_MAX];
	size_t n;
	const char *fixed[SETTINGS_CHANGES_MAX]; /* changed settings that take effect after a restart */
	size_t n_fixed;
};

/* Replaces the settings by fresh ones, except those that are fixed. Consumes fresh. */
void settings_replace(struct settings *s, struct settings *fresh, struct settings_changes *ret);

/* Returns whether a user with these groups may connect. root, and the user as whom csightd runs, may. */
bool settings_permit(const struct settings *s, uid_t user, const gid_t *groups, size_t n_groups);

/*
 * Returns whether an account (ledger_owner()) may record without a connection, as by standing targets. Groups have the
 * members that the look-ups found; the groups of a process do not count.
 */
bool settings_permit_account(const struct settings *s, uid_t account);

/* Returns whether the user may trace the execution of own processes in the kernel. root may trace it in all. */
bool settings_permit_kernel(const struct settings *s, uid_t user);

/* Returns the number of bytes of a setting: itself, or its percentage of the whole. */
uint64_t settings_space(uint64_t setting, uint64_t whole);

#endif
