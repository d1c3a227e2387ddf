/* SPDX-License-Identifier: MIT */
/*
 * The sideband: kernel records of all processes beside the trace (fork, name, exec, exit, mappings and, on demand,
 * context switches), by one dummy event per CPU. Records are passed on in order of time, if the listener wants their
 * process. Switches have rings of their own: a program that switches all the time makes the kernel drop switches, not
 * the records that decide whose a process is. Capture thread only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_SIDEBAND_H
#define CSIGHT_DAEMON_CAPTURE_SIDEBAND_H

#include "daemon/capture/perf/keeper-client.h"
#include "daemon/capture/perf/perf-event.h"
#include "lib/base/reason.h"

struct sideband;

enum sideband_switches {
	SIDEBAND_NO_SWITCHES,
	SIDEBAND_SWITCHES_WANTED, /* where the kernel records them; what it drops is passed to switches_lost() */
	SIDEBAND_SWITCHES_NEEDED, /* without them sideband_open() fails; what the kernel drops counts as a loss */
};

struct sideband_listener {
	bool (*wants)(void *data, uint32_t pid, const struct perf_record *r);
	void (*record)(void *data, uint32_t pid, const struct perf_record *r);
	void (*switches_lost)(void *data, uint64_t since); /* no dropped switch is earlier */
	void *data;
};

/* Opens no event yet. The rings are added to the epoll descriptor poll_fd. */
int sideband_new(const struct sideband_listener *user, int poll_fd, struct sideband **ret);
struct sideband *sideband_free(struct sideband *s);

/* Has a keeper keep the events that are opened from now on, and lists those of an earlier daemon. NULL: no keeper. */
enum { KEEPER_SIDEBAND = 1 /* the group */ };
int sideband_set_keeper(struct sideband *s, struct keeper_client *k);

/* Has a keeper that does not have the open events yet keep them. */
int sideband_hold(struct sideband *s, struct keeper_client *k);

/* True if an earlier daemon has opened all rings that are open now, so that no record since then is missing. */
bool sideband_was_kept(const struct sideband *s);

/* Closes the events of an earlier daemon that sideband_open() has not taken. */
void sideband_drop_kept(struct sideband *s);

struct sideband_cpu_choice {
	uint32_t cpu;
	enum sideband_switches switches;
};

/* Opens missing events on these CPUs (ascending) and closes all others. Skips CPUs that are offline. Sets why on
 * failure. */
int sideband_open(struct sideband *s, const struct sideband_cpu_choice *cpus, size_t n_cpus, struct reason *why);
void sideband_close(struct sideband *s);
bool sideband_is_open(const struct sideband *s);

/* Passes on all records up to the moment of the call. */
void sideband_drain(struct sideband *s);

/* Empties the rings, so that the kernel drops nothing while this thread does something else. */
void sideband_collect(struct sideband *s);

/* The moment of the last drain, in the records' clock; 0: none yet. */
uint64_t sideband_now(const struct sideband *s);

/* Added to CLOCK_MONOTONIC it gives that clock, as of the last drain. */
int64_t sideband_shift(const struct sideband *s);

/* True if records were lost since the last call; none of them is earlier than *ret_since. */
bool sideband_lost(struct sideband *s, uint64_t *ret_since);

/* Converts the trace's timestamps to the records' clock. */
struct pd_clock sideband_clock(const struct sideband *s);

#endif
