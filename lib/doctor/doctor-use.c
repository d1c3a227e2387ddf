/* SPDX-License-Identifier: MIT */
/* Checks: the clock of the trace, the options of the hardware, and the processes that use it. */
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "lib/doctor/doctor.h"

enum { CPUS_TEXT = 192, HOLDERS_MAX = 8 };

static bool has_registers(const struct doctor *d, const struct topology_cpu *cpu)
{
	return cpu->registers;
}

static bool hides_registers(const struct doctor *d, const struct topology_cpu *cpu)
{
	return cpu->source >= 0 && cpu->online && !cpu->registers;
}

static bool lacks_context(const struct doctor *d, const struct topology_cpu *cpu)
{
	return cpu->registers && cpu->n_sinks && !d->topology->sinks[cpu->sinks[0]].per_cpu && !cpu->offers.contextid;
}

static bool lacks_timestamps(const struct doctor *d, const struct topology_cpu *cpu)
{
	return cpu->registers && !cpu->offers.timestamp;
}

static bool has_other_clock(const struct doctor *d, const struct topology_cpu *cpu)
{
	return cpu->registers && cpu->offers.timestamp && cpu->ts_source != 1;
}

static void check_clock(struct doctor *d)
{
	char cpus[CPUS_TEXT], text[64];
	struct doctor_finding *f;

	if (!doctor_cpus(d, has_registers, cpus, sizeof(cpus)))
		return;
	if (doctor_cpus(d, lacks_timestamps, cpus, sizeof(cpus)))
		doctor_find(d, DOCTOR_WARNING, "clock", "no timestamps in the trace of %s", cpus);
	if (doctor_cpus(d, has_other_clock, cpus, sizeof(cpus)))
		doctor_find(d, DOCTOR_WARNING, "clock",
			    "timestamps of %s may not be those of the CPU's counter: calls are timed by the kernel's "
			    "records only",
			    cpus);
	else
		doctor_find(
		    d, DOCTOR_OK, "clock",
		    "timestamps are those of the CPUs' virtual counter, and can be converted to the kernel's time");
	if (sysroot_text(d->root, "sys/devices/system/clocksource/clocksource0/current_clocksource", text,
			 sizeof(text)) == 0 &&
	    strcmp(text, "arch_sys_counter") != 0) {
		f = doctor_find(d, DOCTOR_WARNING, "clock",
				"the kernel's clock source is %s: trace and kernel use different clocks", text);
		doctor_remedy(
		    f, "echo arch_sys_counter >/sys/devices/system/clocksource/clocksource0/current_clocksource");
	}
}

/* Counts the perf events that a process has open. Only root can see those of other users. */
static unsigned count_perf_events(const struct doctor *d, const char *pid)
{
	_cleanup_names_ struct sysroot_names names = { 0 };
	char dir[SYSROOT_PATH_MAX], path[SYSROOT_PATH_MAX], target[32];
	unsigned n = 0;

	snprintf(dir, sizeof(dir), "proc/%s/fd", pid);
	if (sysroot_list(d->root, dir, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.n; i++) {
		ssize_t size;

		/* The target of such a link is a description, not a path. */
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, names.list[i]) >= sizeof(path))
			continue;
		size = readlinkat(d->root, path, target, sizeof(target) - 1);
		target[MAX(size, 0)] = 0;
		n += strcmp(target, "anon_inode:[perf_event]") == 0;
	}
	return n;
}

/* "812 (perf), 977 (csightd)" */
static size_t find_holders(const struct doctor *d, char *ret, size_t size)
{
	_cleanup_names_ struct sysroot_names names = { 0 };
	size_t n = 0, used = 0;

	*ret = 0;
	if (sysroot_list(d->root, "proc", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.n && n < HOLDERS_MAX; i++) {
		const char *pid = names.list[i];
		char path[SYSROOT_PATH_MAX], comm[32];

		if (!isdigit((unsigned char)*pid) || strlen(pid) > 10 || !count_perf_events(d, pid))
			continue;
		snprintf(path, sizeof(path), "proc/%s/comm", pid);
		if (sysroot_text(d->root, path, comm, sizeof(comm)) < 0)
			strcpy(comm, "?");
		used += (size_t)snprintf(ret + used, size - used, "%s%s (%s)", n++ ? ", " : "", pid, comm);
		used = MIN(used, size - 1);
	}
	return n;
}

static bool is_source(enum topology_kind kind)
{
	return topology_is_cpu_source(kind) || kind == TOPOLOGY_STM || kind == TOPOLOGY_OTHER;
}

/* Sysfs and perf exclude each other at a sink: while a source is enabled through sysfs, perf fails with EBUSY. */
void doctor_use(struct doctor *d)
{
	const struct topology *t = d->topology;
	const struct topology_device *source = NULL, *running = NULL;
	struct doctor_finding *f;
	char holders[320];
	size_t n;

	check_clock(d);
	if (!t->n_devices)
		return;
	for (size_t i = 0; i < t->n_devices; i++) {
		const struct topology_device *of = &t->devices[i];

		if (of->sysfs && is_source(of->kind) && (!source || topology_is_cpu_source(of->kind)))
			source = of;
		if (of->running && (!running || of->kind == TOPOLOGY_ETR))
			running = of;
	}
	n = find_holders(d, holders, sizeof(holders));
	if (source) {
		f = doctor_find(d, DOCTOR_ERROR, "holder", "%s is enabled through sysfs%s%s: perf cannot use its sink",
				source->name, running ? " and writes to " : "", running ? running->name : "");
		doctor_remedy(f, "echo 0 >/sys/bus/coresight/devices/%s/enable_source", source->name);
	} else if (running) {
		f = doctor_find(d, DOCTOR_WARNING, "holder", "%s is recording now; processes with perf events: %s",
				running->name, n ? holders : "none visible to this user");
		doctor_remedy(f, "list csightd's targets with csight targets, or end the other process");
	} else if (n) {
		doctor_find(d, DOCTOR_NOTE, "holder", "no shared sink is recording; processes with perf events: %s",
			    holders);
	} else {
		doctor_find(d, DOCTOR_OK, "holder", "no process is known to use the trace hardware");
	}
}

static bool same_features(const struct topology_cpu *a, const struct topology_cpu *b)
{
	const struct topology_offers *x = &a->offers, *y = &b->offers;

	return a->kind == b->kind && x->retstack == y->retstack && x->cycacc == y->cycacc &&
	       x->timestamp == y->timestamp && x->branch_broadcast == y->branch_broadcast &&
	       x->contextid == y->contextid && x->vmid == y->vmid && x->address_pairs == y->address_pairs &&
	       x->counters == y->counters && x->contextid_comparators == y->contextid_comparators;
}

/* Finds the first CPU with the same options, which represents all of them in the report. */
static const struct topology_cpu *first_with_features(const struct doctor *d, const struct topology_cpu *cpu)
{
	const struct topology_cpu *at = d->topology->cpus;

	while (!at->registers || !same_features(at, cpu))
		at++;
	return at;
}

static void report_features(struct doctor *d, const struct topology_cpu *cpu, size_t n)
{
	const struct topology_offers *o = &cpu->offers;
	const struct {
		bool there;
		const char *what;
	} list[] = {
		{ o->retstack, "return stack" },    { o->cycacc, "cycle counts" },
		{ o->timestamp, "timestamps" },     { o->contextid, "context IDs" },
		{ o->vmid, "virtual context IDs" }, { o->branch_broadcast, "branch broadcast" },
	};
	char has[160] = "", lacks[160] = "";

	for (size_t i = 0; i < ELEMENTS(list); i++) {
		char *to = list[i].there ? has : lacks;
		size_t used = strlen(to);

		snprintf(to + used, sizeof(has) - used, "%s%s", used ? ", " : "", list[i].what);
	}
	doctor_find(d, DOCTOR_OK, "offers", "%s of %s: %s%s%s; %u address ranges, %u counters",
		    topology_kind_str(cpu->kind), DOCTOR_PLURAL(n, "CPU"), *has ? has : "no option",
		    *lacks ? "; no " : "", lacks, o->address_pairs, o->counters);
}

void doctor_report_features(struct doctor *d)
{
	const struct topology *t = d->topology;
	char cpus[CPUS_TEXT];

	for (size_t i = 0; i < t->n_cpus; i++) {
		size_t n = 0;

		if (!t->cpus[i].registers || first_with_features(d, &t->cpus[i]) != &t->cpus[i])
			continue;
		for (size_t j = i; j < t->n_cpus; j++)
			n += t->cpus[j].registers && same_features(&t->cpus[j], &t->cpus[i]);
		report_features(d, &t->cpus[i], n);
	}
	if (doctor_cpus(d, lacks_context, cpus, sizeof(cpus)))
		doctor_find(d, DOCTOR_WARNING, "offers",
			    "no context IDs on a shared sink: only the kernel's records separate the threads of %s",
			    cpus);
	if (doctor_cpus(d, hides_registers, cpus, sizeof(cpus)))
		doctor_find(d, DOCTOR_WARNING, "offers",
			    "the trace units of %s do not expose their registers: their trace cannot be decoded", cpus);
}
