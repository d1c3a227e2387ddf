/* SPDX-License-Identifier: MIT */
/* Reads the PMU and the CPUs with the registers of their trace units, and finds the sinks that each reaches. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/base/parse.h"
#include "lib/coresight/topology-read.h"

static const char *const format_names[TOPOLOGY_FORMATS] = {
	[TOPOLOGY_TIMESTAMP] = "timestamp",
	[TOPOLOGY_CYCACC] = "cycacc",
	[TOPOLOGY_CONTEXTID] = "contextid",
	[TOPOLOGY_CONTEXTID1] = "contextid1",
	[TOPOLOGY_CONTEXTID2] = "contextid2",
	[TOPOLOGY_RETSTACK] = "retstack",
	[TOPOLOGY_PRESET] = "preset",
	[TOPOLOGY_BRANCH_BROADCAST] = "branch_broadcast",
	[TOPOLOGY_SINKID] = "sinkid",
	[TOPOLOGY_CONFIGID] = "configid",
	[TOPOLOGY_CC_THRESHOLD] = "cc_threshold",
};

/* "config:28", "config2:0-31". */
static bool parse_field(const char *text, struct topology_field *ret)
{
	uint32_t word = 0, first, last;

	if (strncmp(text, "config", 6) != 0)
		return false;
	text += 6;
	if (*text != ':' && parse_digits(&text, 5, &word) < 0)
		return false;
	if (*text++ != ':' || parse_digits(&text, 64, &first) < 0)
		return false;
	last = first;
	if (*text == '-' && (text++, parse_digits(&text, 64, &last) < 0))
		return false;
	if (*text || last < first)
		return false;
	*ret = (struct topology_field){ true, (uint8_t)word, (uint8_t)first, (uint8_t)last };
	return true;
}

int topology_read_pmu(struct topology_reading *r)
{
	struct topology_pmu *pmu = &r->t->pmu;
	uint64_t v;

	pmu->there = sysroot_has(r->root, TOPOLOGY_PMU);
	if (!pmu->there)
		return 0;
	if (topology_value(r, TOPOLOGY_PMU, "type", &v) && v <= UINT32_MAX)
		pmu->type = (uint32_t)v;
	else
		topology_problem(r, TOPOLOGY_PMU "/type", -ENODATA, "does not hold a PMU type");
	if (topology_value(r, TOPOLOGY_PMU, "nr_addr_filters", &v) && v <= UINT32_MAX)
		pmu->n_filters = (uint32_t)v;
	for (size_t i = 0; i < TOPOLOGY_FORMATS; i++) {
		char path[SYSROOT_PATH_MAX], text[64];
		int rc;

		if (!topology_join_path(path, TOPOLOGY_PMU "/format", format_names[i]))
			continue;
		rc = sysroot_text(r->root, path, text, sizeof(text));
		if (rc == 0 && !parse_field(text, &pmu->formats[i]))
			rc = -EBADMSG;
		if (rc < 0 && rc != -ENOENT)
			topology_problem(r, path, rc, "is not a field of an event");
	}
	return 0;
}

static bool read_cpu_list(struct topology_reading *r, const char *name, bool cpus[TOPOLOGY_CPUS_MAX])
{
	char path[SYSROOT_PATH_MAX], text[SYSROOT_TEXT_MAX];
	int rc;

	if (!topology_join_path(path, TOPOLOGY_CPUS, name))
		return false;
	rc = sysroot_text(r->root, path, text, sizeof(text));
	if (rc == 0 && parse_ranges(text, cpus, TOPOLOGY_CPUS_MAX) < 0)
		rc = -EBADMSG;
	if (rc < 0)
		topology_problem(r, path, rc, "is not a list of CPUs");
	return rc == 0;
}

/* Finds the trace unit of a CPU by the PMU's link for the CPU; without one, by the CPU of each device. */
static void find_source(struct topology_reading *r, struct topology_cpu *cpu)
{
	char path[SYSROOT_PATH_MAX], to[SYSROOT_PATH_MAX];
	const char *last;
	uint32_t device;
	int rc;

	snprintf(path, sizeof(path), TOPOLOGY_PMU "/cpu%u", cpu->cpu);
	rc = sysroot_resolve(r->root, path, to);
	last = rc == 0 ? strrchr(to, '/') : NULL;
	if (last && topology_find_device(r->t, last + 1, &device) == 0 &&
	    topology_is_cpu_source(r->t->devices[device].kind)) {
		cpu->source = (int)device;
		cpu->in_pmu = true;
		r->t->pmu.n_sources++;
		return;
	}
	if (rc != -ENOENT)
		topology_problem(r, path, rc < 0 ? rc : -ENODEV, "is not a link to a trace unit");
	for (size_t i = 0; i < r->t->n_devices && cpu->source < 0; i++)
		if (topology_is_cpu_source(r->t->devices[i].kind) && r->t->devices[i].cpu == (int)cpu->cpu)
			cpu->source = (int)i;
}

static bool read_regs(struct topology_reading *r, const char *dir, const char *const names[], uint64_t *ret)
{
	for (size_t i = 0; names[i]; i++)
		if (!topology_value(r, dir, names[i], &ret[i]) || ret[i] > UINT32_MAX) {
			topology_problem(r, dir, -ENODATA, "has no readable registers");
			return false;
		}
	return true;
}

/* Reads ts_source, a signed number (1, 0 or -1) that not every kernel has. */
static int64_t read_ts_source(struct topology_reading *r, const char *dir)
{
	char path[SYSROOT_PATH_MAX], text[16];
	uint64_t v;

	if (!topology_join_path(path, dir, "ts_source") || sysroot_text(r->root, path, text, sizeof(text)) < 0)
		return -1;
	return parse_u64(text, INT32_MAX, &v) < 0 ? -1 : (int64_t)v;
}

/* Reads the registers of an ETMv4 or ETE (IHI 0064). */
static bool read_etmv4(struct topology_reading *r, const char *dir, struct topology_cpu *cpu)
{
	static const char *const names[] = { "trcidr/trcidr0", "trcidr/trcidr1",     "trcidr/trcidr2",
					     "trcidr/trcidr8", "mgmt/trcauthstatus", NULL };
	struct topology_offers *o = &cpu->offers;
	uint64_t regs[5], idr4, idr5, devarch = 0;
	struct pd_cpu *p = &cpu->regs;

	if (!read_regs(r, dir, names, regs))
		return false;
	if (cpu->kind == TOPOLOGY_ETE && !read_regs(r, dir, (const char *const[]){ "mgmt/trcdevarch", NULL }, &devarch))
		return false;
	p->magic = cpu->kind == TOPOLOGY_ETE ? PD_MAGIC_ETE : PD_MAGIC_ETMV4;
	p->n_params = 2;
	for (size_t i = 0; i < ELEMENTS(regs); i++)
		p->params[p->n_params++] = regs[i];
	if (cpu->kind == TOPOLOGY_ETE)
		p->params[p->n_params++] = devarch;
	p->params[p->n_params++] = (uint64_t)cpu->ts_source;
	o->branch_broadcast = regs[0] >> 5 & 1;
	o->cycacc = regs[0] >> 7 & 1;
	o->retstack = regs[0] >> 9 & 1;
	o->timestamp = (regs[0] >> 24 & 0x1f) != 0;
	o->contextid = (regs[2] >> 5 & 0x1f) == 4;
	o->vmid = (regs[2] >> 29 & 3) != 0 && (regs[2] >> 10 & 0x1f) >= 4;
	if (topology_value(r, dir, "trcidr/trcidr4", &idr4)) {
		o->address_pairs = idr4 & 0xf;
		o->contextid_comparators = idr4 >> 24 & 0xf;
	}
	if (topology_value(r, dir, "trcidr/trcidr5", &idr5))
		o->counters = idr5 >> 28 & 7;
	return true;
}

/* Reads the registers of an ETMv3 or PTM (IHI 0014). The driver supports no context IDs for perf. */
static bool read_etmv3(struct topology_reading *r, const char *dir, struct topology_cpu *cpu)
{
	static const char *const names[] = { "mgmt/etmccer", "mgmt/etmidr", NULL };
	struct topology_offers *o = &cpu->offers;
	struct pd_cpu *p = &cpu->regs;
	uint64_t ccr;

	if (!read_regs(r, dir, names, p->params + 2))
		return false;
	p->magic = PD_MAGIC_ETMV3;
	p->n_params = 4;
	o->cycacc = true;
	o->timestamp = p->params[2] >> 22 & 1;
	o->retstack = p->params[2] >> 23 & 1;
	if (topology_value(r, dir, "mgmt/etmccr", &ccr)) {
		o->address_pairs = ccr & 0xf;
		o->counters = ccr >> 13 & 7;
		o->contextid_comparators = ccr >> 24 & 3;
	}
	return true;
}

static void read_cpu(struct topology_reading *r, struct topology_cpu *cpu)
{
	const struct topology_device *d;

	cpu->source = -1;
	cpu->ts_source = -1;
	cpu->trace_id = cpu->cpu < TOPOLOGY_STATIC_ID_CPUS ? (uint8_t)(0x10 + 2 * cpu->cpu) : 0;
	cpu->regs.cpu = cpu->cpu;
	find_source(r, cpu);
	if (cpu->source < 0)
		return;
	d = &r->t->devices[cpu->source];
	cpu->kind = d->kind;
	/* Reads of an offline CPU's registers return arbitrary values. */
	if (!cpu->online)
		return;
	cpu->ts_source = read_ts_source(r, d->dir);
	if (cpu->kind == TOPOLOGY_ETMV4 || cpu->kind == TOPOLOGY_ETE)
		cpu->registers = read_etmv4(r, d->dir, cpu);
	else
		cpu->registers = read_etmv3(r, d->dir, cpu);
	if (!cpu->registers)
		cpu->regs = (struct pd_cpu){ .cpu = cpu->cpu };
}

int topology_read_cpus(struct topology_reading *r)
{
	bool present[TOPOLOGY_CPUS_MAX] = { 0 }, online[TOPOLOGY_CPUS_MAX] = { 0 };
	struct topology *t = r->t;
	size_t n = 0;

	/* Without a list of CPUs, use those of the trace units. */
	if (!sysroot_has(r->root, TOPOLOGY_CPUS) || !read_cpu_list(r, "present", present))
		for (size_t i = 0; i < t->n_devices; i++)
			if (topology_is_cpu_source(t->devices[i].kind) && t->devices[i].cpu >= 0)
				present[t->devices[i].cpu] = true;
	/* A kernel without CPU hotplug has no such file. */
	if (!sysroot_has(r->root, TOPOLOGY_CPUS "/online") || !read_cpu_list(r, "online", online))
		memcpy(online, present, sizeof(online));
	for (size_t i = 0; i < TOPOLOGY_CPUS_MAX; i++)
		n += present[i] |= online[i];
	t->cpus = calloc(n + 1, sizeof(*t->cpus));
	if (!t->cpus)
		return -ENOMEM;
	for (uint32_t i = 0; i < TOPOLOGY_CPUS_MAX; i++)
		if (present[i]) {
			t->cpus[t->n_cpus] = (struct topology_cpu){ .cpu = i, .online = online[i] };
			read_cpu(r, &t->cpus[t->n_cpus++]);
		}
	return 0;
}

/* The kernel's preference among sinks that a trace unit reaches: TRBE, then memory, then an on-chip buffer. */
static unsigned rank(enum topology_kind kind)
{
	return kind == TOPOLOGY_TRBE ? 0 : kind == TOPOLOGY_ETR || kind == TOPOLOGY_SMB ? 1 : 2;
}

struct cpu_walk {
	uint32_t *queue;
	uint32_t *distance; /* by device; 0: not reached */
};

/* Computes the distance of each device from one, plus one, by breadth-first search; invalid trees may have cycles. */
static void walk_from(const struct topology *t, struct cpu_walk *w, uint32_t from)
{
	size_t head = 0, tail = 0;

	memset(w->distance, 0, t->n_devices * sizeof(*w->distance));
	w->queue[tail++] = from;
	w->distance[from] = 1;
	while (head < tail) {
		const struct topology_device *d = &t->devices[w->queue[head++]];
		uint32_t next = w->distance[d - t->devices] + 1;

		for (size_t i = 0; i < d->n_outs; i++)
			if (!w->distance[d->outs[i]]) {
				w->distance[d->outs[i]] = next;
				w->queue[tail++] = d->outs[i];
			}
	}
}

static bool reaches(const struct topology *t, const struct cpu_walk *w, const struct topology_cpu *cpu, size_t sink)
{
	const struct topology_device *d = &t->devices[t->sinks[sink].device];

	if (t->sinks[sink].per_cpu)
		return d->cpu == (int)cpu->cpu;
	return !t->connections || w->distance[t->sinks[sink].device];
}

static int find_reachable_sinks(const struct topology *t, struct cpu_walk *w, struct topology_cpu *cpu)
{
	if (cpu->source < 0 || !t->n_sinks)
		return 0;
	cpu->sinks = calloc(t->n_sinks, sizeof(*cpu->sinks));
	if (!cpu->sinks)
		return -ENOMEM;
	walk_from(t, w, (uint32_t)cpu->source);
	for (size_t i = 0; i < t->n_sinks; i++) {
		uint32_t device = t->sinks[i].device;
		unsigned of = rank(t->devices[device].kind);
		size_t at;

		if (!reaches(t, w, cpu, i))
			continue;
		for (at = cpu->n_sinks++; at > 0; at--) {
			uint32_t other = t->sinks[cpu->sinks[at - 1]].device;
			unsigned has = rank(t->devices[other].kind);

			if (has < of || (has == of && w->distance[other] <= w->distance[device]))
				break;
			cpu->sinks[at] = cpu->sinks[at - 1];
		}
		cpu->sinks[at] = (uint32_t)i;
	}
	return 0;
}

int topology_reach(struct topology_reading *r)
{
	_cleanup_free_ uint32_t *queue = calloc(r->t->n_devices + 1, sizeof(*queue));
	_cleanup_free_ uint32_t *distance = calloc(r->t->n_devices + 1, sizeof(*distance));
	struct cpu_walk w = { queue, distance };
	int rc = queue && distance ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < r->t->n_cpus; i++)
		rc = find_reachable_sinks(r->t, &w, &r->t->cpus[i]);
	return rc;
}
