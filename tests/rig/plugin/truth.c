/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/plugin/truth.h"

struct log {
	FILE *file;
	struct rig_truth run;
	uint64_t next;
	uint64_t untraced; /* instructions executed since the last mark while the unit was off */
	bool on;
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

static void mark(struct log *l, enum rig_mark type, uint64_t value, uint64_t ticks)
{
	put(l, l->run);
	put(l, (struct rig_truth){ RIG_MARK | (uint64_t)RIG_MARK_UNTRACED << 56, l->untraced });
	l->run = (struct rig_truth){ 0 };
	l->next = l->untraced = 0;
	put(l, (struct rig_truth){ RIG_MARK | (uint64_t)type << 56 | value, ticks });
}

void truth_start(unsigned vcpu, const struct rig_cpu *r, uint64_t ticks)
{
	struct log *l = &logs[vcpu];

	mark(l, RIG_MARK_START, r->trace_id, ticks);
	memcpy(l->filters, r->filters, sizeof(l->filters));
	l->n_filters = r->n_filters;
	l->viewing = r->viewing;
	l->on = true;
}

void truth_stop(unsigned vcpu, uint64_t bytes, uint64_t ticks)
{
	mark(&logs[vcpu], RIG_MARK_STOP, bytes, ticks);
	logs[vcpu].on = false;
	/* The log must be readable as soon as the trace is. */
	fflush(logs[vcpu].file);
}

void truth_switch(unsigned vcpu, uint32_t tid, uint32_t tgid, uint64_t ticks)
{
	mark(&logs[vcpu], RIG_MARK_SWITCH, (tid & 0xffffff) | (uint64_t)(tgid & 0xffffff) << 24, ticks);
}

void truth_fault(unsigned vcpu, uint64_t at)
{
	struct log *l = &logs[vcpu];

	if (l->run.count && l->next - 4 == at) {
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

	if (!l->on) {
		l->untraced++;
		return;
	}
	if (l->n_filters && !is_viewed(l, pc))
		return;
	if (pc != l->next) {
		put(l, l->run);
		l->run = (struct rig_truth){ pc, 0 };
	}
	l->run.count++;
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
