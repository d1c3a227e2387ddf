/* SPDX-License-Identifier: MIT */
/*
 * Which processes the kernel's out-of-memory killer ends, of a memory cgroup or of the machine, by the messages of the
 * kernel's log. They alone name each process that it kills, and none that it finds dying: those pass the tracepoint
 * oom:mark_victim, too, and the counts of control groups have no names. A message follows its SIGKILL; /proc/vmstat has
 * counted the kill before. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_OOM_LISTENER_H
#define CSIGHT_DAEMON_OOM_LISTENER_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

struct oom_listener;

/*
 * Opens the kernel's log, by csight-kernel where this process lacks CAP_SYSLOG; socket: csight-kernel's, or "". Returns
 * a descriptor, or negative errno; -EXDEV: the numbers of processes here are not those of the kernel.
 */
int oom_listener_open(const char *socket);

struct oom_listener_calls {
	void (*killed)(void *data, pid_t tid); /* a process, or one of its threads; may call oom_listener_read() */
	void (*passed)(void *data);            /* after some of them */
};

/* Creates a listener to later messages. fd: from oom_listener_open(); owned, also on failure. */
int oom_listener_new(struct event_base *base, int fd, const struct oom_listener_calls *calls, void *data,
		     struct oom_listener **ret);
struct oom_listener *oom_listener_free(struct oom_listener *l);

/*
 * Passes the messages that have arrived. Returns false if a process that has been killed is not named yet. Messages
 * that the log has dropped count as passed.
 */
bool oom_listener_read(struct oom_listener *l);

/* No longer waits for messages of earlier kills. */
void oom_listener_forget(struct oom_listener *l);

#endif
