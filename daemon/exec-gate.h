/* SPDX-License-Identifier: MIT */
/*
 * A gate before a program: csightd hears of each process that is about to execute it, before it does, and lets it go
 * when it is armed. A process of csight-opener holds the gate, for fanotify's permission events require CAP_SYS_ADMIN;
 * it lets every process go after a time limit, also where csightd is stopped, and the kernel does when it ends. On the
 * loop's thread.
 */
#ifndef CSIGHT_DAEMON_EXEC_GATE_H
#define CSIGHT_DAEMON_EXEC_GATE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct exec_gate;

struct exec_gate_listener {
	/* Called when a process waits; exec_gate_pass() with this number lets it continue. */
	void (*waits)(void *data, pid_t pid, uint32_t number);
	/* Called when the gate is closed, or could not be made. rc: the reason, negative errno. */
	void (*closed)(void *data, int rc);
	void *data;
};

/* Creates a gate. opener: a connection to csight-opener on which a gate was requested; owned, also on failure. */
int exec_gate_new(struct event_base *base, int opener, const struct exec_gate_listener *listener,
		  struct exec_gate **ret);

/* Closes the gate: all waiting processes continue. May be called by waits(). Returns NULL. */
struct exec_gate *exec_gate_free(struct exec_gate *g);

void exec_gate_pass(struct exec_gate *g, uint32_t number);

/* The opener's side: holds the gate before the file until the client has gone. Negative errno: it could not be made. */
int exec_gate_serve(int client, const char *path);

/* Drops the capability to make gates, in a process of csight-opener that makes none. */
void exec_gate_give_up(void);

#endif
