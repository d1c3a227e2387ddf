/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/emu/death.h"
#include "lib/emu/endings.h"
#include "lib/emu/guest.h"
#include "lib/emu/system-calls.h"
#include "lib/emu/tracing.h"
#include "lib/emu/truth.h"
#include "lib/emu/watch.h"

static void on_exit_of(qemu_plugin_id_t id, unsigned vcpu)
{
	struct traced_thread *t = tracing_thread;

	if (!t)
		return;
	tracing_thread = NULL;
	if (t->slot) {
		if (!t->slot->end_ns)
			t->slot->end_ns = tracing_time(t);
		atomic_store(&t->slot->state, EMU_EXITED);
	}
	if (tracing.truth)
		truth_thread_ended(vcpu);
	watch_thread_done(t);
	free(t);
}

static void put_ending(int status)
{
	tracing.shared.header->ended_tid = (uint32_t)syscall(SYS_gettid);
	tracing.shared.header->ended_ns = now_ns(CLOCK_MONOTONIC);
	atomic_store(&tracing.shared.header->ended, EMU_ENDED | (uint32_t)status);
}

/* QEMU exits: by exit_group(), or by exit() of the last thread. */
static void on_program_exit(qemu_plugin_id_t id, void *userdata)
{
	int status;

	if (tracing.opened && !tracing.untraced && system_calls_exit(&status))
		put_ending(status << 8);
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

	if ((!fault || !inside) && tracing_retire(t, b, pc))
		inside = false;
	else if (inside)
		t->instructions += (pc - b->start) / 4;
	else
		return;
	if (tracing.truth && inside)
		truth_died(tracing_vcpu, pc);
	tracing_end_in_exception(t, tracing_exception_of(&d, inside), pc);
	etm_timestamp(&t->etm, tracing_time(t));
	t->last = NULL;
}

static void on_death(int signal)
{
	struct traced_thread *t = tracing_thread;

	if (!tracing.opened || tracing.untraced)
		return;
	if (t && t->slot) {
		if (t->last && !t->stopped && guest_has_registers())
			emit_death(t, guest_register(GUEST_PC), signal);
		if (!t->stopped)
			tracing_publish_all(t, tracing_vcpu);
		t->slot->end_ns = tracing_time(t);
	}
	if (t && tracing.watching_signals)
		watch_signal(t, (unsigned)signal, true);
	if (t) {
		watch_thread_ends(t);
		thread_clock_died(tracing_time(t));
	}
	put_ending(signal);
}

void endings_watch(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_exit_cb(id, on_exit_of);
	qemu_plugin_register_atexit_cb(id, on_program_exit, NULL);
	death_watch(on_death);
}
