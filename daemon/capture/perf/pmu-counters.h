/* SPDX-License-Identifier: MIT */
/*
 * Counters of a target: events that the CPUs or the kernel count in each thread on each CPU, inherited by new threads.
 * Of events of the CPUs there are about PMU_COUNTERS_RATE samples a second; of the kernel's own one for each period:
 * where the kernel changes the period of these, what it says of it is wrong. The samples of a CPU are in a ring that
 * overwrites the oldest. The counter cpu-frequency has samples where the frequency of a CPU changes. Capture thread
 * only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PMU_COUNTERS_H
#define CSIGHT_DAEMON_CAPTURE_PMU_COUNTERS_H

#include "daemon/capture/perf/perf-event.h"
#include "daemon/capture/perf/plan.h"
#include "lib/base/reason.h"

enum { PMU_COUNTERS_MAX = 8, PMU_COUNTERS_RATE = 1000, PMU_COUNTERS_NAME = 64 };

struct pmu_counter {
	char name[PMU_COUNTERS_NAME];
	uint32_t type;
	uint64_t config, period; /* period 0: the kernel chooses periods, for the rate */
	bool frequency;
};

/* A thread that began while its events were opened, and may have inherited such an event besides. */
struct pmu_doubt {
	uint32_t tid, counter, ring;
};

struct pmu_counters {
	struct pmu_counter list[PMU_COUNTERS_MAX];
	size_t n;
	struct pmu_ring *rings; /* one for each CPU of the plan */
	size_t n_rings;
	struct pmu_event *events;
	size_t n_events, events_room;
	struct pmu_doubt *doubts;
	size_t n_doubts, doubts_room;
	bool paused, failed; /* failed: the events of a CPU could not be opened */
	bool lost;           /* samples were overwritten, or came while others were read */
};

/* Whose events are counted, and on which CPUs. */
struct pmu_counters_scope {
	struct address_space_of of;
	pid_t pid;
	const struct plan *plan;
	bool kernel;        /* the events of its execution in the kernel, too */
	size_t most_events; /* that its user may have, beside those that are open */
};

/*
 * Parses a list of names, separated by commas: those of perf for events of all CPUs and of the kernel; those in
 * /sys/bus/event_source/devices of a CPU's counters; rN, the hexadecimal number of such an event; cpu-frequency.
 * -EINVAL: there is no event of such a name. Sets why on failure.
 */
int pmu_counters_parse(const char *text, const char *sysroot, struct pmu_counters *ret, struct reason *why);

/* Opens the events on CPUs where they are not open. Sets why on failure, after which pmu_counters_close() may follow.
 */
int pmu_counters_open(struct pmu_counters *c, const struct pmu_counters_scope *scope, struct reason *why);
void pmu_counters_pause(struct pmu_counters *c, bool paused);
/* stuck: the process has a lock of its events, and closing them may wait for ever. */
void pmu_counters_close(struct pmu_counters *c, bool stuck);

/* Returns the number of CPUs that do not count this. */
unsigned pmu_counters_refused(const struct pmu_counters *c, uint32_t counter);

/* Returns in which part of the time a counter counted, in percent: the CPUs may have fewer than there are events. */
unsigned pmu_counters_share(const struct pmu_counters *c, uint32_t counter);

/* Returns the bytes of rings for this number of CPUs. */
uint64_t pmu_counters_memory(const struct pmu_counters *c, size_t n_cpus);

/*
 * Appends the samples (struct pd_sample) of CPU n of the plan, newest first. head: where an earlier call ended, whose
 * samples are left out; 0: all that the ring has.
 */
int pmu_counters_copy(struct pmu_counters *c, size_t n, uint64_t *head, struct buf *ret);

#endif
