/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/code/a64.h"
#include "lib/emu/guest.h"
#define CSIGHT_EMU_STACKS_WRITER
#include "lib/emu/stacks.h"
#include "lib/emu/truth.h"

enum { NR_RT_SIGRETURN = 139, NESTED = 64, HANDLER_MOST = 1 << 16 };

struct stacks_block {
	uint64_t start, end;
	uint8_t how; /* enum stack_how of the instruction after its end */
};

static uint64_t memory_base;
static __thread const struct stacks_block *last; /* the previous block */
static __thread uint64_t last_count;             /* truth_count() at its beginning */
static __thread uint64_t records;
static __thread bool sigreturn;
static __thread uint64_t handling;          /* the frame of the signal whose handler is running; 0: none */
static __thread struct stack_record forked; /* to be written, unless how is 0 */

static void put(unsigned vcpu, const struct stack_record *r)
{
	struct stack_record *to = truth_stack_record(vcpu, sizeof(*to));

	if (!to)
		return;
	*to = *r;
	records++;
}

static void note(unsigned vcpu, enum stack_how how, bool interrupted, uint64_t pc, uint64_t sp, uint64_t lr)
{
	const struct stack_record r = { .count = truth_count(vcpu),
					.pc = pc,
					.sp = sp,
					.lr = lr,
					.g = guest_register(28),
					.how = (uint32_t)how,
					.interrupted = interrupted };

	put(vcpu, &r);
}

/* How the thread left the previous block, which may not have run to its end. */
static enum stack_how arrival(unsigned vcpu)
{
	uint64_t ran = truth_count(vcpu) - last_count;

	if (!last)
		return STACK_START;
	if (ran < (last->end - last->start) / 4)
		return STACK_FLOW;
	if (last->how == STACK_SYSCALL && sigreturn)
		return STACK_SIGRETURN;
	return last->how;
}

/*
 * Logs signal deliveries. The frames of simultaneous signals are stacked: each but the first has as its interrupted
 * address the entry of another handler.
 */
static bool signals(unsigned vcpu, uint64_t pc)
{
	uint64_t frames[NESTED], frame = guest_register(GUEST_SP), at;
	unsigned n = 0;

	if (!truth_handler(pc) || guest_register(GUEST_LR) != default_rt_sigreturn)
		return false;
	/* A handler that jumps to its own entry is no new delivery. */
	if (frame == handling)
		return false;
	handling = frame;
	do {
		frames[n++] = frame;
		at = guest_u64(memory_base, frame + FRAME_PC);
		frame = guest_u64(memory_base, frame + FRAME_SP);
	} while (n < NESTED && truth_handler(at) &&
		 guest_u64(memory_base, frames[n - 1] + FRAME_LR) == default_rt_sigreturn);
	while (n-- > 0) {
		uint64_t from = guest_u64(memory_base, frames[n] + FRAME_PC);

		note(vcpu, last ? arrival(vcpu) : STACK_FLOW, true, from, guest_u64(memory_base, frames[n] + FRAME_SP),
		     guest_u64(memory_base, frames[n] + FRAME_LR));
		last = NULL;
		note(vcpu, STACK_SIGNAL, false, n ? guest_u64(memory_base, frames[n - 1] + FRAME_PC) : pc, frames[n],
		     default_rt_sigreturn);
	}
	return true;
}

static void on_block_begin(unsigned vcpu, void *userdata)
{
	const struct stacks_block *s = userdata;
	enum stack_how how;
	uint64_t sp;

	if (!guest_has_registers())
		return;
	if (forked.how) {
		records = 0;
		put(vcpu, &forked);
		forked.how = STACK_NONE;
	}
	sp = guest_register(GUEST_SP);
	if (sigreturn || sp > handling || sp + HANDLER_MOST < handling)
		handling = 0;
	if (!signals(vcpu, s->start)) {
		how = arrival(vcpu);
		if (how != STACK_FLOW)
			note(vcpu, how, false, s->start, sp, guest_register(GUEST_LR));
	}
	last = s;
	last_count = truth_count(vcpu);
	sigreturn = false;
}

void stacks_instrument(struct qemu_plugin_tb *tb, uint64_t base)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	struct stacks_block *s = malloc(sizeof(*s));
	uint64_t target;
	uint32_t op;
	bool link;

	if (!s)
		abort();
	memory_base = base;
	s->start = qemu_plugin_tb_vaddr(tb);
	s->end = s->start + 4 * n;
	memcpy(&op, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, n - 1)), sizeof(op));
	switch (a64_classify(op, s->end - 4, &link, &target)) {
	case A64_BRANCH:
	case A64_CONDITIONAL:
		s->how = link ? STACK_CALL : STACK_JUMP;
		break;
	case A64_INDIRECT:
		s->how = link ? STACK_CALL : STACK_INDIRECT;
		break;
	case A64_SVC:
		s->how = STACK_SYSCALL;
		break;
	default:
		s->how = STACK_FLOW;
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block_begin, QEMU_PLUGIN_CB_NO_REGS, s);
}

void stacks_syscall(int64_t number)
{
	sigreturn = number == NR_RT_SIGRETURN;
}

void stacks_forked(unsigned vcpu)
{
	const char *path = truth_path(vcpu), *name = path ? strrchr(path, '/') : NULL;
	unsigned long pid, tid, number;

	if (!name || sscanf(name, "/%lu.%lu.%lu", &pid, &tid, &number) != 3)
		return;
	forked = (struct stack_record){ .pc = pid, .sp = tid, .lr = number, .g = records, .how = STACK_FORKED };
}
