/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "daemon/capture/process/address-space.h"
#include "daemon/capture/process/credentials.h"
#include "daemon/capture/perf/perf-internal.h"
#include "daemon/capture/process/proc-file.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum {
	PUBLISH_SHARE = 20, /* publishing takes at most this fraction (1/n) of the capture thread's time */
	EMPTY_STARTS = 32,  /* after so many starts without any trace, something is wrong */
	STAT_SIZE = 1024,
	STAT_THREADS = 20,  /* the field of /proc/PID/stat */
	CODE_NEW = 1 << 20, /* estimated bytes of code that a copy finds for the first time */
};

const struct plan *perf_target_plan(const struct perf_target *s)
{
	return s->shared ? s->m->arena.plan : s->plan;
}

struct aux_buffer *perf_target_rings(const struct perf_target *s)
{
	return s->shared ? s->m->arena.rings : s->grid.rings;
}

/* CPU time of all threads of a process. The number of the clock is derived from the process's number. */
static int process_time(pid_t pid, uint64_t *ret)
{
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ts) < 0)
		return -ESRCH;
	*ret = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	return 0;
}

bool perf_target_exists(const struct perf_target *s)
{
	return syscall(SYS_pidfd_send_signal, s->pidfd, 0, NULL, 0) == 0 || errno != ESRCH;
}

int perf_target_new(struct perf_machine *m, pid_t pid, int pidfd, uid_t uid, const struct capture_options *o,
		    struct capture_source **ret)
{
	struct perf_target *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	s->base.ops = &perf_capture;
	s->m = m;
	s->pid = pid;
	s->uid = uid;
	rc = capture_options_copy(o, &s->options);
	s->pidfd = fcntl(pidfd, F_DUPFD_CLOEXEC, 3);
	s->missing.limit = CAPTURE_MISSING_MAX;
	s->cpu_time = UINT64_MAX;
	if (rc == 0 && s->pidfd < 0)
		rc = -errno;
	if (rc < 0) {
		closep(&s->pidfd);
		capture_options_done(&s->options);
		free(s);
		return rc;
	}
	*ret = &s->base;
	return 0;
}

const struct capture_options *perf_target_options(const struct capture_source *source)
{
	return &container_of(source, const struct perf_target, base)->options;
}

bool perf_target_lost(const struct capture_source *source)
{
	return container_of(source, const struct perf_target, base)->lost;
}

static struct capture_source *perf_free(struct capture_source *source)
{
	struct perf_target *s = perf_target_of(source);

	if (!source)
		return NULL;
	pthread_mutex_lock(&s->m->lock);
	SLIST_INSERT_HEAD(&s->m->dead, s, dead);
	pthread_mutex_unlock(&s->m->lock);
	return NULL;
}

static void set_trouble(struct perf_target *s, const char *why)
{
	pthread_mutex_lock(&s->m->lock);
	reason_set(&s->trouble, 0, "%s", why);
	pthread_mutex_unlock(&s->m->lock);
}

void perf_target_close(struct perf_target *s)
{
	struct perf_machine *m = s->m;

	perf_watch_close(s);
	perf_counters_close(s);
	if (s->armed && s->shared) {
		m->n_shared--;
		grid_close(&s->grid);
	} else if (s->armed) {
		m->n_private--;
		m->memory -= s->plan->memory;
		grid_close(&s->grid);
	}
	if (s->linked) {
		if (m->process_table && !s->lost)
			process_table_put_back(m->process_table, &s->thread_table);
		m->n_contained -= s->contained;
		TAILQ_REMOVE(&m->sources, s, link);
		LIST_REMOVE(s, pid_link);
	}
	s->armed = s->linked = s->contained = s->failing = s->filled = s->adopted = false;
	s->plan = plan_free(s->plan);
	s->process = process_free(s->process);
	thread_table_done(&s->thread_table);
	s->log = replay_log_free(s->log);
	if (m->arena.plan && !m->n_shared && !m->settings.machine)
		perf_machine_close_arena(m);
	perf_machine_open_sideband(m, NULL);
}

struct process_of perf_target_process(const struct perf_target *s)
{
	return (struct process_of){ s->pid, s->pidfd, s->base.share.divided ? s->base.share.account : 0 };
}

static int open_rings(struct perf_target *s, struct reason *why)
{
	struct perf_machine *m = s->m;
	const struct plan_use use = { .memory = m->memory,
				      .n_private = m->n_private,
				      .limited = true,
				      .most = perf_share_rings(s),
				      .most_events = perf_share_events(s),
				      .arena = m->arena.plan };
	const struct process_of of = perf_target_process(s);
	const struct plan_target target = { &s->options, s->contained };
	struct plan *p;
	int rc = plan_make(m->topology, &m->settings, &use, &target, &p, why);

	if (rc < 0)
		return rc;
	s->shared = p->shared;
	if (s->shared) {
		rc = perf_machine_open_arena(m, p, why);
		if (rc == 0) {
			m->n_shared++;
			perf_keep_prepare(s);
			if (!perf_keep_adopt(s, m->arena.plan))
				perf_keep_begin(s, m->arena.plan);
		}
	} else {
		if (s->options.filter && !s->filter)
			rc = filter_new(&of, s->options.filter, &s->filter, why);
		if (rc == 0)
			perf_keep_prepare(s);
		s->plan = p;
		/* Where it is not traced, its switches are recorded from now on. */
		perf_machine_open_sideband(m, NULL);
		if (rc == 0 && !perf_keep_adopt(s, p)) {
			rc = grid_open(&s->grid, p, s->pid, s->filter, m->poll_fd, why);
			if (rc == 0)
				perf_keep_begin(s, p);
		}
		if (rc < 0) {
			s->plan = plan_free(p);
		} else {
			grid_record_switches(&s->grid, &s->thread_table);
			m->n_private++;
			m->memory += p->memory;
		}
	}
	s->armed = rc == 0;
	if (rc == -EBUSY)
		perf_machine_name_holders(m, &(struct plan){ 0 }, why);
	return rc;
}

/*
 * A process that changed its uid is dumpable again only when it has executed a program. Within execve() it runs nothing
 * before that, if it has one thread.
 */
static bool is_owned(const struct perf_target *s, const struct credentials *c)
{
	struct credentials then = *c;
	char path[32], text[STAT_SIZE];
	const char *threads;

	if (credentials_owned(c, s->uid))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)s->pid);
	if (!s->options.at_exec || proc_file_read(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	threads = proc_file_stat_field(text, STAT_THREADS);
	then.files_uid = s->uid;
	then.files_gid = c->gid[1];
	return threads && strtol(threads, NULL, 10) == 1 && credentials_owned(&then, s->uid);
}

/* Records are collected from before /proc is read, so that no event between the two is missed. */
static int arm_target(struct perf_target *s, struct reason *why)
{
	const struct process_of of = perf_target_process(s);
	struct perf_machine *m = s->m;
	struct credentials c;
	uint64_t since = 0, recorded;
	long long dumpable;
	int rc;

	/* Records still in the rings belong to the process table, which holds the process until now. */
	if (m->process_table)
		sideband_drain(m->sideband);
	if (m->process_table && sideband_is_open(m->sideband))
		since = process_table_take(m->process_table, (uint32_t)s->pid, &s->thread_table);
	else
		thread_table_init(&s->thread_table, (uint32_t)s->pid);
	/* With suid_dumpable 1, a program that gains privileges leaves no EXIT record. */
	dumpable = proc_file_number("/proc/sys/fs/suid_dumpable");
	s->thread_table.privileges_recorded = dumpable == 0 || dumpable == 2;
	perf_keep_connect(m);
	TAILQ_INSERT_TAIL(&m->sources, s, link);
	LIST_INSERT_HEAD(&m->by_pid[(uint32_t)s->pid % PERF_PIDS], s, pid_link);
	s->linked = true;
	rc = perf_machine_open_sideband(m, why);
	if (rc < 0)
		return rc;
	sideband_drain(m->sideband);
	s->armed_at = sideband_now(m->sideband);
	rc = thread_table_scan(&s->thread_table, s->armed_at);
	/* The process table has no switches. */
	if (since)
		thread_table_lost_switches(&s->thread_table, s->armed_at, UINT32_MAX);
	if (rc == 0)
		rc = credentials_read(s->pid, &c);
	if (!perf_target_exists(s))
		return -ESRCH;
	if (rc == -EAGAIN)
		return reason_set(why, rc, "the first thread of the process has ended: its owner is unknown");
	if (rc < 0)
		return rc;
	if (!is_owned(s, &c))
		return reason_set(
		    why, -EACCES,
		    "the process is not its owner's alone: its ids differ, it has capabilities, or it is not dumpable");
	if (s->options.counters)
		rc = pmu_counters_parse(s->options.counters, m->sysroot, &s->counters, why);
	/* Trace of the kernel cannot be decoded without its code. */
	if (rc == 0 && s->options.kernel)
		rc = kernel_code_update(m->kernel, why);
	if (rc < 0)
		return rc;
	s->contained = c.contained;
	m->n_contained += c.contained;
	if (c.contained)
		perf_machine_open_sideband(m, why);
	rc = open_rings(s, why);
	/* Nothing is in use, so the topology may be stale: read it again. */
	if (rc < 0 && rc != -ESRCH && !m->arena.plan && !m->n_private) {
		perf_machine_reread_topology(m);
		rc = open_rings(s, why);
	}
	if (rc == 0)
		perf_machine_open_sideband(m, NULL);
	if (rc == 0)
		rc = perf_counters_open(s, why);
	if (rc < 0)
		return rc;
	/* The sideband also records mappings that are not executable (sideband.c). */
	recorded = perf_keep_recorded_since(s);
	s->unread = process_new(&of, true, recorded, &s->process);
	if (s->unread == -ETIMEDOUT || s->unread == -EBUSY)
		return address_space_explain(s->unread, why);
	if (s->process && recorded > s->armed_at)
		process_known_since(s->process, recorded);
	perf_keep_replay(s);
	/* An earlier daemon may have stopped tracing. */
	if (s->adopted && !s->shared)
		grid_start(&s->grid);
	/* If the process executed a program meanwhile, its owner is determined by the check after exec. */
	sideband_drain(m->sideband);
	if (!s->thread_table.execs && !s->thread_table.n_spans) {
		since = since ? since : s->armed_at;
		thread_table_own(&s->thread_table, since);
		perf_keep_log_owned(s, since);
	}
	perf_machine_read_records(m);
	return s->lost ? -EACCES : 0;
}

void perf_target_add_cpus(struct perf_target *s)
{
	perf_counters_extend(s);
	grid_extend(&s->grid, s->pid, s->filter, s->m->poll_fd, NULL);
	if (!s->grid.stuck)
		return;
	perf_target_close(s);
	set_trouble(s, address_space_strerror(-ETIMEDOUT));
}

static int perf_arm(struct capture_source *source)
{
	struct perf_target *s = perf_target_of(source);
	struct reason why = { "" };
	uint64_t ran = 0;
	bool at_exec = s->options.at_exec;
	int rc;

	/* What they have is free for this one: sinks, memory, and the options of a shared sink. */
	perf_machine_free_dead(s->m);
	rc = arm_target(s, &why);
	s->options.at_exec = false;
	if (rc < 0) {
		perf_target_close(s);
		set_trouble(s, *why.text ? why.text : strerror(-rc));
		/* Callers interpret EBUSY and EINVAL as errors in their own arguments. */
		return rc == -EBUSY ? -EALREADY : rc == -EINVAL ? -EOPNOTSUPP : rc;
	}
	process_time(s->pid, &ran);
	s->cpu_time = s->adopted ? 0 : ran;
	s->unrecorded = s->adopted || at_exec || s->m->settings.machine ? 0 : ran;
	set_trouble(s, "");
	perf_watch_arm(s);
	perf_target_maintain(s, 0);
	return 0;
}

/* Releases the trace units and discards the contents of the rings. */
static int perf_disarm(struct capture_source *source)
{
	struct perf_target *s = perf_target_of(source);

	perf_target_close(s);
	pthread_mutex_lock(&s->m->lock);
	s->held = s->memory = s->code_memory = s->log_memory = s->shared_memory = 0;
	s->trouble.text[0] = '\0';
	pthread_mutex_unlock(&s->m->lock);
	s->cpu_time = UINT64_MAX;
	return 0;
}

uint64_t perf_target_oldest(const struct perf_target *s)
{
	const struct plan *p = perf_target_plan(s);
	const struct aux_buffer *rings = perf_target_rings(s);
	uint64_t oldest = UINT64_MAX;

	for (size_t n = 0; n < p->n_cpus; n++) {
		const struct aux_buffer *a = &rings[n];

		if (a->first < a->n_slices)
			oldest = MIN(oldest, a->slices[a->first].begun);
		else if (a->starts)
			oldest = MIN(oldest, a->begun);
	}
	return oldest == UINT64_MAX ? 0 : oldest;
}

static int by_tid(const void *a, const void *b)
{
	const struct capture_thread *x = a, *y = b;

	return x->tid != y->tid            ? (x->tid < y->tid ? -1 : 1)
	       : x->start_ns < y->start_ns ? -1
					   : x->start_ns > y->start_ns;
}

/*
 * Sums the bytes of each thread. A slice belongs to the last thread of its number that started before the slice ended.
 */
static void count_bytes(const struct perf_target *s, struct capture_thread *threads, size_t n_threads)
{
	qsort(threads, n_threads, sizeof(*threads), by_tid);
	for (size_t n = 0; n < s->plan->n_cpus; n++) {
		const struct aux_buffer *a = &s->grid.rings[n];

		for (size_t i = a->first; i < a->n_slices; i++) {
			const struct aux_slice *slice = &a->slices[i];
			size_t low = 0, high = n_threads;

			while (low < high) {
				size_t middle = (low + high) / 2;

				if (threads[middle].tid > slice->tid ||
				    (threads[middle].tid == slice->tid && threads[middle].start_ns > slice->ended))
					high = middle;
				else
					low = middle + 1;
			}
			if (low > 0 && threads[low - 1].tid == slice->tid)
				threads[low - 1].size += MIN(slice->to - slice->from, a->size);
		}
	}
}

static void add_missing(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

void perf_target_report_missing(const struct perf_target *s, struct buf *b)
{
	const struct plan *p = perf_target_plan(s);
	const struct aux_buffer *rings = perf_target_rings(s);
	uint64_t lost = 0, collisions = 0, refused = 0;
	bool overwrites = false;

	buf_add(b, p->missing.data, p->missing.size);
	for (size_t n = 0; n < p->n_cpus; n++) {
		lost += rings[n].lost;
		collisions += rings[n].collisions;
		refused = MAX(refused, rings[n].refused);
		overwrites |= rings[n].traces && !rings[n].fills;
	}
	if (refused > perf_target_oldest(s))
		add_missing(b,
			    "the sink was in use elsewhere for a while, or failed: execution at that time is missing");
	if (s->restored_partly || (s->shared && s->m->arena.restored_partly))
		add_missing(b, "csightd was restarted: part of what was recorded before is unknown");
	if (s->grid.filled)
		add_missing(b, "the ring of a CPU is full: nothing is recorded any more (mode fill)");
	if (s->options.mode == CAPTURE_MODE_FILL && overwrites)
		add_missing(
		    b, "csight-keeper is older than csightd: the rings overwrite their oldest trace (not mode fill)");
	if (lost)
		add_missing(b,
			    "the kernel lost records about the trace: parts of it cannot be located and were left out");
	if (collisions)
		add_missing(b, "a CPU's buffer wrapped while a thread ran: what it executed before is missing");
	perf_counters_report_missing(s, b);
	if (s->lost_records)
		add_missing(
		    b, "the kernel lost records about processes: mappings and threads of that time may be unknown");
	if (s->shared && s->thread_table.owner_unknown)
		add_missing(b, "programs that it executed in quick succession were left out: their owner is unknown");
	if (s->thread_table.dropped)
		add_missing(b, "there were more threads than the limit: the oldest were dropped");
	if (s->unread == -EACCES || s->unread == -EPERM)
		add_missing(b, "its code is unknown: csightd may not read its mappings (it lacks CAP_SYS_PTRACE)");
	else if (s->unread) {
		buf_printf(b, "its code is unknown: its mappings could not be read: %s",
			   address_space_strerror(s->unread));
		buf_u8(b, 0);
	}
}

/* Prepares the answers to the event loop's queries, under the lock. */
static void publish_status(struct perf_target *s)
{
	const struct plan *p = perf_target_plan(s);
	const struct aux_buffer *rings = perf_target_rings(s);
	struct capture_thread *threads = NULL;
	struct buf missing = { .limit = CAPTURE_MISSING_MAX };
	size_t n_threads = 0;
	uint64_t held = 0, capacity = 0, from;

	if (thread_table_threads(&s->thread_table, &threads, &n_threads) < 0)
		return;
	if (!s->shared)
		count_bytes(s, threads, n_threads);
	for (size_t n = 0; n < p->n_cpus; n++) {
		held += aux_held(&rings[n], &from);
		capacity += p->cpus[n].aux_size;
	}
	perf_target_report_missing(s, &missing);
	pthread_mutex_lock(&s->m->lock);
	free(s->threads);
	s->threads = threads;
	s->n_threads = n_threads;
	s->held = held;
	s->code_memory = s->process ? process_memory(s->process) : 0;
	s->memory = perf_share_memory(s) + s->code_memory;
	s->log_memory = s->log ? REPLAY_LOG_SIZE : 0;
	s->shared_memory = s->shared ? capacity : 0;
	buf_done(&s->missing);
	s->missing = missing;
	pthread_mutex_unlock(&s->m->lock);
}

/* Restarts tracing that the kernel could not start, or stopped. The reason stays published until tracing works. */
static void maintain_rings(struct perf_target *s)
{
	const struct plan *p = s->plan;
	struct perf_machine *m = s->m;
	uint64_t starts = 0, traces = 0, empty = UINT64_MAX, since = UINT64_MAX;
	struct reason why;
	int64_t failed = -1;

	for (size_t n = 0; n < p->n_cpus; n++) {
		struct aux_buffer *a = &s->grid.rings[n];

		if (a->failed) {
			failed = a->cpu;
			since = MIN(since, a->failed_since);
		}
		a->failed = false;
		starts += a->starts;
		traces += a->traces;
		if (a->starts)
			empty = MIN(empty, a->started_empty);
	}
	/*
	 * The kernel disables an event some time after its sink failed, which may be after the restart, and reports
	 * nothing. So all are restarted once more at the next maintenance; threads may have run untraced until then.
	 */
	if (failed < 0 && s->again)
		grid_retry(&s->grid, s->failed_since);
	s->again = failed >= 0;
	s->failed_since = since;
	if (failed >= 0) {
		grid_retry(&s->grid, since);
		if (s->failing)
			return;
		reason_set(&why, 0,
			   "the kernel could not start the sink of CPU %u: it is in use by another session, or it "
			   "failed; csightd will retry",
			   (unsigned)failed);
		perf_machine_name_holders(m, p, &why);
		set_trouble(s, why.text);
		s->failing = true;
	} else if (empty != UINT64_MAX && empty > EMPTY_STARTS && !s->options.filter && !s->failing) {
		reason_set(&why, 0, "tracing started %llu times without any trace from the sinks: %s",
			   (unsigned long long)starts,
			   traces ? "the sinks failed, or trace is disabled by an external signal"
				  : "the sinks may not belong to these CPUs");
		set_trouble(s, why.text);
		s->failing = true;
	} else if (s->failing && empty == 0) {
		set_trouble(s, "");
		s->failing = false;
	}
}

void perf_target_maintain(struct perf_target *s, uint64_t now)
{
	uint64_t began = now_ns(CLOCK_MONOTONIC), oldest;
	bool filled_now = s->grid.filled && !s->filled;

	if (!s->armed)
		return;
	pmu_counters_pause(&s->counters, s->paused || s->m->paused || s->grid.filled || s->thread_table.ended);
	if (s->shared)
		set_trouble(s, s->m->trouble.text);
	else if (filled_now)
		set_trouble(s, "");
	else if (!s->lost && !s->m->paused && !s->paused && !s->grid.filled)
		maintain_rings(s);
	s->filled = s->grid.filled;
	if (now && !filled_now && (now < s->next_publish || perf_share_rests(s)))
		return;
	perf_target_catch_up(s);
	oldest = MIN(perf_target_oldest(s), perf_drain_kept(s));
	thread_table_forget(&s->thread_table, oldest);
	if (s->process)
		process_forget(s->process, oldest);
	publish_status(s);
	s->next_publish = began + PUBLISH_SHARE * (now_ns(CLOCK_MONOTONIC) - began);
	perf_share_worked(s, began);
}

static int perf_threads(struct capture_source *source, struct capture_thread **ret, size_t *ret_n)
{
	struct perf_target *s = perf_target_of(source);
	struct capture_thread *list;
	int rc = 0;

	pthread_mutex_lock(&s->m->lock);
	list = calloc(s->n_threads + 1, sizeof(*list));
	if (list) {
		/* memcpy() must not be passed NULL. */
		if (s->n_threads)
			memcpy(list, s->threads, s->n_threads * sizeof(*list));
		*ret = list;
		*ret_n = s->n_threads;
	} else {
		rc = -ENOMEM;
	}
	pthread_mutex_unlock(&s->m->lock);
	return rc;
}

/* Trace reaches the rings only when threads stop running; that the process ran shows at once in its CPU time. */
static bool perf_holds(struct capture_source *source)
{
	struct perf_target *s = perf_target_of(source);
	uint64_t before = s->cpu_time, ran;

	return before != UINT64_MAX && (process_time(s->pid, &ran) < 0 || ran > before);
}

static void perf_missing(struct capture_source *source, struct buf *b)
{
	struct perf_target *s = perf_target_of(source);
	pthread_mutex_lock(&s->m->lock);
	buf_add(b, s->missing.data, s->missing.size);
	pthread_mutex_unlock(&s->m->lock);
}

static void perf_trouble(struct capture_source *source, struct buf *b)
{
	struct perf_target *s = perf_target_of(source);

	if (s->m->paused) {
		buf_add(b, CAPTURE_PAUSED, sizeof(CAPTURE_PAUSED));
		return;
	}
	pthread_mutex_lock(&s->m->lock);
	if (*s->trouble.text)
		buf_add(b, s->trouble.text, strlen(s->trouble.text) + 1);
	pthread_mutex_unlock(&s->m->lock);
}

/* The trace of one process on a shared sink cannot be stopped alone. */
static bool perf_pausable(struct capture_source *source)
{
	return !perf_target_of(source)->shared;
}

static void perf_pause(struct capture_source *source, bool paused)
{
	struct perf_target *s = perf_target_of(source);
	bool changes = s->armed && !s->shared && !s->lost && s->paused != paused;

	s->paused = paused;
	pmu_counters_pause(&s->counters, paused || s->m->paused);
	if (!changes)
		return;
	perf_machine_read_records(s->m);
	grid_pause(&s->grid, paused || s->m->paused);
	perf_machine_read_records(s->m);
}

/* The options of an armed target do not change: with others its rings would be opened again, without their history. */
static int perf_check(struct capture_source *source, const struct capture_options *wanted, struct reason *ret)
{
	if (capture_options_compare(&perf_target_of(source)->options, wanted, ret) == 0)
		return 0;
	strncat(ret->text, "; to change it, disarm the process first, which drops its history",
		sizeof(ret->text) - strlen(ret->text) - 1);
	return -EEXIST;
}

static uint64_t perf_memory(struct capture_source *source)
{
	struct perf_target *s = perf_target_of(source);
	uint64_t memory;

	pthread_mutex_lock(&s->m->lock);
	memory = s->memory;
	pthread_mutex_unlock(&s->m->lock);
	return memory;
}

/* A shared sink's buffers are not the target's. */
static void perf_copy_max(struct capture_source *source, uint64_t *ret_trace, uint64_t *ret_log)
{
	struct perf_target *s = perf_target_of(source);

	pthread_mutex_lock(&s->m->lock);
	*ret_trace = s->memory - s->code_memory - s->log_memory + s->shared_memory;
	*ret_log = s->code_memory + CODE_NEW;
	pthread_mutex_unlock(&s->m->lock);
}

const struct capture_ops perf_capture = {
	.name = "perf",
	.arm = perf_arm,
	.disarm = perf_disarm,
	.copy = perf_copy,
	.drain = perf_drain,
	.drains_rings = true,
	.not_live = perf_not_live,
	.recorded = perf_drain_recorded,
	.threads = perf_threads,
	.holds = perf_holds,
	.missing = perf_missing,
	.check = perf_check,
	.trouble = perf_trouble,
	.pause = perf_pause,
	.pausable = perf_pausable,
	.memory = perf_memory,
	.copy_max = perf_copy_max,
	.watching = &perf_watching,
	.free = perf_free,
};
