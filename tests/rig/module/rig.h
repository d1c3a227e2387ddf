/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Emulated CoreSight for Debian's arm64 kernels: trace units and sinks that register with the genuine coresight.ko.
 * Their trace is written by a QEMU plugin (shared.h). Towards the kernel they behave as its own etm4x, tmc-etr and trbe
 * drivers do.
 *
 * Parameters: etr, trbe, etf, etb (which sinks exist; an ETF or ETB is there instead of the ETR), fail_etr, fail_trbe
 * (the errno that enabling the shared or the private sink fails with; may be changed at any time). truncate, lose and
 * overtake: a number n; the n-th slice of an overwritten buffer from now on, of any sink, is lost; 0: none. truncate:
 * the sink stops in the middle of the slice, and reports that (PERF_AUX_FLAG_TRUNCATED). lose: the kernel writes no AUX
 * record about it. overtake: before it, the sink fills the whole buffer once more.
 */
#ifndef RIG_H
#define RIG_H

#include <linux/coresight.h>
#include <linux/perf_event.h>
#include <linux/version.h>

#include "shared.h"

#define SINCE(major, minor) (LINUX_VERSION_CODE >= KERNEL_VERSION(major, minor, 0))
#define IS(major, minor) (SINCE(major, minor) && !SINCE(major, (minor) + 1))

/* Private headers of coresight.ko are redeclared here, as they are in these versions. */
#if !IS(6, 1) && !IS(6, 12) && !IS(7, 3)
#error "the emulated CoreSight is for Linux 6.1, 6.12 and 7.3"
#endif

#if SINCE(6, 12)
typedef enum cs_mode rig_mode;
#else
typedef u32 rig_mode;
#define CS_MODE_DISABLED 0
#define CS_MODE_SYSFS 1
#define CS_MODE_PERF 2
#endif

/* What a sink is enabled with in CS_MODE_PERF. */
#if SINCE(7, 3)
typedef struct coresight_path rig_session;
#define rig_handle(session) ((session)->handle)
#else
typedef void rig_session;
#define rig_handle(session) ((struct perf_output_handle *)(session))
#endif

int etm_perf_symlink(struct coresight_device *csdev, bool link);
void coresight_set_percpu_sink(int cpu, struct coresight_device *csdev);
#if SINCE(6, 12)
struct coresight_connection *coresight_add_out_conn(struct device *dev, struct coresight_platform_data *pdata,
						    const struct coresight_connection *connection);
int coresight_trace_id_get_cpu_id(int cpu);
int coresight_trace_id_read_cpu_id_map(int cpu, struct coresight_trace_id_map *map);
#endif
#if SINCE(7, 3)
int coresight_etm_get_trace_id(struct coresight_device *csdev, enum cs_mode mode, struct coresight_device *sink);
#endif

/* The first fields of the struct in coresight-etm-perf.h. */
struct etm_event_data {
	struct work_struct work;
	cpumask_t mask;
#if SINCE(6, 12)
	cpumask_t aux_hwid_done;
#endif
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

/*
 * Sets desc->dev and desc->pdata for one of inputs inputs, or for one that leads to the input at port of a sink; sink:
 * or NULL. cpu: to which it belongs, or -1.
 */
int rig_describe(struct coresight_desc *desc, int cpu, int inputs, struct fwnode_handle *sink, int port);

int rig_sources_register(struct fwnode_handle *sink);
void rig_sources_unregister(void);
/* The state of this CPU's source that a sink needs. */
void rig_source_sink(int cpu, bool shared);

/* The sink that all CPUs share. */
enum rig_kind { RIG_ETR, RIG_ETF, RIG_ETB };

int rig_etr_register(enum rig_kind kind, struct fwnode_handle **ret_node);
void rig_etr_unregister(void);
int rig_frequencies_register(void);
void rig_frequencies_unregister(void);
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

/* rig_pairs: of address comparators, of each trace unit. */
extern int rig_truncate, rig_lose, rig_overtake, rig_pairs;

/* Counts one slice; true if it is the one. */
bool rig_due(int *countdown);

/* Copies size bytes from position `from` of a ring of len bytes to position head of the pages. */
void rig_buffer_copy(struct rig_buffer *b, unsigned long head, const u8 *ring, u64 len, u64 from, u64 size);

#endif
