/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/prctl.h>

#include "lib/code/a64.h"
#include "lib/code/syscalls.h"
#include "lib/emu/guest.h"
#include "lib/emu/maps.h"
#define CSIGHT_EMU_STACKS_WRITER
#include "lib/emu/stacks.h"
#include "lib/emu/system-calls.h"
#include "lib/emu/tracing.h"
#include "lib/emu/truth.h"
#include "lib/emu/watch.h"

static __thread uint64_t self_call[6]; /* arguments of this thread's system call */
static __thread int64_t self_number;   /* and its number; 0 outside of system calls */

bool system_calls_exit(int *ret_status)
{
	if (self_number != SYSCALL_exit && self_number != SYSCALL_exit_group)
		return false;
	*ret_status = (int)(self_call[0] & 0xff);
	return true;
}

/* Marks the mappings that a system call may have changed. */
static void note_mappings(int64_t number, uint64_t result)
{
	bool good = result < (uint64_t)-4095;

	pthread_mutex_lock(&tracing.lock);
	if (number == SYSCALL_mmap && good)
		maps_changed(result, self_call[1]);
	else if (number == SYSCALL_munmap || number == SYSCALL_mprotect || number == SYSCALL_mremap)
		maps_changed(self_call[0], self_call[1]);
	else if (number == SYSCALL_shmat || number == SYSCALL_shmdt)
		maps_changed(0, UINT64_MAX);
	if (number == SYSCALL_mremap && good)
		maps_changed(result, self_call[2]);
	pthread_mutex_unlock(&tracing.lock);
}

static void handler_set(uint64_t action)
{
	pthread_mutex_lock(&tracing.lock);
	signals_action(tracing.base, action);
	if (tracing.truth)
		truth_action(tracing.base, action);
	pthread_mutex_unlock(&tracing.lock);
}

static void name_set(struct traced_thread *t, uint64_t address)
{
	char name[EMU_NAME_SIZE] = { 0 };

	for (unsigned i = 0; i < sizeof(name) - 1; i++) {
		guest_read(tracing.base, address + i, &name[i], 1);
		if (!name[i])
			break;
	}
	pthread_mutex_lock(&tracing.lock);
	memcpy(t->slot->name, name, sizeof(name));
	codelog_name(tracing.codelog, t->slot->tid, name, tracing_time(t));
	pthread_mutex_unlock(&tracing.lock);
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
	struct traced_thread *t = tracing_thread;

	self_number = number;
	memcpy(self_call, (const uint64_t[]){ a1, a2, a3, a4, a5, a6 }, sizeof(self_call));
	stacks_syscall(number);
	if (!t)
		return;
	if (t->slot && t->last && t->last->kind == A64_SVC) {
		t->instructions += t->last->count;
		tracing_end_in_exception(t, ETM_CALL, t->last->end);
		emit_number(t, number);
		etm_timestamp(&t->etm, tracing_time(t));
	}
	t->last = t->untraced = NULL;
	t->resumes = true;
	if (number == SYSCALL_exit || number == SYSCALL_exit_group)
		watch_thread_ends(t);
	t->entered = tracing_time(t);
	thread_clock_enter(&t->clock, number, self_call, t->entered);
	if (!t->slot)
		return;
	tracing_publish_lag(t, t->entered);
	if (!t->stopped)
		tracing_publish_all(t, vcpu);
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

	tracing_set_forward(t, thread_clock_return(&t->clock, &r, t->entered, &t->split));
	t->has_split = true;
	/* Waits for a CPU are time off the CPU by the wall clock alone: the virtual clock omits them. */
	if (tracing.watching_syscalls)
		watch_syscall(t, number, tracing_time(t) - t->entered,
			      t->split.blocked + (tracing.options.clock == EMU_CLOCK_WALL ? t->split.preempted : 0));
}

static void on_syscall_return(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result)
{
	struct traced_thread *t = tracing_thread;

	self_number = 0;
	/* The arguments can be read safely only after the system call has accepted them. */
	if (number == SYSCALL_rt_sigaction && result == 0 && self_call[1])
		handler_set(self_call[1]);
	else if (number == SYSCALL_prctl && result == 0 && self_call[0] == PR_SET_NAME && t && t->slot)
		name_set(t, self_call[1]);
	else if (number == SYSCALL_mmap || number == SYSCALL_munmap || number == SYSCALL_mprotect ||
		 number == SYSCALL_mremap || number == SYSCALL_shmat || number == SYSCALL_shmdt)
		note_mappings(number, (uint64_t)result);
	else if (number == SYSCALL_sigaltstack && result == 0 && self_call[0] && t)
		watch_signal_stack(t, self_call[0]);
	watch_update();
	/*
	 * The next block reads the control word after this store: either the daemon or this thread sees the
	 * other's store. A hit of this call finds the thread running, so that the daemon learns when it stopped.
	 */
	if (t && t->slot)
		atomic_store(&t->slot->state, EMU_RUNNING);
	if (t)
		end_call(t, number, result);
}

void system_calls_watch(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
}
