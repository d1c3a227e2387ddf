/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Emulated CoreSight for Debian's arm64 6.1 kernel: trace units and sinks that register with the genuine coresight.ko.
 * Their trace is written by a QEMU plugin (shared.h). Towards the kernel they behave as its own etm4x, tmc-etr and trbe
 * drivers do.
 *
 * Parameters: etr, trbe (which sinks exist), fail_etr, fail_trbe (the errno that enabling the sink fails with; may be
 * changed at any time). Each of the following is a number n: the n-th slice of an overwritten buffer from now on, of
 * any sink, is lost in this way; 0: none. truncate   the sink stops in the middle of the slice, and reports that
 * (PERF_AUX_FLAG_TRUNCATED) lose       the kernel writes no AUX record about it overtake   before it, the sink fills
 * the whole buffer once more
 */
#ifndef RIG_H
#define RIG_H

#include <linux/coresight.h>
#include <linux/perf_event.h>
#include <linux/version.h>

#include "shared.h"

/* Private headers of coresight.ko are redeclared here, so the module is for one kernel version. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0) || LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#error "the emulated CoreSight is for Linux 6.1"
#endif

#define CS_MODE_DISABLED 0
#define CS_MODE_SYSFS 1
#define CS_MODE_PERF 2

int etm_perf_symlink(struct coresight_device *csdev, bool link);
void coresight_set_percpu_sink(int cpu, struct coresight_device *csdev);

/* The first fields of the struct in coresight-etm-perf.h. */
struct etm_event_data {
	struct work_struct work;
	cpumask_t mask;
	void *snk_config;
};

extern struct rig_shared *rig;

/* Called on that CPU with interrupts disabled. */
static inline void rig_call(u32 call)
{
	WRITE_ONCE(rig->cpu[smp_processor_id()].call, call);
	asm volatile("hint #125" ::: "memory");
}

/* Parent devices, bound to a driver as coresight.ko wants them. */
struct device *rig_device(void);

int rig_sources_register(struct fwnode_handle *sink);
void rig_sources_unregister(void);
/* The state of this CPU's source that a sink needs. */
void rig_source_sink(int cpu, bool shared);

int rig_etr_register(struct fwnode_handle **ret_node);
void rig_etr_unregister(void);
int rig_trbe_register(void);
void rig_trbe_unregister(void);

/* The AUX pages of an event. */
struct rig_buffer {
	void **pages;
	int nr_pages;
	bool snapshot;
	pid_t pid;
	u64 etr_size;
};

extern int rig_truncate, rig_lose, rig_overtake;

/* Counts one slice; true if it is the one. */
bool rig_due(int *countdown);

/* Copies size bytes from position `from` of a ring of len bytes to position head of the pages. */
void rig_buffer_copy(struct rig_buffer *b, unsigned long head, const u8 *ring, u64 len, u64 from, u64 size);

#endif
