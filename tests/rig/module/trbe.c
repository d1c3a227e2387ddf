// SPDX-License-Identifier: MIT OR GPL-2.0
/* One private sink for each CPU, with the behaviour of coresight-trbe: unformatted trace that wraps in the AUX buffer.
 */
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "rig.h"

static int fail_trbe;
module_param(fail_trbe, int, 0644);

struct trbe {
	struct coresight_device *csdev;
	char name[16];
	rig_mode mode;
};

static struct trbe *trbes[RIG_CPUS];

static int enable(struct coresight_device *csdev, rig_mode mode, rig_session *session)
{
	int cpu = smp_processor_id();

	if (fail_trbe)
		return -fail_trbe;
	if (mode != CS_MODE_PERF || !trbes[cpu] || trbes[cpu]->csdev != csdev)
		return -EINVAL;
	if (trbes[cpu]->mode != CS_MODE_DISABLED)
		return -EBUSY;
	trbes[cpu]->mode = mode;
	rig_source_sink(cpu, false);
	return 0;
}

static int disable(struct coresight_device *csdev)
{
	int cpu = smp_processor_id();

	if (!trbes[cpu] || trbes[cpu]->csdev != csdev || trbes[cpu]->mode != CS_MODE_PERF)
		return -EINVAL;
	trbes[cpu]->mode = CS_MODE_DISABLED;
	return 0;
}

static void *alloc_buffer(struct coresight_device *csdev, struct perf_event *event, void **pages, int nr_pages,
			  bool overwrite)
{
	struct rig_buffer *b;

	if (nr_pages < 2)
		return NULL;
	b = kzalloc(sizeof(*b), GFP_KERNEL);
	if (b)
		*b = (struct rig_buffer){ .pages = pages, .nr_pages = nr_pages, .snapshot = overwrite };
	return b;
}

static void free_buffer(void *config)
{
	kfree(config);
}

static unsigned long update_buffer(struct coresight_device *csdev, struct perf_output_handle *handle, void *config)
{
	struct rig_buffer *b = config;
	int cpu = smp_processor_id();
	u64 written = rig->cpu[cpu].head, room = (u64)b->nr_pages << PAGE_SHIFT, size, from;
	bool lose = b->snapshot && written && rig_due(&rig_lose);

	if (!lose)
		perf_aux_output_flag(handle, PERF_AUX_FLAG_CORESIGHT_FORMAT_RAW);
	if (b->snapshot) {
		/* The buffer wrapped: its last ring_size bytes are available. */
		size = min3(written, room, rig->ring_size);
		from = written - size;
		if (written && rig_due(&rig_overtake)) {
			handle->head += room;
			perf_aux_output_flag(handle, PERF_AUX_FLAG_COLLISION);
		}
		if (from && !lose)
			perf_aux_output_flag(handle, PERF_AUX_FLAG_COLLISION);
		if (written && rig_due(&rig_truncate)) {
			size /= 2;
			perf_aux_output_flag(handle, PERF_AUX_FLAG_TRUNCATED);
		}
	} else {
		/* Trace stopped when the buffer was full. */
		size = min_t(u64, written, handle->size);
		from = 0;
		if (size < written)
			perf_aux_output_flag(handle, PERF_AUX_FLAG_TRUNCATED);
		if (written > rig->ring_size)
			size = 0;
	}
	rig_buffer_copy(b, handle->head, (u8 *)rig + rig->rings + cpu * rig->ring_size, rig->ring_size, from, size);
	if (b->snapshot)
		handle->head += size;
	/* perf writes no record about a slice without bytes and flags. */
	return lose ? 0 : size;
}

static const struct coresight_ops_sink sink_ops = {
	.enable = enable,
	.disable = disable,
	.alloc_buffer = alloc_buffer,
	.free_buffer = free_buffer,
	.update_buffer = update_buffer,
};
static const struct coresight_ops ops = { .sink_ops = &sink_ops };

static int one_register(int cpu)
{
	struct coresight_desc desc = { .type = CORESIGHT_DEV_TYPE_SINK, .ops = &ops };
	struct trbe *t = kzalloc(sizeof(*t), GFP_KERNEL);
	int rc;

	if (!t)
		return -ENOMEM;
	snprintf(t->name, sizeof(t->name), "trbe%d", cpu);
	desc.subtype.sink_subtype = CORESIGHT_DEV_SUBTYPE_SINK_PERCPU_SYSMEM;
	desc.name = t->name;
	rc = rig_describe(&desc, cpu, 0, NULL, 0);
	t->csdev = rc ? ERR_PTR(rc) : coresight_register(&desc);
	if (IS_ERR(t->csdev)) {
		rc = PTR_ERR(t->csdev);
		kfree(t);
		return rc;
	}
	trbes[cpu] = t;
	coresight_set_percpu_sink(cpu, t->csdev);
	return 0;
}

int rig_trbe_register(void)
{
	int cpu, rc = 0;

	for_each_online_cpu (cpu)
		if (!rc)
			rc = one_register(cpu);
	return rc;
}

void rig_trbe_unregister(void)
{
	for (int cpu = 0; cpu < RIG_CPUS; cpu++)
		if (trbes[cpu]) {
			coresight_set_percpu_sink(cpu, NULL);
			coresight_unregister(trbes[cpu]->csdev);
			kfree(trbes[cpu]);
			trbes[cpu] = NULL;
		}
}
