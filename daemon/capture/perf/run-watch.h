/* SPDX-License-Identifier: MIT */
/*
 * Finds runs of threads on one CPU that were not traced although no record says so: the kernel disables the event of a
 * thread when a sink fails, sometimes long after that, and events move between threads. The caller passes the CPU's
 * records in their order: starts of tracing (ITRACE_START), ends (AUX), and context switches.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_RUN_WATCH_H
#define CSIGHT_DAEMON_CAPTURE_RUN_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct run_watch {
	uint32_t running; /* the thread on the CPU; 0: none, or unknown */
	uint32_t left;    /* the thread of the last switch, if that was a switch out */
	uint64_t since;   /* when `running` was switched in, ns */
	bool traced;      /* `running` was traced at some moment */
	bool on;          /* tracing has started, and no record says that it ended */
	bool starts_anew; /* tracing has started since the last AUX record */
};

enum run_watch_switch {
	RUN_KNOWN,
	RUN_REPEATED, /* the record repeats the one before: two events of the thread record switches */
	RUN_UNTRACED, /* the run that ends here was not traced */
};

void run_watch_start(struct run_watch *w);

/* An AUX record. ends: tracing does not go on after it, as it does when a sink only begins its buffer again. */
void run_watch_slice(struct run_watch *w, bool ends);

/* Records were lost: which thread runs is unknown, and tracing counts as on. */
void run_watch_forget(struct run_watch *w);

/* RUN_UNTRACED: the run began at w->since. */
enum run_watch_switch run_watch_switch(struct run_watch *w, uint32_t tid, bool out, uint64_t time);

#endif
