/* SPDX-License-Identifier: MIT */
/* Reads the devices on the coresight bus and their connections. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/coresight/topology-read.h"

/* More output ports than any replicator has. */
enum { OUTS_MAX = 32 };

/*
 * A device's name consists of a kind and a number (tmc_etf0), or of an address and the name of its device tree node
 * (20010000.etf, 20040000.main_funnel). The kind is found by the words in the name.
 */
static enum topology_kind kind_of_name(const char *name)
{
	static const struct {
		const char *word;
		enum topology_kind kind;
	} words[] = {
		{ "cti", TOPOLOGY_CTI },
		{ "etm", TOPOLOGY_ETMV4 },
		{ "ptm", TOPOLOGY_PTM },
		{ "ete", TOPOLOGY_ETE },
		{ "stm", TOPOLOGY_STM },
		{ "trbe", TOPOLOGY_TRBE },
		{ "etr", TOPOLOGY_ETR },
		{ "etf", TOPOLOGY_ETF },
		{ "etb", TOPOLOGY_ETB },
		{ "smb", TOPOLOGY_SMB },
		{ "tpiu", TOPOLOGY_TPIU },
		{ "funnel", TOPOLOGY_FUNNEL },
		{ "replicator", TOPOLOGY_REPLICATOR },
		{ "catu", TOPOLOGY_CATU },
	};

	for (size_t n; *name; name += n + !n) {
		for (n = 0; isalpha((unsigned char)name[n]); n++)
			;
		for (size_t i = 0; i < ELEMENTS(words); i++)
			if (strlen(words[i].word) == n && strncmp(name, words[i].word, n) == 0)
				return words[i].kind;
	}
	return TOPOLOGY_OTHER;
}

/* TRCDEVARCH: version 5 of the trace architecture is ETE (IHI 0064, "TRCDEVARCH"). */
static bool is_ete(uint64_t devarch)
{
	return (devarch & 0xfff) == 0xa13 && (devarch >> 12 & 0xf) == 5;
}

/* The field of DEVID with the configuration of a TMC: ETB, ETR or ETF. */
static enum topology_kind kind_of_tmc(uint64_t devid)
{
	static const enum topology_kind kinds[] = { TOPOLOGY_ETB, TOPOLOGY_ETR, TOPOLOGY_ETF, TOPOLOGY_OTHER };

	return kinds[devid >> 6 & 3];
}

static enum topology_kind kind_of(struct topology_reading *r, const char *dir, const char *name)
{
	enum topology_kind kind = kind_of_name(name);
	char path[SYSROOT_PATH_MAX];
	uint64_t v;

	/* The driver names PTMs "etm" too. ETMIDR[11:8] is 3 for a PTM (IHI 0014, "ETMIDR"). */
	if (topology_join_path(path, dir, "mgmt/etmidr") && sysroot_has(r->root, path))
		return topology_value(r, dir, "mgmt/etmidr", &v) ? (v >> 8 & 0xf) == 3 ? TOPOLOGY_PTM : TOPOLOGY_ETMV3
		       : kind == TOPOLOGY_PTM                    ? TOPOLOGY_PTM
								 : TOPOLOGY_ETMV3;
	if (kind == TOPOLOGY_ETE)
		return kind;
	if (topology_join_path(path, dir, "trcidr/trcidr0") && sysroot_has(r->root, path))
		return topology_value(r, dir, "mgmt/trcdevarch", &v) && is_ete(v) ? TOPOLOGY_ETE : TOPOLOGY_ETMV4;
	if (kind == TOPOLOGY_OTHER && topology_join_path(path, dir, "mgmt/rsz") && sysroot_has(r->root, path) &&
	    topology_value(r, dir, "mgmt/devid", &v))
		return kind_of_tmc(v);
	return kind;
}

/* Returns the number at the end of a name, which is that of the CPU in names that the kernel assigns by CPU. */
static int cpu_of_name(const char *name)
{
	const char *digits = name + strlen(name);
	unsigned long n;

	while (digits > name && isdigit((unsigned char)digits[-1]))
		digits--;
	if (!*digits || strlen(digits) > 4)
		return -1;
	n = strtoul(digits, NULL, 10);
	return n < TOPOLOGY_CPUS_MAX ? (int)n : -1;
}

static int cpu_of(struct topology_reading *r, const struct topology_device *d)
{
	uint64_t v;

	switch (d->kind) {
	case TOPOLOGY_ETMV3:
	case TOPOLOGY_PTM:
	case TOPOLOGY_ETMV4:
	case TOPOLOGY_ETE:
		if (topology_value(r, d->dir, "cpu", &v)) {
			if (v < TOPOLOGY_CPUS_MAX)
				return (int)v;
			topology_problem(r, d->dir, -ERANGE, "has a CPU number out of range");
			return -1;
		}
		/* In a name with an address, the number at the end is not that of the CPU. */
		return strchr(d->name, '.') ? -1 : cpu_of_name(d->name);
	case TOPOLOGY_TRBE:
		return cpu_of_name(d->name);
	case TOPOLOGY_CTI:
		return strstr(d->name, "cpu") ? cpu_of_name(d->name) : -1;
	default:
		return -1;
	}
}

static bool is_sink(enum topology_kind kind)
{
	return kind == TOPOLOGY_TRBE || kind == TOPOLOGY_ETR || kind == TOPOLOGY_ETF || kind == TOPOLOGY_ETB ||
	       kind == TOPOLOGY_SMB;
}

static int add_device(struct topology_reading *r, const char *name)
{
	struct topology *t = r->t;
	struct topology_device *d = &t->devices[t->n_devices];
	char path[SYSROOT_PATH_MAX], dir[SYSROOT_PATH_MAX];
	uint64_t v;
	int rc;

	if (!topology_join_path(path, TOPOLOGY_DEVICES, name) || strlen(name) >= sizeof(d->name)) {
		topology_problem(r, TOPOLOGY_DEVICES, -ENAMETOOLONG, "has a device with too long a name");
		return 0;
	}
	rc = sysroot_resolve(r->root, path, dir);
	if (rc < 0) {
		topology_problem(r, path, rc, "cannot be resolved");
		return 0;
	}
	*d = (struct topology_device){ .dir = strdup(dir) };
	if (!d->dir)
		return -ENOMEM;
	t->n_devices++;
	strcpy(d->name, name);
	d->kind = kind_of(r, dir, name);
	d->cpu = cpu_of(r, d);
	d->sysfs = topology_value(r, dir, is_sink(d->kind) ? "enable_sink" : "enable_source", &v) && v;
	/* TraceCaptEn is the lowest bit of the control register in all kinds of sinks. */
	if (d->kind == TOPOLOGY_ETR || d->kind == TOPOLOGY_ETF || d->kind == TOPOLOGY_ETB)
		d->running = topology_value(r, dir, "mgmt/ctl", &v) && (v & 1);
	return 0;
}

static int add_out(struct topology_reading *r, struct topology_device *d, const char *dir, const char *name)
{
	char path[SYSROOT_PATH_MAX], to[SYSROOT_PATH_MAX];
	const char *last;
	uint32_t other;
	uint32_t *outs;
	int rc;

	if (!topology_join_path(path, dir, name))
		return 0;
	rc = sysroot_resolve(r->root, path, to);
	last = strrchr(to, '/');
	if (rc < 0 || !last || topology_find_device(r->t, last + 1, &other) < 0) {
		topology_problem(r, path, rc < 0 ? rc : -ENODEV, "is not a link to a device");
		return 0;
	}
	if (d->n_outs == OUTS_MAX) {
		topology_problem(r, dir, -EFBIG, "has too many connections");
		return 0;
	}
	outs = reallocarray(d->outs, d->n_outs + 1, sizeof(*outs));
	if (!outs)
		return -ENOMEM;
	d->outs = outs;
	outs[d->n_outs++] = other;
	return 0;
}

static int read_connections(struct topology_reading *r, struct topology_device *d)
{
	_cleanup_names_ struct sysroot_names names = { 0 };
	char dir[SYSROOT_PATH_MAX];
	int rc;

	if (!topology_join_path(dir, d->dir, "connections"))
		return 0;
	rc = sysroot_list(r->root, dir, &names);
	if (rc == -ENOENT || rc == -ENOMEM)
		return rc == -ENOMEM ? rc : 0;
	r->t->connections = true;
	if (rc < 0)
		topology_problem(r, dir, rc, "cannot be read");
	for (size_t i = 0; rc == 0 && i < names.n; i++)
		if (strncmp(names.list[i], "out:", 4) == 0)
			rc = add_out(r, d, dir, names.list[i]);
	return rc == -ENOMEM ? rc : 0;
}

int topology_read_devices(struct topology_reading *r)
{
	_cleanup_names_ struct sysroot_names names = { 0 };
	struct topology *t = r->t;
	size_t n;
	int rc = sysroot_list(r->root, TOPOLOGY_DEVICES, &names);

	if (rc == -ENOMEM)
		return rc;
	if (rc < 0 && rc != -ENOENT)
		topology_problem(r, TOPOLOGY_DEVICES, rc, "cannot be read");
	n = MIN(names.n, (size_t)TOPOLOGY_DEVICES_MAX);
	if (n < names.n)
		topology_problem(r, TOPOLOGY_DEVICES, -EFBIG, "has too many devices");
	t->devices = calloc(n + 1, sizeof(*t->devices));
	if (!t->devices)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		rc = add_device(r, names.list[i]);
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < t->n_devices; i++) {
		rc = read_connections(r, &t->devices[i]);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Sink IDs are hashes that the kernel computes. perf cannot use a sink that the kernel lists no ID for. */
int topology_read_sinks(struct topology_reading *r)
{
	static const char dir[] = TOPOLOGY_PMU "/sinks";
	_cleanup_names_ struct sysroot_names names = { 0 };
	struct topology *t = r->t;
	int rc = sysroot_list(r->root, dir, &names);
	bool named = rc == 0 && names.n;
	uint64_t v;

	if (rc == -ENOMEM)
		return rc;
	if (rc < 0 && rc != -ENOENT)
		topology_problem(r, dir, rc, "cannot be read");
	t->sinks = calloc(t->n_devices + 1, sizeof(*t->sinks));
	if (!t->sinks)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_devices; i++) {
		struct topology_device *d = &t->devices[i];
		struct topology_sink sink = { .device = (uint32_t)i, .per_cpu = d->kind == TOPOLOGY_TRBE };

		if (!is_sink(d->kind))
			continue;
		if (topology_value(r, dir, d->name, &v) && v <= UINT32_MAX)
			sink.id = (uint32_t)v;
		else if (named)
			continue;
		if (topology_value(r, d->dir, "buffer_size", &v))
			sink.buffer = v;
		t->sinks[t->n_sinks++] = sink;
	}
	for (size_t i = 0; i < names.n; i++) {
		char path[SYSROOT_PATH_MAX];
		uint32_t device;

		if (topology_find_device(t, names.list[i], &device) < 0 && topology_join_path(path, dir, names.list[i]))
			topology_problem(r, path, -ENODEV, "is not the name of a device");
	}
	return 0;
}
