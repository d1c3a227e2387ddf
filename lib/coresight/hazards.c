/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/coresight/hazards.h"
#include "lib/coresight/kernel-config.h"
#include "lib/coresight/sysroot.h"

enum {
	ARM = 0x41,
	MICROSOFT = 0x6d,
	/* Revisions r<variant>p<revision> as one number; the last one includes all. */
	R0P0 = 0x00,
	R0P1 = 0x01,
	R0P2 = 0x02,
	R1P3 = 0x13,
	R2P0 = 0x20,
	ALL = 0xff,
};

/* Who prevents an erratum: the kernel by an option, the kernel by not offering TRBE at all, or firmware likewise. */
enum cure { CURE_OPTION, CURE_KERNEL, CURE_FIRMWARE };

struct erratum {
	uint32_t number;
	const char *core;
	uint8_t implementer;
	uint16_t part;
	uint8_t last;         /* revision; the first is r0p0 */
	uint8_t major, minor; /* the first Linux that prevents it */
	enum cure cure;
	enum hazard_effect effect; /* if nothing prevents it */
	const char *what;
};

#define OVERWRITES "TRBE may overwrite trace that it has written"
#define OUTSIDE "TRBE may write outside of its buffer"
#define UNFLUSHED "the end of a recording may not reach memory"
#define CORRUPTS "data may be corrupted while TRBE is enabled"

/* Of Linux: arch/arm64/kernel/cpu_errata.c, Documentation/arch/arm64/silicon-errata.rst; of TF-A: errata of CPUs. */
static const struct erratum errata[] = {
	{ 2253138, "Neoverse-N2", ARM, 0xd49, ALL, 5, 16, CURE_OPTION, HAZARD_DAMAGE, OUTSIDE },
	{ 2253138, "Azure Cobalt 100", MICROSOFT, 0xd49, ALL, 6, 8, CURE_OPTION, HAZARD_DAMAGE, OUTSIDE },
	{ 2224489, "Cortex-A710", ARM, 0xd47, ALL, 5, 16, CURE_OPTION, HAZARD_DAMAGE, OUTSIDE },
	{ 2224489, "Cortex-X2", ARM, 0xd48, R2P0, 5, 17, CURE_OPTION, HAZARD_DAMAGE, OUTSIDE },
	{ 2139208, "Neoverse-N2", ARM, 0xd49, ALL, 5, 16, CURE_OPTION, HAZARD_DAMAGE, OVERWRITES },
	{ 2139208, "Azure Cobalt 100", MICROSOFT, 0xd49, ALL, 6, 8, CURE_OPTION, HAZARD_DAMAGE, OVERWRITES },
	{ 2119858, "Cortex-A710", ARM, 0xd47, ALL, 5, 16, CURE_OPTION, HAZARD_DAMAGE, OVERWRITES },
	{ 2119858, "Cortex-X2", ARM, 0xd48, R2P0, 5, 17, CURE_OPTION, HAZARD_DAMAGE, OVERWRITES },
	{ 2067961, "Neoverse-N2", ARM, 0xd49, ALL, 5, 16, CURE_OPTION, HAZARD_LOSS, UNFLUSHED },
	{ 2067961, "Azure Cobalt 100", MICROSOFT, 0xd49, ALL, 6, 8, CURE_OPTION, HAZARD_LOSS, UNFLUSHED },
	{ 2054223, "Cortex-A710", ARM, 0xd47, ALL, 5, 16, CURE_OPTION, HAZARD_LOSS, UNFLUSHED },
	{ 1902691, "Cortex-A510", ARM, 0xd46, R0P1, 5, 18, CURE_KERNEL, HAZARD_DAMAGE, "TRBE corrupts what it writes" },
	{ 2038923, "Cortex-A510", ARM, 0xd46, R0P2, 5, 18, CURE_OPTION, HAZARD_DAMAGE, "the trace may be corrupted" },
	{ 2064142, "Cortex-A510", ARM, 0xd46, R0P2, 5, 18, CURE_OPTION, HAZARD_DAMAGE,
	  "TRBE may ignore that it is programmed, and write elsewhere" },
	{ 2971420, "Cortex-A510", ARM, 0xd46, R1P3, 0, 0, CURE_FIRMWARE, HAZARD_DAMAGE, CORRUPTS },
	{ 2938996, "Cortex-A520", ARM, 0xd80, R0P1, 0, 0, CURE_FIRMWARE, HAZARD_DAMAGE, CORRUPTS },
	{ 2726228, "Cortex-X4", ARM, 0xd82, R0P1, 0, 0, CURE_FIRMWARE, HAZARD_DAMAGE, CORRUPTS },
};

struct machine {
	int root;
	const struct topology *topology;
	char release[80], command_line[SYSROOT_TEXT_MAX];
	char *config;
	struct hazards *found;
};

static bool kernel_before(const struct machine *m, unsigned major, unsigned minor)
{
	unsigned a, b;

	return sscanf(m->release, "%3u.%3u", &a, &b) == 2 && (a < major || (a == major && b < minor));
}

static bool has_trbe(const struct topology *t, const struct topology_cpu *cpu)
{
	for (size_t i = 0; i < cpu->n_sinks; i++)
		if (t->sinks[cpu->sinks[i]].per_cpu)
			return true;
	return false;
}

static struct hazard *add(struct machine *m, enum hazard_effect effect)
{
	struct hazard *h = &m->found->list[MIN(m->found->n, (size_t)HAZARDS_MAX - 1)];

	m->found->n = MIN(m->found->n + 1, (size_t)HAZARDS_MAX);
	*h = (struct hazard){ .effect = effect };
	return h;
}

/* The part of MIDR_EL1 that names a revision, as r<variant>p<revision>. */
static uint8_t revision_of(uint64_t midr)
{
	return (uint8_t)((midr >> 20 & 0xf) << 4 | (midr & 0xf));
}

static bool concerns(const struct erratum *e, uint64_t midr)
{
	return (midr >> 24 & 0xff) == e->implementer && (midr >> 4 & 0xfff) == e->part && revision_of(midr) <= e->last;
}

/*
 * True if nothing prevents the erratum on a CPU that shows TRBE: firmware, and kernels without an option for it, would
 * hide TRBE. If the kernel's configuration is unknown, an option counts as set, which is its default.
 */
static bool unprevented(const struct machine *m, const struct erratum *e)
{
	char option[40];

	if (e->cure == CURE_FIRMWARE || e->cure == CURE_KERNEL || kernel_before(m, e->major, e->minor))
		return true;
	snprintf(option, sizeof(option), "ARM64_ERRATUM_%u", e->number);
	return m->config && !kernel_config_is(m->config, option, 'y');
}

static void add_erratum(struct machine *m, const struct erratum *e, uint64_t midr, unsigned n_cpus)
{
	struct hazard *h = add(m, e->effect);

	snprintf(h->text, sizeof(h->text), "erratum %u of %s r%up%u (%u CPU%s): %s", e->number, e->core,
		 revision_of(midr) >> 4, revision_of(midr) & 0xfU, n_cpus, n_cpus == 1 ? "" : "s", e->what);
	if (e->cure == CURE_FIRMWARE)
		snprintf(h->remedy, sizeof(h->remedy),
			 "update the firmware: TF-A with ERRATA_%s_%u disables TRBE on these CPUs",
			 strchr(e->core, '-') + 1, e->number);
	else if (kernel_before(m, e->major, e->minor))
		snprintf(h->remedy, sizeof(h->remedy), "boot Linux %u.%u or later, which %s", e->major, e->minor,
			 e->cure == CURE_KERNEL ? "does not offer TRBE there" : "works around it");
	else
		snprintf(h->remedy, sizeof(h->remedy), "boot a kernel with CONFIG_ARM64_ERRATUM_%u", e->number);
}

static void find_errata(struct machine *m)
{
	const struct topology *t = m->topology;

	for (size_t i = 0; i < ELEMENTS(errata); i++) {
		uint64_t midr, affected = 0;
		unsigned n = 0;

		for (size_t k = 0; k < t->n_cpus; k++) {
			char path[96];

			snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%u/regs/identification/midr_el1",
				 t->cpus[k].cpu);
			if (!has_trbe(t, &t->cpus[k]) || sysroot_number(m->root, path, &midr) < 0 ||
			    !concerns(&errata[i], midr))
				continue;
			affected = midr;
			n++;
		}
		if (n && unprevented(m, &errata[i]))
			add_erratum(m, &errata[i], affected, n);
	}
}

/* Whether KVM changes between EL1 and EL2 for each guest, although all CPUs with TRBE have VHE. */
static bool runs_kvm_without_vhe(const struct machine *m)
{
	static const char *const options[] = { "kvm-arm.mode=nvhe", "kvm-arm.mode=protected", "id_aa64mmfr1.vh=0" };

	if (!sysroot_has(m->root, "sys/class/misc/kvm") && !sysroot_has(m->root, "dev/kvm"))
		return false;
	for (size_t i = 0; i < ELEMENTS(options); i++)
		if (strstr(m->command_line, options[i]))
			return true;
	return false;
}

static void find_defects_of_kernel(struct machine *m)
{
	struct hazard *h;

	if (kernel_before(m, 7, 1) && runs_kvm_without_vhe(m)) {
		h = add(m, HAZARD_DAMAGE);
		snprintf(h->text, sizeof(h->text),
			 "KVM without VHE leaves TRBE enabled while a guest runs: memory may be corrupted, "
			 "and the machine may hang");
		snprintf(h->remedy, sizeof(h->remedy),
			 "boot Linux 7.1 or later, or without kvm-arm.mode=nvhe or protected");
	}
	if (kernel_before(m, 7, 2) && sysroot_has(m->root, "sys/devices/system/cpu/cpu0/cpuidle/state1")) {
		h = add(m, HAZARD_NOTE);
		snprintf(h->text, sizeof(h->text),
			 "before Linux 7.2 TRBE loses its state when a CPU is powered down in idle; csightd enables it "
			 "only while a traced thread runs, but with arm = machine always, as perf record -a does");
	}
}

/* Stable: rows of one effect keep their order. */
static void sort_by_effect(struct hazards *h)
{
	for (size_t i = 1; i < h->n; i++) {
		struct hazard row = h->list[i];
		size_t k = i;

		for (; k > 0 && h->list[k - 1].effect < row.effect; k--)
			h->list[k] = h->list[k - 1];
		h->list[k] = row;
	}
}

void hazards_find(int root, const struct topology *t, struct hazards *ret)
{
	struct machine m = { .root = root, .topology = t, .found = ret };
	bool any = false;

	ret->n = 0;
	for (size_t i = 0; i < t->n_cpus && !any; i++)
		any = has_trbe(t, &t->cpus[i]);
	if (!any)
		return;
	if (sysroot_text(root, "proc/sys/kernel/osrelease", m.release, sizeof(m.release)) < 0)
		m.release[0] = 0;
	if (sysroot_text(root, "proc/cmdline", m.command_line, sizeof(m.command_line)) < 0)
		m.command_line[0] = 0;
	m.config = kernel_config_read(root, m.release);
	find_errata(&m);
	find_defects_of_kernel(&m);
	sort_by_effect(ret);
	free(m.config);
}

const struct hazard *hazards_damage(const struct hazards *h)
{
	return h->n && h->list[0].effect == HAZARD_DAMAGE ? &h->list[0] : NULL;
}
