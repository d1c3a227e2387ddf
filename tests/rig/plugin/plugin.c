/* SPDX-License-Identifier: MIT */
/*
 * A QEMU plugin (system mode) that is the trace units of a virtual machine: it encodes what each virtual CPU executes
 * while tests/rig/module has its unit started, and logs what really executed (tests/rig/shared.h describes both).
 *
 * A callback before each block receives the address that control went to, and retires the block before it. At an
 * exception the kernel's entry code reads ELR_EL1 into x22: at the start of the following block that register holds the
 * address where user mode was left.
 *
 * With the option kernel, code at EL1 is encoded, too. Its exceptions are like those of user mode. The blocks from the
 * vector up to that register's read wait, since they follow a packet that has the address.
 *
 * Options: memory=FILE (shared with the guest), log=DIR (no truth is logged without), kernel=on, sync=BYTES,
 * period=BLOCKS.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/code/a64.h"
#include "lib/emu/etm-encode.h"
#include "lib/emu/qemu.h"
#include "tests/rig/plugin/formatter.h"
#include "tests/rig/plugin/truth.h"
#include "tests/rig/shared.h"

enum { ARENA = 1 << 20, SUCCESSORS = 256, STAGED = 512, ENTRY = 64, VIRTUAL_CLOCK = 1 };
/* Places in a table of vectors: of each source, synchronous exceptions, IRQ, FIQ, SError. */
enum { NO_VECTOR = 0, OF_KERNEL = 0x200, OF_USER = 0x400, OF_USER_32 = 0x600, VECTORS = 0x800 };

#define MRS_X22_ELR_EL1 0xd5384036
#define MSR_CONTEXTIDR_EL1(op) (((op)&0xffffffe0) == 0xd518d020)
#define IS_ERET(op) (((op)&0xfffff3ff) == 0xd69f03e0)

/* Functions of QEMU outside its plugin interface, which Debian's binary exports. */
int64_t qemu_clock_get_ns(int clock);
struct CPUState *qemu_get_cpu(int index);
void tb_flush(struct CPUState *cpu);

struct block {
	uint64_t start, end, target;
	uint8_t kind;
	bool link, eret, kernel;
};

struct cpu {
	struct etm etm;
	const struct block *last; /* began and is not retired; NULL: the next block begins a new run of trace */
	uint8_t *ring;
	uint64_t vectors; /* address of the table by which user mode is left */
	unsigned vector;  /* the vector of an exception that is not encoded yet, or NO_VECTOR */
	bool user, on, shared;
	bool traces_user, traces_kernel;
	const struct block *entry[ENTRY]; /* the kernel's, since the vector */
	unsigned n_entry;
	uint32_t next_tid; /* the thread that the kernel switches to, until that has its context ID */
	bool switches;     /* it has; the next packet that states an address says so */
	uint8_t trace_id;
	uint32_t tid;
	uint32_t period;       /* blocks until the next timestamp, unless there is an interval */
	uint32_t interval;     /* instructions between timestamps, or 0 */
	uint64_t instructions; /* retired since the unit was started: one cycle each */
	uint64_t next_time;    /* with an interval: the number of instructions at the next timestamp */
	uint32_t tail;         /* blocks since the last packet that bounds a decoder's walk */
	uint64_t next_sync;
	uint64_t staged; /* bytes of the ring that were copied to the arena */
	uint64_t lost;   /* kernel entries whose return address stayed unknown */
	const struct rig_filter *filters;
	unsigned n_filters;
	bool viewing; /* between a start and a stop address */
};

int qemu_plugin_version = 1;

static struct rig_shared *shared;
/* Address of the kernel's table of vectors, where programs enter by the trampoline of kpti. */
static _Atomic uint64_t kernel_vectors;
static uint64_t memory_size;
static bool truth, traces_kernel;
static uint64_t sync_bytes = 4096;
static uint32_t period_blocks = 256;
static struct cpu cpus[RIG_CPUS];
static struct formatter arena;
static pthread_mutex_t arena_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* blocks, successors */
static uint64_t successors[SUCCESSORS];
static unsigned n_successors;

static uint64_t ticks(void)
{
	return (uint64_t)qemu_clock_get_ns(VIRTUAL_CLOCK) / (1000000000 / shared->frequency);
}

/* Valid at the start of a block only: within one, QEMU keeps guest registers in host registers. */
static uint64_t register_of(unsigned vcpu, int number)
{
	static __thread struct byte_array *array;
	uint64_t v = 0;

	if (!array)
		array = g_byte_array_sized_new(8);
	g_byte_array_set_size(array, 0);
	if (aarch64_cpu_gdb_read_register(qemu_get_cpu((int)vcpu), array, number) == 8)
		memcpy(&v, array->data, 8);
	return v;
}

/* Copies the unit's new bytes to the shared sink. */
static void stage(struct cpu *c)
{
	if (!c->shared || c->etm.head == c->staged)
		return;
	pthread_mutex_lock(&arena_lock);
	if (arena.size)
		formatter_write(&arena, c->trace_id, c->ring, c->etm.mask, c->staged, c->etm.head - c->staged);
	pthread_mutex_unlock(&arena_lock);
	c->staged = c->etm.head;
}

/* After a timestamp. */
static void restart_period(struct cpu *c)
{
	c->period = period_blocks;
	c->next_time = c->instructions + c->interval;
}

static bool timestamp_is_due(struct cpu *c)
{
	return c->interval ? c->instructions >= c->next_time : --c->period == 0;
}

static bool is_kernel(uint64_t address)
{
	return address >> 55 & 1;
}

static unsigned instructions_of(const struct block *b)
{
	return (unsigned)((b->end - b->start) / 4);
}

/* Begins a new run of trace at address. */
static void begin(struct cpu *c, uint64_t address)
{
	c->etm.context = c->tid;
	c->etm.level = is_kernel(address);
	if (truth)
		truth_begin((unsigned)(c - cpus));
	if (c->etm.head >= c->next_sync) {
		etm_sync(&c->etm, ticks(), address, true);
		c->next_sync = c->etm.head + sync_bytes;
	} else {
		etm_trace_on(&c->etm, address);
	}
	/* The context of a sync point precedes it, and names no thread. */
	etm_timestamp(&c->etm, ticks());
	c->tail = 0;
	restart_period(c);
}

/* Retires a block that ran to its end, with control going to next. False: no instruction of it leads there; no effect.
 */
static bool retire(struct cpu *c, const struct block *b, uint64_t next)
{
	bool taken = next == b->target;

	switch (b->kind) {
	case A64_BRANCH:
	case A64_CONDITIONAL:
		if (!taken && (b->kind == A64_BRANCH || next != b->end))
			return false;
		if (taken)
			etm_direct(&c->etm, next, b->link ? b->end : 0);
		else
			etm_atom(&c->etm, false);
		break;
	case A64_INDIRECT:
		if (b->eret) {
			etm_atom(&c->etm, true);
			c->etm.level = is_kernel(next);
			etm_context(&c->etm, next);
			break;
		}
		etm_indirect(&c->etm, next, b->link ? b->end : 0);
		break;
	default:
		if (next != b->end)
			return false;
		if (b->kind != A64_ISB) {
			c->instructions += instructions_of(b);
			c->tail++;
			return true;
		}
		etm_direct(&c->etm, next, 0);
	}
	c->instructions += instructions_of(b);
	c->tail = 0;
	if (c->etm.cycles)
		etm_cycles(&c->etm, c->instructions);
	return true;
}

static bool is_viewed(struct cpu *c, uint64_t pc)
{
	bool viewed;

	if (c->filters[0].type == RIG_FILTER_RANGE) {
		for (unsigned i = 0; i < c->n_filters; i++)
			if (pc - c->filters[i].start < c->filters[i].stop - c->filters[i].start)
				return true;
		return false;
	}
	for (unsigned i = 0; i < c->n_filters; i++)
		if (c->filters[i].type == RIG_FILTER_START && c->filters[i].start == pc)
			c->viewing = true;
	viewed = c->viewing;
	for (unsigned i = 0; i < c->n_filters; i++)
		if (c->filters[i].type == RIG_FILTER_STOP && c->filters[i].start == pc)
			c->viewing = false;
	return viewed;
}

/*
 * Applies the filters to a block: *ret is where trace of it begins. False: its last instruction is not traced; those
 * before it would need a branch behind them.
 */
static bool find_view(struct cpu *c, const struct block *b, uint64_t *ret)
{
	bool viewed = false;

	for (uint64_t pc = b->start; pc < b->end; pc += 4) {
		bool before = viewed;

		viewed = is_viewed(c, pc);
		if (viewed && !before)
			*ret = pc;
	}
	return viewed;
}

/* The thread that the kernel has switched to, where an address may be stated. */
static void take_switch(struct cpu *c, unsigned vcpu)
{
	c->switches = false;
	c->tid = c->next_tid;
	c->etm.context = c->tid;
	if (truth)
		truth_switch(vcpu, c->tid, shared->cpu[vcpu].tgid, ticks());
}

/* Control left what is traced: the branch there has no address. */
static void leave(struct cpu *c, uint64_t next)
{
	const struct block *b = c->last;

	if (b && b->eret)
		etm_atom(&c->etm, true);
	else if (b)
		retire(c, b, next);
	c->last = NULL;
}

/* The trampoline goes on in the kernel's vector of the same place, behind its first instruction. */
static void learn_vectors(const struct cpu *c, uint64_t at)
{
	unsigned place = at % VECTORS;

	if (c->vector >= OF_USER && place == c->vector + 4 && at - place != c->vectors)
		kernel_vectors = at - place;
}

static void on_block(unsigned vcpu, void *userdata)
{
	const struct block *b = userdata;
	struct cpu *c = &cpus[vcpu];
	uint64_t from = b->start;
	bool viewed = true;

	c->user = !b->kernel;
	if (c->vector && b->kernel)
		learn_vectors(c, b->start);
	if (!c->on)
		return;
	if (c->vector && b->kernel) {
		if (c->n_entry < ENTRY)
			c->entry[c->n_entry++] = b;
		return;
	}
	if (!(b->kernel ? c->traces_kernel : c->traces_user)) {
		leave(c, b->start);
		return;
	}
	if (c->n_filters)
		viewed = find_view(c, b, &from);
	if (c->last && !retire(c, c->last, b->start)) {
		/*
		 * QEMU restarted a block in its middle: none of it is retired. Otherwise the way that control came here
		 * is unknown.
		 */
		if (b->start < c->last->start || b->start >= c->last->end)
			c->last = NULL;
	}
	if (!viewed || from != b->start)
		c->last = NULL;
	if (!viewed)
		return;
	if (truth && c->traces_kernel && c->tail == 0)
		truth_reached(vcpu, 0);
	if (c->switches && (!c->last || c->tail == 0)) {
		take_switch(c, vcpu);
		if (c->last)
			etm_context(&c->etm, b->start);
	}
	if (!c->last) {
		begin(c, from);
	} else if (c->etm.head >= c->next_sync && c->tail == 0) {
		/* A sync point states the current address, which must be this one. */
		etm_sync(&c->etm, ticks(), b->start, false);
		c->next_sync = c->etm.head + sync_bytes;
		restart_period(c);
	} else if (timestamp_is_due(c)) {
		etm_timestamp(&c->etm, ticks());
		restart_period(c);
	}
	c->last = b;
	if (c->etm.head - c->staged >= STAGED)
		stage(c);
}

static void on_vector(unsigned vcpu, void *userdata)
{
	uint64_t at = (uint64_t)(uintptr_t)userdata;
	unsigned vector = at % VECTORS;
	struct cpu *c = &cpus[vcpu];

	/*
	 * What follows user mode is a vector. That distinguishes others of its table from code at such addresses; no
	 * block precedes one where the first instruction of user mode cannot be fetched.
	 */
	if (c->user && vector >= OF_USER)
		c->vectors = at - vector;
	else if (!c->on || !c->traces_kernel || (at - vector != c->vectors && at - vector != kernel_vectors))
		return;
	c->user = false;
	if (c->vector && c->on)
		c->lost++;
	c->vector = vector;
	c->n_entry = 0;
	if (truth && c->traces_kernel)
		truth_vector(vcpu);
}

static bool synchronous(unsigned vector)
{
	return vector == OF_USER || vector == OF_KERNEL;
}

/* Encodes an exception, now that its return address is known. */
static bool left(struct cpu *c, unsigned vector, uint64_t at)
{
	const struct block *b = c->last;
	enum etm_exception type = ETM_IRQ;

	c->last = NULL;
	if (synchronous(vector)) {
		if (b->kind == A64_SVC && at == b->end)
			type = ETM_CALL;
		else
			type = at >= b->start && at < b->end ? ETM_DATA_FAULT : ETM_INST_FAULT;
	}
	if (type == ETM_DATA_FAULT || !retire(c, b, at)) {
		if (at < b->start || at >= b->end) {
			c->lost++;
			return false;
		}
		c->instructions += (at - b->start) / 4;
	}
	etm_exception(&c->etm, type, at, false);
	if (c->etm.cycles)
		etm_cycles(&c->etm, c->instructions);
	return true;
}

/* Encodes the kernel's blocks from the vector on. encoded: so is the exception. */
static void enter(struct cpu *c, unsigned vcpu, bool encoded)
{
	unsigned tail = 0;

	if (!c->n_entry)
		return;
	if (encoded) {
		c->etm.level = 1;
		etm_context(&c->etm, c->entry[0]->start);
		c->tail = 0;
	} else {
		begin(c, c->entry[0]->start);
	}
	for (unsigned i = 0; i < c->n_entry; i++) {
		tail += instructions_of(c->entry[i]);
		if (i + 1 < c->n_entry && !retire(c, c->entry[i], c->entry[i + 1]->start)) {
			c->lost++;
			c->last = NULL;
			return;
		}
		if (c->tail == 0 && i + 1 < c->n_entry)
			tail = 0;
	}
	c->last = c->entry[c->n_entry - 1];
	if (truth)
		truth_reached(vcpu, tail);
}

static void on_entered(unsigned vcpu, void *userdata)
{
	struct cpu *c = &cpus[vcpu];
	unsigned vector = c->vector;
	uint64_t at;
	bool encoded = false;

	(void)userdata;
	if (!vector)
		return;
	c->vector = NO_VECTOR;
	if (!c->on)
		return;
	at = register_of(vcpu, 22);
	if (c->last)
		encoded = left(c, vector, at);
	if (truth && synchronous(vector))
		truth_fault(vcpu, at);
	if (!c->traces_kernel)
		return;
	if (truth)
		truth_entered(vcpu);
	enter(c, vcpu, encoded);
}

/* Starts the trace unit, behind what it has written if it was only paused. */
static void start(struct cpu *c, const struct rig_cpu *r, unsigned vcpu, bool resumes)
{
	uint64_t head = resumes ? c->etm.head : 0;

	c->ring = (uint8_t *)shared + shared->rings + vcpu * shared->ring_size;
	etm_init(&c->etm, c->ring, shared->ring_size, r->configr & RIG_RETURN_STACK, c->tid);
	etm_configure(&c->etm, r->configr, (uint16_t)r->threshold);
	c->interval = r->interval;
	c->instructions = 0;
	c->trace_id = (uint8_t)r->trace_id;
	c->shared = r->shared;
	c->etm.head = c->staged = c->next_sync = head;
	c->last = NULL;
	c->traces_user = r->user;
	c->traces_kernel = traces_kernel && r->kernel;
	c->on = c->traces_user || c->traces_kernel;
	c->vector = NO_VECTOR;
	c->filters = r->filters;
	c->n_filters = r->n_filters;
	c->viewing = r->viewing;
	if (truth && c->on)
		truth_start(vcpu, r, c->traces_kernel, ticks());
}

static void stop(struct cpu *c, struct rig_cpu *r, unsigned vcpu)
{
	etm_flush(&c->etm);
	stage(c);
	r->head = c->etm.head;
	r->viewing = c->viewing;
	if (truth && c->on)
		truth_stop(vcpu, r->head, ticks());
	c->on = false;
	c->last = NULL;
}

/* RIG_HINT: a request of the module. */
static void on_call(unsigned vcpu, void *userdata)
{
	struct cpu *c = &cpus[vcpu];
	struct rig_cpu *r = &shared->cpu[vcpu];

	(void)userdata;
	if (shared->magic != RIG_MAGIC || shared->protocol != RIG_PROTOCOL)
		return;
	switch (r->call) {
	case RIG_START:
	case RIG_RESUME:
		start(c, r, vcpu, r->call == RIG_RESUME);
		break;
	case RIG_STOP:
		stop(c, r, vcpu);
		break;
	case RIG_SWITCH:
		c->next_tid = r->tid;
		if (!traces_kernel)
			take_switch(c, vcpu);
		break;
	case RIG_ARENA_START:
		pthread_mutex_lock(&arena_lock);
		formatter_start(&arena, (uint8_t *)shared + shared->arena, shared->arena_size);
		pthread_mutex_unlock(&arena_lock);
		break;
	case RIG_ARENA_STOP:
		pthread_mutex_lock(&arena_lock);
		formatter_flush(&arena);
		shared->arena_head = arena.head;
		pthread_mutex_unlock(&arena_lock);
		break;
	case RIG_RETRANSLATE:
		/* Takes effect while no virtual CPU runs, before the next block of this one. */
		tb_flush(qemu_get_cpu((int)vcpu));
		break;
	}
	r->call = 0;
}

/* Blocks are never freed, because QEMU does not report when it drops their translations. Needs the lock. */
static struct block *new_block(void)
{
	static struct block *pool;
	static size_t free_blocks;

	if (free_blocks == 0) {
		pool = malloc(ARENA);
		if (!pool)
			abort();
		free_blocks = ARENA / sizeof(*pool);
	}
	free_blocks--;
	return pool++;
}

static uint32_t opcode(const struct qemu_plugin_tb *tb, size_t i)
{
	uint32_t op;

	memcpy(&op, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, i)), 4);
	return op;
}

static void successor(uint64_t address)
{
	for (unsigned i = 0; i < n_successors; i++)
		if (successors[i] == address)
			return;
	if (n_successors < SUCCESSORS)
		successors[n_successors++] = address;
}

/* The kernel writes the context ID of the thread that it switches to. */
static void on_context(unsigned vcpu, void *userdata)
{
	struct cpu *c = &cpus[vcpu];

	(void)userdata;
	if (shared->magic != RIG_MAGIC)
		return;
	if (c->on && c->traces_kernel)
		c->switches = true;
	else
		take_switch(c, vcpu);
}

static struct block *block_of(const struct qemu_plugin_tb *tb, uint64_t start, size_t n)
{
	uint32_t op = opcode(tb, n - 1);
	struct block *b;

	pthread_mutex_lock(&lock);
	b = new_block();
	pthread_mutex_unlock(&lock);
	*b = (struct block){ .start = start, .end = start + 4 * n, .eret = IS_ERET(op), .kernel = is_kernel(start) };
	b->kind = (uint8_t)a64_classify(op, b->end - 4, &b->link, &b->target);
	return b;
}

static void translate_kernel(struct qemu_plugin_tb *tb, uint64_t start, size_t n)
{
	unsigned vector = start % VECTORS;
	bool link, entered = false;
	uint64_t target;

	for (size_t i = 0; i < n; i++) {
		uint32_t op = opcode(tb, i);

		if (op == RIG_HINT)
			qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, i), on_call,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		if (traces_kernel && MSR_CONTEXTIDR_EL1(op))
			qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, i), on_context,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		if (op != MRS_X22_ELR_EL1)
			continue;
		pthread_mutex_lock(&lock);
		successor(start + 4 * n);
		a64_classify(opcode(tb, n - 1), start + 4 * (n - 1), &link, &target);
		if (target)
			successor(target);
		pthread_mutex_unlock(&lock);
	}
	if (vector % 0x80 == 0 && vector >= (traces_kernel ? OF_KERNEL : OF_USER) && vector < OF_USER_32)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_vector, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)start);
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < n_successors; i++)
		entered |= successors[i] == start;
	pthread_mutex_unlock(&lock);
	if (entered)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_entered, QEMU_PLUGIN_CB_NO_REGS, NULL);
	if (!traces_kernel)
		return;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block_of(tb, start, n));
	if (truth)
		truth_instrument(tb);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t start = qemu_plugin_tb_vaddr(tb);
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	if (is_kernel(start)) {
		translate_kernel(tb, start, n);
		return;
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block_of(tb, start, n));
	if (truth)
		truth_instrument(tb);
}

static void on_end(qemu_plugin_id_t id, void *userdata)
{
	uint64_t lost = 0;

	(void)id;
	(void)userdata;
	for (unsigned i = 0; i < RIG_CPUS; i++)
		lost += cpus[i].lost;
	if (lost)
		fprintf(stderr, "rig: %llu times user mode was left in a way that is not understood\n",
			(unsigned long long)lost);
	if (truth)
		truth_close();
}

static int map_memory(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	memory_size = (uint64_t)st.st_size;
	shared = mmap(NULL, memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return shared == MAP_FAILED || memory_size < sizeof(*shared) ? -1 : 0;
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	if (!info->system_emulation || info->system.max_vcpus > RIG_CPUS)
		return -1;
	for (int i = 0; i < argc; i++) {
		const char *value = strchr(argv[i], '=');

		if (!value++)
			return -1;
		if (strncmp(argv[i], "memory=", 7) == 0) {
			if (map_memory(value) < 0) {
				perror(value);
				return -1;
			}
		} else if (strncmp(argv[i], "log=", 4) == 0) {
			truth_open(value);
			truth = true;
		} else if (strncmp(argv[i], "kernel=", 7) == 0) {
			traces_kernel = strcmp(value, "on") == 0;
		} else if (strncmp(argv[i], "sync=", 5) == 0) {
			sync_bytes = strtoull(value, NULL, 0);
		} else if (strncmp(argv[i], "period=", 7) == 0) {
			period_blocks = (uint32_t)strtoul(value, NULL, 0);
		} else {
			return -1;
		}
	}
	if (!shared || !period_blocks)
		return -1;
	etm_atoms_init();
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_end, NULL);
	return 0;
}
