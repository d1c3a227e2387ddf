/* Whose a process is: what /proc tells of its credentials at one moment. */
#ifndef CSIGHT_DAEMON_CAPTURE_CREDENTIALS_H
#define CSIGHT_DAEMON_CAPTURE_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct credentials {
	uint32_t uid[4], gid[4]; /* real, effective, saved, of files */
	uint64_t permitted;      /* capabilities */
	bool dumpable;
	bool contained; /* in a PID namespace of its own */
};

/*
 * -ESRCH: it is gone; -EAGAIN: its first thread has ended, and others go on, perhaps to execute a program under its
 * number: that cannot be told now.
 */
int credentials_read(pid_t pid, struct credentials *ret);

/*
 * Whether all of them are the owner's, so that what the process does is no secret to him; as the kernel asks before
 * one may trace another. What is root's is root's whatever it is.
 */
bool credentials_owned(const struct credentials *c, uid_t owner);

#endif
