/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/emu/guest.h"
#include "lib/emu/truth.h"

/* A file grows by pieces that are mapped shared, so that all records are in the file however the process ends. */
enum { VCPUS = 16384, HANDLERS = 256, PIECE = 3 << 20 /* a multiple of pages, and of each kind of record */ };

struct truth_run {
	uint64_t start, count;
};

struct truth_file {
	uint8_t *piece;
	size_t used; /* of the piece */
	off_t size;
	int fd;
};

struct log {
	struct truth_file runs, stacks; /* stacks: opened by the first stack record */
	struct truth_run *run;          /* the last run */
	uint64_t next, count;
	uint64_t last;
	int gaps;
	char path[4096];
};

static struct log *logs[VCPUS];
static const char *truth_dir;
static bool truth_raw;
static _Atomic unsigned serial;
static uint64_t memory_base;
static uint64_t handlers[HANDLERS];
static _Atomic unsigned n_handlers;

void truth_open(const char *dir, bool raw)
{
	truth_dir = dir;
	truth_raw = raw;
}

static void fail(const char *what)
{
	fprintf(stderr, "csight-etm: truth log: %s: %s\n", what, strerror(errno));
	_exit(70);
}

static void next_piece(struct truth_file *p)
{
	if (p->piece)
		munmap(p->piece, PIECE);
	if (ftruncate(p->fd, p->size + PIECE) < 0)
		fail("ftruncate");
	p->piece = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, p->size);
	if (p->piece == MAP_FAILED)
		fail("mmap");
	p->size += PIECE;
	p->used = 0;
}

static void *next_record(struct truth_file *p, size_t size)
{
	void *ret;

	if (!p->piece || p->used == PIECE)
		next_piece(p);
	ret = p->piece + p->used;
	p->used += size;
	return ret;
}

static void truth_file_close(struct truth_file *p)
{
	if (p->fd < 0)
		return;
	if (p->piece)
		munmap(p->piece, PIECE);
	close(p->fd);
}

static int open_high(const struct log *l, const char *ending)
{
	char path[4200];
	int fd, high;

	snprintf(path, sizeof(path), "%s.%s", l->path, ending);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 800);
	if (high < 0)
		fail(path);
	close(fd);
	return high;
}

static struct log *log_begin(void)
{
	struct log *l = calloc(1, sizeof(*l));

	if (!l)
		fail("log");
	l->gaps = -1;
	snprintf(l->path, sizeof(l->path), "%s/%d.%ld.%u", truth_dir, getpid(), syscall(SYS_gettid),
		 atomic_fetch_add(&serial, 1));
	l->runs.fd = open_high(l, "truth");
	l->stacks.fd = -1;
	return l;
}

static uint64_t stack_pointer_of(struct CPUState *cpu, int number)
{
	static __thread struct byte_array *array;
	uint64_t v = 0;

	if (!array)
		array = g_byte_array_sized_new(8);
	g_byte_array_set_size(array, 0);
	if (aarch64_cpu_gdb_read_register(cpu, array, number) == 8)
		memcpy(&v, array->data, 8);
	return v;
}

static uint64_t peek(uint64_t address)
{
	return *(const uint64_t *)(uintptr_t)(memory_base + address);
}

bool truth_handler(uint64_t pc)
{
	for (unsigned i = 0, n = atomic_load(&n_handlers); i < n; i++)
		if (handlers[i] == pc)
			return true;
	return false;
}

/* True for instructions after which the pc may be unchanged although they executed: branches and SVC. */
static bool executes_anyway(uint64_t pc)
{
	uint32_t op = *(const uint32_t *)(uintptr_t)(memory_base + pc);

	return (op >> 26 & 0x1f) == 5 || op >> 24 == 0x54 || (op >> 25 & 0x3f) == 0x1a || (op >> 25 & 0x3f) == 0x1b ||
	       op >> 25 == 0x6b || (op & 0xffe0001f) == 0xd4000001;
}

/* Removes the last instruction if it is the one at pc, where a signal interrupted: it caused it, and did not execute.
 */
static void take_back(struct log *l, uint64_t pc)
{
	if (pc != l->last || executes_anyway(pc))
		return;
	/* An empty run stays in the log; readers skip it. */
	l->run->count--;
	l->count--;
}

void truth_died(unsigned vcpu, uint64_t pc)
{
	struct log *l = vcpu < VCPUS ? logs[vcpu] : NULL;

	if (l && l->run && !truth_raw)
		take_back(l, pc);
}

/* Called at the entry of a handler. */
static void take_back_fault(struct log *l)
{
	uint64_t sp = stack_pointer_of(guest_cpu(), 31), at = 0;

	if (stack_pointer_of(guest_cpu(), 30) != default_rt_sigreturn)
		return;
	for (int depth = 0; depth < 64; depth++) {
		at = peek(sp + 568);
		if (!truth_handler(at) || peek(sp + 552) != default_rt_sigreturn)
			break;
		sp = peek(sp + 560);
	}
	take_back(l, at);
}

/* Runs before the block's other callbacks, so that they see the corrected count. */
static void on_block_begin(unsigned vcpu, void *userdata)
{
	struct log *l = vcpu < VCPUS ? logs[vcpu] : NULL;

	if (l && truth_handler((uint64_t)(uintptr_t)userdata) && guest_has_registers())
		take_back_fault(l);
}

static struct log *log_of(unsigned vcpu)
{
	if (vcpu >= VCPUS)
		return NULL;
	if (!logs[vcpu])
		logs[vcpu] = log_begin();
	return logs[vcpu];
}

static void step(unsigned vcpu, void *userdata)
{
	uint64_t pc = (uint64_t)(uintptr_t)userdata;
	struct log *l = log_of(vcpu);

	if (!l)
		return;
	if (pc != l->next || truth_raw) {
		l->run = next_record(&l->runs, sizeof(*l->run));
		*l->run = (struct truth_run){ pc, 0 };
	}
	l->run->count++;
	l->count++;
	l->last = pc;
	l->next = pc + 4;
}

void truth_instrument(struct qemu_plugin_tb *tb, uint64_t base)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	memory_base = base;
	/* Registered before the callback of the stack log. */
	if (!truth_raw)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block_begin, QEMU_PLUGIN_CB_NO_REGS,
						     (void *)(uintptr_t)qemu_plugin_tb_vaddr(tb));
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		qemu_plugin_register_vcpu_insn_exec_cb(insn, step, QEMU_PLUGIN_CB_NO_REGS,
						       (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn));
	}
}

void truth_action(uint64_t base, uint64_t action)
{
	unsigned n = atomic_load(&n_handlers);

	memory_base = base;
	if (peek(action) > 1 && !truth_handler(peek(action)) && n < HANDLERS) {
		handlers[n] = peek(action);
		atomic_store(&n_handlers, n + 1);
	}
}

void *truth_stack_record(unsigned vcpu, size_t size)
{
	struct log *l = log_of(vcpu);

	if (!l)
		return NULL;
	if (l->stacks.fd < 0)
		l->stacks.fd = open_high(l, "stacks");
	return next_record(&l->stacks, size);
}

uint64_t truth_count(unsigned vcpu)
{
	return vcpu < VCPUS && logs[vcpu] ? logs[vcpu]->count : 0;
}

const char *truth_path(unsigned vcpu)
{
	return vcpu < VCPUS && logs[vcpu] ? logs[vcpu]->path : NULL;
}

void truth_log_gap(unsigned vcpu, uint64_t from)
{
	struct log *l = vcpu < VCPUS ? logs[vcpu] : NULL;
	struct truth_run gap = { from, l ? l->count : 0 };

	if (!l)
		return;
	if (l->gaps < 0)
		l->gaps = open_high(l, "gaps");
	if (write(l->gaps, &gap, sizeof(gap)) != sizeof(gap))
		fail("gaps");
}

void truth_thread_ended(unsigned vcpu)
{
	struct log *l = vcpu < VCPUS ? logs[vcpu] : NULL;

	if (!l)
		return;
	logs[vcpu] = NULL;
	truth_file_close(&l->runs);
	truth_file_close(&l->stacks);
	if (l->gaps >= 0)
		close(l->gaps);
	free(l);
}

void truth_after_fork(void)
{
	/* The parent's files are still mapped here; the child must not write to them. */
	for (unsigned i = 0; i < VCPUS; i++)
		if (logs[i])
			truth_thread_ended(i);
	atomic_store(&serial, 0);
}
