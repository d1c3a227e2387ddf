/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <linux/hw_breakpoint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "daemon/capture/perf/grid.h"
#include "daemon/capture/process/process-threads.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

/* What to open for each thread, on the CPUs [first, end) of the plan. */
struct grid_opening {
	struct grid *grid;
	size_t first, end;
	const struct filter *filter;
	int poll_fd;
	struct reason *why;
};

static int add_fd(int **fds, size_t *n, size_t *room, int *fd)
{
	int rc = array_reserve(*fds, *n, room);

	if (rc == 0)
		(*fds)[(*n)++] = TAKE_FD(*fd);
	return rc;
}

static struct perf_event_attr grid_attr(const struct plan *p, const struct plan_cpu *c)
{
	struct perf_event_attr attr = perf_event_default_attr(p->type, p->words);

	attr.config2 |= c->sink_id;
	attr.exclude_kernel = p->exclude_kernel;
	attr.inherit = attr.inherit_thread = !p->thread;
	attr.watermark = 1;
	attr.wakeup_watermark = (uint32_t)(p->data_size / 4);
	/* Else the kernel stops a sink halfway to wake a reader. */
	attr.aux_watermark = p->fill ? (uint32_t)c->aux_size : 0;
	if (p->breakpoints)
		perf_event_set_action(&attr, PERF_EVENT_PAUSED);
	return attr;
}

/* Starts or stops tracing where a thread reaches this address. */
static struct perf_event_attr point_attr(const struct plan *p, const struct filter_point *point)
{
	struct perf_event_attr attr = perf_event_default_attr(PERF_TYPE_BREAKPOINT, (const uint64_t[5]){ 0 });

	attr.bp_type = HW_BREAKPOINT_X;
	attr.bp_addr = point->address;
	attr.bp_len = sizeof(long);
	attr.exclude_kernel = 1;
	attr.inherit = attr.inherit_thread = !p->thread;
	/* Addresses are others in the next program. */
	attr.remove_on_exec = 1;
	perf_event_set_action(&attr, point->starts ? PERF_EVENT_RESUMES : PERF_EVENT_PAUSES);
	return attr;
}

/* Records the switches of a thread. The kernel never disables it. */
static struct perf_event_attr switch_attr(const struct plan *p)
{
	struct perf_event_attr attr =
	    perf_event_default_attr(PERF_TYPE_SOFTWARE, (const uint64_t[5]){ PERF_COUNT_SW_DUMMY, 0, 0, 0, 0 });

	attr.exclude_kernel = 1;
	attr.inherit = attr.inherit_thread = !p->thread;
	attr.context_switch = 1;
	return attr;
}

/* The first event on a CPU is mapped and stays open, even after its thread has ended. */
static int map_ring(struct grid *g, struct aux_buffer *a, int fd, int poll_fd)
{
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET };
	int rc = a->fills ? perf_ring_map_fill(fd, g->plan->data_size, a->size, &a->ring)
			  : perf_ring_map(fd, g->plan->data_size, a->size, &a->ring);

	if (rc == 0 && epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &wanted) < 0) {
		rc = -errno;
		perf_ring_unmap(&a->ring);
	}
	return rc;
}

/* Opens an event, which the keeper then has, too; where the keeper has ended, it is not kept. */
static int open_kept(struct grid *g, const struct kept_name *name, const struct perf_event_attr *attr,
		     struct perf_event_place at, int *ret_fd)
{
	int rc = perf_event_open_thread(g->of, attr, at, ret_fd);

	if (rc == 0 && keeper_client_is_connected(g->keeper))
		rc = keeper_client_hold_new(g->keeper, name, *ret_fd);
	return rc < 0 && *ret_fd >= 0 && !keeper_client_is_connected(g->keeper) ? 0 : rc;
}

/* Opens the breakpoints at which a trace event is paused and resumed, in its group. Returns 1. */
static int open_points(const struct grid_opening *o, struct perf_event_place at)
{
	const struct filter_point *points;
	size_t n = filter_points(o->filter, &points);
	struct grid *g = o->grid;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct kept_name name = { g->group, KEEPER_EVENT, g->n_kept++ };
		struct perf_event_attr attr = point_attr(g->plan, &points[i]);
		_cleanup_close_ int fd = -1;

		rc = open_kept(g, &name, &attr, at, &fd);
		if (rc == 0)
			rc = add_fd(&g->fds, &g->n_fds, &g->fds_room, &fd);
	}
	if (rc == -ENOSPC)
		return reason_set(o->why, rc,
				  "the CPU has too few breakpoint registers for an address filter of %zu addresses "
				  "(of most cores: 6)",
				  n);
	if (rc < 0 && rc != -ESRCH)
		perf_event_explain(o->why, rc, "inserting a breakpoint for the address filter (perf_event_open)",
				   g->plan->memory);
	return rc < 0 ? rc : 1;
}

/* Opens the trace event of a thread on CPU n of the plan. Returns 1; 0: the CPU is unavailable now. */
static int open_trace_event(const struct grid_opening *o, size_t n, uint32_t tid, int *ret_event)
{
	struct grid *g = o->grid;
	const struct plan_cpu *c = &g->plan->cpus[n];
	struct perf_event_attr attr = grid_attr(g->plan, c);
	struct aux_buffer *a = &g->rings[n];
	const struct kept_name ring = { g->group, KEEPER_RING, (uint32_t)n },
			       other = { g->group, KEEPER_EVENT, g->n_kept }, *name = a->fd < 0 ? &ring : &other;
	_cleanup_close_ int fd = -1;
	char what[96];
	int rc = open_kept(g, name, &attr, (struct perf_event_place){ tid, (int)c->cpu, 0 }, &fd);

	if (rc == -ESRCH || rc == -ENODEV)
		return rc == -ENODEV ? 0 : rc;
	snprintf(what, sizeof(what), "tracing thread %u on CPU %u (perf_event_open)", tid, c->cpu);
	if (g->plan->breakpoints && (rc == -EINVAL || rc == -EOPNOTSUPP))
		return reason_set(o->why, -ENOTSUP,
				  "the trace units have too few address comparators for this filter, and the kernel "
				  "cannot pause and resume tracing at breakpoints: it can since Linux 7.2");
	if (rc == 0 && o->filter && !g->plan->breakpoints) {
		rc = filter_apply(o->filter, fd);
		/* That call has the lock of all events of the thread. */
		g->stuck |= rc == -EAGAIN;
		if (rc < 0)
			snprintf(what, sizeof(what), "the address filter");
	}
	*ret_event = fd;
	if (rc == 0 && a->fd < 0) {
		rc = keeper_client_map(g->keeper, &ring, g->plan->data_size, a->size, a->fills);
		if (rc == 0)
			rc = map_ring(g, a, fd, o->poll_fd);
		if (rc == 0)
			a->fd = TAKE_FD(fd);
		else
			keeper_client_close(g->keeper, &ring);
		/* A trace unit that was never on has no path to a sink yet. */
		if (rc == -ENOMEM && n > 0)
			return 0;
		snprintf(what, sizeof(what), "mapping the ring of CPU %u", c->cpu);
	} else if (rc == 0) {
		rc = perf_event_control(fd, PERF_EVENT_IOC_SET_OUTPUT, (unsigned long)a->fd);
		if (rc == 0)
			rc = add_fd(&g->fds, &g->n_fds, &g->fds_room, &fd);
		g->n_kept++;
	}
	if (rc < 0)
		perf_event_explain(o->why, rc, what, g->plan->memory);
	return rc < 0 ? rc : 1;
}

/* Records the switches of a thread on a CPU in the ring of that CPU. */
static int open_switches(const struct grid_opening *o, size_t n, uint32_t tid)
{
	const struct plan_cpu *c = &o->grid->plan->cpus[n];
	struct grid *g = o->grid;
	struct perf_event_attr attr = switch_attr(g->plan);
	const struct kept_name name = { g->group, KEEPER_SWITCHES, g->n_kept++ };
	_cleanup_close_ int fd = -1;
	char what[96];
	int rc = open_kept(g, &name, &attr, (struct perf_event_place){ tid, (int)c->cpu, 0 }, &fd);

	if (rc == -ESRCH || rc == -ENODEV)
		return rc == -ENODEV ? 0 : rc;
	if (rc == 0)
		rc = perf_event_control(fd, PERF_EVENT_IOC_SET_OUTPUT, (unsigned long)g->rings[n].fd);
	if (rc == 0)
		rc = perf_event_control(fd, PERF_EVENT_IOC_ENABLE, 0);
	if (rc == 0)
		rc = add_fd(&g->switch_fds, &g->n_switch_fds, &g->switch_fds_room, &fd);
	snprintf(what, sizeof(what), "recording the switches of thread %u on CPU %u (perf_event_open)", tid, c->cpu);
	if (rc < 0)
		perf_event_explain(o->why, rc, what, g->plan->memory);
	return rc;
}

size_t grid_events(const struct grid *g)
{
	return g->plan ? g->plan->n_cpus + g->n_fds + g->n_switch_fds : 0;
}

/* -EMFILE: the events of one thread more are beyond the limit of its user. */
static int check_room(const struct grid_opening *o)
{
	size_t most = o->grid->plan->most_events, has = grid_events(o->grid);
	const struct filter_point *points;
	size_t each = 1 + (o->grid->plan->breakpoints ? filter_points(o->filter, &points) : 0);

	if (has + (o->end - o->first) * each <= most)
		return 0;
	return reason_set(o->why, -EMFILE,
			  "its threads need more than the %zu descriptors that its user may still have: two for each "
			  "thread on each of %zu CPUs (LimitNOFILE of csightd's unit)",
			  most, o->grid->plan->n_cpus);
}

/*
 * A thread created by a traced thread has inherited its events, and the kernel refuses another one with EBUSY. The
 * error is the same if another session traces the process, but then it affects the first event already.
 */
static int open_thread(void *data, uint32_t tid, bool later)
{
	const struct grid_opening *o = data;
	struct grid *g = o->grid;
	bool any = false;
	int rc = check_room(o);

	for (size_t n = o->first; n < o->end && rc >= 0; n++) {
		int event;

		rc = open_trace_event(o, n, tid, &event);
		any |= rc > 0;
		if (rc > 0 && g->plan->breakpoints)
			rc = open_points(o, (struct perf_event_place){ tid, (int)g->plan->cpus[n].cpu, event });
		if (rc == -ESRCH || (rc == -EBUSY && (any || g->opened)))
			return 0;
	}
	g->opened += any;
	return MIN(rc, 0);
}

/*
 * A thread that was created meanwhile may have inherited such events. Then its switches are recorded twice, and
 * run-watch.c drops the second record.
 */
static int open_thread_switches(void *data, uint32_t tid, bool later)
{
	const struct grid_opening *o = data;
	const struct grid *g = o->grid;
	int rc = check_room(o);

	for (size_t n = o->first; n < o->end && rc == 0; n++)
		if (g->rings[n].fd >= 0)
			rc = open_switches(o, n, tid);
	return rc == -ESRCH ? 0 : rc;
}

/* Tracing starts before switches are recorded: else a thread that ran untraced before would look like a failure. */
static int open_cpus(struct grid_opening *o, pid_t pid)
{
	size_t before = o->grid->n_fds;
	uint32_t only = o->grid->plan->thread;
	int rc = process_threads_visit(pid, only, open_thread, o);

	if (rc < 0)
		return rc;
	for (size_t n = o->first; n < o->end; n++)
		if (o->grid->rings[n].fd >= 0)
			perf_event_control(o->grid->rings[n].fd, PERF_EVENT_IOC_ENABLE, 0);
	for (size_t i = before; i < o->grid->n_fds; i++)
		perf_event_control(o->grid->fds[i], PERF_EVENT_IOC_ENABLE, 0);
	return process_threads_visit(pid, only, open_thread_switches, o);
}

static int init_rings(struct grid *g, const struct plan *plan)
{
	*g = (struct grid){ .keeper = g->keeper,
			    .group = g->group,
			    .of = g->of,
			    .plan = plan,
			    .rings = calloc(plan->n_cpus + 1, sizeof(*g->rings)) };
	if (!g->rings)
		return -ENOMEM;
	for (size_t n = 0; n < plan->n_cpus; n++) {
		aux_init(&g->rings[n], plan->cpus[n].cpu, plan->cpus[n].aux_size, plan->cpus[n].trace_id);
		g->rings[n].fills = plan->fill;
	}
	return 0;
}

bool grid_traces(const struct grid *g, const struct plan *plan, uint32_t cpu)
{
	for (size_t n = 0; n < plan->n_cpus; n++)
		if (plan->cpus[n].cpu == cpu)
			return !g->rings || g->rings[n].fd >= 0;
	return false;
}

int grid_open(struct grid *g, const struct plan *plan, pid_t pid, const struct filter *filter, int poll_fd,
	      struct reason *why)
{
	struct grid_opening o = { g, 0, plan->n_cpus, filter, poll_fd, why };
	int rc = init_rings(g, plan);

	if (rc < 0)
		return rc;
	rc = open_cpus(&o, pid);
	if (rc == 0 && !g->opened)
		rc = plan->thread ? reason_set(why, -ENOENT, "thread: the process has no thread %u", plan->thread)
				  : -ESRCH;
	if (rc < 0)
		grid_close(g);
	return rc;
}

struct adoption {
	struct grid *grid;
	int file;
};

static int adopt_thing(void *data, const struct keeper_message *m, int fd)
{
	struct adoption *o = data;
	struct grid *g = o->grid;
	_cleanup_close_ int kept = fd;
	int rc = 0;

	switch (m->kind) {
	case KEEPER_RING:
		if (m->number >= g->plan->n_cpus || m->data_size != g->plan->data_size ||
		    m->aux_size != g->rings[m->number].size)
			return -ESTALE;
		g->rings[m->number].fd = TAKE_FD(kept);
		break;
	case KEEPER_BACKLOG:
		if (m->number >= g->plan->n_cpus)
			return -ESTALE;
		rc = backlog_add(&g->backlogs, m, &kept);
		break;
	case KEEPER_EVENT:
		rc = add_fd(&g->fds, &g->n_fds, &g->fds_room, &kept);
		g->n_kept = MAX(g->n_kept, m->number + 1);
		break;
	case KEEPER_SWITCHES:
		rc = add_fd(&g->switch_fds, &g->n_switch_fds, &g->switch_fds_room, &kept);
		g->n_kept = MAX(g->n_kept, m->number + 1);
		break;
	case KEEPER_FILE:
		o->file = TAKE_FD(kept);
		break;
	default:
		return -EPROTO;
	}
	return rc;
}

int grid_adopt(struct grid *g, const struct plan *plan, int poll_fd, int *ret_file)
{
	struct adoption o = { g, -1 };
	int rc = init_rings(g, plan);

	if (rc == 0)
		rc = keeper_client_list(g->keeper, g->group, adopt_thing, &o);
	for (size_t n = 0; n < plan->n_cpus && rc == 0; n++) {
		if (g->rings[n].fd < 0)
			continue;
		rc = map_ring(g, &g->rings[n], g->rings[n].fd, poll_fd);
		g->opened = 1;
	}
	if (rc == 0 && !g->opened)
		rc = -ENOENT;
	*ret_file = o.file;
	return rc;
}

int grid_hold(struct grid *g, int fd)
{
	return keeper_client_hold(g->keeper, &(struct kept_name){ g->group, KEEPER_FILE, 0 }, fd);
}

/* A name is unique within its kind: the events of each kind are numbered from 0. */
static int hold_all(struct grid *g, enum keeper_kind kind, const int *fds, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = keeper_client_hold(g->keeper, &(struct kept_name){ g->group, kind, (uint32_t)i }, fds[i]);
	return rc;
}

int grid_hold_events(struct grid *g)
{
	int rc = 0;

	for (size_t n = 0; n < g->plan->n_cpus && rc == 0; n++) {
		const struct kept_name name = { g->group, KEEPER_RING, (uint32_t)n };

		if (g->rings[n].fd >= 0)
			rc = keeper_client_hold_ring(g->keeper, &name, g->rings[n].fd, &g->rings[n].ring);
	}
	if (rc == 0)
		rc = hold_all(g, KEEPER_EVENT, g->fds, g->n_fds);
	return rc < 0 ? rc : hold_all(g, KEEPER_SWITCHES, g->switch_fds, g->n_switch_fds);
}

void grid_record_switches(struct grid *g, struct thread_table *threads)
{
	for (size_t n = 0; n < g->plan->n_cpus; n++)
		g->rings[n].threads = threads;
}

/* Closes the events in a thread, which may wait for ever; what there is no memory for stays open. */
static void close_apart(struct grid *g)
{
	int *fds = calloc(grid_events(g) + 1, sizeof(*fds));
	size_t n = 0;

	for (size_t i = 0; i < g->n_fds && fds; i++)
		fds[n++] = g->fds[i];
	for (size_t i = 0; i < g->n_switch_fds && fds; i++)
		fds[n++] = g->switch_fds[i];
	for (size_t i = 0; g->rings && i < g->plan->n_cpus; i++) {
		if (fds && g->rings[i].fd >= 0)
			fds[n++] = g->rings[i].fd;
		g->rings[i].fd = -1;
	}
	g->n_fds = g->n_switch_fds = 0;
	if (!fds)
		return;
	fds[n] = -1;
	perf_event_close_apart(fds);
}

void grid_close(struct grid *g)
{
	/* The keeper is not the last to close them, and so does not wait. */
	keeper_client_close(g->keeper, &(struct kept_name){ .group = g->group });
	if (g->stuck)
		close_apart(g);
	for (size_t i = 0; i < g->n_fds; i++)
		closep(&g->fds[i]);
	for (size_t i = 0; i < g->n_switch_fds; i++)
		closep(&g->switch_fds[i]);
	for (size_t n = 0; g->rings && n < g->plan->n_cpus; n++)
		aux_done(&g->rings[n]);
	backlog_done(&g->backlogs);
	free(g->rings);
	free(g->fds);
	free(g->switch_fds);
	pause_list_done(&g->pauses);
	*g = (struct grid){ 0 };
}

/* Threads inherited events on other CPUs only, so events on these CPUs are opened for all live threads. */
int grid_extend(struct grid *g, pid_t pid, const struct filter *filter, int poll_fd, struct reason *why)
{
	int rc = 0;

	for (size_t n = 0; n < g->plan->n_cpus && rc >= 0; n++) {
		struct grid_opening o = { g, n, n + 1, filter, poll_fd, why };

		if (g->rings[n].fd < 0)
			rc = open_cpus(&o, pid);
	}
	return rc;
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
	uint64_t began = now_ns(CLOCK_MONOTONIC);

	if (g->ended)
		return;
	control_all(g, PERF_EVENT_IOC_DISABLE);
	for (size_t n = 0; g->rings && n < g->plan->n_cpus; n++) {
		g->rings[n].stopped_at = perf_ring_aux_head(&g->rings[n].ring);
		g->rings[n].stopping = true;
	}
	g->stopped = g->off = true;
	pause_list_change(&g->pauses, began);
}

void grid_pause(struct grid *g, bool paused)
{
	if (g->paused == paused)
		return;
	if (paused)
		grid_stop(g);
	g->paused = paused;
	for (size_t n = 0; g->rings && n < g->plan->n_cpus; n++)
		g->rings[n].paused = paused;
	if (!paused)
		grid_start(g);
}

static void stop_switches(const struct grid *g)
{
	for (size_t i = 0; i < g->n_switch_fds; i++)
		perf_event_control(g->switch_fds[i], PERF_EVENT_IOC_DISABLE, 0);
}

void grid_end(struct grid *g)
{
	grid_stop(g);
	stop_switches(g);
	g->ended = true;
}

void grid_start(struct grid *g)
{
	uint64_t began = now_ns(CLOCK_MONOTONIC);

	if (g->paused || g->ended)
		return;
	control_all(g, PERF_EVENT_IOC_ENABLE);
	if (g->off)
		pause_list_change(&g->pauses, began);
	/* Of the time until now, too, records are still to be read. */
	g->stopped |= g->off;
	g->off = false;
}

/* Pauses before that are of no use. */
static uint64_t oldest_time(const struct grid *g)
{
	uint64_t oldest = UINT64_MAX;

	for (size_t n = 0; g->rings && n < g->plan->n_cpus; n++)
		oldest = MIN(oldest, aux_oldest(&g->rings[n]));
	return oldest;
}

void grid_replay_pause(struct grid *g, const struct trace_pause *p)
{
	pause_list_replay(&g->pauses, p, oldest_time(g));
	g->off = pause_list_is_open(&g->pauses);
}

static void note_stop(struct grid *g)
{
	for (size_t n = 0; n < g->plan->n_cpus; n++) {
		struct aux_buffer *a = &g->rings[n];

		a->cut_off = !a->ended && a->end < a->stopped_at;
		a->lost += a->cut_off;
	}
}

/*
 * A failure disables the event of one thread on one CPU, sometimes once more after it was restarted. So all threads may
 * have run untraced from the first failure on until all events have been restarted.
 */
void grid_retry(struct grid *g, uint64_t failed_since)
{
	grid_start(g);
	pause_list_add(&g->pauses, &(struct trace_pause){ failed_since, UINT64_MAX, 0 }, oldest_time(g),
		       g->rings[0].log);
}

/* A thread that has run untraced shows a failure, unless tracing was stopped or paused. */
static void judge_untraced(const struct grid *g, struct aux_buffer *a)
{
	if (a->untraced && !g->stopped && !g->paused && !g->ended)
		aux_note_failure(a, a->untraced_since);
	a->untraced = a->stopping = false;
}

/*
 * Where a ring is full, its CPU is traced no longer. A thread may have run there between two slices of other rings: so
 * tracing ends on all CPUs, and what began since then is dropped. Records of switches would fill the replay log.
 */
static void end_filled(struct grid *g, struct buf *scratch)
{
	uint64_t since = UINT64_MAX;

	for (size_t n = 0; g->rings && n < g->plan->n_cpus; n++)
		if (g->rings[n].full_at)
			since = MIN(since, g->rings[n].full_at);
	if (since == UINT64_MAX)
		return;
	g->filled = g->ended = g->off = true;
	control_all(g, PERF_EVENT_IOC_DISABLE);
	stop_switches(g);
	for (size_t n = 0; n < g->plan->n_cpus; n++) {
		aux_drain(&g->rings[n], scratch);
		aux_end(&g->rings[n], since);
	}
}

void grid_drain(struct grid *g, uint64_t now, int64_t shift, struct buf *scratch)
{
	for (size_t n = 0; g->rings && n < g->plan->n_cpus; n++) {
		aux_drain(&g->rings[n], scratch);
		judge_untraced(g, &g->rings[n]);
	}
	if (!g->ended)
		end_filled(g, scratch);
	if (g->stopped && g->rings)
		note_stop(g);
	g->stopped = false;
	if (g->rings)
		pause_list_settle(&g->pauses, now, shift, g->off, oldest_time(g), g->rings[0].log);
}
