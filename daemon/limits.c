/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "daemon/limits.h"
#include "lib/base/util.h"

enum {
	DESCRIPTORS_MAX = 256 << 10,
	DESCRIPTORS_OWN = 256,    /* of the daemon itself */
	CONNECTIONS_OF_ROOT = 32, /* that others cannot take */
	TARGET_DESCRIPTORS = 4,   /* of the daemon for each target, besides its files */
	REGISTRATIONS_MAX = 1024, /* of all users */
	ROOT_PART = 16,           /* of other totals, root has one part of so many in reserve */
	ROOT_TIMES = 8,           /* root may have so many times the connections of another user */
};

static const uint64_t keep_free_most = 4ull << 30; /* of a percentage */

struct limits {
	const struct settings *settings;
	struct subuids *subuids;
	struct ledger *ledger;
	uint64_t memory, spool, keep_free;
};

static uint64_t raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return DESCRIPTORS_OWN;
	limit.rlim_cur = MAX(limit.rlim_cur, MIN(limit.rlim_max, (rlim_t)DESCRIPTORS_MAX));
	setrlimit(RLIMIT_NOFILE, &limit);
	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur;
}

/* Returns the size of the file system in which the path is or will be. */
static uint64_t file_system_size(const char *path)
{
	char at[PATH_MAX];
	struct statvfs fs;

	snprintf(at, sizeof(at), "%s", path);
	while (statvfs(at, &fs) < 0) {
		char *slash = strrchr(at, '/');

		if (!slash || !at[1])
			return 0;
		/* "/" stays. */
		slash[slash == at] = 0;
	}
	return (uint64_t)fs.f_blocks * fs.f_frsize;
}

static uint64_t machine_memory(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uid_t owner_of(void *data, uid_t uid)
{
	struct limits *l = data;

	return subuids_owner(l->subuids, uid);
}

static void limits_of(void *data, uid_t user, struct ledger_limits *ret)
{
	static const enum ledger_kind of_clients[] = { LEDGER_CONNECTIONS, LEDGER_REGISTRATIONS, LEDGER_REQUESTS };
	struct limits *l = data;
	const struct ledger_limits *plain = &l->settings->quotas.defaults;

	subuids_refresh(l->subuids);
	quotas_limits(&l->settings->quotas, user, ret);
	ret->most[LEDGER_MEMORY] = settings_space(ret->most[LEDGER_MEMORY], l->memory);
	ret->most[LEDGER_SPOOL] = settings_space(ret->most[LEDGER_SPOOL], l->spool);
	ret->most[LEDGER_PENDING] = settings_space(ret->most[LEDGER_PENDING], l->spool);
	for (size_t n = 0; n < ELEMENTS(of_clients) && user == 0; n++)
		if (ret->most[of_clients[n]] == plain->most[of_clients[n]])
			ret->most[of_clients[n]] *= ROOT_TIMES;
}

static void on_subuids(void *data)
{
	struct limits *l = data;

	ledger_reassign(l->ledger);
}

/* A private daemon serves one user, who gets everything. */
static struct ledger_total make_total(const struct settings *s, uint64_t most, bool divided)
{
	return (struct ledger_total){ most, s->system && most != LEDGER_UNLIMITED ? most / ROOT_PART : 0,
				      s->system && divided };
}

/* Derives the totals from the settings and the machine. */
static void read_settings(struct limits *l, struct ledger_total *totals)
{
	const struct settings *s = l->settings;
	uint64_t fs = file_system_size(s->spool), descriptors = raise_descriptors();
	/* Whatever users do, csightd can accept the next connection. Events of perf have three eighths at most. */
	uint64_t connections = MIN((uint64_t)s->connections_max, descriptors / 8);
	uint64_t registrations = MIN((uint64_t)REGISTRATIONS_MAX, descriptors / 16);
	uint64_t targets = MIN((uint64_t)s->targets_max, descriptors / 16);
	uint64_t taken = MIN((uint64_t)DESCRIPTORS_OWN, descriptors / 4) + connections + registrations +
			 targets * TARGET_DESCRIPTORS;

	l->memory = settings_space(s->memory_max, machine_memory());
	l->spool = settings_space(s->spool_max, fs);
	l->keep_free = settings_space(s->spool_keep_free, fs);
	if (s->spool_keep_free & SETTINGS_PERCENT)
		l->keep_free = MIN(l->keep_free, keep_free_most);
	totals[LEDGER_MEMORY] = make_total(s, l->memory, true);
	totals[LEDGER_SPOOL] = make_total(s, l->spool, false);
	totals[LEDGER_PENDING] = make_total(s, l->spool, true);
	/* The rings of trace units have a limit of their own (rings-max); those of the emulator are the program's. */
	totals[LEDGER_RINGS] = make_total(s, LEDGER_UNLIMITED, false);
	totals[LEDGER_DESCRIPTORS] = make_total(s, MIN(descriptors - taken, descriptors / 8 * 3), true);
	totals[LEDGER_TARGETS] = totals[LEDGER_TRIGGERS] = totals[LEDGER_STANDING] = make_total(s, targets, false);
	totals[LEDGER_CONNECTIONS] = make_total(s, connections, false);
	totals[LEDGER_CONNECTIONS].reserve = s->system ? MIN(CONNECTIONS_OF_ROOT, connections / 2) : 0;
	totals[LEDGER_REGISTRATIONS] = make_total(s, registrations, false);
	totals[LEDGER_REQUESTS] = make_total(s, connections, false);
	totals[LEDGER_WAITING] = totals[LEDGER_STORED] = make_total(s, s->stored_max, false);
}

int limits_new(const struct settings *s, struct subuids *subuids, struct limits **ret)
{
	struct limits *l = calloc(1, sizeof(*l));
	struct ledger_options o = { .owner = owner_of, .limits = limits_of, .data = l };
	int rc;

	if (!l)
		return -ENOMEM;
	l->settings = s;
	l->subuids = subuids;
	read_settings(l, o.totals);
	rc = ledger_new(&o, &l->ledger);
	if (rc < 0) {
		free(l);
		return rc;
	}
	subuids_watch(subuids, on_subuids, l);
	*ret = l;
	return 0;
}

void limits_update(struct limits *l)
{
	struct ledger_total totals[LEDGER_KINDS] = { 0 };

	read_settings(l, totals);
	ledger_set_totals(l->ledger, totals);
}

struct limits *limits_free(struct limits *l)
{
	if (!l)
		return NULL;
	subuids_watch(l->subuids, NULL, NULL);
	ledger_free(l->ledger);
	free(l);
	return NULL;
}

struct ledger *limits_ledger(const struct limits *l)
{
	return l->ledger;
}

uint64_t limits_keep_free(const struct limits *l)
{
	return l->keep_free;
}
