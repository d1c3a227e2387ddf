/* SPDX-License-Identifier: MIT */
/* Checks: the PMU, trace units, sinks, and the paths between them. */
#include <stdarg.h>
#include <string.h>

#include "lib/coresight/hazards.h"
#include "lib/doctor/doctor.h"

enum { CPUS_TEXT = 192 };

static bool has_source(const struct doctor *d, const struct topology_cpu *cpu)
{
	return cpu->source >= 0;
}

static bool is_off(const struct doctor *d, const struct topology_cpu *cpu)
{
	return !cpu->online;
}

static bool lacks_source(const struct doctor *d, const struct topology_cpu *cpu)
{
	return cpu->online && cpu->source < 0;
}

static bool unknown_to_pmu(const struct doctor *d, const struct topology_cpu *cpu)
{
	return cpu->source >= 0 && !cpu->in_pmu;
}

static bool lacks_sink(const struct doctor *d, const struct topology_cpu *cpu)
{
	return cpu->source >= 0 && !cpu->n_sinks;
}

/* True if the CPU's default sink is shared with other CPUs. */
static bool shares_sink(const struct doctor *d, const struct topology_cpu *cpu)
{
	return cpu->n_sinks && !d->topology->sinks[cpu->sinks[0]].per_cpu;
}

static bool shares_without_id(const struct doctor *d, const struct topology_cpu *cpu)
{
	return shares_sink(d, cpu) && !cpu->trace_id;
}

static void check_pmu(struct doctor *d)
{
	const struct topology_pmu *pmu = &d->topology->pmu;
	enum doctor_driver driver = doctor_driver(d, "CORESIGHT", "coresight");
	char cpus[CPUS_TEXT];
	struct doctor_finding *f;

	if (!pmu->there) {
		f = doctor_find(d, DOCTOR_ERROR, "pmu", "the kernel has no cs_etm PMU");
		if (driver == DRIVER_NOT_LOADED)
			doctor_remedy(f, "modprobe -a coresight");
		else
			doctor_remedy(f, "boot a kernel with CONFIG_CORESIGHT and CONFIG_PERF_EVENTS");
		return;
	}
	if (!pmu->n_sources) {
		f = doctor_find(d, DOCTOR_ERROR, "pmu", "the cs_etm PMU has no trace unit");
		doctor_remedy(f, "see the findings for kernel and firmware above");
		return;
	}
	doctor_find(d, DOCTOR_OK, "pmu", "cs_etm, with trace units of %s", DOCTOR_PLURAL(pmu->n_sources, "CPU"));
	if (doctor_cpus(d, unknown_to_pmu, cpus, sizeof(cpus)))
		doctor_find(d, DOCTOR_WARNING, "pmu", "the trace units of %s are not in the PMU: perf cannot use them",
			    cpus);
	if (!pmu->formats[TOPOLOGY_SINKID].there)
		doctor_find(d, DOCTOR_NOTE, "pmu",
			    "perf events of this kernel cannot select a sink: the kernel chooses one");
}

static void check_sources(struct doctor *d)
{
	char cpus[CPUS_TEXT];
	struct doctor_finding *f;

	if (doctor_cpus(d, is_off, cpus, sizeof(cpus)))
		doctor_find(d, DOCTOR_NOTE, "sources", "offline: %s", cpus);
	if (!doctor_cpus(d, has_source, cpus, sizeof(cpus))) {
		f = doctor_find(d, DOCTOR_ERROR, "sources", "no CPU has a trace unit");
		doctor_remedy(f, "see the findings for kernel and firmware above");
		return;
	}
	if (!doctor_cpus(d, lacks_source, cpus, sizeof(cpus))) {
		doctor_find(d, DOCTOR_OK, "sources", "every CPU has a trace unit");
		return;
	}
	f = doctor_find(d, DOCTOR_WARNING, "sources", "without a trace unit: %s; execution there is not traced", cpus);
	doctor_remedy(f, "restrict traced programs to the other CPUs with taskset or cpusets");
}

static void add_text(char *to, size_t size, const char *fmt, ...) _printf_(3, 4);
static void add_text(char *to, size_t size, const char *fmt, ...)
{
	size_t n = strlen(to);
	va_list args;

	va_start(args, fmt);
	vsnprintf(to + n, size - n, fmt, args);
	va_end(args);
}

static void check_sinks(struct doctor *d)
{
	const struct topology *t = d->topology;
	size_t private = 0, shared = 0, ports = 0;
	char names[320] = "";
	struct doctor_finding *f;

	for (size_t i = 0; i < t->n_devices; i++)
		ports += t->devices[i].kind == TOPOLOGY_TPIU;
	for (size_t i = 0; i < t->n_sinks; i++) {
		const struct topology_device *of = &t->devices[t->sinks[i].device];

		if (t->sinks[i].per_cpu) {
			private++;
			continue;
		}
		add_text(names, sizeof(names), "%s%s (%s", shared++ ? ", " : "", of->name, topology_kind_str(of->kind));
		if (t->sinks[i].buffer)
			add_text(names, sizeof(names), ", %s", DOCTOR_SIZE(t->sinks[i].buffer));
		add_text(names, sizeof(names), ")");
	}
	if (private)
		doctor_find(d, DOCTOR_OK, "sinks", "private: TRBE of %s; targets do not share a sink",
			    DOCTOR_PLURAL(private, "CPU"));
	if (shared)
		doctor_find(d, DOCTOR_OK, "sinks", "shared by the CPUs connected to them: %s", names);
	if (private || shared)
		return;
	f = doctor_find(d, DOCTOR_ERROR, "sinks", "there is no sink in memory%s",
			ports ? ", only a TPIU, which exports trace from the chip" : "");
	if (d->firmware.source && strcmp(d->firmware.source, "ACPI") == 0 && doctor_kernel_before(d, 6, 7))
		doctor_remedy(f, "if the processors have TRBE, boot Linux 6.7 or later: it is the first that reads it "
				 "from ACPI tables");
	else
		doctor_remedy(f, "see the findings for kernel and firmware above");
}

/* Reports the sink of perf events that do not select one. */
static void report_default_sink(struct doctor *d)
{
	const struct topology *t = d->topology;
	int shared = -1;
	bool private = false, several = false;

	for (size_t i = 0; i < t->n_cpus; i++) {
		int sink = t->cpus[i].n_sinks ? (int)t->cpus[i].sinks[0] : -1;

		if (sink < 0)
			continue;
		if (t->sinks[sink].per_cpu)
		private = true;
		else if (shared < 0) shared = sink;
		several |= shared >= 0 && !t->sinks[sink].per_cpu && sink != shared;
	}
	doctor_find(d, DOCTOR_OK, "paths", "each trace unit reaches a sink; the kernel's default is %s",
		    several || (private && shared >= 0) ? "one of several"
		    : private                           ? "the CPU's own"
							: t->devices[t->sinks[shared].device].name);
}

static void check_paths(struct doctor *d)
{
	const struct topology *t = d->topology;
	char cpus[CPUS_TEXT], all[CPUS_TEXT];
	size_t sources = doctor_cpus(d, has_source, all, sizeof(all)),
	       lacking = doctor_cpus(d, lacks_sink, cpus, sizeof(cpus));
	struct doctor_finding *f;

	if (!sources || !t->n_sinks)
		return;
	if (lacking) {
		f = doctor_find(d, lacking == sources ? DOCTOR_ERROR : DOCTOR_WARNING, "paths", "no path to a sink: %s",
				cpus);
		doctor_remedy(
		    f, "a funnel or replicator on the path is missing: see the findings for kernel and firmware above");
		return;
	}
	if (!t->connections && doctor_cpus(d, shares_sink, cpus, sizeof(cpus)))
		doctor_find(d, DOCTOR_NOTE, "paths", "this kernel does not show which CPU reaches which sink");
	else
		report_default_sink(d);
}

/* Trace IDs have 7 bits; 0x01 to 0x6f are for sources. */
enum { IDS = 0x6f };

static void check_trace_ids(struct doctor *d)
{
	const struct topology *t = d->topology;
	char cpus[CPUS_TEXT], none[CPUS_TEXT];
	size_t shares = doctor_cpus(d, shares_sink, cpus, sizeof(cpus)),
	       lacking = doctor_cpus(d, shares_without_id, none, sizeof(none));
	/* Kernels with this field assign trace IDs on demand. */
	bool dynamic = t->pmu.formats[TOPOLOGY_CC_THRESHOLD].there;
	struct doctor_finding *f;

	if (shares > IDS) {
		f = doctor_find(d, DOCTOR_WARNING, "ids", "%s share sinks, but there are only %d trace IDs",
				DOCTOR_PLURAL(shares, "CPU"), IDS);
		doctor_remedy(f, "arm targets on fewer CPUs at a time");
	} else if (lacking && !dynamic) {
		f = doctor_find(d, DOCTOR_WARNING, "ids",
				"no trace ID is left for %s: kernels before 6.3 derive trace IDs from CPU numbers",
				none);
		doctor_remedy(f, "boot Linux 6.3 or later, or restrict targets to the other CPUs");
	} else if (shares) {
		doctor_find(d, DOCTOR_OK, "ids", "there are enough trace IDs for all CPUs");
	} else if (t->pmu.n_sources > IDS && t->n_sinks && doctor_kernel_before(d, 6, 12)) {
		doctor_find(d, DOCTOR_NOTE, "ids",
			    "private sinks need no trace IDs, but Linux 6.3 to 6.11 gives each of %u CPUs one of "
			    "%d: the last CPUs cannot trace",
			    t->pmu.n_sources, IDS);
	} else if (t->pmu.n_sources && t->n_sinks) {
		doctor_find(d, DOCTOR_OK, "ids", "private sinks need no trace IDs");
	}
}

static void report_sysfs_problems(struct doctor *d)
{
	const struct topology *t = d->topology;

	for (size_t i = 0; i < MIN(t->n_problems, (size_t)16); i++)
		doctor_find(d, DOCTOR_WARNING, "sysfs", "%s: %s (%s)", t->problems[i].path, t->problems[i].cause,
			    strerror(-t->problems[i].error));
	if (t->n_problems > 16)
		doctor_find(d, DOCTOR_WARNING, "sysfs", "%zu more of these", t->n_problems - 16 + t->n_problems_more);
}

/* Returns the level of HAZARD_DAMAGE: a warning if there is a sink other than TRBE, which csightd uses then. */
static enum doctor_level level_of_damage(const struct topology *t)
{
	for (size_t i = 0; i < t->n_sinks; i++)
		if (!t->sinks[i].per_cpu)
			return DOCTOR_WARNING;
	return DOCTOR_ERROR;
}

static void report_hazards(struct doctor *d)
{
	const enum doctor_level levels[] = { [HAZARD_NOTE] = DOCTOR_NOTE,
					     [HAZARD_LOSS] = DOCTOR_WARNING,
					     [HAZARD_DAMAGE] = level_of_damage(d->topology) };
	struct hazards h;

	hazards_find(d->root, d->topology, &h);
	for (size_t i = 0; i < h.n; i++) {
		const struct hazard *of = &h.list[i];

		doctor_remedy(doctor_find(d, levels[of->effect], "hazards", "%s", of->text), "%s%s", of->remedy,
			      of->effect == HAZARD_DAMAGE ? "; until then csightd does not use TRBE, unless its "
							    "configuration has hazards = allow"
							  : "");
	}
}

void doctor_hardware(struct doctor *d)
{
	report_sysfs_problems(d);
	/* With a root other than "/", the files may be those of a machine of another architecture. */
	if (!d->arm && !d->topology->n_devices)
		return;
	check_pmu(d);
	if (!d->topology->n_devices) {
		doctor_remedy(doctor_find(d, DOCTOR_ERROR, "devices", "the kernel shows no CoreSight device"),
			      "see the findings for kernel and firmware above");
		return;
	}
	check_sources(d);
	check_sinks(d);
	check_paths(d);
	check_trace_ids(d);
	report_hazards(d);
}
