/*
 * The machine's CoreSight hardware as the kernel shows it in sysfs: trace units, sinks, what lies between them, and
 * what the cs_etm PMU takes. Kernels are told apart by what is there, never by their number.
 *
 * Everything is read below a root directory: "/" for this machine, or a tree that was made for a test; no link leads
 * out of it. What is read is bounded. What is broken is told as a problem and left out; names are as found, so they are
 * escaped where they are shown.
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
	TOPOLOGY_NAME_MAX = 64,       /* with its NUL; longer ones are a problem */
	TOPOLOGY_STATIC_ID_CPUS = 48, /* CPUs that have a trace ID of their own where IDs are static */
};

enum topology_kind {
	TOPOLOGY_OTHER,
	TOPOLOGY_ETMV3, /* sources of CPUs */
	TOPOLOGY_PTM,
	TOPOLOGY_ETMV4,
	TOPOLOGY_ETE,
	TOPOLOGY_STM,
	TOPOLOGY_TRBE, /* sinks; of one CPU each */
	TOPOLOGY_ETR,  /* shared ones */
	TOPOLOGY_ETF,
	TOPOLOGY_ETB,
	TOPOLOGY_SMB,  /* HiSilicon's */
	TOPOLOGY_TPIU, /* leads off the chip: nothing for perf */
	TOPOLOGY_FUNNEL,
	TOPOLOGY_REPLICATOR,
	TOPOLOGY_CATU,
	TOPOLOGY_CTI,
};

/* "ETMv4", as people write it. */
const char *topology_kind_str(enum topology_kind kind);

static inline bool topology_is_cpu_source(enum topology_kind kind)
{
	return kind == TOPOLOGY_ETMV3 || kind == TOPOLOGY_PTM || kind == TOPOLOGY_ETMV4 || kind == TOPOLOGY_ETE;
}

struct topology_device {
	char name[TOPOLOGY_NAME_MAX];
	enum topology_kind kind;
	int cpu;        /* that it belongs to alone, or -1 */
	bool sysfs;     /* enabled by sysfs now: the sink that it leads to is not free for perf */
	bool running;   /* a sink that captures now, where its registers tell */
	uint32_t *outs; /* devices that it leads to, by their number */
	size_t n_outs;
	char *dir; /* below the root, without links */
};

/* What perf can have trace written to. */
struct topology_sink {
	uint32_t device;
	bool per_cpu;    /* private to one CPU (TRBE), else one for all that reach it */
	uint32_t id;     /* for the PMU's "sinkid" field; 0: the PMU does not name it */
	uint64_t buffer; /* bytes of its own memory, where it tells; else 0 */
};

/* What a trace unit can do. */
struct topology_offers {
	bool retstack, cycacc, timestamp, branch_broadcast, contextid, vmid;
	uint8_t address_pairs; /* address comparators, in pairs: one for each range */
	uint8_t counters, contextid_comparators;
};

struct topology_cpu {
	uint32_t cpu;
	bool online;
	int source;              /* device, or -1: it cannot be traced */
	bool in_pmu;             /* the PMU knows the source */
	enum topology_kind kind; /* of the source */
	bool registers;          /* those in regs and offers could be read: an offline CPU's cannot */
	/* For perf.data. The first two are the event's (TRCCONFIGR or ETMCR) and the trace ID: left 0. */
	struct pd_cpu regs;
	int64_t ts_source; /* 1: timestamps are the virtual counter; -1: not known */
	uint8_t trace_id;  /* where IDs are static; 0: none is left for this CPU */
	/* Sinks that trace of this CPU reaches, by their number; the one that the kernel takes by itself comes first.
	 */
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

/* As the PMU calls it: "timestamp". */
const char *topology_format_str(enum topology_format format);

struct topology_pmu {
	bool there;    /* the directory is */
	uint32_t type; /* for attr.type; 0: not told */
	struct topology_field formats[TOPOLOGY_FORMATS];
	uint32_t n_filters; /* address filters that it takes */
	uint32_t n_sources; /* CPUs that it can trace */
};

struct topology_problem {
	char path[160];    /* below the root, cut where it is longer */
	int error;         /* negative errno */
	const char *cause; /* what is wrong with it */
};

struct topology {
	struct topology_pmu pmu;
	struct topology_cpu *cpus; /* all that are present, by rising number */
	size_t n_cpus;
	struct topology_device *devices; /* by name */
	size_t n_devices;
	struct topology_sink *sinks; /* in the order of their devices */
	size_t n_sinks;
	bool connections; /* the kernel shows them; else each source is taken to reach each shared sink */
	struct topology_problem *problems;
	size_t n_problems, n_problems_more; /* more: that found no room */
};

/* A machine without CoreSight is no error. -ENOMEM; what opening the root gave. */
int topology_read(const char *root, struct topology **ret);
struct topology *topology_free(struct topology *t);

static inline void topology_freep(struct topology **t)
{
	topology_free(*t);
}

/*
 * A CPU that went off since old was read shows no registers, and trace of it is still in rings: takes them over from
 * old, where the trace unit is the same one.
 */
void topology_keep_registers(struct topology *t, const struct topology *old);

/* -ENOENT. */
int topology_find_device(const struct topology *t, const char *name, uint32_t *ret);
int topology_find_sink(const struct topology *t, const char *name, uint32_t *ret);
const struct topology_cpu *topology_find_cpu(const struct topology *t, uint32_t cpu); /* or NULL */

/* Puts a value into attr.config, config1, …; -ENOTSUP where the PMU has no such field, -ERANGE where it has no room. */
int topology_set(const struct topology_pmu *pmu, enum topology_format format, uint64_t value, uint64_t words[5]);

#endif
