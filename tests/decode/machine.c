/* SPDX-License-Identifier: MIT */
/*
 * Simulates a machine: CPUs, with a trace unit each, run threads of the processes of two users. Threads are preempted,
 * migrate, make system calls and fault. Writes what csightd would record of one process, and what its threads executed.
 *
 * usage: machine DIR SEED HOW [nocid|el2] [drop] [sparse|timeless] [handed] [wrapped|full|refilled] [failing]
 *                [truncated] [unrecorded] [stopped] [crowd] [kernel] [swapped] [cycles] [synced] [long]
 *                [overflow] [overfull] [unswitched|unsettled|recent] [attached] [started] [followed]
 *                [steady] [counted] [reborn] [unequipped] [switchless] [clockless]
 *
 *   HOW   grid    private sinks: ring buffers of the process, with an AUX slice for each time that a thread of it ran
 *         wide    a ring buffer per CPU, with all that ran there; shared
 *         arena   one sink for all CPUs, with frames; shared; frozen once in between
 *   nocid         no context IDs, as in containers
 *   sparse        sometimes no timestamp when a thread starts to run
 *   timeless      no timestamps
 *   el2           context IDs of a kernel at EL2
 *   handed        private sinks: sometimes threads of the process follow each other in one AUX slice, as when the
 *                 kernel switches between threads that inherited the same events
 *   failing       private sinks: sometimes a sink is unavailable, which an empty AUX slice records
 *   truncated     private sinks: sometimes a sink stops within a slice, and the thread's event on that CPU is off for
 *                 a while
 *   unrecorded    private sinks: sometimes the AUX record of a slice is lost
 *   stopped       private sinks: tracing is stopped and started again and again, as by a recording
 *   wrapped       private sinks: the ring buffer of one CPU wrapped. arena: its first half was overwritten; one CPU has
 *                 its first sync point soon after that, the other one much later
 *   full          arena: wrapped, in the first snapshot of the sink: the kernel counts no more bytes than a buffer has
 *   refilled      arena: wrapped in both of its snapshots
 *   crowd         private sinks: a thread that stops running ends, and another one begins, except two: one that runs
 *                 all the time, and one that runs at the beginning and at the end. arena: those of process B do so,
 *                 and thread 1002 runs at the beginning and at the end
 *   synced        CPUs have sync points on the way, not only where tracing begins
 *   long          ten times as much of everything, which several workers decode
 *   drop          from some time on, the process belongs to another user, and executes the code at LATER
 *   kernel        process A executes code of the kernel: DIR/kcore and DIR/kallsyms are as those of perf record
 *                 --kcore. A function has 256 instructions, and the name f with its number
 *   swapped       handed, in the kernel: the trace goes on from one thread to the other without a trace-on. DIR/resumed
 *                 has the thread and the address where it does so in a thread whose trace had been stopped
 *   overflow      sometimes a trace unit overflows: what it traces up to the next sync point is lost
 *   overfull      private sinks: some AUX slices have overwritten their first half
 *   unswitched    records of context switches are lost now and then, which a record says
 *   unsettled     the same; a switch of each thread on no CPU says so
 *   recent        private sinks: the first half of the records of context switches is lost, and older starts with it;
 *                 a switch of each thread on no CPU says so
 *   reborn        halfway a thread ends, and another one gets its number
 *   unequipped    the second CPU has no trace unit
 *   clockless     how timestamps relate to the clock of the records is unknown
 *   switchless    there are no records of context switches, as perf record makes none by default
 *   attached      private sinks: tracing begins while the threads run
 *   started       private sinks: records say when each slice began, and in which thread
 *   followed      stopped; DIR/live is what csight tail would get, with a round for each stop
 *   steady        for times of several stops, threads of the process run on the second CPU alone, and none leaves it
 *   cycles        the trace units count cycles, of which none are traced
 *   counted       samples of a counter when a thread of the process leaves a CPU, and of frequencies; and the trace
 * units trace events: DIR/counted has the sum of each thread, of each CPU the number of its samples and the last one,
 * and the number of each event
 *
 * DIR/snapshot.json and DIR/trace.perf.data describe process A, DIR/image is its code. DIR/TID.pcs has the addresses
 * that a thread executed, in hexadecimal, one per line, with a line "gap" where tracing was off. Of a crowd, DIR/crowd
 * has those of all threads in order of time, with a line "# TID" where another one runs.
 */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/util.h"
#include "lib/code/elf-core.h"
#include "lib/emu/etm-encode.h"
#include "lib/perfdata/format.h"
#include "lib/perfdata/write.h"

enum {
	CPUS = 2,
	ATTACHED = 300, /* rounds before tracing begins */
	THREADS = 6,    /* those with even numbers belong to process A */
	WORDS = 4096,
	RING = 1 << 24,
	ROUNDS = 6000,
	STOPS = 100, /* rounds from one to the next */
	CROWD_ROUNDS = 170000,
	LATE = 2, /* of a crowd: the thread that runs at the beginning and at the end */
	PID_A = 1000,
	PID_B = 7770000,
};

/* In records: the CPU of a switch that says that others were lost, and a bit of that of a record that says so itself.
 */
static const uint32_t NO_CPU = UINT32_MAX - 1, LOST = 1u << 30;
static const uint64_t USER = 0x400000, KERNEL = 0xffff800008010000, LATER = 0x5ec500000000, CODE_B = 0x7b5a00000000;

struct thread {
	uint32_t pid, tid;
	uint64_t pc;
	int cpu;           /* -1: not running, since: */
	unsigned disabled; /* bit mask of CPUs on which its event is off */
	uint64_t left;
	bool stopped; /* its trace ended when it left */
	bool missed;  /* it has executed something while tracing was off */
	FILE *truth;
	uint64_t calls[64];
	unsigned depth;
};

struct cpu {
	struct etm etm;
	uint8_t *ring;
	uint64_t slice; /* start of the current AUX slice */
	bool traced;
	bool over; /* the trace unit has overflowed: what follows this position is lost */
	uint64_t over_at;
	uint64_t begun, in; /* when the slice began, and its thread began to run */
	uint32_t begun_tid;
	unsigned unseen;              /* the number of switches whose records are lost next */
	uint64_t newest;              /* record of a switch */
	struct thread *thread, *left; /* left: stopped running; its AUX slice may continue */
	uint64_t left_time;
	uint64_t time;
	struct pd_aux *slices;
	size_t n_slices;
	struct buf bytes; /* contents of its ring buffer in the file */
};

static struct thread threads[THREADS];
static struct cpu cpus[CPUS];
static uint32_t code[WORDS];
static struct buf records; /* context switches: struct pd_origin, with the top bit of cpu for a switch out */
static bool grid, arena, nocid, el2, drop, sparse, timeless, handed, wrapped, full, refilled, failing, dropped, off;
static bool followed, steady, counted, overflow, overfull, unswitched, unsettled, recent, attached, started;
static bool reborn, unequipped, switchless, clockless;
static uint64_t died;           /* reborn: when the thread ended */
static struct buf slice_starts; /* of slices: struct pd_origin */
static bool truncated, unrecorded, stopped, crowd, kernel, swapped, cycles, synced, long_run;
static unsigned rounds = ROUNDS, current_round;
static uint32_t last_tid; /* of a crowd */
static FILE *crowd_truth, *resumed;
static struct {
	uint64_t from, to;
} pauses[ROUNDS / STOPS];
static size_t n_pauses;
/* How much there was of everything when tracing was stopped. */
struct cut {
	uint64_t time;
	size_t records, starts, pauses, slices[CPUS], bytes[CPUS];
};
static struct cut cuts[ROUNDS / STOPS + 2];
static size_t n_cuts;
static uint64_t drop_at, arena_size;
static struct buf frames, samples;
static unsigned traced_events[4];
static const struct pd_event counters[] = { { .name = "events:u", .type = 4, .config = 0x23, .rate = 1000 },
					    { .name = PD_FREQUENCY_NAME, .type = 1, .config = 9, .period = 1 } };

static uint64_t number(uint64_t below)
{
	return (uint64_t)random() % below;
}

static uint64_t base_of(const struct thread *t)
{
	return t->pid == PID_B ? CODE_B : dropped ? LATER : kernel ? KERNEL : USER;
}

static uint64_t anywhere(const struct thread *t)
{
	return base_of(t) + 4 * number(WORDS);
}

static void make_code(void)
{
	static const uint32_t ops[] = { 0xd65f03c0, 0xd65f03c0, 0xd61f0000, 0xd63f0000, 0xd4000001, 0xd5033fdf };

	for (uint32_t i = 0; i < WORDS; i++) {
		uint32_t far = (uint32_t)(number(WORDS) - i) & 0x3ffffff, near = (uint32_t)number(30) + 2,
			 kind = (uint32_t)number(20);

		code[i] = kind < 6    ? ops[kind]
			  : kind < 8  ? 0x94000000 | far
			  : kind == 8 ? 0x14000000 | far
			  : kind < 12 ? 0x54000000 | near << 5
				      : 0xd503201f;
		if (i + 40 > WORDS)
			code[i] = 0xd61f0000;
	}
}

/* Converts ns to ticks of 16 ns. */
static uint64_t stamp(uint64_t time)
{
	return (time + 5000000) / 16;
}

/* Without context IDs, the packet lacks its last four bytes; context IDs of EL2 are in its VMID. */
static void change_context(struct etm *e)
{
	uint8_t *info = &e->ring[(e->head - 5) & e->mask];

	if (nocid || el2)
		*info &= 0x7f;
	if (el2)
		*info |= 0x40;
	if (nocid)
		e->head -= 4;
}

static void note_loss(uint32_t tid, uint32_t cpu, uint64_t time)
{
	struct pd_origin o = { PID_A, tid, cpu, time };

	buf_add(&records, &o, sizeof(o));
}

/* True if the record of the next switch is lost. Where that ends, or where it began, a record says so. */
static bool loses_switch(struct cpu *c)
{
	bool begins = !c->unseen && c->newest && number(60) == 0;

	if (!unswitched && !unsettled)
		return false;
	if (begins)
		c->unseen = 1 + (unsigned)number(8);
	for (uint32_t i = 0; begins && unsettled && i < THREADS / 2; i++)
		note_loss(PID_A + i, NO_CPU, c->newest);
	if (!c->unseen) {
		c->newest = c->time;
		return false;
	}
	if (--c->unseen == 0 && unswitched)
		note_loss(UINT32_MAX, (uint32_t)(c - cpus) | LOST, c->time);
	return true;
}

static void note_run(struct cpu *c, uint32_t tid, bool in)
{
	struct pd_origin o = { PID_A, tid, (uint32_t)(c - cpus) | (in ? 0 : 1u << 31), c->time };

	if ((attached && off && current_round < ATTACHED) || loses_switch(c))
		return;
	buf_add(&records, &o, sizeof(o));
}

static void note_sample(uint32_t counter, uint32_t tid, const struct cpu *c, uint64_t value)
{
	const struct pd_sample s = { counter, { PID_A, tid, (uint32_t)(c - cpus), c->time }, value };

	buf_add(&samples, &s, sizeof(s));
}

/* The sink stopped within the slice. */
static void truncate_slice(struct cpu *c, uint32_t tid, struct pd_aux *a)
{
	c->slice = c->etm.head;
	c->bytes.size -= a->size / 2;
	a->size -= a->size / 2;
	a->flags |= PD_AUX_TRUNCATED;
	for (int i = 0; i < THREADS; i++)
		if (threads[i].tid == tid)
			threads[i].disabled |= 1u << (c - cpus);
}

/* What the trace unit wrote since it overflowed is lost. */
static void end_overflow(struct cpu *c)
{
	if (!c->over)
		return;
	etm_flush(&c->etm);
	c->etm.head = c->over_at;
	c->over = false;
}

static void begin_overflow(struct cpu *c)
{
	struct etm *e = &c->etm;

	etm_flush(e);
	/* The packet "overflow". */
	e->ring[e->head++ & e->mask] = 0;
	e->ring[e->head++ & e->mask] = 5;
	c->over = true;
	c->over_at = e->head;
}

/* Ends the current AUX slice. */
static void end_slice(struct cpu *c, uint32_t tid, uint32_t pid)
{
	struct pd_aux a = { .offset = c->bytes.size,
			    .flags = PD_AUX_RAW | PD_AUX_OVERWRITE,
			    .pid = pid,
			    .tid = tid,
			    .cpu = (uint32_t)(c - cpus),
			    .time = c->time };

	etm_flush(&c->etm);
	end_overflow(c);
	if (overfull && number(8) == 0 && c->etm.head - c->slice > 40) {
		c->slice += (c->etm.head - c->slice) / 2;
		/* Not at a sync point, as if nothing was missing. */
		while (!c->ring[c->slice & (RING - 1)])
			c->slice++;
	}
	if (failing && number(6) == 0) {
		c->slice = c->etm.head;
		a.flags |= PD_AUX_TRUNCATED;
	}
	for (; c->slice < c->etm.head; c->slice++)
		buf_u8(&c->bytes, c->ring[c->slice & (RING - 1)]);
	a.size = c->bytes.size - a.offset;
	if (!a.size && !(a.flags & PD_AUX_TRUNCATED))
		return;
	if (truncated && number(12) == 0)
		truncate_slice(c, tid, &a);
	if (unrecorded && number(12) == 0)
		return;
	c->slices = reallocarray(c->slices, c->n_slices + 1, sizeof(a));
	c->slices[c->n_slices++] = a;
	if (started && c->begun) {
		struct pd_origin o = { pid, c->begun_tid, a.cpu, c->begun };

		buf_add(&slice_starts, &o, sizeof(o));
	}
	c->begun = 0;
}

/* The number of overwritten AUX slices: the ring buffer of one CPU wrapped. */
static size_t lost_slices(uint32_t cpu)
{
	return wrapped && cpu == 0 ? cpus[0].n_slices / 2 : 0;
}

/* What a buffer of the sink, whose size is a power of two, keeps of the trace. */
static uint64_t kept_of(uint64_t size)
{
	uint64_t kept = 16;

	while (kept * 2 <= size)
		kept *= 2;
	return kept;
}

static size_t lost_frames(void)
{
	if (!wrapped || !arena || refilled)
		return 0;
	return full ? frames.size - kept_of(frames.size) : frames.size / 32 * 16;
}

/* Drops what the sink has overwritten of the trace since the last snapshot. */
static void overwrite_frames(void)
{
	uint8_t *begin = frames.data + frames.size - arena_size;
	uint64_t kept = kept_of(arena_size);

	memmove(begin, begin + arena_size - kept, kept);
	frames.size -= arena_size - kept;
	arena_size = kept;
}

static bool is_traced(const struct thread *t)
{
	return !off && !(unequipped && t->cpu == 1) && (!grid || (t->pid == PID_A && !(t->disabled >> t->cpu & 1)));
}

static void leave(struct cpu *c)
{
	struct thread *t = c->thread;

	c->time += 300 + number(500);
	c->left = grid && t->pid == PID_A && handed && number(2) ? t : NULL;
	c->left_time = c->time;
	if (grid && t->pid == PID_A && !c->left)
		end_slice(c, t->tid, t->pid);
	if (t->pid == PID_A)
		note_run(c, t->tid, false);
	if (t->pid == PID_A && counted)
		note_sample(0, t->tid, c, 1 + number(1000));
	/* The idle thread is of no process. */
	if (counted && number(50) == 0)
		note_sample(0, 0, c, 7);
	if (counted && number(50) == 0)
		note_sample(1, UINT32_MAX, c, 1000 * (1 + number(3000)));
	if (truncated && number(3) == 0)
		t->disabled = 0;
	t->cpu = -1;
	t->left = c->time;
	t->stopped = !c->left;
	c->thread = NULL;
	c->time += 300 + number(500);
	if (crowd && (grid ? t != &threads[0] && t != &threads[LATE] : t->pid == PID_B))
		t->tid = ++last_tid;
}

/* True at the beginning and at the end, when the late thread of a crowd runs. */
static bool is_late(void)
{
	return current_round < rounds / 50 || current_round > rounds - rounds / 50;
}

/* Ends the AUX slice of a thread that stopped running, at that time, unless it continues. */
static void end_left(struct cpu *c)
{
	uint64_t now = c->time;

	c->time = c->left_time;
	if (c->left)
		end_slice(c, c->left->tid, c->left->pid);
	c->time = now;
	c->left = NULL;
}

/* Emits sync packets periodically, as trace units do. */
static bool is_sync_due(const struct cpu *c)
{
	return synced ? number(10) == 0 : wrapped && arena && number(c == cpus ? 10 : 150) == 0;
}

/* The trace goes on in another thread, as if it had begun there, but without a word of it. */
static void swap_threads(struct cpu *c)
{
	struct etm *e = &c->etm;
	struct thread *t = c->thread;
	uint64_t at;

	etm_flush(e);
	at = e->head;
	etm_trace_on(e, t->pc);
	for (e->head--; at < e->head; at++)
		e->ring[at & e->mask] = e->ring[(at + 1) & e->mask];
	if (t->stopped)
		fprintf(resumed, "%u 0x%" PRIx64 "\n", t->tid, t->pc);
}

static void begin_trace(struct cpu *c)
{
	struct thread *t = c->thread;

	if (t->truth && t->disabled >> t->cpu & 1)
		fprintf(t->truth, "gap\n");
	if (!is_traced(t))
		return;
	c->etm.context = t->tid;
	if ((grid && !c->left) || !c->traced || is_sync_due(c)) {
		end_overflow(c);
		if (!c->begun) {
			c->begun = c->in - 50;
			c->begun_tid = t->tid;
		}
		etm_sync(&c->etm, stamp(c->time), t->pc, true);
		c->traced = true;
	} else if (swapped && c->left) {
		swap_threads(c);
	} else {
		etm_trace_on(&c->etm, t->pc);
	}
	t->stopped = false;
	change_context(&c->etm);
}

/* True while a thread of the process stays on the second CPU. */
static bool is_steady(void)
{
	return steady && current_round / (4 * STOPS) % 2;
}

static void enter(struct cpu *c)
{
	struct thread *t = &threads[crowd && grid ? 2 * number(THREADS / 2) : number(THREADS)];

	c->time += 1000 + number(2000);
	if (is_steady() && t->pid == PID_A && c == cpus)
		return;
	if (t->cpu >= 0 || t->left > c->time || (crowd && t == &threads[LATE] && !is_late()))
		return;
	t->cpu = (int)(c - cpus);
	c->thread = t;
	if (t->pid != PID_A)
		end_left(c);
	c->in = c->time;
	if (t->pid == PID_A)
		note_run(c, t->tid, true);
	/* The kernel exchanges the events of both threads. */
	if (c->left && c->left != t) {
		unsigned disabled = t->disabled;

		t->disabled = c->left->disabled;
		c->left->disabled = disabled;
	}
	c->time += 300 + number(500);
	begin_trace(c);
	c->left = NULL;
	if (is_traced(t) && (!sparse || number(3)))
		etm_timestamp(&c->etm, stamp(c->time));
}

/* Traces events of the trace unit, as bits. */
static void note_events(struct etm *e, unsigned events)
{
	for (unsigned n = 0; n < ELEMENTS(traced_events); n++)
		traced_events[n] += events >> n & 1;
	etm_event(e, events);
}

/* Executes and traces one instruction. False: an exception was taken; pc is the address at which the thread resumes. */
static bool step(struct cpu *c)
{
	struct thread *t = c->thread;
	struct etm unused, *e = &c->etm;
	uint32_t op = code[(t->pc - base_of(t)) / 4];
	uint64_t pc = t->pc, next = pc + 4;
	bool taken = number(2), stamped = false;

	c->time++;
	if (overflow && is_traced(t) && !c->over && number(8000) == 0)
		begin_overflow(c);
	if (!is_traced(t)) {
		static uint8_t sink[4096];

		etm_init(&unused, sink, sizeof(sink), false, 0);
		e = &unused;
		t->missed = (stopped && off) || unequipped;
	} else if (crowd_truth) {
		static uint32_t before;

		if (before != t->tid)
			fprintf(crowd_truth, "# %u\n", t->tid);
		before = t->tid;
		fprintf(crowd_truth, "%" PRIx64 "\n", pc);
	} else if (t->truth) {
		fprintf(t->truth, "%s%" PRIx64 "\n", t->missed ? "gap\n" : "", pc);
		t->missed = false;
	}
	if (op == 0xd4000001) {
		etm_exception(e, ETM_CALL, next, false);
		t->pc = next;
		return false;
	}
	if (op >> 26 == 5 || op >> 26 == 0x25) {
		next = pc + (uint64_t)((int64_t)((uint64_t)op << 38) >> 36);
		etm_branch(e, op >> 31 ? pc + 4 : 0);
		if (op >> 31)
			t->calls[t->depth++ % 64] = pc + 4;
		stamped = true;
	} else if (op >> 24 == 0x54) {
		if (taken)
			next = pc + (uint64_t)((int64_t)((uint64_t)(op >> 5 & 0x7ffff) << 45) >> 43);
		etm_atom(e, taken);
		stamped = true;
	} else if (op == 0xd65f03c0 && t->depth && number(8)) {
		next = t->calls[--t->depth % 64];
		etm_indirect(e, next, 0);
		stamped = true;
	} else if (op != 0xd503201f && op != 0xd5033fdf) {
		next = anywhere(t);
		etm_indirect(e, next, op == 0xd63f0000 ? pc + 4 : 0);
		stamped = true;
	} else if (op == 0xd5033fdf) {
		etm_atom(e, true);
	}
	if (stamped && number(40) == 0)
		etm_timestamp(e, stamp(c->time));
	if (counted && stamped && t->pid == PID_A && is_traced(t) && number(100) == 0)
		note_events(e, 1 + (unsigned)number(15));
	t->pc = next;
	return true;
}

static void run(struct cpu *c)
{
	uint64_t n = 1 + number(crowd ? 20 : number(10) ? 300 : 5000);
	bool user = true;

	while (n-- > 0 && user)
		user = step(c);
	if (user && is_traced(c->thread))
		etm_exception(&c->etm, number(2) ? ETM_IRQ : ETM_DATA_FAULT, c->thread->pc, false);
	/* The kernel resumes the thread, sometimes in a signal handler. */
	if (number(10) == 0)
		c->thread->pc = anywhere(c->thread);
	if (!(is_steady() && c->thread->pid == PID_A && c != cpus) && number(2)) {
		leave(c);
		return;
	}
	c->time += 300 + number(500);
	begin_trace(c);
}

/* Interrupts all CPUs and ends their AUX slices. */
static void freeze(void)
{
	uint64_t time = MAX(cpus[0].time, cpus[1].time) + 500;

	for (int i = 0; i < CPUS; i++) {
		struct cpu *c = &cpus[i];

		end_left(c);
		c->time = time;
		if (c->thread && is_traced(c->thread))
			etm_exception(&c->etm, ETM_IRQ, c->thread->pc, false);
		if (!arena && c->thread && (!grid || c->thread->pid == PID_A))
			end_slice(c, c->thread->tid, c->thread->pid);
		else if (!grid)
			end_slice(c, 5, 5);
		c->traced = false;
	}
}

/* Formats the trace of both CPUs into the frames of the arena, with 14 bytes of one CPU per frame. */
static void put_frames(size_t *from)
{
	size_t before = frames.size;

	while (from[0] < cpus[0].bytes.size || from[1] < cpus[1].bytes.size) {
		unsigned i = (unsigned)number(CPUS);
		uint8_t frame[16] = { (uint8_t)((0x10 + 2 * i) << 1 | 1) };
		size_t n = MIN(cpus[i].bytes.size - from[i], (size_t)14);

		if (!n)
			continue;
		memcpy(frame + 1, cpus[i].bytes.data + from[i], n);
		memset(frame + 1 + n, 0x71, 14 - n); /* event packets, which do not affect control flow */
		for (int k = 2; k < 15; k += 2) {
			frame[15] |= (uint8_t)((frame[k] & 1) << k / 2);
			frame[k] &= (uint8_t)~1;
		}
		from[i] += n;
		buf_add(&frames, frame, sizeof(frame));
	}
	arena_size = frames.size - before;
}

static size_t n_gone(void)
{
	return recent ? records.size / sizeof(struct pd_origin) / 2 : 0;
}

static uint64_t gone_until(void)
{
	const struct pd_origin *list = (const struct pd_origin *)records.data;
	uint64_t until = 0;

	for (size_t i = 0; i < n_gone(); i++)
		until = MAX(until, list[i].time);
	return until;
}

/* Writes a part of the records of switches. */
static void write_switches(struct pd_writer *w, size_t from, size_t to)
{
	static const uint32_t others[2] = { UINT32_MAX, UINT32_MAX };
	static const uint64_t one[2] = { 0, 1 };
	const struct pd_origin *list = (const struct pd_origin *)records.data;

	for (size_t i = from; i < to; i++) {
		struct pd_origin o = list[i];
		bool nowhere = o.cpu == NO_CPU, out = !nowhere && o.cpu >> 31, lost = !nowhere && o.cpu & LOST;

		if (i < n_gone() || switchless)
			continue;
		for (uint32_t k = 0; k < THREADS / 2 && i && i == n_gone(); k++) {
			const struct pd_origin gone = { PID_A, PID_A + k, NO_CPU, gone_until() };

			pd_write_record(w, PD_REC_SWITCH_CPU_WIDE, 0, others, sizeof(others), &gone);
		}
		o.cpu = nowhere ? NO_CPU : o.cpu & ~(LOST | 1u << 31);
		if (lost) {
			pd_write_record(w, PD_REC_LOST, 0, one, sizeof(one), &o);
			continue;
		}
		pd_write_record(w, PD_REC_SWITCH_CPU_WIDE, out ? PD_MISC_SWITCH_OUT : 0, others, sizeof(others), &o);
	}
}

static void write_starts(struct pd_writer *w, size_t from, size_t to)
{
	uint64_t after = gone_until();

	for (size_t i = from; i < to; i++) {
		const struct pd_origin *o = (const struct pd_origin *)slice_starts.data + i;

		if (o->time > after)
			pd_write_itrace_start(w, o->pid, o->tid, o->cpu, o->time);
	}
}

static void write_pauses(struct pd_writer *w, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		pd_write_aux(w, &(struct pd_aux){ .offset = pauses[i].from,
						  .flags = PD_AUX_PARTIAL,
						  .pid = UINT32_MAX,
						  .tid = UINT32_MAX,
						  .cpu = UINT32_MAX,
						  .time = pauses[i].to });
}

static void fill_cpus(struct pd_cpu *list)
{
	struct emu_regs r;

	etm_regs(false, &r);
	if (cycles)
		r.configr |= 1 << 4; /* CCI */
	if (timeless)
		r.configr &= ~(uint32_t)ETM_CONFIGR_TS;
	if (nocid || el2)
		r.configr &= ~(uint32_t)ETM_CONFIGR_CID;
	if (el2) {
		r.configr |= 1 << 7 | 1 << 15;                         /* VMID, of CONTEXTIDR_EL2 */
		r.idr1 |= 1 << 4;                                      /* ETMv4.1, the first version with VMIDOPT */
		r.idr2 = (r.idr2 & ~(31u << 10)) | 4 << 10 | 1u << 29; /* VMIDSIZE: 32 bits; VMIDOPT */
	}
	for (unsigned i = 0; i < CPUS; i++)
		list[i] = (struct pd_cpu){ PD_MAGIC_ETMV4,
					   i,
					   8,
					   { r.configr, 0x10 + 2 * i, r.idr0, r.idr1, r.idr2, r.idr8, r.authstatus,
					     clockless ? 0 : 1 /* the virtual counter */ } };
}

/* ns = -5000000 + ticks * 16 */
static const struct pd_clock clock_of_trace = { true, 10, 16 << 10, (uint64_t)-5000000 };

/* Writes names and mappings. */
static void write_program(struct pd_writer *w, const char *dir)
{
	char image[4096];

	snprintf(image, sizeof(image), "%s/image", dir);
	pd_write_comm(w, PID_A, PID_A, "machine", true, 1);
	for (int i = 0; i < THREADS; i += 2)
		pd_write_comm(w, PID_A, threads[i].tid, "worker", false, 1);
	if (died) {
		struct pd_task task = {
			.pid = PID_A, .ppid = PID_A, .tid = threads[2].tid, .ptid = PID_A, .exit = true, .time = died
		};

		pd_write_task(w, &task);
		task.exit = false;
		task.time += 1000;
		pd_write_task(w, &task);
	}
	for (uint32_t tid = PID_A + THREADS + 1; grid && tid < last_tid; tid++)
		pd_write_comm(w, PID_A, tid, "worker", false, 1);
	for (int i = 0; i < 2; i++) {
		struct pd_map map = { PID_A,      PID_A,     i ? LATER : USER, sizeof(code),  0,
				      .inode = 1, .prot = 5, .flags = 2,       .path = image, .time = 1 };

		if (!i && kernel)
			pd_write_map(w, &(struct pd_map){ .pid = UINT32_MAX,
							  .addr = KERNEL,
							  .len = sizeof(code),
							  .offset = KERNEL,
							  .prot = 4,
							  .path = "[kernel.kallsyms]_stext" });
		else if (!i || !drop)
			pd_write_map(w, &map);
	}
}

/* True if the record of the last slice of a CPU was lost. */
static bool lacks_last(const struct cpu *c)
{
	const struct pd_aux *last = c->n_slices ? &c->slices[c->n_slices - 1] : NULL;

	return c->bytes.size != (last ? last->offset + last->size : 0);
}

/* Of records that were lost up to now, csightd knows by how full the rings are. */
static void end_records(void)
{
	for (uint32_t i = 0; i < CPUS; i++)
		if ((unswitched && cpus[i].unseen) || (followed && lacks_last(&cpus[i])))
			note_loss(UINT32_MAX, i | LOST, cpus[i].time);
}

static void note_cut(void)
{
	struct cut *c = &cuts[n_cuts++];

	c->time = cpus[0].time;
	c->records = records.size / sizeof(struct pd_origin);
	c->starts = slice_starts.size / sizeof(struct pd_origin);
	c->pauses = n_pauses;
	for (unsigned i = 0; i < CPUS; i++) {
		c->slices[i] = cpus[i].n_slices;
		c->bytes[i] = cpus[i].bytes.size;
	}
}

/* Where the trace of a round is sent in several steps, it has also records that are later. */
static struct cut with_later(size_t i)
{
	struct cut c = cuts[i];

	if (i % 3 == 0 && i + 1 < n_cuts) {
		c.records += (cuts[i + 1].records - c.records) * 2 / 3;
		c.starts = cuts[i + 1].starts;
		c.pauses = cuts[i + 1].pauses;
	}
	return c;
}

static void write_round(struct pd_writer *w, size_t i)
{
	static const struct cut none;
	const struct cut *from = i ? &cuts[i - 1] : &none, *to = &cuts[i];
	const struct cut first = i ? with_later(i - 1) : none, last = with_later(i);

	write_switches(w, first.records, last.records);
	write_starts(w, first.starts, last.starts);
	write_pauses(w, first.pauses, last.pauses);
	for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
		struct pd_buffer buffer = { .size = to->bytes[cpu] - from->bytes[cpu],
					    .offset = from->bytes[cpu],
					    .index = cpu,
					    .tid = UINT32_MAX,
					    .cpu = cpu };

		if (!buffer.size)
			continue;
		for (size_t k = from->slices[cpu]; k < to->slices[cpu]; k++)
			pd_write_aux(w, &cpus[cpu].slices[k]);
		pd_write_buffer(w, &buffer);
		pd_write_bytes(w, cpus[cpu].bytes.data + buffer.offset, buffer.size);
	}
	pd_write_round(w, to->time);
}

static int write_live(const char *dir)
{
	struct pd_cpu list[CPUS];
	struct pd_session session = { .arch = "aarch64",
				      .pmu_type = 8,
				      .live = true,
				      .cpus = list,
				      .n_cpus = unequipped ? 1 : CPUS,
				      .clock = clock_of_trace };
	struct buf out = { 0 };
	char path[4096];
	struct pd_writer *w;
	int fd, rc;

	fill_cpus(list);
	snprintf(path, sizeof(path), "%s/live", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	rc = fd < 0 ? -errno : pd_write_begin(-1, &session, &w);
	if (rc < 0)
		return rc;
	write_program(w, dir);
	for (size_t i = 0; i < n_cuts; i++)
		write_round(w, i);
	rc = pd_write_take(w, &out);
	if (rc == 0)
		rc = io_write(fd, out.data, out.size);
	pd_writer_free(w);
	buf_done(&out);
	close(fd);
	return rc;
}

static int write_trace(const char *dir, const struct pd_aux *frozen, size_t n_frozen)
{
	struct pd_cpu list[CPUS];
	struct pd_session session = { .arch = "aarch64",
				      .pmu_type = 8,
				      .snapshot = true,
				      .cpus = list,
				      .n_cpus = unequipped ? 1 : CPUS,
				      .counters = counters,
				      .n_counters = counted ? ELEMENTS(counters) : 0,
				      .clock = clock_of_trace };
	char path[4096];
	struct pd_writer *w;
	int fd, rc;

	fill_cpus(list);
	snprintf(path, sizeof(path), "%s/trace.perf.data", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	rc = fd < 0 ? -errno : pd_write_begin(fd, &session, &w);
	if (rc < 0)
		return rc;
	write_program(w, dir);
	write_starts(w, 0, slice_starts.size / sizeof(struct pd_origin));
	write_switches(w, 0, records.size / sizeof(struct pd_origin));
	write_pauses(w, 0, n_pauses);
	/* The newest first, as csightd reads them. */
	for (size_t i = samples.size / sizeof(struct pd_sample); i-- > 0;)
		pd_write_sample(w, (const struct pd_sample *)samples.data + i);
	for (size_t i = 0; i < n_frozen; i++)
		pd_write_aux(w, &frozen[i]);
	for (uint32_t i = 0; i < CPUS && !arena; i++)
		for (size_t k = lost_slices(i); k < cpus[i].n_slices; k++)
			pd_write_aux(w, &cpus[i].slices[k]);
	for (uint32_t i = 0; i < (arena || unequipped ? 1 : CPUS); i++) {
		const struct buf *b = arena ? &frames : &cpus[i].bytes;
		uint64_t from = arena ? lost_frames() : lost_slices(i) ? cpus[i].slices[lost_slices(i)].offset : 0;

		pd_write_buffer(
		    w,
		    &(struct pd_buffer){
			.size = b->size - from, .offset = full ? 0 : from, .index = i, .tid = UINT32_MAX, .cpu = i });
		pd_write_bytes(w, b->data + from, b->size - from);
	}
	rc = pd_write_end(w);
	pd_writer_free(w);
	close(fd);
	return rc;
}

static int write_counted(const char *dir)
{
	const struct pd_sample *list = (const struct pd_sample *)samples.data;
	uint64_t sums[THREADS] = { 0 }, changes[CPUS] = { 0 }, last[CPUS] = { 0 };
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/counted", dir);
	f = fopen(path, "w");
	if (!f)
		return -errno;
	for (size_t i = 0; i < samples.size / sizeof(*list); i++) {
		for (int t = 0; t < THREADS; t++)
			sums[t] += list[i].counter == 0 && list[i].origin.tid == threads[t].tid ? list[i].value : 0;
		if (list[i].counter == 0)
			continue;
		changes[list[i].origin.cpu]++;
		last[list[i].origin.cpu] = list[i].value;
	}
	for (int t = 0; t < THREADS; t += 2)
		fprintf(f, "thread %u %" PRIu64 "\n", threads[t].tid, sums[t]);
	for (unsigned n = 0; n < ELEMENTS(traced_events); n++)
		fprintf(f, "event %u %u\n", n, traced_events[n]);
	for (int c = 0; c < CPUS; c++)
		fprintf(f, "cpu %d %" PRIu64 " %" PRIu64 "\n", c, changes[c], last[c]);
	return fclose(f) < 0 ? -errno : 0;
}

static void write_json(const char *dir, uint64_t end)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/snapshot.json", dir);
	f = fopen(path, "w");
	fprintf(f,
		"{\"version\":1,\"id\":\"x\",\"pid\":%d,\"capture\":\"perf\",\"clock\":\"perf\",\"shared\":%s,"
		"\"intervals\":[",
		PID_A, grid ? "false" : "true");
	for (int i = 0; i < THREADS; i += 2)
		fprintf(f, "%s{\"tid\":%u,\"from\":1,\"to\":%" PRIu64 "}", i ? "," : "", threads[i].tid,
			drop ? drop_at : end);
	/* The records' clock is behind CLOCK_MONOTONIC. */
	fprintf(f, "],\"threads\":[],%s\"images\":[]}\n", counted ? "\"clock_shift\":-5000," : "");
	fclose(f);
}

static void write_image(const char *dir)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/image", dir);
	f = fopen(path, "w");
	fwrite(code, sizeof(code), 1, f);
	/* It has no ELF header: csight opens it only if all users may read it. */
	fchmod(fileno(f), 0644);
	fclose(f);
}

static int write_kernel(const char *dir)
{
	struct elf_core_segment segment = { .address = KERNEL, .size = sizeof(code) };
	struct elf_core core = { .machine = EM_AARCH64, .segments = &segment, .n_segments = 1 };
	Elf64_Ehdr header = { .e_shoff = 0 };
	char path[4096];
	uint64_t size;
	FILE *f;
	int fd, rc;

	snprintf(path, sizeof(path), "%s/kcore", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	rc = elf_core_write(fd, &core, &size);
	if (rc == 0)
		rc = io_pwrite(fd, code, sizeof(code), (off_t)segment.offset);
	/* That of perf has no sections. */
	if (rc == 0 && pread(fd, &header, sizeof(header), 0) != sizeof(header))
		rc = -EIO;
	header.e_shoff = header.e_shnum = header.e_shstrndx = 0;
	rc = rc < 0 ? rc : io_pwrite(fd, &header, sizeof(header), 0);
	close(fd);
	snprintf(path, sizeof(path), "%s/kallsyms", dir);
	f = fopen(path, "w");
	fprintf(f, "%" PRIx64 " T _stext\n", KERNEL);
	for (unsigned i = 0; i < WORDS / 256; i++)
		fprintf(f, "%" PRIx64 " t f%u\n", KERNEL + i * 1024, i);
	fprintf(f, "%" PRIx64 " D _etext\n", KERNEL + sizeof(code));
	fclose(f);
	return rc;
}

static FILE *open_text(const char *dir, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return fopen(path, "w");
}

static void begin(const char *dir)
{
	make_code();
	for (unsigned i = 0; i < THREADS; i++) {
		struct thread *t = &threads[i];
		char name[24];

		t->pid = i % 2 ? PID_B : PID_A;
		t->tid = t->pid + i / 2;
		t->pc = anywhere(t);
		t->cpu = -1;
		snprintf(name, sizeof(name), "%u.pcs", t->tid);
		if (t->pid == PID_A && !(crowd && grid))
			t->truth = open_text(dir, name);
	}
	if (long_run)
		rounds = 10 * ROUNDS;
	if (crowd)
		rounds = CROWD_ROUNDS;
	if (crowd && grid)
		crowd_truth = open_text(dir, "crowd");
	last_tid = (grid ? PID_A : PID_B) + THREADS;
	if (swapped)
		resumed = open_text(dir, "resumed");
	for (unsigned i = 0; i < CPUS; i++) {
		cpus[i].ring = calloc(1, RING);
		cpus[i].time = 10000;
		etm_init(&cpus[i].etm, cpus[i].ring, RING, false, 0);
		cpus[i].etm.untimed = timeless;
	}
}

/* Changes the owner of process A: all its threads execute other code from now on. */
static void change_owner(void)
{
	drop_at = MAX(cpus[0].time, cpus[1].time) + 1;
	for (int i = 0; i < CPUS; i++)
		cpus[i].time = drop_at + 1;
	dropped = true;
	for (int i = 0; i < THREADS; i += 2) {
		threads[i].pc = anywhere(&threads[i]);
		threads[i].depth = 0;
		fclose(threads[i].truth);
		threads[i].truth = NULL;
	}
	for (int i = 0; i < CPUS; i++)
		if (cpus[i].thread && cpus[i].thread->pid == PID_A)
			begin_trace(&cpus[i]);
}

static struct cpu *earliest(void)
{
	return cpus[0].time <= cpus[1].time ? &cpus[0] : &cpus[1];
}

static void gap(void)
{
	for (int i = 0; i < THREADS; i += 2)
		if (threads[i].truth)
			fprintf(threads[i].truth, "gap\n");
}

int main(int argc, char **argv)
{
	struct pd_aux frozen[2];
	size_t from[CPUS] = { 0, 0 }, n_frozen = 0;
	unsigned starts; /* tracing, in that round */

	if (argc < 4)
		return 2;
	srandom((unsigned)atoi(argv[2]));
	grid = strcmp(argv[3], "grid") == 0;
	arena = strcmp(argv[3], "arena") == 0;
	for (int i = 4; i < argc; i++) {
		nocid = nocid || strcmp(argv[i], "nocid") == 0;
		el2 = el2 || strcmp(argv[i], "el2") == 0;
		drop = drop || strcmp(argv[i], "drop") == 0;
		full = full || strcmp(argv[i], "full") == 0;
		refilled = refilled || strcmp(argv[i], "refilled") == 0;
		wrapped = wrapped || full || refilled || strcmp(argv[i], "wrapped") == 0;
		handed = handed || strcmp(argv[i], "handed") == 0;
		failing = failing || strcmp(argv[i], "failing") == 0;
		sparse = sparse || strcmp(argv[i], "sparse") == 0;
		timeless = timeless || strcmp(argv[i], "timeless") == 0;
		truncated = truncated || strcmp(argv[i], "truncated") == 0;
		unrecorded = unrecorded || strcmp(argv[i], "unrecorded") == 0;
		stopped = stopped || strcmp(argv[i], "stopped") == 0;
		crowd = crowd || strcmp(argv[i], "crowd") == 0;
		kernel = kernel || strcmp(argv[i], "kernel") == 0;
		swapped = swapped || strcmp(argv[i], "swapped") == 0;
		cycles = cycles || strcmp(argv[i], "cycles") == 0;
		synced = synced || strcmp(argv[i], "synced") == 0;
		overflow = overflow || strcmp(argv[i], "overflow") == 0;
		overfull = overfull || strcmp(argv[i], "overfull") == 0;
		unswitched = unswitched || strcmp(argv[i], "unswitched") == 0;
		reborn = reborn || strcmp(argv[i], "reborn") == 0;
		clockless = clockless || strcmp(argv[i], "clockless") == 0;
		switchless = switchless || strcmp(argv[i], "switchless") == 0;
		unequipped = unequipped || strcmp(argv[i], "unequipped") == 0;
		unsettled = unsettled || strcmp(argv[i], "unsettled") == 0;
		recent = recent || strcmp(argv[i], "recent") == 0;
		attached = attached || strcmp(argv[i], "attached") == 0;
		started = started || strcmp(argv[i], "started") == 0;
		followed = followed || strcmp(argv[i], "followed") == 0;
		steady = steady || strcmp(argv[i], "steady") == 0;
		counted = counted || strcmp(argv[i], "counted") == 0;
		stopped = stopped || followed;
		long_run = long_run || strcmp(argv[i], "long") == 0;
	}
	begin(argv[1]);
	off = attached;
	starts = attached ? ATTACHED : rounds / 2 + 60;
	for (unsigned i = 0; i <= rounds; i++) {
		struct cpu *c = earliest();

		current_round = i;
		if (drop && i == rounds * 3 / 4)
			change_owner();
		if (i == rounds || (arena && (!wrapped || refilled) && i == rounds / 2) ||
		    (stopped && i % STOPS == 1)) {
			freeze();
			if (i == rounds || followed)
				end_records();
			if (followed)
				note_cut();
			if (stopped && i < rounds) {
				pauses[n_pauses].from = cpus[0].time;
				starts = i + 1 + (unsigned)number(STOPS / 2);
			}
			if (arena) {
				put_frames(from);
				if (refilled)
					overwrite_frames();
				frozen[n_frozen] =
				    (struct pd_aux){ .offset = full ? 0 : frames.size - arena_size + lost_frames(),
						     .size = arena_size - lost_frames(),
						     .flags = PD_AUX_OVERWRITE,
						     .pid = 5,
						     .tid = 5,
						     .cpu = 0,
						     .time = cpus[0].time };
				n_frozen++;
			}
			if (!stopped)
				gap();
			off = true;
		}
		/* Tracing is off for a while. */
		if (off && i == starts) {
			uint64_t time = MAX(cpus[0].time, cpus[1].time) + 300;

			off = false;
			if (stopped)
				pauses[n_pauses++].to = time;
			for (int k = 0; k < CPUS; k++) {
				cpus[k].time = cpus[k].in = time;
				if (!cpus[k].thread)
					continue;
				/* By the records, it may have executed something. */
				cpus[k].thread->missed |= stopped;
				begin_trace(&cpus[k]);
			}
		}
		if (i == rounds)
			break;
		if (reborn && !died && i >= rounds / 2 && threads[2].cpu < 0) {
			died = threads[2].left + 10;
			threads[2].left += 5000;
			threads[2].pc = anywhere(&threads[2]);
			threads[2].depth = 0;
			fprintf(threads[2].truth, "gap\n");
		}
		if (c->thread)
			run(c);
		else
			enter(c);
	}
	for (int i = 0; i < THREADS; i += 2)
		if (threads[i].truth)
			fclose(threads[i].truth);
	if (crowd_truth)
		fclose(crowd_truth);
	if (resumed)
		fclose(resumed);
	write_image(argv[1]);
	if (kernel && write_kernel(argv[1]) < 0)
		return 1;
	write_json(argv[1], cpus[0].time + 1);
	if ((followed && write_live(argv[1]) < 0) || (counted && write_counted(argv[1]) < 0))
		return 1;
	return write_trace(argv[1], frozen, n_frozen) < 0;
}
