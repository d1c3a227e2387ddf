/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdarg.h>
#include <string.h>

#include "daemon/capture/perf/filter.h"
#include "daemon/capture/perf/plan.h"
#include "lib/base/parse.h"
#include "lib/base/util.h"

enum {
	DATA_SIZE = 256 << 10, /* beside an AUX buffer of a grid: four records each time a thread runs */
	DATA_SIZE_SHARED = 64 << 10,
	TIMESTAMP_BITS = 4,   /* of the PMU's field, where it has an interval */
	TIMESTAMP_LEVEL = 11, /* every 2^10 cycles, unless chosen otherwise */
	/* Bits of TRCCONFIGR (IHI0064, "TRCCONFIGR"). */
	CONFIGR_BROADCAST = 1 << 3,
	CONFIGR_CYCLES = 1 << 4,
	CONFIGR_CONTEXT = 1 << 6,
	CONFIGR_VMID = 1 << 7 | 1 << 15, /* with VMIDOPT: the context ID of a kernel at EL2 */
	CONFIGR_TIMESTAMP = 1 << 11,
	CONFIGR_RETSTACK = 1 << 12,
};

static void add_missing(struct plan *p, const char *fmt, ...) _printf_(2, 3);

static void add_missing(struct plan *p, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	buf_add(&p->missing, text, strlen(text) + 1);
}

static const char *sink_name(const struct topology *t, uint32_t sink)
{
	return t->devices[t->sinks[sink].device].name;
}

static bool cpu_reaches(const struct topology_cpu *cpu, uint32_t sink)
{
	for (size_t i = 0; i < cpu->n_sinks; i++)
		if (cpu->sinks[i] == sink)
			return true;
	return false;
}

static bool cpu_traceable(const struct topology_cpu *cpu)
{
	return cpu->in_pmu && cpu->source >= 0 && cpu->n_sinks > 0;
}

/* Returns the first sink of this kind that the CPU reaches, or -1. */
static int64_t first_sink(const struct topology *t, const struct topology_cpu *cpu, bool per_cpu)
{
	for (size_t i = 0; i < cpu->n_sinks; i++)
		if (t->sinks[cpu->sinks[i]].per_cpu == per_cpu)
			return cpu->sinks[i];
	return -1;
}

/* Private sinks are preferred only if every CPU has one: a thread may run on any CPU. */
static bool prefers_private(const struct topology *t)
{
	size_t with = 0, without = 0, shared = 0;

	for (size_t i = 0; i < t->n_cpus; i++) {
		if (!cpu_traceable(&t->cpus[i]))
			continue;
		if (first_sink(t, &t->cpus[i], true) >= 0)
			with++;
		else
			without++;
		shared += first_sink(t, &t->cpus[i], false) >= 0;
	}
	return with && (without == 0 || shared < with);
}

/* On a sink with frames each trace source needs a trace ID. */
static bool lacks_trace_id(const struct topology *t, const struct topology_cpu *cpu, uint32_t sink)
{
	bool dynamic = t->pmu.formats[TOPOLOGY_CC_THRESHOLD].there;

	return !t->sinks[sink].per_cpu && !dynamic && cpu->trace_id == 0;
}

static bool has_shared_sink(const struct topology *t)
{
	for (size_t i = 0; i < t->n_cpus; i++)
		if (cpu_traceable(&t->cpus[i]) && first_sink(t, &t->cpus[i], false) >= 0)
			return true;
	return false;
}

/* Determines which CPUs shall be traced. */
static int choose_cpus(const struct plan_settings *s, const struct capture_options *o, struct plan *p,
		       bool ret[TOPOLOGY_CPUS_MAX])
{
	const char *lists[] = { s->cpus, o->cpus };

	memset(ret, true, TOPOLOGY_CPUS_MAX);
	for (size_t i = 0; i < ELEMENTS(lists); i++) {
		bool listed[TOPOLOGY_CPUS_MAX] = { false };

		if (!lists[i])
			continue;
		if (parse_ranges(lists[i], listed, TOPOLOGY_CPUS_MAX) < 0)
			return -EINVAL;
		for (size_t n = 0; n < TOPOLOGY_CPUS_MAX; n++)
			ret[n] &= listed[n];
		add_missing(p, "only CPUs %s are traced", lists[i]);
	}
	return 0;
}

static int choose_sinks(const struct topology *t, const struct plan_settings *s, const struct capture_options *o,
			struct plan *p, struct reason *why)
{
	const char *name = o->sink ? o->sink : s->sink, *hazard = s->hazard;
	bool wanted[TOPOLOGY_CPUS_MAX], per_cpu = prefers_private(t);
	uint32_t named = 0;

	if (name && topology_find_sink(t, name, &named) < 0)
		return reason_set(why, -ENOENT, "there is no sink %s that perf can use", name);
	if (name)
		per_cpu = t->sinks[named].per_cpu;
	if (per_cpu && hazard) {
		if (name || !has_shared_sink(t))
			return reason_set(why, -EPERM,
					  "TRBE is not used on this machine: %s (hazards in csightd.conf(5))", hazard);
		per_cpu = false;
		add_missing(p, "TRBE is not used on this machine: %s", hazard);
	}
	if (choose_cpus(s, o, p, wanted) < 0)
		return reason_set(why, -EINVAL, "cpus: this is no list of CPUs");
	p->cpus = calloc(t->n_cpus + 1, sizeof(*p->cpus));
	if (!p->cpus)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_cpus; i++) {
		const struct topology_cpu *cpu = &t->cpus[i];
		int64_t sink = !cpu_traceable(cpu) ? -1 : name ? named : first_sink(t, cpu, per_cpu);

		if (!wanted[cpu->cpu])
			continue;
		if (cpu->source >= 0 && !cpu->in_pmu)
			add_missing(p, "CPU %u is not traced: the kernel's PMU does not know its trace unit", cpu->cpu);
		else if (cpu->source < 0)
			add_missing(p, "CPU %u is not traced: it has no trace unit", cpu->cpu);
		else if (sink < 0 || !cpu_reaches(cpu, (uint32_t)sink))
			add_missing(p, "CPU %u is not traced: its trace unit does not reach %s", cpu->cpu,
				    name ? name : "such a sink");
		else if (lacks_trace_id(t, cpu, (uint32_t)sink))
			add_missing(p, "CPU %u is not traced: this kernel has no trace ID for it", cpu->cpu);
		else
			p->cpus[p->n_cpus++] = (struct plan_cpu){
				.cpu = cpu->cpu,
				.sink = (uint32_t)sink,
				.sink_id = name || !per_cpu ? t->sinks[sink].id : 0,
				.trace_id = cpu->trace_id,
			};
	}
	if (p->n_cpus == 0)
		return reason_set(why, -ENODEV,
				  "no CPU%s has a trace unit and a sink that perf can use (csight doctor)",
				  s->cpus || o->cpus ? " that was chosen (cpus)" : "");
	p->direct = per_cpu;
	return 0;
}

static bool all_offer(const struct topology *t, const struct plan *p, bool (*has)(const struct topology_cpu *cpu))
{
	for (size_t i = 0; i < p->n_cpus; i++) {
		const struct topology_cpu *cpu = topology_find_cpu(t, p->cpus[i].cpu);

		if (cpu->registers && !has(cpu))
			return false;
	}
	return true;
}

static bool has_cycles(const struct topology_cpu *cpu)
{
	return cpu->offers.cycacc;
}

static bool has_timestamps(const struct topology_cpu *cpu)
{
	return cpu->offers.timestamp;
}

static bool has_broadcast(const struct topology_cpu *cpu)
{
	return cpu->offers.branch_broadcast;
}

static bool has_retstack(const struct topology_cpu *cpu)
{
	return cpu->offers.retstack;
}

static bool has_contexts(const struct topology_cpu *cpu)
{
	return cpu->offers.contextid;
}

static bool has_vmids(const struct topology_cpu *cpu)
{
	return cpu->offers.vmid;
}

static bool has_comparators(const struct topology_cpu *cpu)
{
	return cpu->offers.address_pairs > 0;
}

/* True if the filter only starts and stops tracing, at more addresses than the trace units can compare. */
static bool needs_breakpoints(const struct topology *t, const struct plan *p, const char *filter)
{
	size_t n = filter_count_points(filter), most = t->pmu.n_filters;

	for (size_t i = 0; i < p->n_cpus; i++) {
		const struct topology_cpu *cpu = topology_find_cpu(t, p->cpus[i].cpu);

		if (cpu->registers)
			most = MIN(most, (size_t)cpu->offers.address_pairs * 2);
	}
	return n > most;
}

static bool set_format(const struct topology *t, struct plan *p, enum topology_format format, uint64_t value)
{
	return topology_set_field(&t->pmu, format, value, p->words) == 0;
}

/* "contextid" is an alias: of contextid2 where the kernel runs at EL2. */
static bool contexts_by_vmid(const struct topology *t)
{
	const struct topology_field *any = &t->pmu.formats[TOPOLOGY_CONTEXTID],
				    *two = &t->pmu.formats[TOPOLOGY_CONTEXTID2];

	return any->there && two->there && any->word == two->word && any->first == two->first;
}

static unsigned bits_of(const struct topology *t, enum topology_format format)
{
	const struct topology_field *f = &t->pmu.formats[format];

	return f->there ? f->last - f->first + 1u : 0;
}

static int choose_cycles(const struct topology *t, const struct capture_options *o, struct plan *p, struct reason *why)
{
	if (!o->cycles)
		return o->cycle_threshold ? reason_set(why, -ENOTSUP, "cycle-threshold: cycles are not counted") : 0;
	if (!all_offer(t, p, has_cycles) || !set_format(t, p, TOPOLOGY_CYCACC, 1))
		return reason_set(why, -ENOTSUP, "the trace units cannot count cycles");
	if (o->cycle_threshold && !set_format(t, p, TOPOLOGY_CC_THRESHOLD, o->cycle_threshold))
		return reason_set(why, -ENOTSUP, "cycle-threshold: this kernel has one of its own, 256");
	p->cycles = true;
	return 0;
}

/*
 * Where the kernel's field has several bits, n is an interval of 2^(n-1) cycles, and all bits set is one without end.
 * Where it has one, timestamps are as frequent as the trace unit can.
 */
static int choose_timestamps(const struct topology *t, const struct capture_options *o, struct plan *p,
			     struct reason *why)
{
	unsigned bits = bits_of(t, TOPOLOGY_TIMESTAMP), level = TIMESTAMP_LEVEL;

	if (o->timestamp_interval && (o->no_timestamps || !all_offer(t, p, has_timestamps)))
		return reason_set(why, -ENOTSUP, "timestamp-interval: there are no timestamps");
	if (o->timestamp_interval && bits < TIMESTAMP_BITS)
		return reason_set(why, -ENOTSUP, "timestamp-interval: this kernel's is fixed");
	if (o->timestamp_interval)
		level = (unsigned)__builtin_ctzll(o->timestamp_interval) + 1;
	return !o->no_timestamps && all_offer(t, p, has_timestamps) &&
	       set_format(t, p, TOPOLOGY_TIMESTAMP, bits >= TIMESTAMP_BITS ? level : 1);
}

/* Returns the bits of TRCCONFIGR, or a negative errno. */
static int choose_branches(const struct topology *t, const struct capture_options *o, bool is_etm4, struct plan *p,
			   struct reason *why)
{
	int configr = 0;

	if (o->branch_broadcast &&
	    (!is_etm4 || !all_offer(t, p, has_broadcast) || !set_format(t, p, TOPOLOGY_BRANCH_BROADCAST, 1)))
		return reason_set(why, -ENOTSUP, "the trace units, or this kernel, have no branch broadcast");
	p->branch_broadcast = o->branch_broadcast;
	configr |= o->branch_broadcast ? CONFIGR_BROADCAST : 0;
	/* The return stack reduces the trace by two thirds; trace units without one ignore the bit. */
	if (!o->no_return_stack && all_offer(t, p, has_retstack) && set_format(t, p, TOPOLOGY_RETSTACK, 1))
		configr |= CONFIGR_RETSTACK;
	return configr;
}

static int choose_options(const struct topology *t, const struct plan_target *target, struct plan *p,
			  struct reason *why)
{
	const struct capture_options *o = target->options;
	bool vmid = contexts_by_vmid(t), is_etm4 = true;
	int configr, rc;

	for (size_t i = 0; i < p->n_cpus; i++) {
		enum topology_kind kind = topology_find_cpu(t, p->cpus[i].cpu)->kind;

		is_etm4 &= kind == TOPOLOGY_ETMV4 || kind == TOPOLOGY_ETE;
	}
	if (o->mode == CAPTURE_MODE_FILL && p->shared)
		return reason_set(why, -ENOTSUP,
				  "mode fill requires a sink per CPU: %s would stop for every process when it is full",
				  sink_name(t, p->cpus[0].sink));
	p->fill = o->mode == CAPTURE_MODE_FILL;
	configr = choose_branches(t, o, is_etm4, p, why);
	if (configr < 0)
		return configr;
	rc = choose_cycles(t, o, p, why);
	if (rc < 0)
		return rc;
	configr |= o->cycles ? CONFIGR_CYCLES : 0;
	rc = choose_timestamps(t, o, p, why);
	if (rc < 0)
		return rc;
	if (rc > 0)
		configr |= CONFIGR_TIMESTAMP;
	else if (p->shared)
		return reason_set(why, -ENOTSUP, "a shared sink requires timestamps to separate processes, and %s",
				  o->no_timestamps ? "they are disabled" : "the trace units have none");
	if (!o->no_contexts && is_etm4 && all_offer(t, p, vmid ? has_vmids : has_contexts) &&
	    (set_format(t, p, TOPOLOGY_CONTEXTID, 1) || set_format(t, p, TOPOLOGY_CONTEXTID1, 1)))
		configr |= vmid ? CONFIGR_VMID : CONFIGR_CONTEXT;
	else if (p->shared && o->no_contexts)
		return reason_set(why, -ENOTSUP,
				  "a shared sink requires context IDs to separate processes, and they are disabled");
	else if (p->shared)
		p->switches = true;
	p->switches |= p->shared && target->contained;
	/* The kernel switches from thread to thread in the midst of what it executes, where no record says. */
	if (o->kernel && (target->contained || !(configr & (CONFIGR_VMID | CONFIGR_CONTEXT))))
		return reason_set(why, -ENOTSUP, "kernel: its trace requires context IDs to separate threads, and %s",
				  o->no_contexts ? "they are disabled"
				  : target->contained
				      ? "the kernel records none of processes in a PID namespace of their own"
				      : "the trace units have none");
	if (o->thread && p->shared)
		return reason_set(why, -ENOTSUP, "thread: a shared sink records all that runs on its CPUs");
	if (o->cpus && p->shared)
		return reason_set(
		    why, -ENOTSUP,
		    "cpus: a shared sink records all its CPUs for all processes (cpus in csightd.conf(5))");
	p->thread = o->thread;
	if (o->thread)
		add_missing(p, "thread %u alone is traced", o->thread);
	if (o->filter && p->shared)
		return reason_set(why, -ENOTSUP,
				  "address filters require a sink per CPU: on %s they would apply to every process",
				  sink_name(t, p->cpus[0].sink));
	p->breakpoints = o->filter && needs_breakpoints(t, p, o->filter);
	if (o->filter && !p->breakpoints && (t->pmu.n_filters == 0 || !all_offer(t, p, has_comparators)))
		return reason_set(why, -ENOTSUP, "the trace units have no address comparators for filters");
	p->exclude_kernel = !o->kernel;
	p->type = t->pmu.type;
	for (size_t i = 0; i < p->n_cpus; i++)
		p->cpus[i].configr = is_etm4 ? (uint64_t)configr : p->words[0];
	return 0;
}

static uint64_t round_up_to_power_of_two(uint64_t size)
{
	uint64_t n = PLAN_AUX_MIN;

	while (n * 2 <= size && n < PLAN_AUX_MAX)
		n *= 2;
	return n;
}

/* Makes the first CPU of each shared sink its collector. An AUX buffer smaller than the sink's own would lose trace. */
static void choose_collectors(const struct topology *t, struct plan *p, uint64_t size)
{
	for (size_t i = 0; i < p->n_cpus; i++) {
		struct plan_cpu *c = &p->cpus[i];

		c->collector = true;
		for (size_t before = 0; before < i && !p->direct; before++)
			c->collector &= p->cpus[before].sink != c->sink;
		c->aux_size = c->collector ? size : MIN(size, PLAN_AUX_MIN);
		while (c->collector && !p->direct && c->aux_size < t->sinks[c->sink].buffer &&
		       c->aux_size < PLAN_AUX_MAX)
			c->aux_size *= 2;
	}
}

static void sum_sizes(struct plan *p)
{
	p->data_size = p->shared ? DATA_SIZE_SHARED : DATA_SIZE;
	p->memory = 0;
	for (size_t i = 0; i < p->n_cpus; i++)
		p->memory += p->cpus[i].aux_size + p->data_size + 4096;
}

static int choose_sizes(const struct topology *t, const struct plan_settings *s, const struct plan_use *use,
			const struct plan_target *target, struct plan *p, struct reason *why)
{
	uint64_t asked = target->options->ring_size;
	uint64_t wanted = round_up_to_power_of_two(asked ? asked : s->aux_size), size = wanted, own;

	if (asked && p->shared)
		return reason_set(why, -ENOTSUP,
				  "ring-size: the sink is shared, and has one ring for all processes, of the size in "
				  "csightd.conf");
	if (asked && asked < PLAN_AUX_MIN)
		return reason_set(why, -ENOTSUP, "ring-size: the least size of a ring is %d KiB", PLAN_AUX_MIN >> 10);
	for (;; size /= 2) {
		choose_collectors(t, p, size);
		sum_sizes(p);
		/* A shared ring is no user's; what there is besides must have room. */
		own = p->shared ? 1 : p->memory;
		if (p->memory + use->memory <= s->memory && (!use->limited || own <= use->most))
			break;
		if (size == PLAN_AUX_MIN && p->memory + use->memory <= s->memory)
			return reason_set(
			    why, -ENOSPC,
			    "rings on %zu CPUs require at least %llu KiB, and their user may have %llu KiB "
			    "more (rings-per-user, or half of what others leave of rings-max)",
			    p->n_cpus, (unsigned long long)p->memory >> 10, (unsigned long long)use->most >> 10);
		if (size == PLAN_AUX_MIN)
			return reason_set(why, -ENOSPC,
					  "rings on %zu CPUs require at least %llu KiB; other targets use %llu KiB, "
					  "and the limit for all is %llu KiB (rings-max)",
					  p->n_cpus, (unsigned long long)p->memory >> 10,
					  (unsigned long long)use->memory >> 10, (unsigned long long)s->memory >> 10);
	}
	if (size < wanted)
		add_missing(
		    p,
		    "rings have %llu KiB per CPU instead of %llu KiB: the memory for rings is limited (rings-max, "
		    "rings-per-user)",
		    (unsigned long long)size >> 10, (unsigned long long)wanted >> 10);
	return 0;
}

bool plan_same(const struct plan *a, const struct plan *b)
{
	if (a->shared != b->shared || a->direct != b->direct || a->exclude_kernel != b->exclude_kernel ||
	    a->type != b->type || a->n_cpus != b->n_cpus || memcmp(a->words, b->words, sizeof(a->words)) != 0)
		return false;
	for (size_t i = 0; i < a->n_cpus; i++)
		if (a->cpus[i].cpu != b->cpus[i].cpu || a->cpus[i].sink != b->cpus[i].sink)
			return false;
	return true;
}

static int check_company(const struct plan_use *use, const struct plan *p, struct reason *why)
{
	if (p->shared && use->n_private)
		return reason_set(
		    why, -EBUSY,
		    "%u targets are traced on private sinks, and the kernel cannot use a shared sink at the same time",
		    use->n_private);
	if (!p->shared && use->arena)
		return reason_set(
		    why, -EBUSY,
		    "a shared sink is in use, and the kernel cannot trace single threads at the same time");
	if (p->shared && use->arena && !plan_same(p, use->arena))
		return reason_set(why, -EBUSY,
				  "the shared sink is in use with other options (%s%s%s), which all its targets share; "
				  "so they do retstack, cycle-threshold and timestamp-interval",
				  use->arena->exclude_kernel ? "without the kernel" : "with the kernel",
				  use->arena->cycles ? ", with cycle counts" : "",
				  use->arena->branch_broadcast ? ", with branch broadcast" : "");
	return 0;
}

static int fill_plan(const struct topology *t, const struct plan_settings *s, const struct plan_use *use,
		     const struct plan_target *target, struct plan *p, struct reason *why)
{
	int rc;

	if (!t->pmu.there || t->pmu.type == 0)
		return reason_set(why, -ENODEV, "this kernel has no cs_etm PMU (csight doctor)");
	rc = choose_sinks(t, s, target->options, p, why);
	if (rc < 0)
		return rc;
	p->shared = !p->direct || s->machine;
	rc = choose_options(t, target, p, why);
	if (rc == 0)
		rc = choose_sizes(t, s, use, target, p, why);
	return rc < 0 ? rc : check_company(use, p, why);
}

int plan_make(const struct topology *t, const struct plan_settings *s, const struct plan_use *use,
	      const struct plan_target *target, struct plan **ret, struct reason *why)
{
	_cleanup_(plan_freep) struct plan *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -ENOMEM;
	p->missing.limit = CAPTURE_MISSING_MAX;
	p->most_events = use->limited ? use->most_events : SIZE_MAX;
	rc = fill_plan(t, s, use, target, p, why);
	if (rc < 0) {
		if (rc == -ENOMEM)
			reason_set(why, rc, "out of memory");
		return rc;
	}
	*ret = TAKE_PTR(p);
	return 0;
}

struct plan *plan_free(struct plan *p)
{
	if (!p)
		return NULL;
	free(p->cpus);
	buf_done(&p->missing);
	free(p);
	return NULL;
}
