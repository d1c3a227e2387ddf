/* SPDX-License-Identifier: MIT */
/*
 * The memory in which a program keeps its notes (lib/notes/notes.h). Counted references, of its connection and of its
 * target, which keeps the notes of a program that has ended. On the loop's thread, but for program_notes_copy().
 */
#ifndef CSIGHT_DAEMON_PROGRAM_NOTES_H
#define CSIGHT_DAEMON_PROGRAM_NOTES_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/ledger.h"
#include "lib/base/buf.h"

struct program_notes {
	unsigned refs;
	pid_t pid;
	uid_t uid;
	uint64_t start; /* of the process, as proc_file_start(); 0: unknown */
	int fd;
	void *state_page;       /* its beginning, mapped; NULL: the program has sealed it */
	_Atomic uint32_t state; /* NOTES_ARMED and others, but for a copy */
	struct charge memory, descriptors;
};

/*
 * Takes over a descriptor, also on failure. -EPERM: it is not of such memory; -EDQUOT: the ledger refused it, for the
 * reason in ret_refusal.
 */
int program_notes_new(struct ledger *l, pid_t pid, uid_t uid, int fd, struct program_notes **ret,
		      struct ledger_refusal *ret_refusal);
struct program_notes *program_notes_ref(struct program_notes *n);
struct program_notes *program_notes_unref(struct program_notes *n);

/* Lets the program record, or not. n may be NULL. */
void program_notes_set(struct program_notes *n, uint32_t state);

/*
 * On the capture thread, around a copy of the process's rings: program_notes_freeze() stops the recording, and
 * program_notes_copy() appends the notes to *ret and continues it. Errors of notes_copy(). n may be NULL.
 */
void program_notes_freeze(const struct program_notes *n);
int program_notes_copy(const struct program_notes *n, struct buf *ret);

#endif
