#include <signal.h>
#include <stdatomic.h>

#include "lib/emu/guest.h"
#include "lib/emu/signals.h"

enum { HANDLERS = 256, NESTED = 64, SA_RESTORER_FLAG = 0x04000000 };

uint64_t signals_filter;
static _Atomic uint64_t handlers[HANDLERS];
static _Atomic uint64_t restorer;
static _Atomic unsigned n_handlers;

static bool is_handler(uint64_t pc)
{
	unsigned n = atomic_load(&n_handlers);

	if (!signals_maybe(pc))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (atomic_load_explicit(&handlers[i], memory_order_relaxed) == pc)
			return true;
	return false;
}

static bool is_trampoline(uint64_t lr)
{
	return (&default_rt_sigreturn && lr == default_rt_sigreturn) || (lr && lr == atomic_load(&restorer));
}

/* struct sigaction of the kernel: handler, flags, restorer, mask. Callers hold a lock. */
void signals_action(uint64_t base, uint64_t action)
{
	uint64_t handler = guest_u64(base, action), flags = guest_u64(base, action + 8);
	unsigned n = atomic_load(&n_handlers);

	if (flags & SA_RESTORER_FLAG)
		atomic_store(&restorer, guest_u64(base, action + 16));
	if (handler <= 1 || is_handler(handler) || n == HANDLERS)
		return;
	atomic_store(&handlers[n], handler);
	atomic_store(&n_handlers, n + 1);
	__atomic_fetch_or(&signals_filter, 1ull << (handler >> 2 & 63), __ATOMIC_SEQ_CST);
}

static bool is_fault(uint32_t signo, int32_t code)
{
	return code > 0 && (signo == SIGSEGV || signo == SIGBUS || signo == SIGILL || signo == SIGTRAP || signo == SIGFPE);
}

bool signals_delivered(uint64_t base, uint64_t pc, struct delivery *ret)
{
	uint64_t frame;

	if (!guest_registers() || !is_handler(pc) || !is_trampoline(guest_register(GUEST_LR)))
		return false;
	frame = guest_register(GUEST_SP);
	/*
	 * Several signals at once are stacked: the frame of each but the first says that it interrupted the entry of
	 * the handler before it, which has not run.
	 */
	for (int i = 0; i < NESTED; i++) {
		uint64_t interrupted = guest_u64(base, frame + FRAME_PC);

		if (!is_handler(interrupted) || !is_trampoline(guest_u64(base, frame + FRAME_LR)))
			break;
		frame = guest_u64(base, frame + FRAME_SP);
	}
	{
		int32_t code;

		guest_read(base, frame + FRAME_SIGNO, &ret->signo, sizeof(ret->signo));
		guest_read(base, frame + FRAME_CODE, &code, sizeof(code));
		ret->pc = guest_u64(base, frame + FRAME_PC);
		ret->fault = is_fault(ret->signo, code);
	}
	return true;
}
