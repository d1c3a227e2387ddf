/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/code/a64.h"
#include "lib/emu/guest.h"
#include "lib/emu/tracing.h"
#include "lib/emu/truth.h"
#include "lib/emu/watch.h"

struct tracing_process tracing = {
	.options = { .rings = 64,
		     .ring_size = 4 << 20,
		     .log_size = 32 << 20,
		     .configr = ETM_CONFIGR_CID | ETM_CONFIGR_TS | ETM_CONFIGR_RS,
		     .clock = EMU_CLOCK_VIRTUAL },
	.threshold = 256,
	.sync_bytes = 4096,
	.period_blocks = 1024,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};
__thread unsigned tracing_vcpu;
/* In static TLS: tracing_block() reads it without the call of a function. */
__thread struct traced_thread *tracing_thread __attribute__((tls_model("initial-exec")));

/* True if watch_step() follows the thread. */
static inline bool is_followed(const struct traced_thread *t)
{
	return t->watching || atomic_load_explicit(&tracing.following, memory_order_relaxed);
}

static inline uint32_t read_control_word(void)
{
	return atomic_load_explicit(tracing.control_word, memory_order_acquire);
}

uint64_t tracing_time(const struct traced_thread *t)
{
	return tracing.options.clock == EMU_CLOCK_WALL ? now_ns(CLOCK_MONOTONIC)
						       : t->clock.base + t->instructions - t->tail;
}

void tracing_set_forward(struct traced_thread *t, uint64_t time)
{
	uint64_t now = t->clock.base + t->instructions - t->tail;

	if (tracing.options.clock == EMU_CLOCK_WALL || time <= now)
		return;
	t->clock.base += time - now;
	if (t->slot)
		atomic_store_explicit(&t->slot->base_ns, t->clock.base, memory_order_relaxed);
}

void tracing_publish_lag(struct traced_thread *t, uint64_t time)
{
	atomic_store(&t->slot->lag_ns, tracing.options.clock == EMU_CLOCK_WALL ? 0 : now_ns(CLOCK_MONOTONIC) - time);
}

/* between_blocks() and trace_begin() set threads forward to it. */
uint64_t tracing_code_time(bool replaces)
{
	if (tracing.options.clock == EMU_CLOCK_WALL)
		return now_ns(CLOCK_MONOTONIC);
	if (!replaces)
		return tracing.shared.header->start_ns;
	atomic_store(&tracing.code_replaced,
		     MAX(atomic_load(&tracing.code_replaced), shared_latest_time(&tracing.shared) + 1));
	return atomic_load(&tracing.code_replaced);
}

/* Updates the fields that the daemon may read at any time, but for the truth log. */
static inline void publish_stream(const struct traced_thread *t)
{
	struct emu_slot *slot = t->slot;
	uint64_t head = t->etm.head, pending = etm_pending(&t->etm);

	atomic_store_explicit(&slot->instructions, t->instructions, memory_order_relaxed);
	atomic_store_explicit(&slot->head, head, memory_order_release);
	atomic_store_explicit(&slot->pending, pending, memory_order_release);
}

static inline void publish(const struct traced_thread *t, unsigned vcpu)
{
	publish_stream(t);
	if (tracing.truth)
		atomic_store_explicit(&t->slot->truth, truth_count(vcpu) - t->tail, memory_order_release);
}

void tracing_publish_all(struct traced_thread *t, unsigned vcpu)
{
	etm_flush(&t->etm);
	publish(t, vcpu);
}

static void set_fill_end(struct traced_thread *t)
{
	t->fill_end = tracing.options.mode == EMU_MODE_FILL
			  ? shared_begin(t->slot) + tracing.options.ring_size - EMU_FILL_MARGIN
			  : UINT64_MAX;
}

void tracing_take_slot(struct traced_thread *t)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid), word = read_control_word();
	char name[EMU_NAME_SIZE];
	int rc;

	/* A thread inherits the name of its creator; that of the first one is QEMU's. */
	if (prctl(PR_GET_NAME, name) < 0 || strcmp(name, tracing.emulator) == 0)
		memcpy(name, tracing.shared.header->name, sizeof(name));
	t->clock.base += t->instructions;
	t->instructions = 0;
	t->tail = 0;
	rc = shared_take(&tracing.shared, tid, name, tracing_time(t), &t->slot, &word);
	t->seen = word | (rc == -EBUSY);
	if (rc == -EAGAIN && !t->lost) {
		atomic_fetch_add(&tracing.shared.header->lost_threads, 1);
		t->lost = true;
	}
	if (rc < 0)
		return;
	codelog_name(tracing.codelog, tid, name, tracing_time(t));
	etm_init(&t->etm, shared_ring(&tracing.shared, t->slot), tracing.options.ring_size, false, tid);
	etm_configure(&t->etm, tracing.options.configr, tracing.threshold);
	t->next_sync = 0;
	t->stopped = false;
	set_fill_end(t);
	atomic_store(&t->slot->seen, word);
}

static struct traced_thread *thread_begin(unsigned vcpu)
{
	struct traced_thread *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	tracing_vcpu = vcpu;
	t->stopped = true;
	thread_clock_begin(&t->clock);
	pthread_mutex_lock(&tracing.lock);
	tracing_take_slot(t);
	pthread_mutex_unlock(&tracing.lock);
	tracing_thread = t;
	return t;
}

/* Ends the stream for now: nothing is traced until stopped is false again. */
static void stop(struct traced_thread *t, unsigned vcpu)
{
	t->has_split = false;
	/* A thread that missed a thaw while it slept has no new trace. */
	if (!t->stopped) {
		tracing_publish_all(t, vcpu);
		tracing_publish_lag(t, tracing_time(t));
		atomic_store(&t->slot->stopped_ns, tracing_time(t));
		t->stopped_truth = truth_count(vcpu) - t->tail;
	}
	t->last = NULL;
	t->stopped = true;
}

static inline bool is_full(const struct traced_thread *t)
{
	return t->etm.head >= t->fill_end;
}

/* True unless the ring is full, which a disarm may have changed. */
static bool continues(struct traced_thread *t)
{
	set_fill_end(t);
	return !t->stopped || !is_full(t);
}

/* Obeys the control word after the daemon froze or thawed the rings. */
static void obey(struct traced_thread *t, unsigned vcpu, uint32_t word)
{
	if (!t->slot) {
		t->seen = word;
		if (!(word & 1)) {
			pthread_mutex_lock(&tracing.lock);
			tracing_take_slot(t);
			pthread_mutex_unlock(&tracing.lock);
		}
		return;
	}
	if (word & 1) {
		stop(t, vcpu);
	} else if (continues(t)) {
		if (tracing.truth && t->stopped)
			truth_log_gap(vcpu, t->stopped_truth);
		/* A thread that missed a freeze and its thaw is not stopped, and continues its stream. */
		if (t->stopped) {
			t->last = NULL;
			t->resumes = false;
		}
		t->stopped = false;
		t->next_sync = 0;
	}
	t->seen = word;
	atomic_store(&t->slot->seen, word);
}

/* The end of the ring counts as a sync point, so that the fast path has one comparison for both. */
static void set_next_sync(struct traced_thread *t)
{
	t->next_sync = MIN(t->etm.head + tracing.sync_bytes, t->fill_end);
}

/* Tracing starts or restarts at address. */
static void trace_begin(struct traced_thread *t, uint64_t address)
{
	struct delivery signal;
	uint64_t now;

	t->tail = 0;
	if (t->resumes && signals_maybe(address) && signals_delivered(tracing.base, address, &signal))
		tracing_set_forward(t, thread_clock_signalled(0));
	tracing_set_forward(t, atomic_load(&tracing.code_replaced));
	now = tracing_time(t);
	/* By the virtual clock a thread is blocked for the whole of a system call, so there is nothing to split. */
	if (t->has_split && t->etm.head && tracing.options.clock == EMU_CLOCK_WALL) {
		etm_timestamp(&t->etm, now - t->split.blocked - t->split.preempted);
		etm_timestamp(&t->etm, now - t->split.preempted);
	}
	t->has_split = false;
	if (t->resumes && t->etm.head)
		etm_exception_return(&t->etm);
	/* The timestamp that follows is that of the end of the pause. */
	if (!t->next_sync && t->etm.head)
		etm_pause(&t->etm);
	if (t->etm.head >= t->next_sync) {
		etm_sync(&t->etm, now, address, true);
		set_next_sync(t);
	} else {
		etm_trace_on(&t->etm, address);
		etm_timestamp(&t->etm, now);
	}
	t->resumes = false;
	t->period = tracing.period_blocks;
	t->epoch = codelog_epoch();
}

/*
 * Emits the packets of a block that ran to its end and continued at next. Returns false, without any effect, if the
 * block cannot lead there. It is inlined, so that the branch predictor sees a separate set of branches for each caller.
 * simple: is_simple() is true, so that nothing calls another function.
 */
static inline __attribute__((always_inline)) bool retire(struct traced_thread *t, const struct traced_block *b,
							 uint64_t next, bool simple)
{
	uint64_t link = b->link ? b->end : 0;

	if (b->kind <= A64_CONDITIONAL && b->kind != A64_PLAIN) {
		bool taken = next == b->target;

		if (!taken && (b->kind == A64_BRANCH || next != b->end))
			return false;
		if (!taken)
			etm_atom(&t->etm, false);
		else if (simple)
			etm_branch(&t->etm, link);
		else
			etm_direct(&t->etm, next, link);
	} else if (!simple && b->kind == A64_INDIRECT) {
		etm_indirect(&t->etm, next, link);
	} else if (next != b->end) {
		return false;
	} else if (b->kind == A64_ISB) {
		if (simple)
			etm_branch(&t->etm, 0);
		else
			etm_direct(&t->etm, next, 0);
	} else {
		t->instructions += b->count;
		t->tail += b->count;
		return true;
	}
	t->instructions += b->count;
	t->tail = 0;
	if (!simple && t->etm.cycles)
		etm_cycles(&t->etm, t->instructions);
	return true;
}

static inline bool is_simple(const struct traced_thread *t, const struct traced_block *b)
{
	return b->kind != A64_INDIRECT && !(t->etm.broadcast | t->etm.cycles);
}

bool tracing_retire(struct traced_thread *t, const struct traced_block *b, uint64_t next)
{
	return retire(t, b, next, false);
}

enum etm_exception tracing_exception_of(const struct delivery *d, bool fetched)
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

void tracing_end_in_exception(struct traced_thread *t, enum etm_exception type, uint64_t to)
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

	if (!signals_delivered(tracing.base, pc, &d))
		return;
	inside = d.fault && d.pc >= b->start && d.pc < b->end;
	if (inside) {
		t->instructions += (d.pc - b->start) / 4;
	} else if (!tracing_retire(t, b, d.pc)) {
		return;
	}
	tracing_end_in_exception(t, tracing_exception_of(&d, inside), d.pc);
	t->resumes = true;
	if (!d.fault)
		tracing_set_forward(t, thread_clock_signalled(0));
}

static void between_blocks(struct traced_thread *t, uint64_t next)
{
	uint32_t epoch = codelog_epoch();

	if (epoch != t->epoch)
		tracing_set_forward(t, atomic_load(&tracing.code_replaced));
	/* A sync point has the address of the next instruction: emit one only if a decoder has walked up to it. */
	if (t->etm.head >= t->next_sync && t->tail == 0) {
		etm_sync(&t->etm, tracing_time(t), next, false);
		set_next_sync(t);
		t->period = tracing.period_blocks;
	} else if (t->period == 0 || epoch != t->epoch) {
		etm_timestamp(&t->etm, tracing_time(t));
		t->period = tracing.period_blocks;
	}
	t->epoch = epoch;
}

/*
 * The rare cases: a new thread, a freeze or a thaw, the start of tracing, a jump that the last block does not explain.
 */
static __attribute__((noinline)) void on_unusual_block(unsigned vcpu, const struct traced_block *b)
{
	struct traced_thread *t = tracing_thread;
	const struct traced_block *before;
	uint32_t word = read_control_word();
	bool unexplained;

	if (!t)
		t = thread_begin(vcpu);
	if (t->last) {
		bool known = t->last->kind != A64_INDIRECT || !signals_maybe(b->start) ||
			     !signals_delivered(tracing.base, b->start, &(struct delivery){ 0 });

		if (!known || !tracing_retire(t, t->last, b->start)) {
			emit_interruption(t, b->start);
			t->last = NULL;
		}
	}
	unexplained = !t->last;
	before = t->last ? t->last : t->untraced;
	/* What is not traced takes its time, too. */
	if (!t->last && before)
		tracing_set_forward(t, tracing_time(t) + before->count);
	t->untraced = NULL;
	if (word != t->seen) {
		watch_update();
		obey(t, vcpu, word);
	}
	if (is_followed(t))
		watch_step(t, before, b->start);
	if (!t->stopped && is_full(t))
		stop(t, vcpu);
	if (t->stopped) {
		t->untraced = b;
	} else {
		if (!t->last)
			trace_begin(t, b->start);
		else
			between_blocks(t, b->start);
		t->last = b;
		publish(t, vcpu);
	}
	/* Each delivery comes here: no block leads to it. */
	if (tracing.watching_signals && unexplained &&
	    signals_delivered(tracing.base, b->start, &(struct delivery){ 0 }))
		watch_signal(t, (unsigned)guest_register(0), false);
}

static void end_period(struct traced_thread *t, unsigned vcpu, const struct traced_block *b)
{
	if (is_full(t)) {
		stop(t, vcpu);
		t->untraced = b;
	} else {
		between_blocks(t, b->start);
	}
}

/* The end of begin_block(), where it is rarely more than publish_stream(). */
static __attribute__((noinline)) void end_begin(struct traced_thread *t, unsigned vcpu, const struct traced_block *last,
						const struct traced_block *b)
{
	if (t->period == 0 || t->etm.head >= t->next_sync)
		end_period(t, vcpu, b);
	publish(t, vcpu);
	if (is_followed(t))
		watch_step(t, last, b->start);
}

/* Begins a block; last is retired. */
static inline __attribute__((always_inline)) void
begin_block(struct traced_thread *t, unsigned vcpu, const struct traced_block *last, const struct traced_block *b)
{
	bool more = tracing.truth | is_followed(t);

	t->last = b;
	if (__builtin_expect((--t->period == 0) | (t->etm.head >= t->next_sync) | more, 0))
		end_begin(t, vcpu, last, b);
	else
		publish_stream(t);
}

static __attribute__((noinline)) void on_complex_block(struct traced_thread *t, unsigned vcpu,
						       const struct traced_block *b)
{
	const struct traced_block *last = t->last;

	if (__builtin_expect(
		(last->kind == A64_INDIRECT && signals_maybe(b->start)) || !retire(t, last, b->start, false), 0))
		on_unusual_block(vcpu, b);
	else
		begin_block(t, vcpu, last, b);
}

/* All calls of other functions are at its ends, so that it saves no registers. */
void tracing_block(unsigned vcpu, void *userdata)
{
	const struct traced_block *b = userdata, *last;
	struct traced_thread *t = tracing_thread;

	if (__builtin_expect(!t || !t->last || read_control_word() != t->seen || codelog_epoch() != t->epoch, 0)) {
		on_unusual_block(vcpu, b);
		return;
	}
	last = t->last;
	if (!is_simple(t, last))
		on_complex_block(t, vcpu, b);
	else if (__builtin_expect(!retire(t, last, b->start, true), 0))
		on_unusual_block(vcpu, b);
	else
		begin_block(t, vcpu, last, b);
}
