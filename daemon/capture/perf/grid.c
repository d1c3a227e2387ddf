/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <dirent.h>
#include <string.h>
#include <sys/epoll.h>

#include "daemon/capture/perf/grid.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

enum { ROUNDS_MAX = 32, PAUSES_MAX = 1 << 16 };

static int add_fd(struct grid *g, int fd)
{
	int rc = array_reserve(g->fds, g->n_fds, &g->fds_room);

	if (rc == 0)
		g->fds[g->n_fds++] = fd;
	return rc;
}

static struct perf_event_attr grid_attr(const struct plan *p, const struct plan_cpu *c)
{
	struct perf_event_attr attr = perf_event_default_attr(p->type, p->words);

	attr.config2 |= c->sink_id;
	attr.exclude_kernel = p->exclude_kernel;
	attr.inherit = attr.inherit_thread = 1;
	attr.context_switch = 1;
	attr.watermark = 1;
	attr.wakeup_watermark = (uint32_t)(p->data_size / 4);
	return attr;
}

/* The first event on a CPU is mapped and stays open, even after its thread has ended. */
static int map_ring(struct grid *g, struct aux_buffer *a, int fd, int poll_fd)
{
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET };
	int rc = perf_ring_map(fd, g->plan->data_size, a->size, &a->ring);

	if (rc == 0 && epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &wanted) < 0) {
		rc = -errno;
		perf_ring_unmap(&a->ring);
	}
	return rc;
}

/* Returns 1 if the event is open, 0 if the CPU is unavailable now. */
static int open_event(struct grid *g, size_t n, uint32_t tid, const char *filter, int poll_fd, struct reason *why)
{
	const struct plan_cpu *c = &g->plan->cpus[n];
	struct perf_event_attr attr = grid_attr(g->plan, c);
	struct aux_buffer *a = &g->rings[n];
	_cleanup_close_ int fd = -1;
	char what[96];
	int rc = perf_event_open(&attr, (pid_t)tid, (int)c->cpu, &fd);

	if (rc == -ESRCH || rc == -ENODEV)
		return rc == -ENODEV ? 0 : rc;
	snprintf(what, sizeof(what), "tracing thread %u on CPU %u (perf_event_open)", tid, c->cpu);
	if (rc == 0 && filter) {
		rc = perf_event_control(fd, PERF_EVENT_IOC_SET_FILTER, (unsigned long)filter);
		if (rc < 0)
			snprintf(what, sizeof(what), "the address filter");
	}
	if (rc == 0 && a->fd < 0) {
		rc = map_ring(g, a, fd, poll_fd);
		if (rc == 0)
			a->fd = TAKE_FD(fd);
		/* A trace unit that was never on has no path to a sink yet. */
		else if (rc == -ENOMEM && n > 0)
			return 0;
		snprintf(what, sizeof(what), "mapping the ring of CPU %u", c->cpu);
	} else if (rc == 0) {
		rc = perf_event_control(fd, PERF_EVENT_IOC_SET_OUTPUT, (unsigned long)a->fd);
		if (rc == 0)
			rc = add_fd(g, fd);
		if (rc == 0)
			fd = -1;
	}
	if (rc < 0)
		perf_event_explain(why, rc, what, g->plan->memory);
	return rc < 0 ? rc : 1;
}

static bool has_tid(const struct grid *g, uint32_t tid)
{
	for (size_t i = 0; i < g->n_tids; i++)
		if (g->tids[i] == tid)
			return true;
	return false;
}

static int add_tid(struct grid *g, uint32_t tid)
{
	int rc = array_reserve(g->tids, g->n_tids, &g->tids_room);

	if (rc == 0)
		g->tids[g->n_tids++] = tid;
	return rc;
}

/*
 * A thread created by a traced thread has inherited its events, and the kernel refuses another one with EBUSY. The
 * error is the same if another session traces the process, but then it affects the first event already.
 */
static int open_thread(struct grid *g, uint32_t tid, const char *filter, int poll_fd, struct reason *why)
{
	bool any = false;
	int rc = add_tid(g, tid);

	for (size_t n = 0; n < g->plan->n_cpus && rc >= 0; n++) {
		rc = open_event(g, n, tid, filter, poll_fd, why);
		any |= rc > 0;
		if (rc == -ESRCH || (rc == -EBUSY && (any || g->opened)))
			return 0;
	}
	g->opened += any;
	return MIN(rc, 0);
}

/* Returns 1 if there were new threads. */
static int open_new_threads(struct grid *g, pid_t pid, const char *filter, int poll_fd, struct reason *why)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *e;
	char path[64];
	bool new = false;
	int rc = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -ESRCH;
	while (rc == 0 && (e = readdir(dir))) {
		uint32_t tid = (uint32_t)strtoul(e->d_name, NULL, 10);

		if (!tid || has_tid(g, tid))
			continue;
		new = true;
		rc = open_thread(g, tid, filter, poll_fd, why);
	}
	return rc < 0 ? rc : new;
}

int grid_open(struct grid *g, const struct plan *plan, pid_t pid, const char *filter, int poll_fd, struct reason *why)
{
	int rc = 1;

	*g = (struct grid){ .plan = plan, .rings = calloc(plan->n_cpus + 1, sizeof(*g->rings)) };
	if (!g->rings)
		return -ENOMEM;
	for (size_t n = 0; n < plan->n_cpus; n++)
		aux_init(&g->rings[n], plan->cpus[n].cpu, plan->cpus[n].aux_size, plan->cpus[n].trace_id);
	for (unsigned i = 0; i < ROUNDS_MAX && rc > 0; i++)
		rc = open_new_threads(g, pid, filter, poll_fd, why);
	if (rc >= 0 && !g->opened)
		rc = -ESRCH;
	if (rc < 0)
		grid_close(g);
	else
		grid_start(g);
	return MIN(rc, 0);
}

void grid_record_switches(struct grid *g, struct thread_table *threads)
{
	for (size_t n = 0; n < g->plan->n_cpus; n++)
		g->rings[n].threads = threads;
}

void grid_close(struct grid *g)
{
	for (size_t i = 0; i < g->n_fds; i++)
		closep(&g->fds[i]);
	for (size_t n = 0; g->rings && n < g->plan->n_cpus; n++)
		aux_done(&g->rings[n]);
	free(g->rings);
	free(g->fds);
	free(g->tids);
	free(g->pauses);
	*g = (struct grid){ 0 };
}

/* Threads inherited events on other CPUs only, so events on these CPUs are opened for all live threads. */
int grid_extend(struct grid *g, pid_t pid, const char *filter, int poll_fd, struct reason *why)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *e;
	char path[64];
	size_t before = g->n_fds;
	int rc = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	for (size_t n = 0; n < g->plan->n_cpus && rc >= 0; n++) {
		if (g->rings[n].fd >= 0)
			continue;
		closedirp(&dir);
		dir = opendir(path);
		while (dir && rc >= 0 && (e = readdir(dir))) {
			uint32_t tid = (uint32_t)strtoul(e->d_name, NULL, 10);

			if (!tid)
				continue;
			rc = open_event(g, n, tid, filter, poll_fd, why);
			if (rc == -ESRCH || (rc == -EBUSY && g->rings[n].fd >= 0))
				rc = 1;
			if (rc == 0)
				break;
		}
		if (g->rings[n].fd >= 0)
			perf_event_control(g->rings[n].fd, PERF_EVENT_IOC_ENABLE, 0);
	}
	for (size_t i = before; i < g->n_fds; i++)
		perf_event_control(g->fds[i], PERF_EVENT_IOC_ENABLE, 0);
	return MIN(rc, 0);
}

static void control_all(const struct grid *g, unsigned long what)
{
	for (size_t n = 0; g->rings && n < g->plan->n_cpus; n++)
		if (g->rings[n].fd >= 0)
			perf_event_control(g->rings[n].fd, what, 0);
	for (size_t i = 0; i < g->n_fds; i++)
		perf_event_control(g->fds[i], what, 0);
}

void grid_stop(struct grid *g)
{
	control_all(g, PERF_EVENT_IOC_DISABLE);
	for (size_t n = 0; g->rings && n < g->plan->n_cpus; n++)
		g->rings[n].stopped_at = perf_ring_aux_head(&g->rings[n].ring);
	g->stopped = true;
}

void grid_start(const struct grid *g)
{
	control_all(g, PERF_EVENT_IOC_ENABLE);
}

/* Drops pauses that are older than everything in the rings. */
static void forget_pauses(struct grid *g)
{
	uint64_t oldest = UINT64_MAX;
	size_t kept = 0;

	for (size_t n = 0; n < g->plan->n_cpus; n++)
		if (g->rings[n].first < g->rings[n].n_slices)
			oldest = MIN(oldest, g->rings[n].slices[g->rings[n].first].ended);
	for (size_t i = g->n_pauses > PAUSES_MAX ? 1 : 0; i < g->n_pauses; i++)
		if (g->pauses[i].to >= oldest)
			g->pauses[kept++] = g->pauses[i];
	g->n_pauses = kept;
}

static void add_pause(struct grid *g, uint64_t from, uint64_t to)
{
	if (array_reserve(g->pauses, g->n_pauses, &g->pauses_room) == 0)
		g->pauses[g->n_pauses++] = (struct grid_pause){ from, to };
	forget_pauses(g);
}

/*
 * Threads ran untraced between the last stop and the following start. The time of the last slice before the stop
 * separates what each thread did before and after, by the clock of the records alone.
 */
static void note_stop(struct grid *g)
{
	uint64_t time = 0;

	for (size_t n = 0; n < g->plan->n_cpus; n++) {
		struct aux_buffer *a = &g->rings[n];
		size_t i = a->n_slices;

		while (i > a->first && a->slices[i - 1].to > a->stopped_at)
			i--;
		if (i > a->first)
			time = MAX(time, a->slices[i - 1].ended);
		a->cut_off = a->end < a->stopped_at;
		a->lost += a->cut_off;
	}
	if (time)
		add_pause(g, time, time);
}

/*
 * A failure disables the event of one thread on one CPU, sometimes once more after it was restarted. So all threads may
 * have run untraced from the first failure on until all events have been restarted.
 */
void grid_retry(struct grid *g, uint64_t failed_since)
{
	grid_start(g);
	add_pause(g, failed_since, UINT64_MAX);
}

void grid_drain(struct grid *g, uint64_t now, struct buf *scratch)
{
	for (size_t i = 0; i < g->n_pauses; i++)
		if (g->pauses[i].to == UINT64_MAX)
			g->pauses[i].to = MAX(now, g->pauses[i].from + 1);
	for (size_t n = 0; g->rings && n < g->plan->n_cpus; n++)
		aux_drain(&g->rings[n], scratch);
	if (g->stopped && g->rings)
		note_stop(g);
	g->stopped = false;
}
