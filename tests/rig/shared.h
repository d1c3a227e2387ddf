/* SPDX-License-Identifier: MIT */
/*
 * The shared memory of the kernel module (tests/rig/module), the QEMU plugin (tests/rig/plugin) and the tools that read
 * its logs: one file, which the guest sees as BAR 2 of an ivshmem-plain device and the plugin maps.
 *
 * The module writes a request into struct rig_cpu of the CPU that it runs on and executes RIG_HINT. The plugin sees
 * that instruction in the thread that runs this virtual CPU, and answers before the next one: a call without a lock.
 * Each CPU has a ring that its trace unit writes; `head` counts the bytes since the unit was started. The bytes of a
 * unit that is started on the shared sink are copied to the arena, as formatter frames.
 *
 * The log: one file of struct rig_truth for each virtual CPU, truth.N. It holds the instructions executed while
 * the trace unit was on, of the levels that it traces, and between them marks: which thread runs, when the unit was
 * started and stopped, and how many instructions were executed while it was off. Instructions that did not complete (a
 * page fault), or that a filter leaves out, are not in it.
 */
#ifndef CSIGHT_RIG_SHARED_H
#define CSIGHT_RIG_SHARED_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

#define RIG_MAGIC 0x0031474952534331ull
#define RIG_HINT 0xd5032fbf /* HINT #125, which is unallocated */
#define RIG_PROTOCOL 4

enum { RIG_CPUS = 32, RIG_FILTERS = 8, RIG_COMM = 16 };

enum rig_call {
	RIG_START = 1,   /* the trace unit of this CPU: configr, trace_id, shared, filters, threshold, interval */
	RIG_STOP,        /* afterwards head counts the bytes written */
	RIG_RESUME,      /* continues after it; they remain */
	RIG_SWITCH,      /* thread tid of process tgid runs on this CPU from now on */
	RIG_ARENA_START, /* empties the shared sink; its size is arena_size */
	RIG_ARENA_STOP,  /* completes its last frame */
	RIG_RETRANSLATE, /* drops all translated code */
};

/* configr: TRCCONFIGR's bits. */
enum {
	RIG_BROADCAST = 1 << 3,
	RIG_CYCLES = 1 << 4,
	RIG_CONTEXT_ID = 1 << 6,
	RIG_TIMESTAMPS = 1 << 11,
	RIG_RETURN_STACK = 1 << 12
};

/*
 * An instruction is traced if it is in one of the ranges, which include start and exclude stop; or from one at a start
 * address to one at a stop address, both included. All filters are ranges, or none is.
 */
enum rig_filter_type { RIG_FILTER_RANGE = 2, RIG_FILTER_START = 3, RIG_FILTER_STOP = 4 };

struct rig_filter {
	uint64_t start, stop;
	uint32_t type, reserved;
};

struct rig_cpu {
	uint32_t call;
	uint32_t configr, trace_id, shared;
	uint64_t head; /* bytes that the trace unit wrote since RIG_START; the last ring_size are in the ring */
	uint32_t tid, tgid;
	char comm[RIG_COMM];
	uint32_t n_filters;
	uint8_t user,
	    kernel; /* whether code at EL0 and EL1 is traced; EL1 only where the plugin has the option kernel */
	uint16_t reserved;
	struct rig_filter filters[RIG_FILTERS];
	uint32_t viewing; /* whether a start address was executed last, or a stop address; RIG_STOP sets it */
	uint32_t threshold, interval; /* least cycles of a count; instructions between timestamps, or 0: the plugin's */
};

struct rig_shared {
	uint64_t magic;
	uint32_t protocol, cpus;
	uint32_t frequency, reserved; /* of the virtual counter */
	uint64_t rings, ring_size;    /* of CPU n at rings + n * ring_size; a power of two */
	uint64_t arena, arena_room;
	uint64_t arena_size; /* as the sink is programmed: a multiple of 16, at most arena_room */
	uint64_t arena_head; /* bytes of frames since RIG_ARENA_START */
	struct rig_cpu cpu[RIG_CPUS];
};

/*
 * A run of instructions from start, or a mark: start has the top bit, and RIG_MARK_… in bits 56 to 62, which are all
 * set in addresses of the kernel.
 */
struct rig_truth {
	uint64_t start, count;
};

#define RIG_MARK (1ull << 63)
#define RIG_IS_MARK(start) ((start) >> 63 && RIG_MARK_TYPE(start) != 0x7f)
#define RIG_MARK_TYPE(mark) ((unsigned)((mark) >> 56 & 0x7f))
enum rig_mark {
	RIG_MARK_SWITCH = 1, /* bits 0 to 23: the thread, 24 to 47: its process; count: the virtual counter */
	RIG_MARK_START,      /* bits 0 to 6: the trace ID; count: the counter */
	RIG_MARK_STOP,       /* bits 0 to 55: the bytes it wrote; count: the counter */
	RIG_MARK_UNTRACED,   /* count: instructions that the thread executed since the last mark, with the unit off */
};

#endif
