/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/plugin/truth.h"

enum { HELD = 64 };

struct log {
	FILE *file;
	struct rig_truth run;
	uint64_t next;
	uint64_t untraced;  /* instructions executed since the last mark while the unit was off */
	uint64_t unreached; /* instructions of the run that a decoder may not reach */
	bool on, user, kernel;
	bool waits;                  /* for the beginning of the kernel's trace */
	struct rig_truth held[HELD]; /* runs since an exception from what ends the first */
	unsigned n_held;
	bool holds;
	struct rig_filter filters[RIG_FILTERS];
	unsigned n_filters;
	bool viewing; /* between a start and a stop address */
};

static struct log logs[RIG_CPUS];

void truth_open(const char *dir)
{
	for (unsigned i = 0; i < RIG_CPUS; i++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/truth.%u", dir, i);
		logs[i].file = fopen(path, "we");
		if (!logs[i].file) {
			fprintf(stderr, "rig: %s: %s\n", path, strerror(errno));
			exit(1);
		}
		setvbuf(logs[i].file, NULL, _IOFBF, 1 << 18);
	}
}

static void put(struct log *l, struct rig_truth record)
{
	if (record.count && fwrite(&record, sizeof(record), 1, l->file) != 1) {
		fprintf(stderr, "rig: truth log: %s\n", strerror(errno));
		_Exit(1);
	}
}

/* Ends the run. */
static void put_run(struct log *l)
{
	if (!l->holds)
		put(l, l->run);
	else if (l->n_held < HELD)
		l->held[l->n_held++] = l->run;
	else
		abort();
	l->run = (struct rig_truth){ 0 };
	l->unreached = 0;
}

static void mark(struct log *l, enum rig_mark type, uint64_t value, uint64_t ticks)
{
	put_run(l);
	put(l, (struct rig_truth){ RIG_MARK | (uint64_t)RIG_MARK_UNTRACED << 56, l->untraced });
	l->next = l->untraced = 0;
	put(l, (struct rig_truth){ RIG_MARK | (uint64_t)type << 56 | value, ticks });
}

void truth_start(unsigned vcpu, const struct rig_cpu *r, bool kernel, uint64_t ticks)
{
	struct log *l = &logs[vcpu];

	mark(l, RIG_MARK_START, r->trace_id, ticks);
	memcpy(l->filters, r->filters, sizeof(l->filters));
	l->n_filters = r->n_filters;
	l->viewing = r->viewing;
	l->on = true;
	l->user = r->user;
	l->waits = l->kernel = kernel;
}

void truth_stop(unsigned vcpu, uint64_t bytes, uint64_t ticks)
{
	struct log *l = &logs[vcpu];

	if (l->kernel)
		l->run.count -= l->unreached < l->run.count ? l->unreached : l->run.count;
	mark(l, RIG_MARK_STOP, bytes, ticks);
	l->on = false;
	/* The log must be readable as soon as the trace is. */
	fflush(logs[vcpu].file);
}

void truth_switch(unsigned vcpu, uint32_t tid, uint32_t tgid, uint64_t ticks)
{
	mark(&logs[vcpu], RIG_MARK_SWITCH, (tid & 0xffffff) | (uint64_t)(tgid & 0xffffff) << 24, ticks);
}

void truth_vector(unsigned vcpu)
{
	struct log *l = &logs[vcpu];

	truth_entered(vcpu);
	l->holds = l->on;
	put_run(l);
	l->next = 0;
}

void truth_entered(unsigned vcpu)
{
	struct log *l = &logs[vcpu];

	for (unsigned i = 0; i < l->n_held; i++)
		put(l, l->held[i]);
	l->n_held = 0;
	l->holds = false;
}

void truth_begin(unsigned vcpu)
{
	logs[vcpu].waits = false;
	logs[vcpu].unreached = 0;
}

void truth_reached(unsigned vcpu, unsigned n)
{
	logs[vcpu].unreached = n;
}

void truth_fault(unsigned vcpu, uint64_t at)
{
	struct log *l = &logs[vcpu];

	if (l->holds) {
		if (l->held[0].count && l->held[0].start + 4 * (l->held[0].count - 1) == at)
			l->held[0].count--;
	} else if (l->run.count && l->next - 4 == at) {
		l->run.count--;
		l->next -= 4;
	}
}

/* True if the filters let this instruction be traced, which is executed now. */
static bool is_viewed(struct log *l, uint64_t pc)
{
	bool viewed = !l->n_filters, stops = false;

	for (unsigned i = 0; i < l->n_filters; i++) {
		const struct rig_filter *f = &l->filters[i];

		if (f->type == RIG_FILTER_RANGE)
			viewed |= pc >= f->start && pc < f->stop;
		else if (f->type == RIG_FILTER_START && pc == f->start)
			l->viewing = true;
		else if (f->type == RIG_FILTER_STOP && pc == f->start)
			stops = true;
	}
	viewed |= l->viewing;
	l->viewing &= !stops;
	return viewed;
}

static void step(unsigned vcpu, void *userdata)
{
	uint64_t pc = (uint64_t)(uintptr_t)userdata;
	struct log *l = &logs[vcpu];

	bool kernel = pc >> 55 & 1;

	if (!l->on && (!kernel || l->kernel)) {
		l->untraced++;
		return;
	}
	if (!l->on || l->waits || !(kernel ? l->kernel : l->user) || (l->n_filters && !is_viewed(l, pc)))
		return;
	if (pc != l->next) {
		put_run(l);
		l->run.start = pc;
	}
	l->run.count++;
	l->unreached++;
	l->next = pc + 4;
}

void truth_instrument(struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		qemu_plugin_register_vcpu_insn_exec_cb(insn, step, QEMU_PLUGIN_CB_NO_REGS,
						       (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn));
	}
}

void truth_close(void)
{
	for (unsigned i = 0; i < RIG_CPUS; i++)
		if (logs[i].file) {
			put(&logs[i], logs[i].run);
			fclose(logs[i].file);
			logs[i].file = NULL;
		}
}
