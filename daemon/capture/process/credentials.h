/* SPDX-License-Identifier: MIT */
/*
 * The one reader of a process's credentials: /proc/PID/status and the owner of the files beneath /proc/PID. Every
 * decision about whose a process is starts here, so that all of them see the same fields, read in the same way.
 *
 * policy.c: may a caller act on a process? All four uids must be equal, and the caller's: credentials_uid().
 *
 * target-adopt.c: who owns a new target? Also all gids must be equal, and the process dumpable.
 *
 * perf-target.c: may the current program be recorded for the owner? Also no capability: credentials_owned().
 *
 * arena.c: is a thread in a PID namespace of its own?
 *
 * listener.c: who logged in for a client, whatever its uid is?
 *
 * proc-dir.c: is the owner of /proc/PID/maps unchanged, and is the first thread alive?
 */
#ifndef CSIGHT_DAEMON_CAPTURE_CREDENTIALS_H
#define CSIGHT_DAEMON_CAPTURE_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { CREDENTIALS_NAME_SIZE = 17 };

struct credentials {
	char name[CREDENTIALS_NAME_SIZE]; /* as the kernel escapes it: one line */
	char state;                       /* of the first thread: R, S, D, T, t, Z, X, ...; 0: unknown */
	pid_t parent;                     /* 0: unknown */
	pid_t inner_pid;                  /* in the innermost PID namespace; 0: unknown (an old kernel) */
	uint32_t uid[4], gid[4];          /* real, effective, saved, filesystem */
	uint64_t permitted;               /* capabilities */
	/* If permitted is not 0: who made the outermost user namespace around the process; -1: it is in csightd's. */
	uid_t maker;
	bool contained;  /* in a PID namespace of its own */
	bool has_memory; /* false once the first thread exits, some time before state shows that */
	uid_t files_uid; /* owner of /proc/PID/maps: root where the process is not dumpable or the first thread exits */
	gid_t files_gid;
};

/*
 * Parses the text of a status file up to its end; files_uid and files_gid become -1. -EBADMSG: a field is missing or
 * appears twice.
 */
int credentials_parse(FILE *status, struct credentials *ret);

/* Reads the process of an open /proc/PID directory (O_PATH suffices). -ESRCH: the process is gone. */
int credentials_read_dir(int dir, struct credentials *ret);

/*
 * Reads the process of pidfd, whose number is pid. It may be a zombie. -ESRCH: it has been reaped, and another process
 * may have its number.
 */
int credentials_read_pidfd(pid_t pid, int pidfd, struct credentials *ret);

/*
 * Reads a process, or a thread, by its number. -ESRCH: it is gone; -EAGAIN: its first thread has ended while others
 * run, and may execute a program under the same number: its credentials are unknown until then.
 */
int credentials_read(pid_t pid, struct credentials *ret);

/* The owner of /proc/PID/maps alone. -ESRCH: the process is gone. */
int credentials_read_files_owner(int dir, uid_t *ret_uid, gid_t *ret_gid);

/*
 * Reads the login uid of the process of pidfd, whose number is pid: the user who logged in, whatever its uid is now.
 * -ESRCH: it is gone; -ENODATA: it belongs to no login; -ENOENT: the kernel does not record login uids.
 */
int credentials_read_login_uid(pid_t pid, int pidfd, uid_t *ret);

/* The uid if all four are equal, else (uid_t)-1. */
uid_t credentials_uid(const struct credentials *c);

/* True if all four gids are equal. */
bool credentials_gids_equal(const struct credentials *c);

/* True if the files beneath /proc/PID are those of the effective uid. */
bool credentials_dumpable(const struct credentials *c);

/* True if the first thread, which the process number belongs to, runs or can run. */
bool credentials_leader_alive(const struct credentials *c);

/*
 * True if the process is its owner's alone, by the rule of ptrace_may_access() in the kernel: all uids are the owner's,
 * all gids are equal, no capability is permitted but in user namespaces that the owner made, and the process is
 * dumpable. Every process may be recorded for root.
 */
bool credentials_owned(const struct credentials *c, uid_t owner);

#endif
