#include "lib/coresight/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"

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

int topology_set(const struct topology_pmu *pmu, enum topology_format format, uint64_t value, uint64_t words[5])
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

int topology_read(const char *root, struct topology **ret)
{
	(void)root;
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct topology *topology_free(struct topology *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n_cpus; i++)
		free(t->cpus[i].sinks);
	for (size_t i = 0; i < t->n_devices; i++)
		free(t->devices[i].outs);
	free(t->cpus);
	free(t->devices);
	free(t->sinks);
	free(t->problems);
	free(t);
	return NULL;
}
