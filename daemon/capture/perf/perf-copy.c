/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>

#include "daemon/capture/perf/perf-internal.h"
#include "daemon/capture/process/proc-file.h"
#include "lib/base/util.h"

/*
 * Returns how much memory the service may still allocate if its control group has a limit; page cache counts as free.
 */
static uint64_t memory_left(void)
{
	char text[PATH_MAX], path[PATH_MAX + 64], stat[4096];
	const char *group, *files;
	long long most, now;
	int size;

	if (proc_file_read(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) < 0 || !(group = strstr(text, "0::/")))
		return UINT64_MAX;
	group += 3;
	size = (int)strcspn(group, "\n");
	snprintf(path, sizeof(path), "/sys/fs/cgroup%.*s/memory.max", size, group);
	most = proc_file_number(path);
	snprintf(path, sizeof(path), "/sys/fs/cgroup%.*s/memory.current", size, group);
	now = proc_file_number(path);
	/* proc_file_number() reads "max" as 0. */
	if (most <= 0 || now < 0)
		return UINT64_MAX;
	snprintf(path, sizeof(path), "/sys/fs/cgroup%.*s/memory.stat", size, group);
	if (proc_file_read(AT_FDCWD, path, stat, sizeof(stat)) == 0 && (files = strstr(stat, "\nfile ")))
		now -= MIN(now, atoll(files + 6));
	return most > now ? (uint64_t)(most - now) : 0;
}

/*
 * Redirecting the events to a second set of rings would not shorten the time without tracing: for each event the kernel
 * waits until no CPU can see the old ring any more (an RCU grace period). In the virtual machine of tests/rig: 32 ms
 * for 2 events and 515 ms for 32, where stopping and starting takes 0.7 ms and 2.9 ms, done twice.
 */
static uint64_t restart_grid(struct grid *g)
{
	uint64_t began = now_ns(CLOCK_MONOTONIC);

	grid_stop(g);
	grid_start(g);
	return now_ns(CLOCK_MONOTONIC) - began;
}

/*
 * Sinks that write into the AUX buffers directly continue to do so during the copy; the next stop shows how much of the
 * oldest data they destroyed. So the target is traced during the copy. Returns true if all of some ring was destroyed.
 */
static bool cut_overwritten(struct perf_target *s, struct capture_copy *c)
{
	struct aux_buffer *rings = perf_target_rings(s);
	bool all = false;

	c->blind += s->shared ? arena_flush(&s->m->arena) : restart_grid(&s->grid);
	grid_drain(&s->grid, sideband_now(s->m->sideband), sideband_shift(s->m->sideband), &s->m->scratch);
	for (size_t i = 0, n = 0; i < c->n_rings; i++) {
		while (rings[n].cpu != c->rings[i].cpu)
			n++;
		aux_cut(&c->rings[i], rings[n].size, perf_ring_aux_head(&rings[n].ring));
		all |= c->rings[i].n_slices == 0;
	}
	return all;
}

bool perf_copy_has_registers(const struct perf_target *s, const struct aux_buffer *ring)
{
	const struct topology_cpu *t = topology_find_cpu(s->m->topology, ring->cpu);

	return t && t->registers && (s->shared || ring->fd >= 0);
}

/* Returns the bytes of a ring that are wanted. */
static uint64_t wanted_bytes(const struct aux_buffer *a, const struct capture_copy *c)
{
	uint64_t from, held = aux_held(a, &from);

	return c->since ? MIN(held, aux_newer(a, c->since)) : held;
}

static int copy_rings(struct perf_target *s, size_t limit, struct capture_copy *c)
{
	const struct plan *p = perf_target_plan(s);
	struct aux_buffer *rings = perf_target_rings(s);
	uint64_t total = 0, held, left = memory_left();
	size_t n_held = 0;

	c->rings = calloc(p->n_cpus + 1, sizeof(*c->rings));
	if (!c->rings)
		return -ENOMEM;
	for (size_t n = 0; n < p->n_cpus; n++) {
		held = wanted_bytes(&rings[n], c);
		total += held;
		n_held += held > 0;
	}
	if (limit > left / 2) {
		limit = left / 2;
		if (total > limit)
			capture_note_missing(c, "the snapshot is smaller than snapshot-max: the memory of "
						"csightd.service is limited (MemoryMax=)");
	}
	for (size_t n = 0; n < p->n_cpus; n++) {
		uint64_t share = total > limit ? limit / n_held & ~(uint64_t)4095 : UINT64_MAX;
		int rc;

		held = wanted_bytes(&rings[n], c);
		if (!held)
			continue;
		if (!perf_copy_has_registers(s, &rings[n])) {
			capture_note_missing(
			    c, "the trace of CPU %u was left out: the registers of its trace unit cannot be read",
			    rings[n].cpu);
			continue;
		}
		if (held > share)
			capture_note_missing(c, "only the newest %llu bytes of CPU %u were kept (snapshot-max)",
					     (unsigned long long)share, rings[n].cpu);
		sideband_collect(s->m->sideband);
		rc = aux_copy(&rings[n], MIN(held, share), &c->rings[c->n_rings]);
		if (rc < 0)
			return rc;
		c->n_rings += c->rings[c->n_rings].size > 0;
	}
	return 0;
}

/*
 * Adds the start of each slice, if all later switches are there: it shows the thread of that moment only. Not for a
 * shared sink, where it would reveal which other process was running.
 */
void perf_copy_starts(const struct perf_target *s, struct capture_copy *c)
{
	for (size_t i = 0; i < c->n_rings; i++) {
		const struct aux_buffer *a;
		size_t n = 0;

		while (s->grid.rings[n].cpu != c->rings[i].cpu)
			n++;
		a = &s->grid.rings[n];
		for (size_t k = a->first; k < a->n_slices; k++) {
			const struct aux_slice *slice = &a->slices[k];
			const uint32_t body[2] = { slice->pid, slice->started };
			struct pd_origin origin = { slice->pid, slice->started, a->cpu, slice->begun };

			if (slice->begun > s->thread_table.gone_until && slice->to > c->rings[i].from &&
			    slice->from < c->rings[i].from + c->rings[i].size)
				capture_add_record(&c->records, PERF_RECORD_ITRACE_START, 0, body, sizeof(body),
						   &origin);
		}
	}
}

/* An empty AUX record of no thread, at the end of the pause; its offset is the beginning. Truncated if a sink failed.
 */
static void add_pause(struct capture_copy *c, const struct trace_pause *p)
{
	const uint64_t flags = PERF_AUX_FLAG_PARTIAL | (p->changed ? 0 : PERF_AUX_FLAG_TRUNCATED),
		       body[3] = { p->from, 0, flags };
	struct pd_origin origin = { UINT32_MAX, UINT32_MAX, UINT32_MAX, p->to };

	capture_add_record(&c->records, PERF_RECORD_AUX, 0, body, sizeof(body), &origin);
}

/* Adds the outages of a shared sink's CPUs. The rings of most are empty, and are not copied. */
static void add_outages(const struct arena *arena, uint64_t since, uint64_t now, struct capture_copy *c)
{
	for (size_t n = 0; n < arena->plan->n_cpus; n++) {
		const struct aux_buffer *a = &arena->rings[n];

		for (unsigned i = 0; i < a->n_outages; i++) {
			uint64_t from = a->outages[i].from, to = MIN(a->outages[i].to, now);

			if (to >= since)
				add_pause(c, &(struct trace_pause){ from, MAX(to, from + 1), 0 });
		}
	}
}

void perf_copy_losses(const struct perf_target *s, uint64_t since, struct capture_copy *c)
{
	const struct pause_list *pauses = s->shared ? &s->m->arena.pauses : &s->grid.pauses;
	uint64_t one[2] = { 0, 1 }, now = sideband_now(s->m->sideband), from;
	struct trace_pause failed = { s->failed_since, MAX(now, s->failed_since + 1), 0 };

	for (size_t i = 0; i < pauses->n; i++) {
		struct trace_pause pause = pauses->list[i];

		pause.to = pause.changed && pause.to != UINT64_MAX ? pause.to : MIN(pause.to, now);
		if (pause.to >= since)
			add_pause(c, &pause);
	}
	if (pause_list_changes(pauses, sideband_shift(s->m->sideband), &from))
		add_pause(c, &(struct trace_pause){ from, MAX(now, from + 1), 1 });
	if (s->shared) {
		add_outages(&s->m->arena, since, now, c);
		return;
	}
	if (s->again)
		add_pause(c, &failed);
	for (size_t n = 0; n < s->plan->n_cpus; n++) {
		const struct aux_buffer *a = &s->grid.rings[n];
		struct pd_origin origin = { UINT32_MAX, UINT32_MAX, a->cpu, now };

		failed = (struct trace_pause){ a->failed_since, MAX(now, a->failed_since + 1), 0 };
		if (a->failed)
			add_pause(c, &failed);
		if (a->cut_off)
			capture_add_record(&c->records, PERF_RECORD_LOST, 0, one, sizeof(one), &origin);
	}
}

int perf_copy_units(const struct perf_target *s, struct capture_copy *c)
{
	const struct plan *p = perf_target_plan(s);
	const struct aux_buffer *rings = perf_target_rings(s);
	bool known = true;

	c->cpus = calloc(p->n_cpus + 1, sizeof(*c->cpus));
	if (!c->cpus)
		return -ENOMEM;
	c->pmu_type = p->type;
	c->pmu_config = p->words[0];
	for (size_t n = 0; n < p->n_cpus; n++) {
		const struct topology_cpu *t = topology_find_cpu(s->m->topology, p->cpus[n].cpu);

		if (!perf_copy_has_registers(s, &rings[n]))
			continue;
		c->cpus[c->n_cpus] = t->regs;
		c->cpus[c->n_cpus].params[0] = p->cpus[n].configr;
		c->cpus[c->n_cpus++].params[1] = rings[n].trace_id;
		known &= t->ts_source == 1;
	}
	c->clock = sideband_clock(s->m->sideband);
	c->shift = sideband_shift(s->m->sideband);
	c->clock.known &= known;
	if (!c->clock.known)
		capture_note_missing(
		    c, "the relation of the trace's timestamps to the kernel's clock is unknown (ts_source)");
	return 0;
}

/* since: what a recording has of the switches, pauses and lost records; or NULL. */
static int copy_tasks(struct perf_target *s, const struct capture_positions *since, struct capture_copy *c)
{
	struct capture_records from = since ? since->records : (struct capture_records){ 0 };
	uint64_t until = sideband_now(s->m->sideband);
	int rc = thread_table_threads(&s->thread_table, &c->threads, &c->n_threads);

	if (rc == 0 && s->shared)
		rc = thread_table_intervals(&s->thread_table, until, &c->intervals, &c->n_intervals);
	if (rc < 0)
		return rc;
	for (size_t n = 0; n < c->n_threads; n++)
		if (!c->threads[n].start_ns)
			c->threads[n].start_ns = s->armed_at;
	thread_table_records(&s->thread_table, 0, &c->records);
	thread_table_switches(&s->thread_table, &from, &c->records);
	if (!s->shared)
		perf_copy_starts(s, c);
	perf_copy_losses(s, from.time, c);
	return buf_error(&c->records);
}

/*
 * Reads the code of the process. Records are read again after the scan: a record that arrived meanwhile invalidates
 * bytes that were read too late. Returns false if there is none any more.
 */
static bool scan_code(struct perf_target *s)
{
	if (!s->process)
		return false;
	process_set_shift(s->process, sideband_shift(s->m->sideband));
	process_scan(&s->process, sideband_now(s->m->sideband));
	perf_machine_read_records(s->m);
	if (!s->process)
		s->unread = -ETIMEDOUT;
	return s->process;
}

int perf_copy_mappings(struct perf_target *s, struct buf *ret)
{
	return scan_code(s) ? process_write_mappings(s->process, ret) : 0;
}

static int copy_code(struct perf_target *s, struct capture_copy *c)
{
	struct buf log = { 0 };
	int rc;

	if (!scan_code(s))
		return 0;
	rc = process_write_log(s->process, &log, &c->missing, &c->files, &c->n_files);
	if (rc == 0)
		rc = buf_error(&log);
	if (rc == 0)
		rc = process_copy_jitdump(s->process, &c->jitdump);
	if (rc < 0) {
		buf_done(&log);
		return rc;
	}
	c->log_size = log.size;
	c->log = log.data;
	return 0;
}

/* Modules may have come since the target was armed. Without a new copy, the last one has the rest of the code. */
static int copy_kernel(struct perf_target *s, struct capture_copy *c)
{
	struct reason why = { "" };
	int rc = kernel_code_update(s->m->kernel, &why);

	if (rc < 0)
		capture_note_missing(c, "the kernel's code may be older: %s", *why.text ? why.text : strerror(-rc));
	rc = kernel_code_get(s->m->kernel, &c->kernel);
	return rc == -ENODATA ? 0 : rc;
}

/* The AUX records of a shared sink name the thread that was running at the stop, which is unrelated. */
void perf_copy_hide_others(struct capture_copy *c)
{
	for (size_t i = 0; i < c->n_rings; i++)
		for (size_t k = 0; k < c->rings[i].n_slices; k++)
			c->rings[i].slices[k].pid = c->rings[i].slices[k].tid = UINT32_MAX;
}

void perf_target_stop(struct perf_target *s)
{
	if (s->shared)
		arena_stop(&s->m->arena);
	else
		grid_stop(&s->grid);
}

void perf_target_start(struct perf_target *s)
{
	if (!s->shared) {
		grid_start(&s->grid);
		return;
	}
	arena_start(&s->m->arena);
	perf_machine_read_records(s->m);
	perf_restore_contexts(s->m);
}

void perf_restore_contexts(struct perf_machine *m)
{
	if (arena_restore_contexts(&m->arena))
		arena_drain(&m->arena, sideband_now(m->sideband), sideband_shift(m->sideband), &m->scratch);
}

/* Copies with tracing stopped: small rings are overwritten faster than they are copied. */
static int copy_stopped(struct perf_target *s, size_t limit, struct capture_copy *c)
{
	uint64_t began = now_ns(CLOCK_MONOTONIC);
	int rc;

	capture_copy_drop_rings(c);
	buf_clear(&c->missing);
	perf_target_stop(s);
	perf_machine_read_records(s->m);
	rc = copy_rings(s, limit, c);
	perf_target_start(s);
	c->blind += now_ns(CLOCK_MONOTONIC) - began;
	return rc;
}

/* Returns the time at which the recording of a process ended, of the records' clock; 0: unknown. */
static uint64_t ended_at(struct perf_target *s, uint64_t now)
{
	_cleanup_free_ struct capture_interval *list = NULL;
	const struct aux_buffer *rings = perf_target_rings(s);
	uint64_t last = 0;
	size_t n = 0;

	if (s->shared && thread_table_intervals(&s->thread_table, now, &list, &n) < 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		last = MAX(last, list[i].to);
	for (size_t i = 0; !s->shared && i < perf_target_plan(s)->n_cpus; i++)
		if (rings[i].first < rings[i].n_slices)
			last = MAX(last, rings[i].slices[rings[i].n_slices - 1].ended);
	return last;
}

static void find_window(struct perf_target *s, bool alive, uint64_t wanted, struct capture_copy *c)
{
	uint64_t now = sideband_now(s->m->sideband), end = alive && !s->grid.filled ? now : ended_at(s, now);

	if (wanted)
		c->since = end - MIN(end, wanted);
}

static int fill_copy(struct perf_target *s, bool alive, const struct capture_limits *limits, struct capture_copy *c)
{
	struct perf_machine *m = s->m;
	uint64_t held = perf_watch_held(s);
	bool running = s->shared || (alive && !s->lost && !held);
	const struct capture_positions *since = limits->since;
	int rc;

	c->missing.limit = CAPTURE_MISSING_MAX;
	c->shared = s->shared;
	c->filtered = s->options.filter != NULL;
	c->unrecorded = s->unrecorded;
	now_both(&c->time, &c->monotonic);
	/* Tracing continues during all further work. */
	if (s->shared)
		c->blind = arena_flush(&m->arena);
	else if (running && !since)
		c->blind = restart_grid(&s->grid);
	perf_machine_read_records(m);
	perf_target_catch_up(s);
	perf_target_check_owner(s);
	find_window(s, alive, limits->last, c);
	if (s->shared)
		perf_restore_contexts(m);
	rc = since ? perf_drain_last(s, limits, c) : copy_rings(s, limits->trace, c);
	if (rc == 0 && !since && perf_target_plan(s)->direct && running && cut_overwritten(s, c))
		rc = copy_stopped(s, limits->trace, c);
	if (held) {
		c->blind = now_ns(CLOCK_MONOTONIC) - held;
		perf_watch_thaw(s);
	}
	if (rc == 0 && !since)
		rc = perf_counters_copy(s, NULL, c);
	if (rc == 0)
		rc = copy_code(s, c);
	if (rc == 0)
		rc = perf_copy_units(s, c);
	if (rc == 0)
		rc = copy_tasks(s, limits->since, c);
	if (rc == 0 && s->options.kernel)
		rc = copy_kernel(s, c);
	if (s->shared)
		perf_copy_hide_others(c);
	if (since)
		perf_drain_cut(s, since, c);
	if (c->n_rings == 0 && !since)
		capture_note_missing(c, "no sink held any trace");
	perf_target_report_missing(s, &c->missing);
	return rc;
}

int perf_copy(struct capture_source *source, bool alive, const struct capture_limits *limits, struct capture_copy **ret)
{
	struct perf_target *s = perf_target_of(source);
	struct capture_copy *c;
	int rc;

	if (!s->armed || !perf_target_plan(s))
		return -ENODATA;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->jitdump.fd = -1;
	rc = fill_copy(s, alive, limits, c);
	if (rc < 0) {
		capture_copy_free(c);
		return rc;
	}
	perf_target_maintain(s, 0);
	*ret = c;
	return 0;
}
