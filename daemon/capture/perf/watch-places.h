/* SPDX-License-Identifier: MIT */
/*
 * Turns the watch points of a process (lib/emu/ring.h) into events of the kernel: execution breakpoints at addresses in
 * files that the process has mapped, tracepoints of system calls and signals, and records of context switches. The
 * kernel inserts breakpoints with this daemon's rights, so that every address is checked here. Beside breakpoints, a
 * tracepoint reports the signals for which handlers run (watch-repeats.h).
 *
 * Why no uprobes: the kernel cannot have new threads inherit an event of the uprobe PMU; it fails their creation with
 * EACCES instead. And the probed instruction runs at an address that no image of the program has.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_WATCH_PLACES_H
#define CSIGHT_DAEMON_CAPTURE_WATCH_PLACES_H

#include <sys/types.h>

#include "daemon/capture/capture.h"
#include "daemon/capture/process/process.h"
#include "lib/base/reason.h"

enum watch_role {
	WATCH_REACHED,
	WATCH_ENTER,   /* a call begins */
	WATCH_LEAVE,   /* a call may end */
	WATCH_ENDS,    /* a signal ends the program */
	WATCH_HANDLER, /* a signal is delivered to a handler: no hit */
	WATCH_SWITCH,  /* a thread leaves a CPU, or gets one */
	WATCH_LOSES,   /* no event: from now on samples are missing */
	WATCH_LOST,    /* until now */
};

/* One event to open for each thread and CPU. */
struct watch_spec {
	uint32_t slot; /* of the list */
	enum watch_role role;
	bool breakpoint;
	bool go;         /* its calls belong to goroutines */
	uint64_t config; /* the address of a breakpoint, or the number of a tracepoint */
	char filter[64]; /* of a tracepoint; "": none */
};

struct watch_specs {
	struct watch_spec *list;
	size_t n, room;
};

void watch_specs_done(struct watch_specs *s);

/*
 * Appends the events of an entry of the list. -ENOENT: the process has not mapped such code; -EACCES: it
 * is of a program that gains rights; -EOPNOTSUPP: the kernel, or the hardware, cannot watch this; -EAGAIN: the
 * mappings of the process cannot be read now. Sets why.
 */
int watch_places_find(const struct process_of *of, const struct capture_watch_list *list, uint32_t slot,
		      struct watch_specs *ret, struct reason *why);

#endif
