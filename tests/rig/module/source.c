// SPDX-License-Identifier: MIT OR GPL-2.0
/* One trace unit for each CPU, with the behaviour of coresight-etm4x. */
#include <linux/pid_namespace.h>
#include <linux/property.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "rig.h"

/* Bits of the event's config (linux/coresight-pmu.h has them as ETM_OPT_…); the interval of timestamps has 4 since 7.x.
 */
enum {
	INTERVAL = 4,
	BRANCH_BROADCAST = 8,
	CYCLES = 12,
	CONTEXT_ID = 14,
	CONTEXT_ID_2 = 15,
	TIMESTAMPS = 28,
	RETURN_STACK = 29
};

/* ETMv4.0: 64-bit timestamps and addresses, return stack, 32-bit context IDs, branch broadcast, cycle counts. */
enum {
	IDR0 = 0x28000ea1,
	IDR1 = 0x4100f403,
	IDR2 = 0x488, /* cycle counts of 12 bits */
	IDR3 = 0x0d7b0004,
	IDR5 = 0x28c70840,
	AUTHSTATUS = 0xcc,
	DEVARCH = 0x47704a13
};
enum { LEAST_THRESHOLD = IDR3 & 0xfff, THRESHOLD = 256, INTERVAL_NEVER = 15 };

/* From coresight-etm-perf.h. */
struct etm_filter {
	unsigned long start_addr, stop_addr;
	u32 type;
};

struct etm_filters {
	struct etm_filter etm_filter[8];
	unsigned int nr_filters;
	bool ssstatus;
};

struct source {
	struct coresight_device *csdev;
	char name[16];
	int cpu, trace_id;
	u32 configr, threshold, interval;
	bool shared;
	local_t mode; /* before 6.12; then the kernel has it */
};

static struct source *sources[RIG_CPUS];

static struct source *source_of(struct coresight_device *csdev)
{
	for (int cpu = 0; cpu < RIG_CPUS; cpu++)
		if (sources[cpu] && sources[cpu]->csdev == csdev)
			return sources[cpu];
	return NULL;
}

void rig_source_sink(int cpu, bool shared)
{
	if (sources[cpu])
		sources[cpu]->shared = shared;
}

#if SINCE(6, 12)
static bool take_mode(struct source *s, rig_mode mode)
{
	return coresight_take_mode(s->csdev, mode);
}

static rig_mode mode_of(struct source *s)
{
	return coresight_get_mode(s->csdev);
}

static void drop_mode(struct source *s)
{
	coresight_set_mode(s->csdev, CS_MODE_DISABLED);
}

static int system_trace_id(struct source *s)
{
	return coresight_trace_id_get_cpu_id(s->cpu);
}
#else
static bool take_mode(struct source *s, rig_mode mode)
{
	return !local_cmpxchg(&s->mode, CS_MODE_DISABLED, mode);
}

static rig_mode mode_of(struct source *s)
{
	return local_read(&s->mode);
}

static void drop_mode(struct source *s)
{
	local_set(&s->mode, CS_MODE_DISABLED);
}

static int system_trace_id(struct source *s)
{
	return 0x10 + 2 * s->cpu;
}

static int trace_id(struct coresight_device *csdev)
{
	return system_trace_id(source_of(csdev));
}
#endif

#if !SINCE(7, 3)
static int cpu_id(struct coresight_device *csdev)
{
	return source_of(csdev)->cpu;
}
#endif

static int set_filters(struct rig_cpu *c, struct perf_event *event)
{
	const struct etm_filters *filters = event->hw.addr_filters;
	unsigned int used = 0;

	c->n_filters = c->viewing = 0;
	if (!filters)
		return 0;
	perf_event_addr_filters_sync(event);
	for (unsigned int i = 0; i < filters->nr_filters; i++) {
		const struct etm_filter *f = &filters->etm_filter[i];

		used += f->type == RIG_FILTER_RANGE ? 2 : 1;
		if (used > 2 * rig_pairs)
			return -ENOSPC;
		/* As etm4x: a stop address is the second one. */
		c->filters[c->n_filters++] =
		    (struct rig_filter){ f->type == RIG_FILTER_STOP ? f->stop_addr : f->start_addr, f->stop_addr,
					 f->type };
	}
	c->viewing = filters->ssstatus;
	return 0;
}

static int start_perf(struct source *s, struct perf_event *event)
{
	struct rig_cpu *c = &rig->cpu[s->cpu];
	u64 config = event->attr.config;

	if (WARN_ON_ONCE(s->cpu != smp_processor_id()))
		return -EINVAL;
	if (config & BIT(CONTEXT_ID_2))
		return -EINVAL;
	s->configr = s->interval = 0;
	if (SINCE(7, 3) && config >> INTERVAL & 15) {
		s->configr |= RIG_TIMESTAMPS;
		s->interval =
		    (config >> INTERVAL & 15) == INTERVAL_NEVER ? U32_MAX : 1u << ((config >> INTERVAL & 15) - 1);
	}
	if (config & BIT(TIMESTAMPS))
		s->configr |= RIG_TIMESTAMPS;
	if (config & BIT(CYCLES)) {
		/* As etm4x: the event's threshold, or 256; the trace unit has a least one. */
		s->configr |= RIG_CYCLES;
#if SINCE(6, 12)
		s->threshold = event->attr.config3 & 0xfff;
#else
		s->threshold = 0;
#endif
		s->threshold = max_t(u32, s->threshold ?: THRESHOLD, LEAST_THRESHOLD);
	}
	if (config & BIT(BRANCH_BROADCAST))
		s->configr |= RIG_BROADCAST;
	if (config & BIT(CONTEXT_ID) && task_active_pid_ns(current) == &init_pid_ns)
		s->configr |= RIG_CONTEXT_ID;
	if (config & BIT(RETURN_STACK))
		s->configr |= RIG_RETURN_STACK;
	c->user = !event->attr.exclude_user;
	c->kernel = !event->attr.exclude_kernel;
	return set_filters(c, event);
}

static void start_by(struct source *s, u32 call)
{
	struct rig_cpu *c = &rig->cpu[s->cpu];

	c->configr = s->configr;
	c->threshold = s->threshold;
	c->interval = s->interval;
	c->trace_id = s->trace_id;
	c->shared = s->shared;
	rig_call(call);
}

static void start(void *data)
{
	start_by(data, RIG_START);
}

static void stop(void *unused)
{
	rig_call(RIG_STOP);
}

#if SINCE(7, 3)
static bool starts_paused(struct perf_event *event)
{
	return event->hw.aux_paused;
}

static int resume(struct coresight_device *csdev)
{
	start_by(source_of(csdev), RIG_RESUME);
	return 0;
}

static void pause(struct coresight_device *csdev)
{
	stop(NULL);
}
#else
static bool starts_paused(struct perf_event *event)
{
	return false;
}
#endif

static int enable_with(struct source *s, struct perf_event *event, rig_mode mode, int trace_id)
{
	int rc = 0;

	if (trace_id <= 0)
		return -EINVAL;
	if (!take_mode(s, mode))
		return -EBUSY;
	s->trace_id = trace_id;
	if (mode == CS_MODE_PERF) {
		rc = start_perf(s, event);
		if (!rc)
			start(s);
		if (!rc && starts_paused(event))
			stop(NULL);
	} else {
		s->configr = RIG_TIMESTAMPS | RIG_CONTEXT_ID;
		s->interval = 0;
		rig->cpu[s->cpu].user = 1;
		rig->cpu[s->cpu].kernel = 1;
		rig->cpu[s->cpu].n_filters = 0;
		rc = smp_call_function_single(s->cpu, start, s, 1);
	}
	if (rc)
		drop_mode(s);
	return rc;
}

#if SINCE(7, 3)
static int enable(struct coresight_device *csdev, struct perf_event *event, enum cs_mode mode,
		  struct coresight_path *path)
{
	int rc = enable_with(source_of(csdev), event, mode, path->trace_id);

	/* The driver of a CPU's source does this, not the core, which needs it to end a session of sysfs. */
	if (!rc)
		csdev->path = path;
	return rc;
}
#elif SINCE(6, 12)
static int enable(struct coresight_device *csdev, struct perf_event *event, enum cs_mode mode,
		  struct coresight_trace_id_map *map)
{
	struct source *s = source_of(csdev);

	return enable_with(s, event, mode,
			   mode == CS_MODE_PERF ? coresight_trace_id_read_cpu_id_map(s->cpu, map) : system_trace_id(s));
}
#else
static int enable(struct coresight_device *csdev, struct perf_event *event, u32 mode)
{
	struct source *s = source_of(csdev);

	return enable_with(s, event, mode, system_trace_id(s));
}
#endif

static void disable(struct coresight_device *csdev, struct perf_event *event)
{
	struct source *s = source_of(csdev);

	if (mode_of(s) == CS_MODE_PERF) {
		struct etm_filters *filters = event->hw.addr_filters;

		stop(NULL);
		if (filters)
			filters->ssstatus = rig->cpu[s->cpu].viewing;
	} else if (mode_of(s) == CS_MODE_SYSFS) {
		smp_call_function_single(s->cpu, stop, NULL, 1);
	}
#if SINCE(7, 3)
	csdev->path = NULL;
#endif
	drop_mode(s);
}

static const struct coresight_ops_source source_ops = {
#if !SINCE(7, 3)
	.cpu_id = cpu_id,
#endif
#if !SINCE(6, 12)
	.trace_id = trace_id,
#endif
	.enable = enable,
	.disable = disable,
#if SINCE(7, 3)
	.resume_perf = resume,
	.pause_perf = pause,
#endif
};
static const struct coresight_ops ops = {
	.source_ops = &source_ops,
#if SINCE(7, 3)
	.trace_id = coresight_etm_get_trace_id,
#endif
};

static struct source *source_of_device(struct device *dev)
{
	return source_of(to_coresight_device(dev));
}

#define REGISTER(name_, value_)                                                                   \
	static ssize_t name_##_show(struct device *dev, struct device_attribute *attr, char *buf) \
	{                                                                                         \
		return sysfs_emit(buf, "0x%x\n", (u32)(value_));                                  \
	}                                                                                         \
	static DEVICE_ATTR_RO(name_)
#define NUMBER(name_, format_, value_)                                                            \
	static ssize_t name_##_show(struct device *dev, struct device_attribute *attr, char *buf) \
	{                                                                                         \
		return sysfs_emit(buf, format_, value_);                                          \
	}                                                                                         \
	static DEVICE_ATTR_RO(name_)

REGISTER(trcidr0, IDR0);
REGISTER(trcidr1, IDR1);
REGISTER(trcidr2, IDR2);
REGISTER(trcidr3, IDR3);
REGISTER(trcidr4, rig_pairs);
REGISTER(trcidr5, IDR5);
REGISTER(trcidr8, 0);
REGISTER(trcidr9, 0);
REGISTER(trcidr10, 0);
REGISTER(trcidr11, 0);
REGISTER(trcidr12, 0);
REGISTER(trcidr13, 0);
static struct attribute *trcidr[] = {
	&dev_attr_trcidr0.attr,
	&dev_attr_trcidr1.attr,
	&dev_attr_trcidr2.attr,
	&dev_attr_trcidr3.attr,
	&dev_attr_trcidr4.attr,
	&dev_attr_trcidr5.attr,
	&dev_attr_trcidr8.attr,
	&dev_attr_trcidr9.attr,
	&dev_attr_trcidr10.attr,
	&dev_attr_trcidr11.attr,
	&dev_attr_trcidr12.attr,
	&dev_attr_trcidr13.attr,
	NULL,
};
static const struct attribute_group trcidr_group = { .name = "trcidr", .attrs = trcidr };

REGISTER(trcauthstatus, AUTHSTATUS);
REGISTER(trcconfig, source_of_device(dev)->configr);
REGISTER(trctraceid, system_trace_id(source_of_device(dev)));
REGISTER(trcdevarch, DEVARCH);
static struct attribute *mgmt[] = {
	&dev_attr_trcauthstatus.attr,
	&dev_attr_trcconfig.attr,
	&dev_attr_trctraceid.attr,
	&dev_attr_trcdevarch.attr,
	NULL,
};
static const struct attribute_group mgmt_group = { .name = "mgmt", .attrs = mgmt };

NUMBER(cpu, "%d\n", source_of_device(dev)->cpu);
NUMBER(ts_source, "%d\n", 1);
NUMBER(nr_addr_cmp, "%#x\n", rig_pairs);
NUMBER(nr_cntr, "%#x\n", IDR5 >> 28 & 7);
NUMBER(numcidc, "%#x\n", 1);
NUMBER(numvmidc, "%#x\n", 0);
NUMBER(nrseqstate, "%#x\n", 4);
static struct attribute *main_attributes[] = {
	&dev_attr_cpu.attr,     &dev_attr_ts_source.attr, &dev_attr_nr_addr_cmp.attr, &dev_attr_nr_cntr.attr,
	&dev_attr_numcidc.attr, &dev_attr_numvmidc.attr,  &dev_attr_nrseqstate.attr,  NULL,
};
static const struct attribute_group main_group = { .attrs = main_attributes };
static const struct attribute_group *groups[] = { &main_group, &mgmt_group, &trcidr_group, NULL };

static int source_register(int cpu, struct fwnode_handle *sink)
{
	struct coresight_desc desc = { .type = CORESIGHT_DEV_TYPE_SOURCE, .ops = &ops, .groups = groups };
	struct source *s = kzalloc(sizeof(*s), GFP_KERNEL);
	int rc;

	if (!s)
		return -ENOMEM;
	s->cpu = cpu;
	snprintf(s->name, sizeof(s->name), "etm%d", cpu);
	desc.subtype.source_subtype = CORESIGHT_DEV_SUBTYPE_SOURCE_PROC;
	desc.name = s->name;
	rc = rig_describe(&desc, cpu, 0, sink, cpu);
	if (rc)
		goto free;
	s->csdev = coresight_register(&desc);
	if (IS_ERR(s->csdev)) {
		rc = PTR_ERR(s->csdev);
		goto free;
	}
	sources[cpu] = s;
	rc = etm_perf_symlink(s->csdev, true);
	if (!rc)
		return 0;
	sources[cpu] = NULL;
	coresight_unregister(s->csdev);
free:
	kfree(s);
	return rc;
}

int rig_sources_register(struct fwnode_handle *sink)
{
	int cpu, rc;

	for_each_online_cpu (cpu) {
		rc = source_register(cpu, sink);
		if (rc)
			return rc;
	}
	return 0;
}

void rig_sources_unregister(void)
{
	for (int cpu = 0; cpu < RIG_CPUS; cpu++)
		if (sources[cpu]) {
			etm_perf_symlink(sources[cpu]->csdev, false);
			coresight_unregister(sources[cpu]->csdev);
			kfree(sources[cpu]);
			sources[cpu] = NULL;
		}
}
