// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * One sink for all CPUs, with the behaviour of coresight-tmc's ETR: a hardware buffer that belongs to one owner at a
 * time, the thread that opened the events. The last of its events to stop receives the trace of all of them. Or instead
 * an ETF or an ETB, which do the same with a memory of their own, of a fixed size.
 */
#include <linux/moduleparam.h>
#include <linux/property.h>
#include <linux/slab.h>

#include "rig.h"

enum { DEFAULT_SIZE = 1 << 20, MEMORY_SIZE = 64 << 10 };

static int fail_etr;
module_param(fail_etr, int, 0644);

static struct {
	struct coresight_device *csdev;
	spinlock_t lock;
	rig_mode mode;
	unsigned int users; /* sources that it is enabled for */
	pid_t pid;          /* -1: no owner */
	u32 size;
	bool fixed; /* the size: an ETF or ETB */
} etr = { .pid = -1, .size = DEFAULT_SIZE };

/* One hardware buffer for each owner of per-CPU events; the first event sets its size. */
struct owned {
	struct list_head node;
	pid_t pid;
	unsigned int users;
	u64 size;
};

static LIST_HEAD(owners);
static DEFINE_MUTEX(owners_lock);

struct etr_buffer {
	struct rig_buffer b;
	struct owned *owned; /* NULL: the buffer belongs to this event alone */
};

static const void *hardware_of(const struct etr_buffer *b)
{
	if (etr.fixed)
		return &etr;
	return b->owned ? (const void *)b->owned : b;
}

static const void *programmed;

static void program(u64 size)
{
	rig->arena_size = size;
	rig_call(RIG_ARENA_START);
}

static int enable_perf(struct perf_output_handle *handle)
{
	struct etm_event_data *event_data = perf_get_aux(handle);
	struct etr_buffer *b = event_data ? event_data->snk_config : NULL;

	if (etr.mode == CS_MODE_SYSFS)
		return -EBUSY;
	if (WARN_ON(!b))
		return -EINVAL;
	if (etr.pid != -1 && etr.pid != b->b.pid)
		return -EBUSY;
	if (etr.pid == -1) {
		program(b->b.etr_size);
		etr.pid = b->b.pid;
		etr.mode = CS_MODE_PERF;
		programmed = hardware_of(b);
	}
	etr.users++;
	return 0;
}

static int enable_sysfs(void)
{
	if (etr.mode == CS_MODE_PERF)
		return -EBUSY;
	if (etr.mode == CS_MODE_DISABLED) {
		program(min_t(u64, etr.size, rig->arena_room));
		etr.mode = CS_MODE_SYSFS;
	}
	etr.users++;
	return 0;
}

static int enable(struct coresight_device *csdev, rig_mode mode, rig_session *session)
{
	unsigned long flags;
	int rc = -EINVAL;

	if (fail_etr)
		return -fail_etr;
	spin_lock_irqsave(&etr.lock, flags);
	if (mode == CS_MODE_PERF)
		rc = enable_perf(rig_handle(session));
	else if (mode == CS_MODE_SYSFS)
		rc = enable_sysfs();
	if (!rc && mode == CS_MODE_PERF)
		rig_source_sink(smp_processor_id(), true);
	else if (!rc)
		for (int cpu = 0; cpu < RIG_CPUS; cpu++)
			rig_source_sink(cpu, true);
	spin_unlock_irqrestore(&etr.lock, flags);
	return rc;
}

static int disable(struct coresight_device *csdev)
{
	unsigned long flags;
	int rc = -EBUSY;

	spin_lock_irqsave(&etr.lock, flags);
	if (!--etr.users) {
		WARN_ON_ONCE(etr.mode == CS_MODE_DISABLED);
		rig_call(RIG_ARENA_STOP);
		etr.pid = -1;
		etr.mode = CS_MODE_DISABLED;
		programmed = NULL;
		rc = 0;
	}
	spin_unlock_irqrestore(&etr.lock, flags);
	return rc;
}

/* As in the driver: the size of the AUX buffer, but at least buffer_size. */
static u64 size_for(int nr_pages)
{
	u64 size = etr.fixed ? etr.size : max_t(u64, (u64)nr_pages << PAGE_SHIFT, etr.size);

	return min_t(u64, size, round_down(rig->arena_room, PAGE_SIZE));
}

static struct owned *own(pid_t pid, int nr_pages)
{
	struct owned *o;

	mutex_lock(&owners_lock);
	list_for_each_entry (o, &owners, node)
		if (o->pid == pid) {
			o->users++;
			goto out;
		}
	o = kzalloc(sizeof(*o), GFP_KERNEL);
	if (o) {
		*o = (struct owned){ .pid = pid, .users = 1, .size = size_for(nr_pages) };
		list_add(&o->node, &owners);
	}
out:
	mutex_unlock(&owners_lock);
	return o;
}

static void *alloc_buffer(struct coresight_device *csdev, struct perf_event *event, void **pages, int nr_pages,
			  bool overwrite)
{
	struct etr_buffer *b = kzalloc(sizeof(*b), GFP_KERNEL);

	if (!b)
		return NULL;
	b->b = (struct rig_buffer){ .pages = pages, .nr_pages = nr_pages, .snapshot = overwrite };
	b->b.pid = task_pid_nr(event->owner);
	b->b.etr_size = size_for(nr_pages);
	if (event->cpu < 0)
		return b;
	b->owned = own(b->b.pid, nr_pages);
	if (!b->owned) {
		kfree(b);
		return NULL;
	}
	b->b.etr_size = b->owned->size;
	return b;
}

static void free_buffer(void *config)
{
	struct etr_buffer *b = config;

	mutex_lock(&owners_lock);
	if (b->owned && --b->owned->users == 0) {
		list_del(&b->owned->node);
		kfree(b->owned);
	}
	mutex_unlock(&owners_lock);
	kfree(b);
}

static unsigned long update_buffer(struct coresight_device *csdev, struct perf_output_handle *handle, void *config)
{
	static const u32 barrier[4] = { 0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff };
	struct etr_buffer *b = config;
	u64 size, from, written;
	unsigned long flags;
	u8 *arena = (u8 *)rig + rig->arena;
	bool lost;

	spin_lock_irqsave(&etr.lock, flags);
	/* Other events of this owner continue: the last one to stop reads the buffer. */
	if (etr.users != 1) {
		spin_unlock_irqrestore(&etr.lock, flags);
		return 0;
	}
	if (WARN_ON(programmed != hardware_of(b))) {
		spin_unlock_irqrestore(&etr.lock, flags);
		if (!b->b.snapshot)
			perf_aux_output_flag(handle, PERF_AUX_FLAG_TRUNCATED);
		return 0;
	}
	rig_call(RIG_ARENA_STOP);
	spin_unlock_irqrestore(&etr.lock, flags);

	written = rig->arena_head;
	lost = written > rig->arena_size;
	size = min(written, rig->arena_size);
	if (!b->b.snapshot && size > handle->size) {
		size = round_down((u64)handle->size, 16);
		lost = true;
	}
	from = written - size;
	if (b->b.snapshot && size && rig_due(&rig_truncate)) {
		size = round_down(size / 2, 16);
		perf_aux_output_flag(handle, PERF_AUX_FLAG_TRUNCATED);
	}
	if (b->b.snapshot && size && rig_due(&rig_overtake))
		handle->head += (u64)b->b.nr_pages << PAGE_SHIFT;
	if (lost && size)
		memcpy(arena + from % rig->arena_size, barrier, sizeof(barrier));
	rig_buffer_copy(&b->b, handle->head, arena, rig->arena_size, from, size);
	if (b->b.snapshot)
		handle->head += size;
	if (b->b.snapshot && size && rig_due(&rig_lose))
		return 0;
	if (!b->b.snapshot && lost)
		perf_aux_output_flag(handle, PERF_AUX_FLAG_TRUNCATED);
	return size;
}

static const struct coresight_ops_sink sink_ops = {
	.enable = enable,
	.disable = disable,
	.alloc_buffer = alloc_buffer,
	.free_buffer = free_buffer,
	.update_buffer = update_buffer,
};
static const struct coresight_ops ops = { .sink_ops = &sink_ops };

static ssize_t buffer_size_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%#x\n", etr.size);
}

static ssize_t buffer_size_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t size)
{
	unsigned long value;
	int rc = kstrtoul(buf, 0, &value);

	if (rc)
		return rc;
	if (value & ~PAGE_MASK)
		return -EINVAL;
	etr.size = value;
	return size;
}
static DEVICE_ATTR_RW(buffer_size);

/* The size in words. */
static ssize_t rsz_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%#x\n", etr.size / 4);
}
static DEVICE_ATTR_RO(rsz);

static struct attribute *attributes[] = { &dev_attr_buffer_size.attr, NULL };
static const struct attribute_group group = { .attrs = attributes };
static struct attribute *mgmt[] = { &dev_attr_rsz.attr, NULL };
static const struct attribute_group mgmt_group = { .name = "mgmt", .attrs = mgmt };
static const struct attribute_group *etr_groups[] = { &group, &mgmt_group, NULL };
static const struct attribute_group *fixed_groups[] = { &mgmt_group, NULL };

int rig_etr_register(enum rig_kind kind, struct fwnode_handle **ret_node)
{
	static const char *const names[] = { "tmc_etr0", "tmc_etf0", "tmc_etb0" };
	struct coresight_desc desc = { .type = CORESIGHT_DEV_TYPE_SINK, .ops = &ops, .name = names[kind] };
	int rc;

	spin_lock_init(&etr.lock);
	etr.fixed = kind != RIG_ETR;
	etr.size = etr.fixed ? MEMORY_SIZE : DEFAULT_SIZE;
	desc.groups = etr.fixed ? fixed_groups : etr_groups;
	desc.subtype.sink_subtype = etr.fixed ? CORESIGHT_DEV_SUBTYPE_SINK_BUFFER : CORESIGHT_DEV_SUBTYPE_SINK_SYSMEM;
	if (kind == RIG_ETF) {
		desc.type = CORESIGHT_DEV_TYPE_LINKSINK;
		desc.subtype.link_subtype = CORESIGHT_DEV_SUBTYPE_LINK_FIFO;
	}
	rc = rig_describe(&desc, -1, nr_cpu_ids, NULL, 0);
	if (rc)
		return rc;
	etr.csdev = coresight_register(&desc);
	if (IS_ERR(etr.csdev)) {
		rc = PTR_ERR(etr.csdev);
		etr.csdev = NULL;
		return rc;
	}
	*ret_node = dev_fwnode(desc.dev);
	return 0;
}

void rig_etr_unregister(void)
{
	if (etr.csdev)
		coresight_unregister(etr.csdev);
	etr.csdev = NULL;
}
