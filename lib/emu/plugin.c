/* SPDX-License-Identifier: MIT */
/*
 * csight-etm.so: an emulated ETM for programs that run under qemu-aarch64 (tracing.h).
 *
 * Options: socket=PATH (csightd's), rings=N, ringsize=BYTES, retstack=on|off, broadcast=on|off, cycles=on|off,
 * threshold=N (of cycles), timestamps=on|off, contexts=on|off, sync=BYTES, period=BLOCKS (between timestamps),
 * truth=DIR, truthraw=DIR, stacks=on (with truth), clock=virtual|wall.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/code/a64.h"
#include "lib/emu/endings.h"
#include "lib/emu/guest.h"
#include "lib/emu/registration.h"
#define CSIGHT_EMU_STACKS_WRITER
#include "lib/emu/stacks.h"
#include "lib/emu/system-calls.h"
#include "lib/emu/tracing.h"
#include "lib/emu/truth.h"
#include "lib/emu/watch.h"
#include "lib/emu/watch-goroutines.h"

enum { ARENA = 1 << 20 };

int qemu_plugin_version = 1;

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

	if (shared_open(&tracing.options, exe ? exe : "?", 0, &tracing.shared) < 0)
		return false;
	prctl(PR_GET_NAME, tracing.emulator);
	watch_begin();
	tracing.control_word = &tracing.shared.header->control;
	tracing.codelog = codelog_new(&tracing.shared, tracing_code_time);
	if (!tracing.codelog)
		return false;
	registration_watch();
	return true;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	const struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
	uint8_t bytes[4 * 1024];
	qemu_plugin_vcpu_udata_cb_t before_block;
	struct traced_block *b;
	void *data;
	uint32_t op;

	n = MIN(n, sizeof(bytes) / 4);
	pthread_mutex_lock(&tracing.lock);
	if (!tracing.opened)
		tracing.untraced = !open_shared();
	tracing.opened = true;
	if (tracing.untraced) {
		/* Without a daemon the program runs uninstrumented. */
		pthread_mutex_unlock(&tracing.lock);
		return;
	}
	tracing.base = (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(first) - qemu_plugin_tb_vaddr(tb);
	b = new_block();
	*b = (struct traced_block){ .start = qemu_plugin_tb_vaddr(tb), .count = (uint32_t)n };
	b->end = b->start + 4 * n;
	for (size_t i = 0; i < n; i++)
		memcpy(bytes + 4 * i, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, i)), 4);
	memcpy(&op, bytes + 4 * (n - 1), 4);
	b->kind = (uint8_t)a64_classify(op, b->end - 4, &b->link, &b->target);
	b->returns = b->kind == A64_INDIRECT && (op >> 21 & 0xf) == 2;
	codelog_check(tracing.codelog, b->start, bytes, (uint32_t)(4 * n), tracing.base);
	before_block = watch_instrument(tb, b, &data);
	pthread_mutex_unlock(&tracing.lock);
	if (tracing.truth)
		truth_instrument(tb, tracing.base);
	if (tracing.truth && tracing.stacks)
		stacks_instrument(tb, tracing.base);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, before_block, QEMU_PLUGIN_CB_NO_REGS, data);
}

static void before_fork(void)
{
	registration_before_fork();
	pthread_mutex_lock(&tracing.lock);
	watch_goroutines_before_fork();
}

/* Also in the child, whose only thread took the locks. */
static void after_fork(void)
{
	watch_goroutines_after_fork();
	pthread_mutex_unlock(&tracing.lock);
	registration_after_fork();
}

static void after_fork_in_child(void)
{
	struct traced_thread *t = tracing_thread;
	struct shared parent = tracing.shared;
	static struct emu_header unregistered;

	after_fork();
	if (!tracing.opened || tracing.untraced)
		return;
	shared_close(&parent);
	stacks_forked(tracing_vcpu);
	watch_forked(t);
	if (tracing.truth)
		truth_after_fork();
	if (shared_open(&tracing.options, parent.header->exe, (uint32_t)getppid(), &tracing.shared) < 0) {
		/* Without registration the child stays frozen. */
		atomic_store(&unregistered.control, 1);
		tracing.shared.header = &unregistered;
		tracing.control_word = &unregistered.control;
		tracing.shared.socket = tracing.shared.memory = (struct descriptor){ 0 };
		tracing.shared.watching = NULL;
		if (t)
			*t = (struct traced_thread){ .stopped = true, .seen = 1, .watch = t->watch };
		return;
	}
	tracing.control_word = &tracing.shared.header->control;
	watch_begin();
	codelog_moved(tracing.codelog, &parent);
	munmap(parent.header, parent.header->total_size);
	registration_watch();
	if (t) {
		*t = (struct traced_thread){ .stopped = true,
					     .resumes = true,
					     .clock = t->clock,
					     .instructions = t->instructions,
					     .entered = t->entered,
					     .watch = t->watch };
		thread_clock_forked(&t->clock);
		tracing_take_slot(t);
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
			tracing.options.configr &= ~ways[i].bit;
			tracing.options.configr |= strcmp(value, "on") == 0 ? ways[i].bit : 0;
			return true;
		}
#define IS(name) (n == sizeof(name) - 1 && memcmp(argument, name, n) == 0)
	if (IS("socket"))
		tracing.options.socket = strdup(value);
	else if (IS("rings"))
		tracing.options.rings = (uint32_t)strtoul(value, NULL, 0);
	else if (IS("ringsize"))
		tracing.options.ring_size = strtoull(value, NULL, 0);
	else if (IS("threshold"))
		tracing.threshold = (uint16_t)MIN(strtoul(value, NULL, 0), (unsigned long)ETM_THRESHOLD_MAX);
	else if (IS("sync"))
		tracing.sync_bytes = strtoull(value, NULL, 0);
	else if (IS("period"))
		tracing.period_blocks = (uint32_t)strtoul(value, NULL, 0);
	else if (IS("truth"))
		truth_open(strdup(value), false), tracing.truth = true;
	else if (IS("truthraw"))
		truth_open(strdup(value), true), tracing.truth = true;
	else if (IS("stacks"))
		tracing.stacks = strcmp(value, "on") == 0;
	else if (IS("clock"))
		tracing.options.clock = strcmp(value, "wall") == 0 ? EMU_CLOCK_WALL : EMU_CLOCK_VIRTUAL;
	else if (IS("mode"))
		tracing.options.mode = strcmp(value, "fill") == 0 ? EMU_MODE_FILL : EMU_MODE_RING;
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
	if (tracing.options.rings < 1 || tracing.options.rings > EMU_RINGS_MAX ||
	    tracing.options.ring_size < EMU_RING_SIZE_MIN || tracing.options.ring_size > EMU_RING_SIZE_MAX ||
	    (tracing.options.ring_size & (tracing.options.ring_size - 1))) {
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
	system_calls_watch(id);
	endings_watch(id);
	return pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0 ? 0 : -1;
}
