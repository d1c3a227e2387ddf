// SPDX-License-Identifier: MIT OR GPL-2.0
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/property.h>
#include <linux/tracepoint.h>

#include "rig.h"

enum { DEVICES = 2 * RIG_CPUS + 1, IVSHMEM_VENDOR = 0x1af4, IVSHMEM_DEVICE = 0x1110, ARENA_SHARE = 4 };

static bool with_etr = true, with_trbe = true, with_etf, with_etb;
module_param_named(etr, with_etr, bool, 0444);
module_param_named(trbe, with_trbe, bool, 0444);
module_param_named(etf, with_etf, bool, 0444);
module_param_named(etb, with_etb, bool, 0444);

int rig_truncate, rig_lose, rig_overtake, rig_pairs = 4;
module_param_named(pairs, rig_pairs, int, 0444);
module_param_named(truncate, rig_truncate, int, 0644);
module_param_named(lose, rig_lose, int, 0644);
module_param_named(overtake, rig_overtake, int, 0644);

struct rig_shared *rig;
static struct pci_dev *memory;
static struct platform_device *devices[DEVICES];
static int n_devices;
static struct tracepoint *switch_point;
static struct perf_event *keeper;

bool rig_due(int *countdown)
{
	int left = READ_ONCE(*countdown);

	while (left > 0) {
		int before = cmpxchg(countdown, left, left - 1);

		if (before == left)
			return left == 1;
		left = before;
	}
	return false;
}

void rig_buffer_copy(struct rig_buffer *b, unsigned long head, const u8 *ring, u64 len, u64 from, u64 size)
{
	unsigned long room = (unsigned long)b->nr_pages << PAGE_SHIFT, at = head % room;

	while (size) {
		u64 n = min3(size, (u64)(PAGE_SIZE - at % PAGE_SIZE), len - from % len);

		memcpy((u8 *)b->pages[at >> PAGE_SHIFT] + at % PAGE_SIZE, ring + from % len, n);
		at = (at + n) % room;
		from += n;
		size -= n;
	}
}

static int probe(struct platform_device *device)
{
	return 0;
}

static struct platform_driver driver = {
	.probe = probe,
	/* As in the kernel's drivers: a device in use cannot be unbound. */
	.driver = { .name = "csight-rig", .suppress_bind_attrs = true },
};

struct device *rig_device(void)
{
	struct platform_device_info info = { .name = "csight-rig", .id = n_devices };
	struct platform_device *device;

	if (n_devices == DEVICES)
		return ERR_PTR(-ENOSPC);
	info.fwnode = fwnode_create_software_node(NULL, NULL);
	if (IS_ERR(info.fwnode))
		return ERR_CAST(info.fwnode);
	device = platform_device_register_full(&info);
	if (IS_ERR(device)) {
		fwnode_remove_software_node(info.fwnode);
		return ERR_CAST(device);
	}
	devices[n_devices++] = device;
	return device->dev.driver ? &device->dev : ERR_PTR(-ENODEV);
}

#if SINCE(6, 12)
static int connect(struct coresight_desc *desc, int inputs, struct fwnode_handle *sink, int port)
{
	struct coresight_connection connection = { .dest_port = port, .dest_fwnode = sink };
	struct coresight_connection *added;

	if (!sink)
		return 0;
	added = coresight_add_out_conn(desc->dev, desc->pdata, &connection);
	if (IS_ERR(added))
		return PTR_ERR(added);
	fwnode_handle_get(sink);
	return 0;
}
#else
static int connect(struct coresight_desc *desc, int inputs, struct fwnode_handle *sink, int port)
{
	struct coresight_connection *connection;

	desc->pdata->nr_inport = inputs;
	if (!sink)
		return 0;
	connection = devm_kzalloc(desc->dev, sizeof(*connection), GFP_KERNEL);
	if (!connection)
		return -ENOMEM;
	*connection = (struct coresight_connection){ .child_port = port, .child_fwnode = fwnode_handle_get(sink) };
	desc->pdata->nr_outport = 1;
	desc->pdata->conns = connection;
	return 0;
}
#endif

int rig_describe(struct coresight_desc *desc, int cpu, int inputs, struct fwnode_handle *sink, int port)
{
	struct device *device = rig_device();

	if (IS_ERR(device))
		return PTR_ERR(device);
	desc->dev = device;
	desc->pdata = devm_kzalloc(device, sizeof(*desc->pdata), GFP_KERNEL);
	if (!desc->pdata)
		return -ENOMEM;
#if SINCE(7, 3)
	desc->cpu = cpu;
	desc->flags = cpu < 0 ? 0 : CORESIGHT_DESC_CPU_BOUND;
#endif
	return connect(desc, inputs, sink, port);
}

static void remove_devices(void)
{
	while (n_devices) {
		struct platform_device *device = devices[--n_devices];
		struct fwnode_handle *node = dev_fwnode(&device->dev);

		platform_device_unregister(device);
		fwnode_remove_software_node(node);
	}
}

static void runs(struct task_struct *task)
{
	struct rig_cpu *c = &rig->cpu[smp_processor_id()];

	c->tid = task_pid_nr(task);
	c->tgid = task_tgid_nr(task);
	memcpy(c->comm, task->comm, RIG_COMM);
	rig_call(RIG_SWITCH);
}

static void on_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	runs(next);
}

static void runs_now(void *unused)
{
	runs(current);
}

static void find_switch(struct tracepoint *point, void *unused)
{
	if (!strcmp(point->name, "sched_switch"))
		switch_point = point;
}

static int watch_switches(void)
{
	int rc;

	for_each_kernel_tracepoint (find_switch, NULL)
		;
	if (!switch_point)
		return -ENOENT;
	rc = tracepoint_probe_register(switch_point, on_switch, NULL);
	if (!rc)
		on_each_cpu(runs_now, NULL, 1);
	return rc;
}

/*
 * The kernel patches in the calls of perf's scheduling hooks when the first event of a task is opened. QEMU before 8.1
 * may miss the patch: a block that one virtual CPU translates while another one patches it can keep the old code, and
 * then events are started but never stopped when a thread leaves its CPU. So an event of our own keeps the hooks
 * enabled, and all translated code, which also predates our probe of context switches, is dropped once.
 */
static int settle_code(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(attr),
		.disabled = 1,
	};

	keeper = perf_event_create_kernel_counter(&attr, -1, current, NULL, NULL);
	if (IS_ERR(keeper))
		return PTR_ERR(keeper);
	local_irq_disable();
	rig_call(RIG_RETRANSLATE);
	local_irq_enable();
	return 0;
}

static void unwatch_switches(void)
{
	tracepoint_probe_unregister(switch_point, on_switch, NULL);
	tracepoint_synchronize_unregister();
}

static int map_memory(void)
{
	u64 size, each;
	int rc;

	memory = pci_get_device(IVSHMEM_VENDOR, IVSHMEM_DEVICE, NULL);
	if (!memory)
		return -ENODEV;
	rc = pci_enable_device(memory);
	if (rc)
		goto put;
	size = pci_resource_len(memory, 2);
	rc = -ENOMEM;
	rig = size < (1 << 20) ? NULL : memremap(pci_resource_start(memory, 2), size, MEMREMAP_WB);
	if (!rig)
		goto disable;
	memset(rig, 0, sizeof(*rig));
	rig->protocol = RIG_PROTOCOL;
	rig->cpus = nr_cpu_ids;
	rig->frequency = read_sysreg(cntfrq_el0);
	rig->arena = PAGE_ALIGN(sizeof(*rig));
	rig->arena_room = size / ARENA_SHARE;
	rig->rings = rig->arena + rig->arena_room;
	each = (size - rig->rings) / nr_cpu_ids;
	rig->ring_size = rounddown_pow_of_two(each);
	WRITE_ONCE(rig->magic, RIG_MAGIC);
	return 0;
disable:
	pci_disable_device(memory);
put:
	pci_dev_put(memory);
	return rc;
}

static void unmap_memory(void)
{
	WRITE_ONCE(rig->magic, 0);
	memunmap(rig);
	pci_disable_device(memory);
	pci_dev_put(memory);
}

static void unregister(void)
{
	rig_sources_unregister();
	rig_trbe_unregister();
	rig_etr_unregister();
	remove_devices();
	platform_driver_unregister(&driver);
}

static int __init rig_init(void)
{
	struct fwnode_handle *sink = NULL;
	int rc;

	if (nr_cpu_ids > RIG_CPUS)
		return -EINVAL;
	rc = map_memory();
	if (rc)
		return rc;
	rc = platform_driver_register(&driver);
	if (rc)
		goto unmap;
	if (with_etr || with_etf || with_etb)
		rc = rig_etr_register(with_etf ? RIG_ETF : with_etb ? RIG_ETB : RIG_ETR, &sink);
	if (!rc && with_trbe)
		rc = rig_trbe_register();
	if (!rc)
		rc = rig_sources_register(sink);
	if (!rc)
		rc = watch_switches();
	if (rc)
		goto forget;
	rc = settle_code();
	if (!rc)
		rc = rig_frequencies_register();
	if (!rc)
		return 0;
	unwatch_switches();
forget:
	unregister();
unmap:
	unmap_memory();
	return rc;
}

static void __exit rig_exit(void)
{
	rig_frequencies_unregister();
	perf_event_release_kernel(keeper);
	unwatch_switches();
	unregister();
	unmap_memory();
}

module_init(rig_init);
module_exit(rig_exit);
MODULE_DESCRIPTION("Emulated CoreSight sources and sinks, for tests of csightd");
MODULE_LICENSE("Dual MIT/GPL");
