/* SPDX-License-Identifier: MIT */
/*
 * Decides which perf events to open for a target: a pure function of the topology, the settings, the events in use, and
 * the options of the target.
 *
 * A private sink (TRBE, one per CPU) gives each target rings of its own: one event for each thread on each CPU,
 * inherited by new threads; all events of a CPU write to one AUX buffer. A shared sink (ETR, ETF, ETB) is one arena:
 * one event per CPU traces whatever runs there, and context IDs separate the threads afterwards. Of the events on a
 * shared sink, the kernel passes the bytes to the one that stops last; therefore one CPU of each sink, the collector,
 * has an AUX buffer of full size. The PMU cannot trace threads and CPUs at the same time.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PLAN_H
#define CSIGHT_DAEMON_CAPTURE_PLAN_H

#include "daemon/capture/capture.h"
#include "lib/base/reason.h"
#include "lib/coresight/topology.h"

enum {
	PLAN_AUX_MIN = 128 << 10, /* minimum size of a ring, bytes */
	PLAN_AUX_MAX = 1 << 30,   /* the kernel's arithmetic overflows beyond */
};

struct plan_settings {
	const char *sink;   /* for targets that name none, or NULL */
	const char *cpus;   /* the only ones that are traced, or NULL */
	uint64_t aux_size;  /* of one ring, bytes; rounded down to a power of two */
	uint64_t memory;    /* limit for all rings, bytes */
	bool machine;       /* trace everything at all times: CPU by CPU, on any kind of sink */
	const char *hazard; /* why TRBE must not be used here, or NULL */
};

struct plan;

struct plan_use {
	uint64_t memory;    /* used by the rings of other targets, bytes */
	unsigned n_private; /* other targets with rings of their own */
	bool limited;       /* by what follows: what the plan's user may still have */
	uint64_t most;      /* bytes */
	size_t most_events;
	const struct plan *arena; /* the arena in use for other targets, or NULL */
};

struct plan_target {
	const struct capture_options *options;
	bool contained; /* in a PID namespace of its own: the kernel records no context IDs for it */
};

struct plan_cpu {
	uint32_t cpu;
	uint32_t sink;    /* index in the topology */
	uint32_t sink_id; /* for the PMU; 0: the PMU selects the sink */
	uint64_t aux_size;
	uint8_t trace_id; /* unless the kernel reports another later; 0: none */
	bool collector;
	uint64_t configr; /* value of the trace unit's configuration register, for the decoder */
};

struct plan {
	bool shared;   /* one event per CPU for all processes; else one per thread and CPU */
	bool direct;   /* the sinks write into the AUX buffers continuously, not only when an event stops */
	bool switches; /* context switch records separate the threads */
	bool exclude_kernel;
	bool cycles, branch_broadcast;
	bool breakpoints; /* apply the filter: the trace units have too few address comparators for it */
	bool fill;        /* the sinks stop where an AUX buffer is full, in place of overwriting its oldest trace */
	uint32_t thread;  /* the only one that is traced; 0: all */
	uint32_t type;
	uint64_t words[5];  /* attr.config, config1, …; the sink's ID is added for each CPU */
	uint64_t data_size; /* data ring beside each AUX buffer, without its first page, bytes */
	struct plan_cpu *cpus;
	size_t n_cpus;
	uint64_t memory;    /* of all buffers, bytes */
	size_t most_events; /* that its user may have for it */
	struct buf missing; /* texts, each terminated by NUL: requests that could not be met */
};

/*
 * Allocates a plan. -ENODEV: perf can trace nothing here; -ENOENT: no such sink; -ENOTSUP: the hardware or sink does
 * not support an option; -EPERM: the sink is unsafe on this machine; -EBUSY: incompatible with events in use; -ENOSPC:
 * the rings would exceed the memory limit. Sets why on failure.
 */
int plan_make(const struct topology *t, const struct plan_settings *s, const struct plan_use *use,
	      const struct plan_target *target, struct plan **ret, struct reason *why);
struct plan *plan_free(struct plan *p);

static inline void plan_freep(struct plan **p)
{
	plan_free(*p);
}

/* True if one arena can serve both plans. */
bool plan_same(const struct plan *a, const struct plan *b);

#endif
