/* SPDX-License-Identifier: MIT */
/*
 * The kernel's process connector: with which exit codes the threads of targets end, and which uids they get. Of all
 * mechanisms by which a process that is no parent can learn that, this one is exact for every process, needs no
 * debugger or probe, and exists in Linux 6.1; /proc/PID/stat shows it only until the parent has waited, and a pidfd
 * only since 6.15. Opening it requires CAP_NET_ADMIN. A filter in the kernel drops the events of all other processes.
 * On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_EXIT_LISTENER_H
#define CSIGHT_DAEMON_EXIT_LISTENER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct exit_event {
	pid_t pid, tid;
	bool dumps;       /* a signal that dumps core ends the process in this thread; code is not known yet */
	int code;         /* as waitpid() returns it */
	bool changes_uid; /* the thread continues, with other uids */
	uid_t ruid, euid;
};

struct exit_listener;

/* Returns a non-blocking socket that is subscribed, without events until exit_listener_set(); or negative errno. */
int exit_listener_socket(void);

/* Creates a listener. fd: from exit_listener_socket(); owned, also on failure. */
int exit_listener_new(struct event_base *base, int fd, void (*ended)(void *data, const struct exit_event *e),
		      void *data, struct exit_listener **ret);
struct exit_listener *exit_listener_free(struct exit_listener *l);

/*
 * Sets the processes to listen for; at first there are none. If the kernel has no room for their filter, events of all
 * processes are passed. Negative errno: only those of the processes before are.
 */
int exit_listener_set(struct exit_listener *l, const pid_t *pids, size_t n);

/* Passes the events that have arrived. */
void exit_listener_read(struct exit_listener *l);

#endif
