/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdatomic.h>

#include "lib/emu/guest.h"
#include "lib/emu/signals.h"

enum { HANDLERS = 256, NESTED = 64, FLAG_SIGINFO = 4, FLAG_RESTORER = 0x04000000 };

uint64_t signals_filter;
static _Atomic uint64_t handlers[HANDLERS]; /* bit 0: the handler has SA_SIGINFO */
static _Atomic uint64_t restorer;
static _Atomic unsigned n_handlers;

/* Returns the entry of the handler at pc, or 0. */
static uint64_t handler_at(uint64_t pc)
{
	unsigned n = atomic_load(&n_handlers);

	if (!signals_maybe(pc))
		return 0;
	for (unsigned i = 0; i < n; i++) {
		uint64_t handler = atomic_load_explicit(&handlers[i], memory_order_relaxed);

		if ((handler & ~1ull) == pc)
			return handler;
	}
	return 0;
}

static bool is_trampoline(uint64_t lr)
{
	return (&default_rt_sigreturn && lr == default_rt_sigreturn) || (lr && lr == atomic_load(&restorer));
}

/* The kernel's struct sigaction: handler, flags, restorer, mask. The caller holds the plugin's lock. */
void signals_action(uint64_t base, uint64_t action)
{
	uint64_t handler = guest_u64(base, action), flags = guest_u64(base, action + 8);
	unsigned n = atomic_load(&n_handlers);

	if (flags & FLAG_RESTORER)
		atomic_store(&restorer, guest_u64(base, action + 16));
	if (handler <= 1 || handler_at(handler) || n == HANDLERS)
		return;
	atomic_store(&handlers[n], handler | (flags & FLAG_SIGINFO ? 1 : 0));
	atomic_store(&n_handlers, n + 1);
	__atomic_fetch_or(&signals_filter, 1ull << (handler >> 2 & 63), __ATOMIC_SEQ_CST);
}

/*
 * QEMU fills in siginfo only for handlers with SA_SIGINFO; for others a signal of these kinds is assumed to be a fault.
 */
static bool is_fault(uint64_t signo, uint64_t handler, uint64_t frame, uint64_t base)
{
	int32_t code = 1;

	if (handler & 1)
		guest_read(base, frame + FRAME_CODE, &code, sizeof(code));
	return code > 0 &&
	       (signo == SIGSEGV || signo == SIGBUS || signo == SIGILL || signo == SIGTRAP || signo == SIGFPE);
}

bool signals_delivered(uint64_t base, uint64_t pc, struct delivery *ret)
{
	uint64_t handler = handler_at(pc), frame, signo;

	if (!handler || !guest_has_registers() || !is_trampoline(guest_register(GUEST_LR)))
		return false;
	frame = guest_register(GUEST_SP);
	signo = guest_register(0);
	/*
	 * The frames of simultaneous signals are stacked: each but the first has as its interrupted address the entry
	 * of the previous handler, which has not run.
	 */
	for (int i = 0; i < NESTED; i++) {
		uint64_t inner = handler_at(guest_u64(base, frame + FRAME_PC));

		if (!inner || !is_trampoline(guest_u64(base, frame + FRAME_LR)))
			break;
		handler = inner;
		signo = guest_u64(base, frame + FRAME_X0);
		frame = guest_u64(base, frame + FRAME_SP);
	}
	ret->pc = guest_u64(base, frame + FRAME_PC);
	ret->signo = (uint32_t)signo;
	ret->fault = is_fault(signo, handler, frame, base);
	return true;
}
