/*
 * Which events to open for a target: a pure function of the machine's topology, what was configured, what is in use and
 * what the target wants.
 *
 * A sink that each CPU has for itself (TRBE) gives each target rings of its own: an event for each thread on each CPU,
 * which threads born later inherit, all of a CPU writing into one AUX buffer. A sink that CPUs share (ETR, ETF, ETB) is
 * one arena: one event a CPU for whatever runs there, and threads are told apart by context IDs afterwards. Of the
 * kernel's events for a shared sink only the last that stops is given the bytes, so one CPU of each sink, its keeper,
 * has an AUX buffer of full size. The PMU does not take both kinds at once.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PLAN_H
#define CSIGHT_DAEMON_CAPTURE_PLAN_H

#include "daemon/capture/capture.h"
#include "lib/coresight/topology.h"
#include "lib/base/reason.h"

enum {
	PLAN_AUX_MIN = 128 << 10, /* smaller rings are not worth having */
	PLAN_AUX_MAX = 1 << 30,   /* the kernel's arithmetic ends there */
};

struct plan_settings {
	const char *sink;  /* of targets that name none, or NULL */
	uint64_t aux_size; /* of a ring; made a power of two */
	uint64_t memory;   /* for all rings */
	bool machine;      /* everything is traced always: CPU by CPU, whatever the sink */
};

struct plan;

struct plan_use {
	uint64_t memory;          /* that rings of other targets take */
	unsigned n_private;       /* other targets that have rings of their own */
	const struct plan *arena; /* that is running for other targets, or NULL */
};

struct plan_target {
	const struct capture_options *options;
	unsigned n_threads; /* 0: not known yet */
	bool contained;     /* in a PID namespace of its own: the kernel gives no context IDs */
};

struct plan_cpu {
	uint32_t cpu;
	uint32_t sink;    /* number in the topology */
	uint32_t sink_id; /* for the PMU; 0: it chooses by itself */
	uint64_t aux_size;
	uint8_t trace_id; /* until the kernel tells another; 0: none */
	bool keeper;
	uint64_t configr; /* what the trace unit's configuration register will hold, for the decoder */
};

struct plan {
	bool shared;   /* CPU by CPU, everybody's; else thread by thread */
	bool direct;   /* the sinks write into the AUX buffers by themselves, not only when an event stops */
	bool switches; /* threads are told apart by records of context switches */
	bool exclude_kernel;
	bool cycles;
	uint32_t type;
	uint64_t words[5];  /* attr.config, config1, …; the sink's ID comes in for each CPU */
	uint64_t data_size; /* of the data ring beside each AUX buffer, without its first page */
	struct plan_cpu *cpus;
	size_t n_cpus;
	uint64_t memory;    /* of all buffers */
	uint64_t n_events;  /* descriptors */
	struct buf missing; /* texts, each ended by NUL: what is not as it was wished */
};

/*
 * -ENODEV: nothing that perf could trace; -ENOENT: no such sink; -ENOTSUP: an option that this hardware or sink cannot
 * do; -EBUSY: it does not go with what is running; -ENOSPC: the rings would take too much memory. why tells.
 */
int plan_make(const struct topology *t, const struct plan_settings *s, const struct plan_use *use,
	      const struct plan_target *target, struct plan **ret, struct reason *why);
struct plan *plan_free(struct plan *p);

static inline void plan_freep(struct plan **p)
{
	plan_free(*p);
}

/* Whether one arena serves both. */
bool plan_same(const struct plan *a, const struct plan *b);

#endif
