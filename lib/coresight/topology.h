/* SPDX-License-Identifier: MIT */
/*
 * The machine's CoreSight hardware as the kernel presents it in sysfs: trace units, sinks, the components between them,
 * and the cs_etm PMU with its format fields. Kernels are distinguished by the files they have, never by their version.
 *
 * All files are read beneath a root directory (sysroot.h). A defect in the tree is recorded as a problem, and the
 * defective item is left out. Names are stored unchanged; callers escape them for output.
 */
#ifndef CSIGHT_CORESIGHT_TOPOLOGY_H
#define CSIGHT_CORESIGHT_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/perfdata/write.h"

enum {
	TOPOLOGY_CPUS_MAX = 1024,
	TOPOLOGY_DEVICES_MAX = 8 * TOPOLOGY_CPUS_MAX,
	TOPOLOGY_NAME_MAX = 64,       /* with its NUL; a longer name is a problem */
	TOPOLOGY_STATIC_ID_CPUS = 48, /* CPUs with a trace ID, on kernels with static IDs */
};

enum topology_kind {
	TOPOLOGY_OTHER,
	TOPOLOGY_ETMV3, /* trace sources of CPUs */
	TOPOLOGY_PTM,
	TOPOLOGY_ETMV4,
	TOPOLOGY_ETE,
	TOPOLOGY_STM,
	TOPOLOGY_TRBE, /* the sink of one CPU */
	TOPOLOGY_ETR,  /* shared sinks */
	TOPOLOGY_ETF,
	TOPOLOGY_ETB,
	TOPOLOGY_SMB,  /* HiSilicon's */
	TOPOLOGY_TPIU, /* leads off the chip; not a sink for perf */
	TOPOLOGY_FUNNEL,
	TOPOLOGY_REPLICATOR,
	TOPOLOGY_CATU,
	TOPOLOGY_CTI,
};

/* The usual spelling: "ETMv4". */
const char *topology_kind_str(enum topology_kind kind);

static inline bool topology_is_cpu_source(enum topology_kind kind)
{
	return kind == TOPOLOGY_ETMV3 || kind == TOPOLOGY_PTM || kind == TOPOLOGY_ETMV4 || kind == TOPOLOGY_ETE;
}

struct topology_device {
	char name[TOPOLOGY_NAME_MAX];
	enum topology_kind kind;
	int cpu;        /* the only CPU that uses the device, or -1 */
	bool sysfs;     /* enabled through sysfs now: perf cannot use the sink that it leads to */
	bool running;   /* a sink that captures trace now, according to its registers */
	uint32_t *outs; /* indexes of the devices that its output ports lead to */
	size_t n_outs;
	char *dir; /* relative to the root, without links */
};

/* A sink that perf can use. */
struct topology_sink {
	uint32_t device;
	bool per_cpu;    /* of one CPU (TRBE); else shared by all CPUs that reach it */
	uint32_t id;     /* for the PMU's "sinkid" field; 0: the PMU does not list the sink */
	uint64_t buffer; /* bytes of its own memory; 0: none or unknown */
};

/* Features of a trace unit. */
struct topology_offers {
	bool retstack, cycacc, timestamp, branch_broadcast, contextid, vmid;
	uint8_t address_pairs; /* pairs of address comparators: one per range */
	uint8_t counters, contextid_comparators;
};

struct topology_cpu {
	uint32_t cpu;
	bool online;
	int source;              /* index of its trace unit, or -1: it cannot be traced */
	bool in_pmu;             /* the PMU has a link to the source */
	enum topology_kind kind; /* of the source */
	bool registers;          /* regs and offers are valid; registers of an offline CPU cannot be read */
	/* For perf.data. The first two, the event's configuration (TRCCONFIGR or ETMCR) and the trace ID, are 0. */
	struct pd_cpu regs;
	int64_t ts_source; /* 1: timestamps are the virtual counter; -1: unknown */
	uint8_t trace_id;  /* on kernels with static IDs; 0: this CPU has none */
	/* Indexes of the sinks that trace of this CPU reaches; the kernel's default sink comes first. */
	uint32_t *sinks;
	size_t n_sinks;
	struct topology_offers offers;
};

/* Bits first..last of attr.config (word 0), config1, config2, config3, config4. */
struct topology_field {
	bool there;
	uint8_t word, first, last;
};

enum topology_format {
	TOPOLOGY_TIMESTAMP,
	TOPOLOGY_CYCACC,
	TOPOLOGY_CONTEXTID,
	TOPOLOGY_CONTEXTID1,
	TOPOLOGY_CONTEXTID2,
	TOPOLOGY_RETSTACK,
	TOPOLOGY_BRANCH_BROADCAST,
	TOPOLOGY_PRESET,
	TOPOLOGY_SINKID,
	TOPOLOGY_CONFIGID,
	TOPOLOGY_CC_THRESHOLD,
	TOPOLOGY_FORMATS,
};

struct topology_pmu {
	bool there;    /* its directory exists */
	uint32_t type; /* for attr.type; 0: unknown */
	struct topology_field formats[TOPOLOGY_FORMATS];
	uint32_t n_filters; /* address filters per event */
	uint32_t n_sources; /* CPUs that the PMU can trace */
};

struct topology_problem {
	char path[160];    /* relative to the root, cut if longer */
	int error;         /* negative errno */
	const char *cause; /* a predicate that follows the path: "is a broken link" */
};

struct topology {
	struct topology_pmu pmu;
	struct topology_cpu *cpus; /* all CPUs that are present, by number */
	size_t n_cpus;
	struct topology_device *devices; /* by name */
	size_t n_devices;
	struct topology_sink *sinks; /* in the order of their devices */
	size_t n_sinks;
	bool connections; /* sysfs has connections; else each source is assumed to reach each shared sink */
	struct topology_problem *problems;
	size_t n_problems, n_problems_more; /* more: problems that did not fit in the list */
};

/* Reads the topology; a machine without CoreSight is no error. -ENOMEM, or the error of opening the root. */
int topology_read(const char *root, struct topology **ret);
struct topology *topology_free(struct topology *t);

static inline void topology_freep(struct topology **t)
{
	topology_free(*t);
}

/*
 * Copies the registers of a CPU from old if they cannot be read now, because the CPU is offline, and its trace unit is
 * the same. Ring buffers may still hold trace of such a CPU, which the registers are needed to decode.
 */
void topology_keep_registers(struct topology *t, const struct topology *old);

/* Find an index by name. -ENOENT. */
int topology_find_device(const struct topology *t, const char *name, uint32_t *ret);
int topology_find_sink(const struct topology *t, const char *name, uint32_t *ret);
const struct topology_cpu *topology_find_cpu(const struct topology *t, uint32_t cpu); /* or NULL */

/* Sets a field in attr.config, config1, …. -ENOTSUP: the PMU has no such field; -ERANGE: the value does not fit. */
int topology_set_field(const struct topology_pmu *pmu, enum topology_format format, uint64_t value, uint64_t words[5]);

#endif
