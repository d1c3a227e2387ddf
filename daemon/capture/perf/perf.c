/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>

#include "daemon/capture/perf/perf-internal.h"
#include "daemon/capture/process/address-space.h"
#include "daemon/capture/process/proc-file.h"
#include "lib/base/log.h"
#include "lib/base/util.h"
#include "lib/coresight/hazards.h"
#include "lib/coresight/sysroot.h"

enum {
	AUX_SIZE = 4 << 20,
	EVENTS_AT_ONCE = 64,
	MAINTENANCE_NS = PERF_DRAIN_MS * 1000000,
	CPUS_NS = 1000 * 1000 * 1000,
	BLAMED_MAX = 4,
	LINKS_MAX = 65536,
	POLL_MS = 10,
};

static bool wants_record(void *data, uint32_t pid, const struct perf_record *r)
{
	struct perf_machine *m = data;
	uint32_t type = r->type;
	struct perf_target *s;

	if (m->process_table && type != PERF_RECORD_MMAP2 && type != PERF_RECORD_SWITCH_CPU_WIDE)
		return true;
	/* A new process may have the number of a former target. */
	if (type == PERF_RECORD_FORK && (!TAILQ_EMPTY(&m->sources) || m->arena_kept))
		return true;
	LIST_FOREACH(s, &m->by_pid[pid % PERF_PIDS], pid_link)
	if ((uint32_t)s->pid == pid)
		return perf_target_follows(s, r);
	return perf_keep_wants(m, pid);
}

static void on_record(void *data, uint32_t pid, const struct perf_record *r)
{
	struct perf_machine *m = data;
	struct perf_target *s, *takes = NULL;
	bool taken = perf_keep_record(m, pid, r);

	LIST_FOREACH(s, &m->by_pid[pid % PERF_PIDS], pid_link)
	if ((uint32_t)s->pid == pid && !taken && !takes && perf_target_record(s, r))
		takes = s;
	if (r->type == PERF_RECORD_FORK)
		TAILQ_FOREACH (s, &m->sources, link)
			if (s != takes && thread_table_note_fork(&s->thread_table, r))
				perf_keep_log(s, r);
	if (m->process_table && !taken && !takes)
		process_table_record(m->process_table, pid, r);
}

/* Collects records while the capture thread waits for a process. */
static void collect_records(void *data)
{
	struct perf_machine *m = data;

	m->reading = now_ns(CLOCK_MONOTONIC);
	sideband_collect(m->sideband);
}

static void on_lost_switches(void *data, uint64_t since)
{
	struct perf_machine *m = data;
	struct perf_target *s;

	TAILQ_FOREACH (s, &m->sources, link)
		thread_table_lost_switches(&s->thread_table, since, UINT32_MAX);
}

static const char *sysroot_of(const struct perf_machine *m)
{
	return m->sysroot ? m->sysroot : "/";
}

/* Finds out why TRBE must not be used. */
static void find_hazard(struct perf_machine *m)
{
	_cleanup_close_ int root = -1;
	const struct hazard *worst;
	struct hazards found;

	if (sysroot_open(sysroot_of(m), &root) < 0)
		return;
	hazards_find(root, m->topology, &found);
	worst = hazards_damage(&found);
	if (!worst)
		return;
	reason_set(&m->hazard, 0, "%s", worst->text);
	m->settings.hazard = m->hazard.text;
	log_warning("TRBE is not used: %s; %s", worst->text, worst->remedy);
}

static int fill_machine(struct perf_machine *m, const struct perf_settings *settings, struct reason *why)
{
	const struct sideband_listener user = { wants_record, on_record, on_lost_switches, m };
	int rc;

	m->settings = (struct plan_settings){
		.aux_size = settings->aux_size ? settings->aux_size : AUX_SIZE,
		.memory = settings->memory,
		.machine = settings->machine,
	};
	if (!m->settings.memory)
		m->settings.memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 8;
	if ((settings->sink && !(m->sink = strdup(settings->sink))) ||
	    (settings->cpus && !(m->cpus = strdup(settings->cpus))) ||
	    (settings->keeper && !(m->keeper_path = strdup(settings->keeper))) ||
	    (settings->sysroot && !(m->sysroot = strdup(settings->sysroot))) ||
	    !(m->kernel = kernel_code_new(settings->kernel)))
		return -ENOMEM;
	m->settings.sink = m->sink;
	m->settings.cpus = m->cpus;
	m->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (m->poll_fd < 0)
		return -errno;
	rc = sideband_new(&user, m->poll_fd, &m->sideband);
	if (rc == 0)
		address_space_while_waiting(collect_records, m);
	if (rc == 0 && settings->machine)
		rc = process_table_new(&m->process_table);
	if (rc == 0)
		rc = topology_read(sysroot_of(m), &m->topology);
	if (rc == 0 && !settings->any_hazard)
		find_hazard(m);
	if (rc == 0 && (!m->topology->pmu.there || !m->topology->pmu.n_sources)) {
		return reason_set(why, -ENODEV, "%s; run csight doctor for details",
				  m->topology->pmu.there ? "the kernel's cs_etm PMU knows no trace unit"
							 : "this kernel has no cs_etm PMU");
	}
	return rc;
}

int perf_machine_new(const struct perf_settings *settings, struct perf_machine **ret, struct reason *why)
{
	struct perf_machine *m = calloc(1, sizeof(*m));
	int rc;

	why->text[0] = '\0';
	if (!m)
		return -ENOMEM;
	pthread_mutex_init(&m->lock, NULL);
	m->poll_fd = -1;
	m->drain_ms = PERF_DRAIN_MS;
	TAILQ_INIT(&m->sources);
	TAILQ_INIT(&m->kept);
	SLIST_INIT(&m->dead);
	rc = fill_machine(m, settings, why);
	if (rc < 0) {
		if (!*why->text)
			reason_set(why, rc, "%s", strerror(-rc));
		perf_machine_free(m);
		return rc;
	}
	*ret = m;
	return 0;
}

void perf_machine_limit(struct perf_machine *m, uint64_t aux_size, uint64_t memory)
{
	/* Only this thread changes them; the event loop reads aux_size. */
	pthread_mutex_lock(&m->lock);
	m->settings.aux_size = aux_size;
	m->settings.memory = memory;
	pthread_mutex_unlock(&m->lock);
}

void perf_machine_free_dead(struct perf_machine *m)
{
	struct perf_target *s;

	for (;;) {
		pthread_mutex_lock(&m->lock);
		s = SLIST_FIRST(&m->dead);
		if (s)
			SLIST_REMOVE_HEAD(&m->dead, dead);
		pthread_mutex_unlock(&m->lock);
		if (!s)
			return;
		perf_target_close(s);
		perf_watch_free(s);
		closep(&s->pidfd);
		filter_free(s->filter);
		capture_options_done(&s->options);
		free(s->threads);
		buf_done(&s->missing);
		free(s);
	}
}

struct perf_machine *perf_machine_free(struct perf_machine *m)
{
	if (!m)
		return NULL;
	/* What is closed from here on is kept. */
	keeper_client_leave(m->keeper);
	perf_machine_free_dead(m);
	perf_keep_forget(m);
	arena_close(&m->arena);
	address_space_while_waiting(NULL, NULL);
	sideband_free(m->sideband);
	process_table_free(m->process_table);
	keeper_client_free(m->keeper);
	kernel_code_free(m->kernel);
	closep(&m->poll_fd);
	topology_free(m->topology);
	buf_done(&m->scratch);
	pthread_mutex_destroy(&m->lock);
	free(m->sysroot);
	free(m->keeper_path);
	free(m->sink);
	free(m->cpus);
	free(m->accounts);
	free(m);
	return NULL;
}

bool perf_machine_shared(struct perf_machine *m, const struct capture_options *o)
{
	const struct plan_use nothing = { 0 };
	const struct plan_target target = { .options = o };
	struct plan *p = NULL;
	struct reason why;
	bool shared = true;

	pthread_mutex_lock(&m->lock);
	if (plan_make(m->topology, &m->settings, &nothing, &target, &p, &why) == 0)
		shared = p->shared;
	pthread_mutex_unlock(&m->lock);
	plan_free(p);
	return shared;
}

unsigned perf_machine_drain_ms(const struct perf_machine *m)
{
	return m->drain_ms;
}

int perf_machine_fd(const struct perf_machine *m)
{
	return m->poll_fd;
}

/* True if a target has rings of its own, but not on this CPU. */
static bool runs_untraced(const struct perf_machine *m, uint32_t cpu)
{
	const struct perf_target *s;

	TAILQ_FOREACH (s, &m->sources, link)
		if (s->plan && !s->grid.ended && !grid_traces(&s->grid, s->plan, cpu))
			return true;
	return false;
}

int perf_machine_open_sideband(struct perf_machine *m, struct reason *why)
{
	_cleanup_free_ struct sideband_cpu_choice *cpus = calloc(m->topology->n_cpus + 1, sizeof(*cpus));
	enum sideband_switches switches = SIDEBAND_NO_SWITCHES;
	size_t n = 0;

	if (!cpus)
		return -ENOMEM;
	if (TAILQ_EMPTY(&m->sources) && TAILQ_EMPTY(&m->kept) && !m->arena_kept && !m->arena.plan) {
		sideband_close(m->sideband);
		return 0;
	}
	if (m->n_contained > 0 || (m->arena.plan && m->arena.plan->switches))
		switches = SIDEBAND_SWITCHES_NEEDED;
	else if (m->arena.plan || m->arena_kept)
		switches = SIDEBAND_SWITCHES_WANTED;
	/* The events of private sinks record the switches of their threads themselves, on the CPUs that they trace. */
	for (size_t i = 0; i < m->topology->n_cpus; i++) {
		uint32_t cpu = m->topology->cpus[i].cpu;

		if (m->topology->cpus[i].online)
			cpus[n++] = (struct sideband_cpu_choice){ cpu, !switches && runs_untraced(m, cpu)
									   ? SIDEBAND_SWITCHES_WANTED
									   : switches };
	}
	return sideband_open(m->sideband, cpus, n, why);
}

int perf_machine_open_arena(struct perf_machine *m, struct plan *p, struct reason *why)
{
	int rc;

	if (m->arena.plan) {
		plan_free(p);
		if (!m->arena.stopped)
			return 0;
		arena_start(&m->arena);
	} else if (!perf_keep_adopt_arena(m, p)) {
		rc = arena_open(&m->arena, p, m->poll_fd, why);
		if (rc < 0)
			return rc;
		perf_keep_begin_arena(m);
	}
	arena_drain(&m->arena, sideband_now(m->sideband), sideband_shift(m->sideband), &m->scratch);
	perf_restore_contexts(m);
	return 0;
}

void perf_machine_close_arena(struct perf_machine *m)
{
	arena_close(&m->arena);
	m->trouble.text[0] = '\0';
}

void perf_machine_read_records(struct perf_machine *m)
{
	struct perf_target *s;
	uint64_t since;

	m->reading = now_ns(CLOCK_MONOTONIC);
	sideband_drain(m->sideband);
	arena_drain(&m->arena, sideband_now(m->sideband), sideband_shift(m->sideband), &m->scratch);
	TAILQ_FOREACH (s, &m->sources, link)
		if (s->armed && !s->shared)
			grid_drain(&s->grid, sideband_now(m->sideband), sideband_shift(m->sideband), &m->scratch);
	if (sideband_lost(m->sideband, &since)) {
		if (m->process_table)
			process_table_reset(m->process_table, sideband_now(m->sideband));
		TAILQ_FOREACH (s, &m->sources, link)
			perf_target_lost_records(s, since);
	}
	TAILQ_FOREACH (s, &m->sources, link) {
		perf_target_end_flood(s);
		if (s->armed)
			perf_target_check_owner(s);
	}
}

static void append(struct reason *why, const char *fmt, ...) _printf_(2, 3);

static void append(struct reason *why, const char *fmt, ...)
{
	size_t n = strlen(why->text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(why->text + n, sizeof(why->text) - n, fmt, args);
	va_end(args);
}

/* Appends the processes, except the keeper, that have a perf event open. The kernel does not reveal of which PMU. */
static void name_holders(struct reason *why)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	unsigned n_found = 0, n_links = 0;
	struct dirent *e;

	/* Users choose how many descriptors there are. */
	while (proc && n_found < BLAMED_MAX && n_links < LINKS_MAX && (e = readdir(proc))) {
		_cleanup_closedir_ DIR *fds = NULL;
		char path[300], link[64], name[64];
		pid_t pid = (pid_t)atoi(e->d_name);
		struct dirent *fd;
		bool holds = false;

		if (pid <= 0 || pid == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/%s/fd", e->d_name);
		fds = opendir(path);
		while (fds && !holds && n_links++ < LINKS_MAX && (fd = readdir(fds))) {
			ssize_t n = readlinkat(dirfd(fds), fd->d_name, link, sizeof(link) - 1);

			link[MAX(n, 0)] = '\0';
			holds = strcmp(link, "anon_inode:[perf_event]") == 0;
		}
		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		if (!holds || proc_file_read(AT_FDCWD, path, name, sizeof(name)) < 0)
			continue;
		name[strcspn(name, "\n")] = '\0';
		if (strcmp(name, "csight-keeper") == 0)
			continue;
		append(why, "%s%d (%s)", n_found++ ? ", " : "; processes with perf events open: ", (int)pid, name);
	}
}

/* Returns a sink of the plan, or a trace unit of one of its CPUs, that is enabled through sysfs now; or NULL. */
static const struct topology_device *find_sysfs_user(const struct perf_machine *m, const struct plan *p,
						     const struct topology *now)
{
	for (size_t n = 0; n < p->n_cpus; n++) {
		const struct topology_cpu *cpu = topology_find_cpu(now, p->cpus[n].cpu);
		const char *sink = m->topology->devices[m->topology->sinks[p->cpus[n].sink].device].name;

		for (size_t i = 0; i < now->n_sinks; i++) {
			const struct topology_device *d = &now->devices[now->sinks[i].device];

			if (d->sysfs && strcmp(d->name, sink) == 0)
				return d;
		}
		if (cpu && cpu->source >= 0 && now->devices[cpu->source].sysfs)
			return &now->devices[cpu->source];
	}
	return NULL;
}

void perf_machine_name_holders(const struct perf_machine *m, const struct plan *p, struct reason *why)
{
	const struct topology_device *d;
	struct topology *now;

	if (topology_read(sysroot_of(m), &now) < 0)
		return;
	d = find_sysfs_user(m, p, now);
	if (d) {
		bool unit = topology_is_cpu_source(d->kind);

		append(why, "; the %s %s is enabled through sysfs (write 0 to its %s)", unit ? "trace unit" : "sink",
		       d->name, unit ? "enable_source" : "enable_sink");
	}
	topology_free(now);
	if (!d)
		name_holders(why);
}

void perf_machine_reread_topology(struct perf_machine *m)
{
	struct topology *t, *old = m->topology;

	if (topology_read(sysroot_of(m), &t) < 0)
		return;
	/* Plans in use refer to sinks by index. */
	if ((m->arena.plan || m->n_private) && (t->n_sinks != old->n_sinks || t->n_cpus != old->n_cpus)) {
		topology_free(t);
		return;
	}
	topology_keep_registers(t, old);
	pthread_mutex_lock(&m->lock);
	m->topology = t;
	pthread_mutex_unlock(&m->lock);
	topology_free(old);
}

/* Handles CPUs that went offline or came online: their registers can be read, and events opened on them. */
static void update_cpus(struct perf_machine *m)
{
	char online[CPUS_TEXT_MAX] = "", path[PATH_MAX];
	struct perf_target *s, *next;

	snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/online", sysroot_of(m));
	if (proc_file_read(AT_FDCWD, path, online, sizeof(online)) < 0)
		return;
	if (strcmp(online, m->online) != 0 && *m->online) {
		perf_machine_reread_topology(m);
		/* The number of an ended process may belong to another by now. */
		for (s = TAILQ_FIRST(&m->sources); s; s = next) {
			next = TAILQ_NEXT(s, link);
			if (!s->armed || s->lost || s->thread_table.ended)
				continue;
			if (s->shared)
				perf_counters_extend(s);
			else
				perf_target_add_cpus(s);
		}
	}
	snprintf(m->online, sizeof(m->online), "%s", online);
	perf_machine_open_sideband(m, NULL);
}

/* True if all targets whose trace the arena holds have ended; further trace would only overwrite theirs. */
static bool arena_unused(const struct perf_machine *m)
{
	const struct perf_target *s;

	TAILQ_FOREACH (s, &m->sources, link)
		if (s->armed && s->shared && !s->lost && !s->thread_table.ended)
			return false;
	return !m->settings.machine;
}

static void maintain_arena(struct perf_machine *m)
{
	struct reason why = { "" };
	bool failed = false;

	if (!m->arena.plan || m->arena.stopped || m->paused)
		return;
	if (arena_unused(m)) {
		arena_stop(&m->arena);
		m->trouble.text[0] = '\0';
		return;
	}
	if (arena_maintain(&m->arena, m->poll_fd, &failed, &why) < 0) {
		m->trouble = why;
	} else if (!failed) {
		m->trouble.text[0] = '\0';
	} else if (!*m->trouble.text) {
		reason_set(&m->trouble, 0,
			   "the kernel could not start the shared sink: it is in use by another session, or it failed");
		perf_machine_name_holders(m, m->arena.plan, &m->trouble);
	}
}

void perf_machine_pause(struct perf_machine *m, bool paused)
{
	struct perf_target *s;

	perf_machine_read_records(m);
	TAILQ_FOREACH (s, &m->sources, link) {
		pmu_counters_pause(&s->counters, paused || s->paused);
		if (s->armed && !s->shared && !s->lost)
			grid_pause(&s->grid, paused || s->paused);
	}
	if (m->arena.plan && paused && !m->arena.stopped)
		arena_stop(&m->arena);
	else if (m->arena.plan && !paused && m->paused && m->arena.stopped && !arena_unused(m))
		arena_start(&m->arena);
	m->paused = paused;
	perf_machine_read_records(m);
}

/* Opens the arena of a machine that traces everything, which needs no target. */
static void open_machine_arena(struct perf_machine *m)
{
	static const struct capture_options options;
	const struct plan_use use = { .n_private = m->n_private };
	const struct plan_target target = { .options = &options };
	struct plan *p;

	/* The sideband is open from here on, so that processes born later are recorded from their birth. */
	if (plan_make(m->topology, &m->settings, &use, &target, &p, &m->trouble) < 0 ||
	    perf_machine_open_arena(m, p, &m->trouble) < 0 || perf_machine_open_sideband(m, &m->trouble) < 0)
		return;
	sideband_drain(m->sideband);
	process_table_reset(m->process_table, sideband_now(m->sideband));
}

static bool watch_process(struct perf_target *s, uint64_t now)
{
	uint64_t begun = now_ns(CLOCK_MONOTONIC);
	bool read = false;

	if (perf_share_rests(s)) {
		process_confirm(s->process, now);
	} else {
		read = process_scan_limited(&s->process, now);
		perf_share_worked(s, begun);
	}
	if (!s->process)
		s->unread = -ETIMEDOUT;
	return read;
}

static bool watch_processes(struct perf_machine *m)
{
	struct perf_target *s;
	bool read = false;

	TAILQ_FOREACH (s, &m->sources, link)
		if (s->process) {
			process_set_shift(s->process, sideband_shift(m->sideband));
			read |= watch_process(s, sideband_now(m->sideband));
		}
	return read;
}

void perf_machine_drain(struct perf_machine *m)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	struct perf_target *s;
	bool polls = false;

	perf_machine_free_dead(m);
	/* Consume the edge-triggered events: the descriptor is then not readable until more arrive. */
	while (epoll_wait(m->poll_fd, events, EVENTS_AT_ONCE, 0) == EVENTS_AT_ONCE)
		;
	/* First, since a hit stops tracing. */
	TAILQ_FOREACH (s, &m->sources, link) {
		perf_watch_drain(s);
		polls |= perf_watch_polls(s);
	}
	m->drain_ms = polls ? POLL_MS : PERF_DRAIN_MS;
	perf_keep_maintain(m);
	if (m->settings.machine && !m->arena.plan)
		open_machine_arena(m);
	perf_machine_read_records(m);
	/* Code that was read is confirmed by reading the records once more. */
	if (watch_processes(m)) {
		perf_machine_read_records(m);
		watch_processes(m);
	}
	if (now < m->next_maintenance)
		return;
	m->next_maintenance = now + MAINTENANCE_NS;
	if (now >= m->next_cpus && !m->paused) {
		m->next_cpus = now + CPUS_NS;
		update_cpus(m);
	}
	maintain_arena(m);
	TAILQ_FOREACH (s, &m->sources, link)
		perf_target_maintain(s, now);
}
