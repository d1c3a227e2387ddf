/* SPDX-License-Identifier: MIT */
/*
 * Calls that read the mappings, the memory or the directories of a process. Its user can delay them for any time: the
 * kernel holds the lock of an address space, or of a directory, while a file system in user space does not answer a
 * page fault. Each call runs in another thread, which does not end, and is given up when it has waited for long. Then
 * nothing of its account, or of that process, is read for a while.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_ADDRESS_SPACE_H
#define CSIGHT_DAEMON_CAPTURE_ADDRESS_SPACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/reason.h"

/* Whose address space is read. account: whose other processes may wait for it, too; 0: no others. */
struct address_space_of {
	uid_t account;
	pid_t pid;
};

struct address_space_call {
	void (*run)(void *data);
	void (*drop)(void *data); /* frees the data of a call that was given up, when run() returns, on its thread */
	void *data;
	bool elsewhere; /* not on the capture thread: nothing else is done while this waits */
};

/*
 * Calls run() on a thread that can be given up, and waits for it. 0: run() has returned. -ETIMEDOUT: the call was given
 * up, and owns its data. run() was not called: -EBUSY, since another call of the account was given up and has not
 * returned, or waited for long a short time ago; -EAGAIN, -ENOMEM.
 */
int address_space_call(struct address_space_of of, const struct address_space_call *call);

/* Sets what the capture thread does while it waits for a call, every few milliseconds; NULL: nothing. */
void address_space_while_waiting(void (*fn)(void *data), void *data);

/* Returns the text of an error of these calls, or that of strerror(). */
const char *address_space_strerror(int rc);

/* Sets *why for such an error. Returns -EAGAIN, since a later call may succeed. */
int address_space_explain(int rc, struct reason *why);

#endif
