/* SPDX-License-Identifier: MIT */
#include "lib/coresight/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/coresight/topology-read.h"

enum { PROBLEMS_MAX = 64 };

const char *topology_kind_str(enum topology_kind kind)
{
	static const char *const names[] = {
		[TOPOLOGY_OTHER] = "device",  [TOPOLOGY_ETMV3] = "ETMv3",
		[TOPOLOGY_PTM] = "PTM",       [TOPOLOGY_ETMV4] = "ETMv4",
		[TOPOLOGY_ETE] = "ETE",       [TOPOLOGY_STM] = "STM",
		[TOPOLOGY_TRBE] = "TRBE",     [TOPOLOGY_ETR] = "ETR",
		[TOPOLOGY_ETF] = "ETF",       [TOPOLOGY_ETB] = "ETB",
		[TOPOLOGY_SMB] = "SMB",       [TOPOLOGY_TPIU] = "TPIU",
		[TOPOLOGY_FUNNEL] = "funnel", [TOPOLOGY_REPLICATOR] = "replicator",
		[TOPOLOGY_CATU] = "CATU",     [TOPOLOGY_CTI] = "CTI",
	};

	return names[kind];
}

int topology_find_device(const struct topology *t, const char *name, uint32_t *ret)
{
	for (size_t i = 0; i < t->n_devices; i++)
		if (strcmp(t->devices[i].name, name) == 0) {
			*ret = (uint32_t)i;
			return 0;
		}
	return -ENOENT;
}

int topology_find_sink(const struct topology *t, const char *name, uint32_t *ret)
{
	for (size_t i = 0; i < t->n_sinks; i++)
		if (strcmp(t->devices[t->sinks[i].device].name, name) == 0) {
			*ret = (uint32_t)i;
			return 0;
		}
	return -ENOENT;
}

const struct topology_cpu *topology_find_cpu(const struct topology *t, uint32_t cpu)
{
	for (size_t i = 0; i < t->n_cpus; i++)
		if (t->cpus[i].cpu == cpu)
			return &t->cpus[i];
	return NULL;
}

int topology_set_field(const struct topology_pmu *pmu, enum topology_format format, uint64_t value, uint64_t words[5])
{
	const struct topology_field *f = &pmu->formats[format];
	unsigned bits = f->last - f->first + 1u;
	uint64_t mask = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;

	if (!f->there)
		return -ENOTSUP;
	if (value & ~mask)
		return -ERANGE;
	words[f->word] = (words[f->word] & ~(mask << f->first)) | value << f->first;
	return 0;
}

void topology_problem(struct topology_reading *r, const char *path, int error, const char *cause)
{
	struct topology *t = r->t;
	struct topology_problem *p;

	if (t->n_problems == PROBLEMS_MAX) {
		t->n_problems_more++;
		return;
	}
	p = &t->problems[t->n_problems++];
	snprintf(p->path, sizeof(p->path), "%s", path);
	p->error = error;
	p->cause = cause;
}

bool topology_join_path(char ret[static SYSROOT_PATH_MAX], const char *dir, const char *name)
{
	return (size_t)snprintf(ret, SYSROOT_PATH_MAX, "%s/%s", dir, name) < SYSROOT_PATH_MAX;
}

bool topology_value(struct topology_reading *r, const char *dir, const char *name, uint64_t *ret)
{
	char path[SYSROOT_PATH_MAX];
	int rc;

	if (!topology_join_path(path, dir, name))
		return false;
	rc = sysroot_number(r->root, path, ret);
	if (rc < 0 && rc != -ENOENT && rc != -ENOTDIR)
		topology_problem(r, path, rc, "does not hold a number");
	return rc == 0;
}

static int read_all(struct topology_reading *r)
{
	static int (*const parts[])(struct topology_reading * r) = {
		topology_read_devices, topology_read_pmu, topology_read_sinks, topology_read_cpus, topology_reach,
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ELEMENTS(parts); i++)
		rc = parts[i](r);
	return rc;
}

int topology_read(const char *root, struct topology **ret)
{
	_cleanup_(topology_freep) struct topology *t = calloc(1, sizeof(*t));
	struct topology_reading r = { .t = t };
	_cleanup_close_ int fd = -1;
	int rc;

	if (!t)
		return -ENOMEM;
	t->problems = calloc(PROBLEMS_MAX, sizeof(*t->problems));
	if (!t->problems)
		return -ENOMEM;
	rc = sysroot_open(root, &fd);
	r.root = fd;
	if (rc == 0)
		rc = read_all(&r);
	if (rc < 0)
		return rc;
	*ret = TAKE_PTR(t);
	return 0;
}

void topology_keep_registers(struct topology *t, const struct topology *old)
{
	for (size_t i = 0; i < t->n_cpus; i++) {
		struct topology_cpu *cpu = &t->cpus[i];
		const struct topology_cpu *had = topology_find_cpu(old, cpu->cpu);

		if (cpu->registers || cpu->source < 0 || !had || !had->registers || cpu->kind != had->kind)
			continue;
		if (strcmp(t->devices[cpu->source].name, old->devices[had->source].name) != 0)
			continue;
		cpu->registers = true;
		cpu->regs = had->regs;
		cpu->ts_source = had->ts_source;
		cpu->offers = had->offers;
	}
}

struct topology *topology_free(struct topology *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n_cpus; i++)
		free(t->cpus[i].sinks);
	for (size_t i = 0; i < t->n_devices; i++) {
		free(t->devices[i].outs);
		free(t->devices[i].dir);
	}
	free(t->cpus);
	free(t->devices);
	free(t->sinks);
	free(t->problems);
	free(t);
	return NULL;
}
