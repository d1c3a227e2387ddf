/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Emulated CoreSight for Debian's arm64 6.1 kernel: trace units and sinks that register with the genuine coresight.ko.
 * What they would trace comes from a QEMU plugin (shared.h). Their behaviour towards the kernel is that of its own
 * etm4x, tmc-etr and trbe drivers.
 *
 * Parameters: etr, trbe (which sinks there are), fail_etr, fail_trbe (errno, that the sink fails with when it is
 * enabled; may be changed at any time).
 */
#ifndef RIG_H
#define RIG_H

#include <linux/coresight.h>
#include <linux/perf_event.h>
#include <linux/version.h>

#include "shared.h"

/* Private headers of coresight.ko are redeclared here, so this is for one kernel. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0) || LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#error "the emulated CoreSight is for Linux 6.1"
#endif

#define CS_MODE_DISABLED 0
#define CS_MODE_SYSFS 1
#define CS_MODE_PERF 2

int etm_perf_symlink(struct coresight_device *csdev, bool link);
void coresight_set_percpu_sink(int cpu, struct coresight_device *csdev);

/* The beginning of coresight-etm-perf.h's. */
struct etm_event_data {
	struct work_struct work;
	cpumask_t mask;
	void *snk_config;
};

extern struct rig_shared *rig;

/* On the CPU that it is about, with interrupts off. */
static inline void rig_call(u32 call)
{
	WRITE_ONCE(rig->cpu[smp_processor_id()].call, call);
	asm volatile("hint #125" ::: "memory");
}

/* Parent devices, bound to a driver as coresight.ko wants them. */
struct device *rig_device(void);

int rig_sources_register(struct fwnode_handle *sink);
void rig_sources_unregister(void);
/* What a sink needs to know of the source on this CPU. */
void rig_source_sink(int cpu, bool shared);

int rig_etr_register(struct fwnode_handle **ret_node);
void rig_etr_unregister(void);
int rig_trbe_register(void);
void rig_trbe_unregister(void);

/* AUX pages as the sinks see them. */
struct rig_buffer {
	void **pages;
	int nr_pages;
	bool snapshot;
	pid_t pid;
	u64 etr_size;
};

/* size bytes of a ring of len bytes, from its position `from` on, to position head of the pages. */
void rig_buffer_copy(struct rig_buffer *b, unsigned long head, const u8 *ring, u64 len, u64 from, u64 size);

#endif
