/* SPDX-License-Identifier: MIT */
/* Checks: what the kernel permits this user, and the limits of memory. */
#include <inttypes.h>
#include <string.h>

#include "lib/doctor/doctor.h"

/* Numbers of capabilities, since headers older than those of Debian 12 lack some. */
enum { CAP_BIT_IPC_LOCK = 14, CAP_BIT_SYS_ADMIN = 21, CAP_BIT_PERFMON = 38 };

static bool has_capability(const struct doctor *d, unsigned bit)
{
	return d->capabilities >> bit & 1;
}

/* Reads a signed decimal number, the format of sysctl files. */
static bool read_signed(const struct doctor *d, const char *path, long *ret)
{
	char text[32], *end;

	if (sysroot_text(d->root, path, text, sizeof(text)) < 0)
		return false;
	*ret = strtol(text, &end, 10);
	return end != text && !*end;
}

static void check_paranoid(struct doctor *d)
{
	bool admin = has_capability(d, CAP_BIT_SYS_ADMIN), perfmon = admin || has_capability(d, CAP_BIT_PERFMON);
	struct doctor_finding *f;
	long paranoid;

	if (!read_signed(d, "proc/sys/kernel/perf_event_paranoid", &paranoid)) {
		doctor_remedy(doctor_find(d, DOCTOR_ERROR, "rights",
					  "perf_event_paranoid does not exist: this kernel has no perf events"),
			      "boot a kernel with CONFIG_PERF_EVENTS");
		return;
	}
	/* 3 is a setting of Debian's kernels: opening any event requires CAP_SYS_ADMIN. */
	if (paranoid >= 3 ? admin : perfmon || paranoid < 0) {
		doctor_find(d, DOCTOR_OK, "rights",
			    "kernel.perf_event_paranoid is %ld, and this user may open any event", paranoid);
		return;
	}
	if (paranoid >= 3)
		f = doctor_find(
		    d, DOCTOR_WARNING, "rights",
		    "kernel.perf_event_paranoid is %ld, which requires CAP_SYS_ADMIN, and this user does not have it",
		    paranoid);
	else
		f = doctor_find(d, DOCTOR_WARNING, "rights",
				"kernel.perf_event_paranoid is %ld, and this user has no CAP_PERFMON: it can trace "
				"only own programs, %s%s",
				paranoid, paranoid > 1 ? "not the kernel, " : "",
				paranoid > 0 ? "on private sinks" : "on any sink");
	doctor_remedy(f, "use a csightd that runs as root: systemctl start csightd");
}

/* Reads the soft limit, the first number of "Max locked memory  8388608  8388608  bytes". */
static bool read_memlock(const struct doctor *d, uint64_t *ret)
{
	char text[SYSROOT_TEXT_MAX], *at;

	if (sysroot_text(d->root, "proc/self/limits", text, sizeof(text)) < 0)
		return false;
	at = strstr(text, "\nMax locked memory");
	if (!at)
		return false;
	at += strlen("\nMax locked memory");
	at += strspn(at, " ");
	*ret = strncmp(at, "unlimited", 9) == 0 ? UINT64_MAX : strtoull(at, NULL, 10);
	return true;
}

/* Returns the smallest memory.max of the control groups that this process is in. */
static uint64_t read_cgroup(const struct doctor *d)
{
	char text[SYSROOT_TEXT_MAX], path[SYSROOT_PATH_MAX], *group, *end;
	uint64_t least = UINT64_MAX, v;

	if (sysroot_text(d->root, "proc/self/cgroup", text, sizeof(text)) < 0)
		return least;
	group = strncmp(text, "0::", 3) == 0 ? text + 3 : strstr(text, "\n0::");
	if (!group)
		return least;
	group += *group == '\n' ? 4 : 0;
	group[strcspn(group, "\n")] = 0;
	for (;;) {
		if ((size_t)snprintf(path, sizeof(path), "sys/fs/cgroup%s/memory.max", group) < sizeof(path) &&
		    sysroot_number(d->root, path, &v) == 0)
			least = MIN(least, v);
		end = strrchr(group, '/');
		if (!end)
			return least;
		*end = 0;
	}
}

static void check_memory(struct doctor *d)
{
	uint64_t memlock, mlock_kb, all, cgroup = read_cgroup(d);
	size_t cpus = MAX(d->topology->n_cpus, (size_t)1);
	struct doctor_finding *f;
	long paranoid;

	if (cgroup != UINT64_MAX) {
		f = doctor_find(d, cgroup < 256 << 20 ? DOCTOR_WARNING : DOCTOR_NOTE, "memory",
				"this control group is limited to %s of memory", DOCTOR_SIZE(cgroup));
		doctor_remedy(f, "raise its memory.max if ring buffers do not fit");
	}
	if (has_capability(d, CAP_BIT_IPC_LOCK) ||
	    (read_signed(d, "proc/sys/kernel/perf_event_paranoid", &paranoid) && paranoid < 0)) {
		doctor_find(d, DOCTOR_OK, "memory", "locked memory for ring buffers is not limited");
		return;
	}
	if (!read_memlock(d, &memlock) || sysroot_number(d->root, "proc/sys/kernel/perf_event_mlock_kb", &mlock_kb) < 0)
		return;
	if (memlock == UINT64_MAX || __builtin_mul_overflow(mlock_kb, 1024 * (uint64_t)cpus, &all) ||
	    __builtin_add_overflow(all, memlock, &all)) {
		doctor_find(d, DOCTOR_OK, "memory", "locked memory for ring buffers is not limited");
		return;
	}
	/* One MiB for each CPU holds a history of less than a millisecond. */
	f = doctor_find(d, all < (uint64_t)cpus << 20 ? DOCTOR_WARNING : DOCTOR_NOTE, "memory",
			"ring buffers of this user are limited to %s", DOCTOR_SIZE(all));
	doctor_remedy(f, "grant CAP_IPC_LOCK, set LimitMEMLOCK=infinity, or raise kernel.perf_event_mlock_kb");
}

void doctor_rights(struct doctor *d)
{
	if (!d->arm && !d->topology->n_devices)
		return;
	check_paranoid(d);
	check_memory(d);
}
