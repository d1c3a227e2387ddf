/* SPDX-License-Identifier: MIT */
/*
 * csight-etm.so: an emulated ETM for programs that run under qemu-aarch64. QEMU calls the plugin before each block. The
 * start of the block is the outcome of the previous block, which is then retired: the encoder emits the packets that
 * hardware would have written.
 *
 * Options: socket=PATH (csightd's), rings=N, ringsize=BYTES, retstack=on|off, broadcast=on|off, cycles=on|off,
 * threshold=N (of cycles), timestamps=on|off, contexts=on|off, sync=BYTES, period=BLOCKS (between timestamps),
 * truth=DIR, truthraw=DIR, stacks=on (with truth), clock=virtual|wall.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/code/a64.h"
#include "lib/code/syscalls.h"
#include "lib/emu/codelog.h"
#include "lib/emu/death.h"
#include "lib/emu/etm-encode.h"
#include "lib/emu/guest.h"
#include "lib/emu/maps.h"
#include "lib/emu/shared.h"
#include "lib/emu/signals.h"
#define CSIGHT_EMU_STACKS_WRITER
#include "lib/emu/stacks.h"
#include "lib/emu/thread-clock.h"
#include "lib/emu/truth.h"

enum { VCPUS = 16384, ARENA = 1 << 20 };

struct traced_block {
	uint64_t start, end, target;
	uint32_t count;
	uint8_t kind;
	bool link;
};

struct traced_thread {
	struct etm etm;
	struct emu_slot *slot;           /* NULL: no slot was free; the thread runs untraced */
	const struct traced_block *last; /* began and is not retired; NULL: tracing (re)starts at the next block */
	bool stopped;                    /* obeys a freeze, or has no slot */
	bool resumes;                    /* the next block begins where the kernel returned to */
	uint32_t seen, epoch;
	uint32_t period; /* blocks until the next timestamp */
	uint32_t tail;   /* instructions since the last packet that a decoder can walk to */
	uint64_t next_sync;
	uint64_t instructions;
	uint64_t stopped_truth; /* traced instructions in the truth log at the last freeze */
	struct thread_clock clock;
	uint64_t entered;         /* time of the entry to the system call */
	struct clock_split split; /* of the time in it, if has_split: it has returned, and its end is not traced yet */
	bool has_split;
};

int qemu_plugin_version = 1;

static struct shared_options options = { .rings = 64,
					 .ring_size = 4 << 20,
					 .log_size = 32 << 20,
					 .configr = ETM_CONFIGR_CID | ETM_CONFIGR_TS | ETM_CONFIGR_RS,
					 .clock = EMU_CLOCK_VIRTUAL };
static uint16_t threshold = 256;
static uint64_t sync_bytes = 4096;
static uint32_t period_blocks = 1024;
static bool truth, stacks;

static struct shared shared;
static struct codelog *codelog;
static struct traced_thread *threads[VCPUS];
static __thread unsigned self_vcpu;
static __thread uint64_t self_call[6];                   /* arguments of this thread's system call */
static __thread int64_t self_number;                     /* and its number; 0 outside of system calls */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* slots, the code log, handlers, the arena */
static _Atomic uint64_t code_replaced;                   /* virtual time of the last record that replaces code */
static uint64_t base;                                    /* offset of guest addresses in QEMU's address space */
static bool opened, untraced;
static char emulator[EMU_NAME_SIZE]; /* the name of QEMU's threads until the program sets one */

static _Atomic uint32_t *control_word;

static inline uint32_t read_control_word(void)
{
	return atomic_load_explicit(control_word, memory_order_acquire);
}

/* The time up to which a decoder has walked when it reaches the end of the trace written so far. */
static uint64_t thread_time(const struct traced_thread *t)
{
	return options.clock == EMU_CLOCK_WALL ? now_ns(CLOCK_MONOTONIC) : t->clock.base + t->instructions - t->tail;
}

/* Sets the thread's clock forward to a time. */
static void set_forward(struct traced_thread *t, uint64_t time)
{
	uint64_t now = t->clock.base + t->instructions - t->tail;

	if (options.clock == EMU_CLOCK_WALL || time <= now)
		return;
	t->clock.base += time - now;
	if (t->slot)
		atomic_store_explicit(&t->slot->base_ns, t->clock.base, memory_order_relaxed);
}

static void publish_lag(struct traced_thread *t, uint64_t time)
{
	atomic_store(&t->slot->lag_ns, options.clock == EMU_CLOCK_WALL ? 0 : now_ns(CLOCK_MONOTONIC) - time);
}

/*
 * The time of a record of the code log. Threads whose clocks are slower are set forward to it before they execute
 * another block (between_blocks(), trace_begin()). The caller holds the lock.
 */
static uint64_t code_time(bool replaces)
{
	if (options.clock == EMU_CLOCK_WALL)
		return now_ns(CLOCK_MONOTONIC);
	if (!replaces)
		return shared.header->start_ns;
	atomic_store(&code_replaced, MAX(atomic_load(&code_replaced), shared_latest_time(&shared) + 1));
	return atomic_load(&code_replaced);
}

/* Updates the fields that the daemon may read at any time. */
static inline void publish(struct traced_thread *t, unsigned vcpu)
{
	atomic_store_explicit(&t->slot->instructions, t->instructions, memory_order_relaxed);
	atomic_store_explicit(&t->slot->head, t->etm.head, memory_order_release);
	atomic_store_explicit(&t->slot->pending, etm_pending(&t->etm), memory_order_release);
	if (truth)
		atomic_store_explicit(&t->slot->truth, truth_count(vcpu) - t->tail, memory_order_release);
}

static void publish_all(struct traced_thread *t, unsigned vcpu)
{
	etm_flush(&t->etm);
	publish(t, vcpu);
}

/* Assigns a slot; without a free one, the thread retries after the next thaw. The caller holds the lock. */
static void take_slot(struct traced_thread *t)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid), word = read_control_word();
	char name[EMU_NAME_SIZE];
	int rc;

	/* A thread inherits the name of its creator; that of the first one is QEMU's. */
	if (prctl(PR_GET_NAME, name) < 0 || strcmp(name, emulator) == 0)
		memcpy(name, shared.header->name, sizeof(name));
	t->clock.base += t->instructions;
	t->instructions = 0;
	t->tail = 0;
	rc = shared_take(&shared, tid, name, thread_time(t), &t->slot, &word);
	t->seen = word | (rc == -EBUSY);
	if (rc == -EAGAIN)
		atomic_fetch_add(&shared.header->lost_threads, 1);
	if (rc < 0)
		return;
	codelog_name(codelog, tid, name, thread_time(t));
	etm_init(&t->etm, shared_ring(&shared, t->slot), options.ring_size, false, tid);
	etm_configure(&t->etm, options.configr, threshold);
	t->next_sync = 0;
	t->stopped = false;
	atomic_store(&t->slot->seen, word);
}

static struct traced_thread *thread_begin(unsigned vcpu)
{
	struct traced_thread *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	self_vcpu = vcpu;
	t->stopped = true;
	thread_clock_begin(&t->clock);
	pthread_mutex_lock(&lock);
	take_slot(t);
	pthread_mutex_unlock(&lock);
	threads[vcpu] = t;
	return t;
}

/* Obeys the control word after the daemon froze or thawed the rings. */
static void obey(struct traced_thread *t, unsigned vcpu, uint32_t word)
{
	if (!t->slot) {
		t->seen = word;
		if (!(word & 1)) {
			pthread_mutex_lock(&lock);
			take_slot(t);
			pthread_mutex_unlock(&lock);
		}
		return;
	}
	if (word & 1) {
		t->has_split = false;
		/* A thread that missed a thaw while it slept has no new trace. */
		if (!t->stopped) {
			publish_all(t, vcpu);
			publish_lag(t, thread_time(t));
			t->stopped_truth = truth_count(vcpu) - t->tail;
		}
		t->stopped = true;
	} else {
		if (truth && t->stopped)
			truth_log_gap(vcpu, t->stopped_truth);
		t->stopped = false;
		t->next_sync = 0;
	}
	t->last = NULL;
	t->seen = word;
	atomic_store(&t->slot->seen, word);
}

/* Tracing starts or restarts at address. */
static void trace_begin(struct traced_thread *t, uint64_t address)
{
	struct delivery signal;
	uint64_t now;

	t->tail = 0;
	if (t->resumes && signals_maybe(address) && signals_delivered(base, address, &signal))
		set_forward(t, thread_clock_signalled(0));
	set_forward(t, atomic_load(&code_replaced));
	now = thread_time(t);
	/* By the virtual clock, a system call is blocked all its time. */
	if (t->has_split && t->etm.head && options.clock == EMU_CLOCK_WALL) {
		etm_timestamp(&t->etm, now - t->split.blocked - t->split.preempted);
		etm_timestamp(&t->etm, now - t->split.preempted);
	}
	t->has_split = false;
	if (t->resumes && t->next_sync)
		etm_exception_return(&t->etm);
	if (t->etm.head >= t->next_sync) {
		etm_sync(&t->etm, now, address, true);
		t->next_sync = t->etm.head + sync_bytes;
	} else {
		etm_trace_on(&t->etm, address);
		etm_timestamp(&t->etm, now);
	}
	t->resumes = false;
	t->period = period_blocks;
	t->epoch = codelog_epoch();
}

/*
 * Emits the packets of a block that ran to its end and continued at next. Returns false, without any effect, if the
 * block cannot lead there. It is inlined, so that the branch predictor sees a separate set of branches for each caller.
 */
static inline __attribute__((always_inline)) bool retire(struct traced_thread *t, const struct traced_block *b,
							 uint64_t next)
{
	if (b->kind <= A64_CONDITIONAL && b->kind != A64_PLAIN) {
		bool taken = next == b->target;

		if (!taken && (b->kind == A64_BRANCH || next != b->end))
			return false;
		if (taken)
			etm_direct(&t->etm, next, b->link ? b->end : 0);
		else
			etm_atom(&t->etm, false);
	} else if (b->kind == A64_INDIRECT) {
		etm_indirect(&t->etm, next, b->link ? b->end : 0);
	} else if (next != b->end) {
		return false;
	} else if (b->kind == A64_ISB) {
		etm_direct(&t->etm, next, 0);
	} else {
		t->instructions += b->count;
		t->tail += b->count;
		return true;
	}
	t->instructions += b->count;
	t->tail = 0;
	if (__builtin_expect(t->etm.cycles, 0))
		etm_cycles(&t->etm, t->instructions);
	return true;
}

static enum etm_exception exception_of(const struct delivery *d, bool fetched)
{
	if (!d->fault)
		return ETM_IRQ;
	switch (d->signo) {
	case 4: /* SIGILL */
		return ETM_TRAP;
	case 5: /* SIGTRAP */
		return ETM_INST_DEBUG;
	default:
		return fetched ? ETM_DATA_FAULT : ETM_INST_FAULT;
	}
}

/* Emits an exception; a decoder can walk to it, so that a cycle count may follow. */
static void end_in_exception(struct traced_thread *t, enum etm_exception type, uint64_t to)
{
	etm_exception(&t->etm, type, to, false);
	t->tail = 0;
	if (t->etm.cycles)
		etm_cycles(&t->etm, t->instructions);
}

/* Handles control flow that the last block does not explain: emits an exception if a signal was delivered. */
static void emit_interruption(struct traced_thread *t, uint64_t pc)
{
	const struct traced_block *b = t->last;
	struct delivery d;
	bool inside;

	if (!signals_delivered(base, pc, &d))
		return;
	inside = d.fault && d.pc >= b->start && d.pc < b->end;
	if (inside) {
		t->instructions += (d.pc - b->start) / 4;
	} else if (!retire(t, b, d.pc)) {
		return;
	}
	end_in_exception(t, exception_of(&d, inside), d.pc);
	t->resumes = true;
	if (!d.fault)
		set_forward(t, thread_clock_signalled(0));
}

static void between_blocks(struct traced_thread *t, uint64_t next)
{
	uint32_t epoch = codelog_epoch();

	if (epoch != t->epoch)
		set_forward(t, atomic_load(&code_replaced));
	/* A sync point has the address of the next instruction: emit one only if a decoder has walked up to it. */
	if (t->etm.head >= t->next_sync && t->tail == 0) {
		etm_sync(&t->etm, thread_time(t), next, false);
		t->next_sync = t->etm.head + sync_bytes;
		t->period = period_blocks;
	} else if (t->period == 0 || epoch != t->epoch) {
		etm_timestamp(&t->etm, thread_time(t));
		t->period = period_blocks;
	}
	t->epoch = epoch;
}

/*
 * The rare cases: a new thread, a freeze or a thaw, the start of tracing, a jump that the last block does not explain.
 */
static __attribute__((noinline)) void on_unusual_block(unsigned vcpu, const struct traced_block *b)
{
	struct traced_thread *t = threads[vcpu];
	uint32_t word = read_control_word();

	if (!t)
		t = thread_begin(vcpu);
	if (t->last) {
		bool known = t->last->kind != A64_INDIRECT || !signals_maybe(b->start) ||
			     !signals_delivered(base, b->start, &(struct delivery){ 0 });

		if (!known || !retire(t, t->last, b->start)) {
			emit_interruption(t, b->start);
			t->last = NULL;
		}
	}
	if (word != t->seen)
		obey(t, vcpu, word);
	if (t->stopped)
		return;
	if (!t->last)
		trace_begin(t, b->start);
	else
		between_blocks(t, b->start);
	t->last = b;
	publish(t, vcpu);
}

static void on_block(unsigned vcpu, void *userdata)
{
	const struct traced_block *b = userdata, *last;
	struct traced_thread *t = threads[vcpu];

	if (__builtin_expect(!t || !t->last || read_control_word() != t->seen || codelog_epoch() != t->epoch, 0)) {
		on_unusual_block(vcpu, b);
		return;
	}
	last = t->last;
	if (__builtin_expect((last->kind == A64_INDIRECT && signals_maybe(b->start)) || !retire(t, last, b->start),
			     0)) {
		on_unusual_block(vcpu, b);
		return;
	}
	t->last = b;
	if (__builtin_expect(--t->period == 0 || t->etm.head >= t->next_sync, 0))
		between_blocks(t, b->start);
	publish(t, vcpu);
}

/* Marks the mappings that a system call may have changed. */
static void note_mappings(int64_t number, uint64_t result)
{
	bool good = result < (uint64_t)-4095;

	pthread_mutex_lock(&lock);
	if (number == SYSCALL_mmap && good)
		maps_changed(result, self_call[1]);
	else if (number == SYSCALL_munmap || number == SYSCALL_mprotect || number == SYSCALL_mremap)
		maps_changed(self_call[0], self_call[1]);
	else if (number == SYSCALL_shmat || number == SYSCALL_shmdt)
		maps_changed(0, UINT64_MAX);
	if (number == SYSCALL_mremap && good)
		maps_changed(result, self_call[2]);
	pthread_mutex_unlock(&lock);
}

static void handler_set(uint64_t action)
{
	pthread_mutex_lock(&lock);
	signals_action(base, action);
	if (truth)
		truth_action(base, action);
	pthread_mutex_unlock(&lock);
}

static void name_set(struct traced_thread *t, uint64_t address)
{
	char name[EMU_NAME_SIZE] = { 0 };

	for (unsigned i = 0; i < sizeof(name) - 1; i++) {
		guest_read(base, address + i, &name[i], 1);
		if (!name[i])
			break;
	}
	pthread_mutex_lock(&lock);
	memcpy(t->slot->name, name, sizeof(name));
	codelog_name(codelog, t->slot->tid, name, thread_time(t));
	pthread_mutex_unlock(&lock);
}

/* Emits the number of a system call as three events with digits of base 15, so that decoders can name it. */
static void emit_number(struct traced_thread *t, int64_t number)
{
	enum { BASE = 15, NONE = BASE * BASE * BASE - 1 };
	unsigned n = number >= 0 && number < NONE ? (unsigned)number : NONE;

	etm_event(&t->etm, n / BASE / BASE + 1);
	etm_event(&t->etm, n / BASE % BASE + 1);
	etm_event(&t->etm, n % BASE + 1);
}

static void on_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
		       uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
	struct traced_thread *t = threads[vcpu];

	self_number = number;
	memcpy(self_call, (const uint64_t[]){ a1, a2, a3, a4, a5, a6 }, sizeof(self_call));
	stacks_syscall(number);
	if (!t)
		return;
	if (t->slot && t->last && t->last->kind == A64_SVC) {
		t->instructions += t->last->count;
		end_in_exception(t, ETM_CALL, t->last->end);
		emit_number(t, number);
		etm_timestamp(&t->etm, thread_time(t));
	}
	t->last = NULL;
	t->resumes = true;
	t->entered = thread_time(t);
	thread_clock_enter(&t->clock, number, self_call, t->entered);
	if (!t->slot)
		return;
	publish_lag(t, t->entered);
	if (!t->stopped)
		publish_all(t, vcpu);
	if (number != SYSCALL_exit) {
		atomic_store(&t->slot->state, EMU_IDLE);
		return;
	}
	/* After this store another thread may reuse the slot. */
	t->slot->end_ns = t->entered;
	atomic_store(&t->slot->state, EMU_EXITED);
	t->slot = NULL;
	t->stopped = true;
}

static void end_call(struct traced_thread *t, int64_t number, int64_t result)
{
	const struct syscall_return r = { number, result, self_call };

	set_forward(t, thread_clock_return(&t->clock, &r, t->entered, &t->split));
	t->has_split = true;
}

static void on_syscall_return(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result)
{
	struct traced_thread *t = threads[vcpu];

	self_number = 0;
	/* The arguments can be read safely only after the system call has accepted them. */
	if (number == SYSCALL_rt_sigaction && result == 0 && self_call[1])
		handler_set(self_call[1]);
	else if (number == SYSCALL_prctl && result == 0 && self_call[0] == PR_SET_NAME && t && t->slot)
		name_set(t, self_call[1]);
	else if (number == SYSCALL_mmap || number == SYSCALL_munmap || number == SYSCALL_mprotect ||
		 number == SYSCALL_mremap || number == SYSCALL_shmat || number == SYSCALL_shmdt)
		note_mappings(number, (uint64_t)result);
	if (t)
		end_call(t, number, result);
	/*
	 * The next block reads the control word after this store: either the daemon or this thread sees the
	 * other's store.
	 */
	if (t && t->slot)
		atomic_store(&t->slot->state, EMU_RUNNING);
}

static void on_exit_of(qemu_plugin_id_t id, unsigned vcpu)
{
	struct traced_thread *t = threads[vcpu];

	if (!t)
		return;
	threads[vcpu] = NULL;
	if (t->slot) {
		if (!t->slot->end_ns)
			t->slot->end_ns = thread_time(t);
		atomic_store(&t->slot->state, EMU_EXITED);
	}
	if (truth)
		truth_thread_ended(vcpu);
	thread_clock_end(&t->clock);
	free(t);
}

static void put_ending(int status)
{
	shared.header->ended_tid = (uint32_t)syscall(SYS_gettid);
	atomic_store(&shared.header->ended, EMU_ENDED | (uint32_t)status);
}

/* QEMU exits: by exit_group(), or by exit() of the last thread. */
static void on_program_exit(qemu_plugin_id_t id, void *userdata)
{
	if (opened && !untraced && (self_number == SYSCALL_exit || self_number == SYSCALL_exit_group))
		put_ending((int)(self_call[0] & 0xff) << 8);
}

/*
 * Emits the end of a thread that a signal kills at pc: in the last block if an instruction of it faulted, else after
 * it.
 */
static void emit_death(struct traced_thread *t, uint64_t pc, int signal)
{
	const struct traced_block *b = t->last;
	bool fault = signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGTRAP || signal == SIGFPE,
	     inside = pc >= b->start && pc < b->end;
	struct delivery d = { .pc = pc, .signo = (uint32_t)signal, .fault = fault };

	if ((!fault || !inside) && retire(t, b, pc))
		inside = false;
	else if (inside)
		t->instructions += (pc - b->start) / 4;
	else
		return;
	if (truth && inside)
		truth_died(self_vcpu, pc);
	end_in_exception(t, exception_of(&d, inside), pc);
	etm_timestamp(&t->etm, thread_time(t));
	t->last = NULL;
}

static void on_death(int signal)
{
	struct traced_thread *t = threads[self_vcpu];

	if (!opened || untraced)
		return;
	if (t && t->slot) {
		if (t->last && !t->stopped && guest_has_registers())
			emit_death(t, guest_register(GUEST_PC), signal);
		if (!t->stopped)
			publish_all(t, self_vcpu);
		t->slot->end_ns = thread_time(t);
	}
	put_ending(signal);
}

/* Allocates a block, which is never freed: QEMU does not report when it discards one. */
static struct traced_block *new_block(void)
{
	static struct traced_block *arena;
	static size_t left;

	if (left == 0) {
		arena = malloc(ARENA);
		left = arena ? ARENA / sizeof(*arena) : 0;
		if (!left)
			abort();
	}
	left--;
	return arena++;
}

/* Called at the first translation, since QEMU does not know the program earlier. The caller holds the lock. */
static bool open_shared(void)
{
	const char *exe = qemu_plugin_path_to_binary();

	if (shared_open(&options, exe ? exe : "?", 0, &shared) < 0)
		return false;
	prctl(PR_GET_NAME, emulator);
	control_word = &shared.header->control;
	codelog = codelog_new(&shared, code_time);
	return codelog != NULL;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	const struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
	uint8_t bytes[4 * 1024];
	struct traced_block *b;
	uint32_t op;

	n = MIN(n, sizeof(bytes) / 4);
	pthread_mutex_lock(&lock);
	if (!opened)
		untraced = !open_shared();
	opened = true;
	if (untraced) {
		/* Without a daemon the program runs uninstrumented. */
		pthread_mutex_unlock(&lock);
		return;
	}
	base = (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(first) - qemu_plugin_tb_vaddr(tb);
	b = new_block();
	*b = (struct traced_block){ .start = qemu_plugin_tb_vaddr(tb), .count = (uint32_t)n };
	b->end = b->start + 4 * n;
	for (size_t i = 0; i < n; i++)
		memcpy(bytes + 4 * i, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, i)), 4);
	memcpy(&op, bytes + 4 * (n - 1), 4);
	b->kind = (uint8_t)a64_classify(op, b->end - 4, &b->link, &b->target);
	codelog_check(codelog, b->start, bytes, (uint32_t)(4 * n), base);
	pthread_mutex_unlock(&lock);
	if (truth)
		truth_instrument(tb, base);
	if (truth && stacks)
		stacks_instrument(tb, base);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, b);
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
	struct traced_thread *t = threads[self_vcpu];
	struct shared parent = shared;
	static struct emu_header unregistered;

	pthread_mutex_init(&lock, NULL);
	if (!opened || untraced)
		return;
	closep(&parent.socket);
	stacks_forked(self_vcpu);
	if (truth)
		truth_after_fork();
	for (unsigned i = 0; i < VCPUS; i++)
		if (i != self_vcpu)
			threads[i] = NULL;
	if (shared_open(&options, parent.header->exe, (uint32_t)getppid(), &shared) < 0) {
		/* Without registration the child stays frozen. */
		atomic_store(&unregistered.control, 1);
		shared.header = &unregistered;
		control_word = &unregistered.control;
		shared.socket = -1;
		if (t)
			*t = (struct traced_thread){ .stopped = true, .seen = 1 };
		return;
	}
	control_word = &shared.header->control;
	codelog_moved(codelog, &parent);
	munmap(parent.header, parent.header->total_size);
	if (t) {
		*t = (struct traced_thread){ .stopped = true,
					     .resumes = true,
					     .clock = t->clock,
					     .instructions = t->instructions,
					     .entered = t->entered };
		thread_clock_forked(&t->clock);
		take_slot(t);
		if (t->slot)
			atomic_store(&t->slot->state, EMU_IDLE);
	}
}

static bool set_option(const char *argument)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} ways[] = {
		{ "retstack", ETM_CONFIGR_RS },   { "broadcast", ETM_CONFIGR_BB }, { "cycles", ETM_CONFIGR_CCI },
		{ "timestamps", ETM_CONFIGR_TS }, { "contexts", ETM_CONFIGR_CID },
	};
	const char *value = strchr(argument, '=');
	size_t n = value ? (size_t)(value - argument) : 0;

	if (!value++)
		return false;
	for (size_t i = 0; i < ELEMENTS(ways); i++)
		if (n == strlen(ways[i].name) && memcmp(argument, ways[i].name, n) == 0) {
			options.configr &= ~ways[i].bit;
			options.configr |= strcmp(value, "on") == 0 ? ways[i].bit : 0;
			return true;
		}
#define IS(name) (n == sizeof(name) - 1 && memcmp(argument, name, n) == 0)
	if (IS("socket"))
		options.socket = strdup(value);
	else if (IS("rings"))
		options.rings = (uint32_t)strtoul(value, NULL, 0);
	else if (IS("ringsize"))
		options.ring_size = strtoull(value, NULL, 0);
	else if (IS("threshold"))
		threshold = (uint16_t)MIN(strtoul(value, NULL, 0), (unsigned long)ETM_THRESHOLD_MAX);
	else if (IS("sync"))
		sync_bytes = strtoull(value, NULL, 0);
	else if (IS("period"))
		period_blocks = (uint32_t)strtoul(value, NULL, 0);
	else if (IS("truth"))
		truth_open(strdup(value), false), truth = true;
	else if (IS("truthraw"))
		truth_open(strdup(value), true), truth = true;
	else if (IS("stacks"))
		stacks = strcmp(value, "on") == 0;
	else if (IS("clock"))
		options.clock = strcmp(value, "wall") == 0 ? EMU_CLOCK_WALL : EMU_CLOCK_VIRTUAL;
	else
		return false;
#undef IS
	return true;
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	if (info->system_emulation || strcmp(info->target_name, "aarch64") != 0) {
		fprintf(stderr, "csight-etm: cannot trace %s: the plugin supports only user-mode qemu-aarch64\n",
			info->target_name);
		return -1;
	}
	for (int i = 0; i < argc; i++)
		if (!set_option(argv[i])) {
			fprintf(stderr, "csight-etm: unknown option '%s'\n", argv[i]);
			return -1;
		}
	if (options.rings < 1 || options.rings > EMU_RINGS_MAX || options.ring_size < EMU_RING_SIZE_MIN ||
	    options.ring_size > EMU_RING_SIZE_MAX || (options.ring_size & (options.ring_size - 1))) {
		fprintf(stderr,
			"csight-etm: invalid rings or ringsize: 1 to %d rings of a power of two from %d to %d bytes\n",
			EMU_RINGS_MAX, EMU_RING_SIZE_MIN, EMU_RING_SIZE_MAX);
		return -1;
	}
	if (thread_clock_init() < 0) {
		fprintf(stderr, "csight-etm: no memory for the clock\n");
		return -1;
	}
	if (!guest_has_registers())
		fprintf(stderr, "csight-etm: this QEMU does not export its registers: the end of code that a signal "
				"interrupts is lost\n");
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
	qemu_plugin_register_vcpu_exit_cb(id, on_exit_of);
	qemu_plugin_register_atexit_cb(id, on_program_exit, NULL);
	death_watch(on_death);
	return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0 ? 0 : -1;
}
