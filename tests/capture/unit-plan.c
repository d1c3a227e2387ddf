/* SPDX-License-Identifier: MIT */
/* daemon/capture/perf/plan.c: plans for synthetic machines. */
#include "config.h"

#include <stdlib.h>

#include "daemon/capture/perf/plan.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { CPUS_MAX = 128 };

static struct topology_cpu cpus[CPUS_MAX];
static struct topology_device devices[2 * CPUS_MAX + 4];
static struct topology_sink sinks[CPUS_MAX + 4];
static uint32_t reach[CPUS_MAX][2];
static struct topology machine;

static void format(enum topology_format f, uint8_t word, uint8_t first, uint8_t last)
{
	machine.pmu.formats[f] = (struct topology_field){ true, word, first, last };
}

/* Makes a machine of n CPUs with trace units of this kind; sinks are added later. */
static void make(unsigned n, enum topology_kind kind)
{
	memset(cpus, 0, sizeof(cpus));
	memset(devices, 0, sizeof(devices));
	memset(sinks, 0, sizeof(sinks));
	machine = (struct topology){
		.pmu = { .there = true, .type = 11, .n_filters = 8, .n_sources = n },
		.cpus = cpus,
		.n_cpus = n,
		.devices = devices,
		.n_devices = n,
		.sinks = sinks,
	};
	format(TOPOLOGY_TIMESTAMP, 0, 28, 28);
	format(TOPOLOGY_CYCACC, 0, 12, 12);
	format(TOPOLOGY_CONTEXTID1, 0, 14, 14);
	format(TOPOLOGY_CONTEXTID2, 0, 15, 15);
	format(TOPOLOGY_CONTEXTID, 0, 14, 14);
	format(TOPOLOGY_RETSTACK, 0, 29, 29);
	format(TOPOLOGY_SINKID, 2, 0, 31);
	for (unsigned i = 0; i < n; i++) {
		snprintf(devices[i].name, sizeof(devices[i].name), "etm%u", i);
		devices[i].cpu = (int)i;
		cpus[i] = (struct topology_cpu){
			.cpu = i,
			.online = true,
			.source = (int)i,
			.in_pmu = true,
			.kind = kind,
			.registers = true,
			.trace_id = i < 48 ? (uint8_t)(0x10 + 2 * i) : 0,
			.sinks = reach[i],
			.offers = { .retstack = true,
				    .cycacc = true,
				    .branch_broadcast = true,
				    .timestamp = true,
				    .contextid = true,
				    .vmid = true,
				    .address_pairs = 4 },
		};
	}
}

static uint32_t add_sink(const char *name, bool per_cpu, uint32_t id, uint64_t buffer)
{
	uint32_t device = (uint32_t)machine.n_devices++;

	snprintf(devices[device].name, sizeof(devices[device].name), "%s", name);
	sinks[machine.n_sinks] =
	    (struct topology_sink){ .device = device, .per_cpu = per_cpu, .id = id, .buffer = buffer };
	return (uint32_t)machine.n_sinks++;
}

static void give(unsigned cpu, uint32_t sink)
{
	reach[cpu][cpus[cpu].n_sinks++] = sink;
}

static void give_trbes(void)
{
	for (unsigned i = 0; i < machine.n_cpus; i++) {
		char name[32];

		snprintf(name, sizeof(name), "trbe%u", i);
		give(i, add_sink(name, true, 1000 + i, 0));
	}
}

static void give_etr(void)
{
	uint32_t etr = add_sink("tmc_etr0", false, 0xabcd, 1 << 20);

	for (unsigned i = 0; i < machine.n_cpus; i++)
		give(i, etr);
}

static struct plan_settings settings = { .aux_size = 4 << 20, .memory = 1 << 30 };
static const struct capture_options plain;
static struct reason why;
static struct plan *p;

static int make_plan(const struct capture_options *o, const struct plan_use *use, bool contained)
{
	static const struct plan_use nothing;
	const struct plan_target target = { .options = o, .contained = contained };

	p = plan_free(p);
	why.text[0] = '\0';
	return plan_make(&machine, &settings, use ? use : &nothing, &target, &p, &why);
}

static bool says(const char *text)
{
	return strstr(why.text, text) != NULL;
}

static bool misses(const char *text)
{
	for (size_t at = 0; at < p->missing.size; at += strlen((const char *)p->missing.data + at) + 1)
		if (strstr((const char *)p->missing.data + at, text))
			return true;
	return false;
}

static void test_private(void)
{
	make(4, TOPOLOGY_ETE);
	give_trbes();
	give_etr();
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK(!p->shared && p->direct && !p->switches && p->exclude_kernel);
	CHECK_EQ(p->n_cpus, 4);
	CHECK_EQ(p->cpus[3].sink_id, 0);
	CHECK_EQ(p->cpus[3].aux_size, 4 << 20);
	CHECK_EQ(p->words[0], 1u << 28 | 1u << 14 | 1u << 29);
	CHECK_EQ(p->cpus[0].configr, 1 << 11 | 1 << 6 | 1 << 12);
	CHECK_EQ(
	    make_plan(&(struct capture_options){ .kernel = true, .cycles = true, .no_timestamps = true }, NULL, false),
	    0);
	CHECK(!p->exclude_kernel);
	CHECK_EQ(p->cpus[0].configr, 1 << 4 | 1 << 6 | 1 << 12);
	CHECK(!misses("alone"));
	CHECK_EQ(make_plan(&(struct capture_options){ .thread = 7 }, NULL, false), 0);
	CHECK(p->thread == 7 && misses("thread 7 alone is traced"));
	CHECK(!p->fill);
	CHECK_EQ(make_plan(&(struct capture_options){ .mode = CAPTURE_MODE_FILL }, NULL, false), 0);
	CHECK(p->fill);
	/* Without a private sink on each CPU all targets use the shared sink, as threads migrate. */
	cpus[2].n_sinks = 0;
	give(2, 4);
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK(p->shared);
	CHECK_EQ(p->cpus[0].sink_id, 0xabcd);
}

/* The CPUs of a process, among those of the configuration. */
static void test_cpus(void)
{
	const struct capture_options some = { .cpus = "1-2,7" }, none = { .cpus = "9" }, bad = { .cpus = "2-1" };

	make(4, TOPOLOGY_ETMV4);
	give_etr();
	CHECK_EQ(make_plan(&some, NULL, false), -ENOTSUP);
	CHECK(says("cpus: a shared sink"));
	make(4, TOPOLOGY_ETMV4);
	give_trbes();
	CHECK_EQ(make_plan(&some, NULL, false), 0);
	CHECK(p->n_cpus == 2 && p->cpus[0].cpu == 1 && p->cpus[1].cpu == 2);
	CHECK_EQ(strcmp((const char *)p->missing.data, "only CPUs 1-2,7 are traced"), 0);
	CHECK_EQ(make_plan(&none, NULL, false), -ENODEV);
	CHECK(says("no CPU that was chosen"));
	CHECK_EQ(make_plan(&bad, NULL, false), -EINVAL);
	settings.cpus = "2-3";
	CHECK_EQ(make_plan(&some, NULL, false), 0);
	CHECK(p->n_cpus == 1 && p->cpus[0].cpu == 2);
	settings.cpus = NULL;
}

/* Where a filter only starts and stops tracing, at more addresses than all units can compare, breakpoints do that. */
static void test_breakpoints(void)
{
	const struct capture_options points = { .filter = "start 0x1000,stop 0x1010,stop 0x1020" },
				     range = { .filter = "filter 0x1000/0x10" };

	make(2, TOPOLOGY_ETE);
	give_trbes();
	cpus[0].offers.address_pairs = 4;
	cpus[1].offers.address_pairs = 2;
	CHECK_EQ(make_plan(&points, NULL, false), 0);
	CHECK(!p->breakpoints);
	cpus[1].offers.address_pairs = 1;
	CHECK_EQ(make_plan(&points, NULL, false), 0);
	CHECK(p->breakpoints);
	CHECK_EQ(make_plan(&range, NULL, false), 0);
	CHECK(!p->breakpoints);
	cpus[1].offers.address_pairs = 0;
	CHECK_EQ(make_plan(&points, NULL, false), 0);
	CHECK(p->breakpoints);
	CHECK_EQ(make_plan(&range, NULL, false), -ENOTSUP);
	CHECK(says("no address comparators"));
}

/* What the trace contains, as the fields of the PMU of Linux 6.1, 6.7 and 7.1 and the features of the units allow. */
static void test_content(void)
{
	const struct capture_options broadcast = { .branch_broadcast = true }, addresses = { .no_return_stack = true },
				     counts = { .cycles = true, .cycle_threshold = 100 },
				     interval = { .timestamp_interval = 64 };

	make(2, TOPOLOGY_ETMV4);
	give_trbes();
	CHECK_EQ(make_plan(&broadcast, NULL, false), -ENOTSUP);
	CHECK(says("branch broadcast"));
	format(TOPOLOGY_BRANCH_BROADCAST, 0, 8, 8);
	CHECK_EQ(make_plan(&broadcast, NULL, false), 0);
	CHECK_EQ(p->words[0], 1u << 28 | 1u << 14 | 1u << 29 | 1u << 8);
	CHECK_EQ(p->cpus[1].configr, 1 << 11 | 1 << 6 | 1 << 12 | 1 << 3);
	CHECK_EQ(make_plan(&addresses, NULL, false), 0);
	CHECK_EQ(p->words[0], 1u << 28 | 1u << 14);
	CHECK_EQ(p->cpus[1].configr, 1 << 11 | 1 << 6);
	CHECK_EQ(make_plan(&counts, NULL, false), -ENOTSUP);
	CHECK(says("cycle-threshold: this kernel"));
	CHECK_EQ(make_plan(&(struct capture_options){ .cycle_threshold = 100 }, NULL, false), -ENOTSUP);
	CHECK(says("cycle-threshold: cycles are not counted"));
	format(TOPOLOGY_CC_THRESHOLD, 3, 0, 11);
	CHECK_EQ(make_plan(&counts, NULL, false), 0);
	CHECK_EQ(p->words[0], 1u << 28 | 1u << 14 | 1u << 29 | 1u << 12);
	CHECK_EQ(p->words[3], 100);
	CHECK_EQ(make_plan(&interval, NULL, false), -ENOTSUP);
	CHECK(says("timestamp-interval: this kernel's is fixed"));
	format(TOPOLOGY_TIMESTAMP, 0, 4, 7);
	CHECK_EQ(make_plan(&interval, NULL, false), 0);
	CHECK_EQ(p->words[0] >> 4 & 15, 7);
	CHECK_EQ(p->cpus[1].configr, 1 << 11 | 1 << 6 | 1 << 12);
	CHECK_EQ(
	    make_plan(&(struct capture_options){ .timestamp_interval = CAPTURE_TIMESTAMP_INTERVAL_MAX }, NULL, false),
	    0);
	CHECK_EQ(p->words[0] >> 4 & 15, 14);
	CHECK_EQ(make_plan(&(struct capture_options){ .timestamp_interval = 1, .no_timestamps = true }, NULL, false),
		 -ENOTSUP);
	CHECK(says("timestamp-interval: there are no timestamps"));
	cpus[1].offers.timestamp = false;
	CHECK_EQ(make_plan(&interval, NULL, false), -ENOTSUP);
	cpus[1].offers.branch_broadcast = false;
	CHECK_EQ(make_plan(&broadcast, NULL, false), -ENOTSUP);
	/* The bit of a PTM has another meaning. */
	make(2, TOPOLOGY_PTM);
	give_trbes();
	format(TOPOLOGY_BRANCH_BROADCAST, 0, 8, 8);
	CHECK_EQ(make_plan(&broadcast, NULL, false), -ENOTSUP);
}

static void test_shared(void)
{
	make(4, TOPOLOGY_ETMV4);
	give_etr();
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK(p->shared && !p->direct && !p->switches);
	CHECK(p->cpus[0].collector && !p->cpus[1].collector && !p->cpus[3].collector);
	CHECK_EQ(p->cpus[0].aux_size, 4 << 20);
	CHECK_EQ(p->cpus[1].aux_size, PLAN_AUX_MIN);
	CHECK_EQ(make_plan(&plain, NULL, true), 0);
	CHECK(p->switches);
	/* A ring smaller than the sink's buffer would lose trace. */
	settings.aux_size = 256 << 10;
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK_EQ(p->cpus[0].aux_size, 1 << 20);
	settings.aux_size = 4 << 20;
	CHECK_EQ(make_plan(&(struct capture_options){ .no_timestamps = true }, NULL, false), -ENOTSUP);
	CHECK(says("timestamps"));
	CHECK_EQ(make_plan(&(struct capture_options){ .no_contexts = true }, NULL, false), -ENOTSUP);
	CHECK_EQ(make_plan(&(struct capture_options){ .filter = "filter 0x1000/0x10" }, NULL, false), -ENOTSUP);
	CHECK(says("tmc_etr0"));
	CHECK_EQ(make_plan(&(struct capture_options){ .thread = 7 }, NULL, false), -ENOTSUP);
	CHECK(says("thread: a shared sink"));
	CHECK_EQ(make_plan(&(struct capture_options){ .mode = CAPTURE_MODE_FILL }, NULL, false), -ENOTSUP);
	CHECK(says("mode fill requires a sink per CPU"));
	/* Without context IDs, switch records separate the threads. */
	cpus[1].offers.contextid = false;
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK(p->switches);
	CHECK_EQ(p->cpus[0].configr, 1 << 11 | 1 << 12);
	/* Where the kernel runs at EL2, "contextid" is contextid2. */
	make(2, TOPOLOGY_ETMV4);
	give_etr();
	format(TOPOLOGY_CONTEXTID, 0, 15, 15);
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK_EQ(p->words[0], 1u << 28 | 1u << 15 | 1u << 29);
	CHECK_EQ(p->cpus[0].configr, 1 << 15 | 1 << 7 | 1 << 11 | 1 << 12);
	/* Two clusters with a sink each have two collectors. */
	make(4, TOPOLOGY_ETMV4);
	give(0, add_sink("etf0", false, 5, 64 << 10));
	give(1, 0);
	give(2, add_sink("etf1", false, 6, 64 << 10));
	give(3, 1);
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK(p->cpus[0].collector && !p->cpus[1].collector && p->cpus[2].collector && !p->cpus[3].collector);
	CHECK_EQ(p->cpus[2].sink_id, 6);
	/* A named sink that only half of the CPUs reach. */
	CHECK_EQ(make_plan(&(struct capture_options){ .sink = "etf1" }, NULL, false), 0);
	CHECK_EQ(p->n_cpus, 2);
	CHECK_EQ(p->cpus[0].cpu, 2);
	CHECK(misses("CPU 0"));
	CHECK_EQ(make_plan(&(struct capture_options){ .sink = "tpiu0" }, NULL, false), -ENOENT);
	CHECK(says("tpiu0"));
}

static void test_machine(void)
{
	settings.machine = true;
	make(2, TOPOLOGY_ETE);
	give_trbes();
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK(p->shared && p->direct);
	CHECK(p->cpus[0].collector && p->cpus[1].collector);
	CHECK_EQ(p->cpus[1].aux_size, 4 << 20);
	settings.machine = false;
}

static void test_many(void)
{
	make(64, TOPOLOGY_ETMV4);
	give_etr();
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK_EQ(p->n_cpus, 48);
	CHECK(misses("CPU 63 is not traced: this kernel has no trace ID"));
	/* Newer kernels assign trace IDs dynamically. */
	format(TOPOLOGY_CC_THRESHOLD, 3, 0, 11);
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK_EQ(p->n_cpus, 64);
	/* Without frames no trace ID is required. */
	make(128, TOPOLOGY_ETE);
	give_trbes();
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK_EQ(p->n_cpus, 128);
	/* When memory is short, rings become smaller; then the target is refused. */
	CHECK_EQ(make_plan(&plain, &(struct plan_use){ .memory = 900 << 20, .n_private = 2 }, false), 0);
	CHECK(p->cpus[0].aux_size < 4 << 20 && p->memory + (900u << 20) <= settings.memory);
	CHECK(misses("rings-max"));
	CHECK_EQ(make_plan(&plain, &(struct plan_use){ .memory = 1000 << 20, .n_private = 2 }, false), -ENOSPC);
	CHECK(says("rings-max"));
	/* So they do where its user may have no more. */
	CHECK_EQ(make_plan(&plain, &(struct plan_use){ .limited = true, .most = 200 << 20 }, false), 0);
	CHECK(p->cpus[0].aux_size < 4 << 20 && p->memory <= 200 << 20 && misses("rings-per-user"));
	CHECK_EQ(make_plan(&plain, &(struct plan_use){ .limited = true, .most = 10 << 20 }, false), -ENOSPC);
	CHECK(says("rings-per-user"));
	CHECK_EQ(make_plan(&plain, &(struct plan_use){ .limited = true, .most = 1 << 30, .most_events = 7 }, false), 0);
	CHECK_EQ(p->most_events, 7);
}

static void test_company(void)
{
	struct plan *arena;

	make(2, TOPOLOGY_ETE);
	give_trbes();
	give_etr();
	CHECK_EQ(make_plan(&(struct capture_options){ .sink = "tmc_etr0" }, NULL, false), 0);
	CHECK(p->shared);
	arena = TAKE_PTR(p);
	CHECK_EQ(make_plan(&(struct capture_options){ .sink = "tmc_etr0" }, &(struct plan_use){ .arena = arena }, true),
		 0);
	CHECK(plan_same(p, arena));
	CHECK_EQ(make_plan(&(struct capture_options){ .sink = "tmc_etr0", .cycles = true },
			   &(struct plan_use){ .arena = arena }, false),
		 -EBUSY);
	CHECK(says("other options"));
	format(TOPOLOGY_BRANCH_BROADCAST, 0, 8, 8);
	CHECK_EQ(make_plan(&(struct capture_options){ .sink = "tmc_etr0", .branch_broadcast = true },
			   &(struct plan_use){ .arena = arena }, false),
		 -EBUSY);
	CHECK_EQ(make_plan(&plain, &(struct plan_use){ .arena = arena }, false), -EBUSY);
	CHECK_EQ(
	    make_plan(&(struct capture_options){ .sink = "tmc_etr0" }, &(struct plan_use){ .n_private = 1 }, false),
	    -EBUSY);
	plan_free(arena);
}

static void test_old(void)
{
	/* PTM: the configuration is the register, and unknown bits must not be set. */
	make(2, TOPOLOGY_PTM);
	format(TOPOLOGY_CONTEXTID1, 0, 0, 0);
	memset(&machine.pmu.formats[TOPOLOGY_CONTEXTID], 0, sizeof(machine.pmu.formats[0]));
	give(0, add_sink("etb0", false, 3, 0));
	give(1, 0);
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK_EQ(p->words[0], 1u << 28 | 1u << 29);
	CHECK_EQ(p->cpus[0].configr, p->words[0]);
	CHECK(p->switches);
	/* Newer kernels: a period of timestamps. */
	make(2, TOPOLOGY_ETMV4);
	give_etr();
	format(TOPOLOGY_TIMESTAMP, 0, 4, 7);
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK_EQ(p->words[0] >> 4 & 15, 11);
	/* No sink, then no PMU. */
	make(2, TOPOLOGY_ETMV4);
	CHECK_EQ(make_plan(&plain, NULL, false), -ENODEV);
	CHECK(says("csight doctor"));
	machine.pmu.there = false;
	CHECK_EQ(make_plan(&plain, NULL, false), -ENODEV);
	CHECK(says("PMU"));
}

static void test_ring_size(void)
{
	const struct capture_options own = { .ring_size = 1 << 20 }, small = { .ring_size = 64 << 10 };

	make(2, TOPOLOGY_ETE);
	give_trbes();
	CHECK_EQ(make_plan(&plain, NULL, false), 0);
	CHECK(p->cpus[0].aux_size != own.ring_size);
	CHECK_EQ(make_plan(&own, NULL, false), 0);
	CHECK_EQ(p->cpus[0].aux_size, own.ring_size);
	CHECK_EQ(make_plan(&small, NULL, false), -ENOTSUP);
	CHECK(says("ring-size"));
	/* The ring of a shared sink is that of all processes. */
	make(2, TOPOLOGY_ETMV4);
	give_etr();
	CHECK_EQ(make_plan(&own, NULL, false), -ENOTSUP);
	CHECK(says("ring-size: the sink is shared"));
}

/* Each option that an armed process lacks is refused by its name; those that are not wanted are not compared. */
static void test_compare(void)
{
	static const struct {
		const char *name;
		struct capture_options wanted;
	} options[] = {
		{ "kernel: ", { .kernel = true } },
		{ "cycles: ", { .cycles = true } },
		{ "no-timestamps: ", { .no_timestamps = true } },
		{ "no-contexts: ", { .no_contexts = true } },
		{ "filter: it has none", { .filter = "filter 0x1000/0x10@/bin/x" } },
		{ "sink: ", { .sink = "tmc_etr0" } },
		{ "ring-size: ", { .ring_size = 1 << 20 } },
		{ "branch-broadcast: ", { .branch_broadcast = true } },
		{ "retstack: ", { .no_return_stack = true } },
		{ "cycle-threshold: it was not chosen", { .cycle_threshold = 4 } },
		{ "timestamp-interval: it was not chosen", { .timestamp_interval = 64 } },
		{ "thread: all of them", { .thread = 7 } },
		{ "cpus: all of them", { .cpus = "0" } },
	};
	const struct capture_options all = { .kernel = true,
					     .cycles = true,
					     .no_timestamps = true,
					     .no_contexts = true,
					     .branch_broadcast = true,
					     .no_return_stack = true,
					     .cycle_threshold = 8,
					     .timestamp_interval = 1,
					     .thread = 8,
					     .cpus = "1-2",
					     .filter = "start 0x1000",
					     .sink = "trbe0",
					     .ring_size = 2 << 20 };
	struct reason r;

	for (size_t n = 0; n < ELEMENTS(options); n++) {
		CHECK_EQ(capture_options_compare(&plain, &options[n].wanted, &r), -EEXIST);
		CHECK(strncmp(r.text, options[n].name, strlen(options[n].name)) == 0);
		CHECK_EQ(capture_options_compare(&options[n].wanted, &options[n].wanted, &r), 0);
		CHECK_EQ(capture_options_compare(&options[n].wanted, &plain, &r), 0);
	}
	CHECK_EQ(capture_options_compare(&all, &all, &r), 0);
	CHECK_EQ(capture_options_compare(&all, &plain, &r), 0);
	CHECK_EQ(capture_options_compare(&plain, &all, &r), -EEXIST);
	for (size_t n = 0; n < ELEMENTS(options); n++) {
		char name[32];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(options[n].name, ":"), options[n].name);
		CHECK(strstr(r.text, name) != NULL);
	}
	CHECK_EQ(capture_options_compare(&all, &options[4].wanted, &r), -EEXIST);
	CHECK(strstr(r.text, "another one: start 0x1000") != NULL);
	CHECK_EQ(capture_options_compare(&all, &(struct capture_options){ .cycle_threshold = 9 }, &r), -EEXIST);
	CHECK_EQ(strcmp(r.text, "cycle-threshold: it has 8"), 0);
	CHECK_EQ(capture_options_compare(&all, &(struct capture_options){ .thread = 9 }, &r), -EEXIST);
	CHECK_EQ(strcmp(r.text, "thread: another one is traced"), 0);
	CHECK_EQ(capture_options_compare(&all, &(struct capture_options){ .cpus = "1" }, &r), -EEXIST);
	CHECK_EQ(strcmp(r.text, "cpus: others are traced: 1-2"), 0);
}

int main(void)
{
	test_ring_size();
	test_compare();
	test_private();
	test_breakpoints();
	test_cpus();
	test_content();
	test_shared();
	test_machine();
	test_many();
	test_company();
	test_old();
	plan_free(p);
	return unit_end();
}
