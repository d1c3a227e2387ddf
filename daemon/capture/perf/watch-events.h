/* SPDX-License-Identifier: MIT */
/*
 * The kernel's events for the watch points of one process: each is opened for all threads on all CPUs, and inherited by
 * later threads. Their samples go to one ring for each CPU. They end with this daemon. Capture thread only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_WATCH_EVENTS_H
#define CSIGHT_DAEMON_CAPTURE_WATCH_EVENTS_H

#include "daemon/capture/perf/perf-event.h"
#include "daemon/capture/perf/watch-places.h"
#include "daemon/capture/perf/watch-repeats.h"

struct watch_events;

struct watch_sample {
	const struct watch_spec *spec;
	uint32_t pid, tid;
	uint64_t time;                    /* in the records' clock */
	bool out;                         /* of WATCH_SWITCH: the thread leaves its CPU */
	uint64_t order;                   /* among samples of one time */
	struct watch_registers registers; /* of the thread, at breakpoints and with WATCH_HANDLER; else zeros */
};

struct watch_opening {
	struct address_space_of of; /* the process */
	const uint32_t *cpus;       /* that are online */
	size_t n_cpus;
	int poll_fd;    /* becomes readable at a hit */
	size_t most;    /* events that its user may still have */
	uint64_t until; /* CLOCK_MONOTONIC: all are open then, or none */
};

/*
 * Opens all events, disabled, and takes specs on success. -ESRCH: the process has ended; -EAGAIN: it creates threads
 * all the time, or has so many that time is up; and errors of perf_event_open(). Sets why.
 */
int watch_events_open(const struct watch_opening *o, struct watch_specs *specs, struct watch_events **ret,
		      struct reason *why);
struct watch_events *watch_events_free(struct watch_events *e);
/* Frees e in a thread of its own, as closing may block forever; returns NULL. Without a thread, events stay open. */
struct watch_events *watch_events_free_in_thread(struct watch_events *e);
void watch_events_enable(struct watch_events *e, bool enabled);

/* Returns the number of events that are open. */
size_t watch_events_count(const struct watch_events *e);

/*
 * Passes on the samples of n lists of events, of which some may be NULL, in the order of their times; without
 * WATCH_HANDLER, and without hits that the kernel reports again. Where samples of a list were lost, it has WATCH_LOSES
 * before the time in which they were, and WATCH_LOST after it, which have a slot and a time alone.
 */
void watch_events_read(struct watch_events *const *all, size_t n, void (*fn)(void *data, const struct watch_sample *s),
		       void *data);

/*
 * Returns how many hits and entries (WATCH_REACHED, WATCH_ENDS and WATCH_ENTER) have turned out since the last call to
 * have had no sample. Some do so only in a later call.
 */
uint64_t watch_events_lost(struct watch_events *e);

/* Returns how many of them have neither been passed on nor been returned by watch_events_lost(). */
uint64_t watch_events_unread(const struct watch_events *e);

/* A thread has ended. */
void watch_events_forget(struct watch_events *e, uint32_t tid);

#endif
