/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <sched.h>
#include <string.h>
#include <sys/epoll.h>

#include "daemon/capture/perf/arena.h"
#include "daemon/capture/process/credentials.h"
#include "lib/base/util.h"

static struct perf_event_attr arena_attr(const struct plan *p, const struct plan_cpu *c)
{
	struct perf_event_attr attr = perf_event_default_attr(p->type, p->words);

	attr.config2 |= c->sink_id;
	attr.exclude_kernel = p->exclude_kernel;
	/* An unpinned event would be stopped and started whenever a task with events of its own is scheduled. */
	attr.pinned = 1;
	attr.watermark = 1;
	attr.wakeup_watermark = (uint32_t)(p->data_size / 4);
	return attr;
}

static int hold_event(struct arena *a, size_t n)
{
	const struct kept_name ring = { KEEPER_ARENA, KEEPER_RING, (uint32_t)n },
			       event = { KEEPER_ARENA, KEEPER_EVENT, (uint32_t)n };
	const struct aux_buffer *x = &a->rings[n];
	int rc = x->fd < 0 ? 0 : keeper_client_hold_ring(a->keeper, &ring, x->fd, &x->ring);

	if (rc == 0 && a->events[n] != x->fd)
		rc = keeper_client_hold(a->keeper, &event, a->events[n]);
	return rc;
}

int arena_hold(struct arena *a, struct keeper_client *k)
{
	int rc = a->log
		     ? keeper_client_hold(k, &(struct kept_name){ KEEPER_ARENA, KEEPER_FILE, 0 }, replay_log_fd(a->log))
		     : 0;

	a->keeper = k;
	for (size_t n = 0; n < a->plan->n_cpus && rc == 0; n++)
		rc = hold_event(a, n);
	return rc;
}

/*
 * Opens and maps an event without enabling it. The event of a CPU that went offline is dead even when the CPU is back;
 * its successor writes into the same buffer, whose contents stay. -ENODEV: the CPU is offline.
 */
static int open_ring(struct arena *a, size_t n, int poll_fd, struct reason *why)
{
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET };
	const struct plan_cpu *c = &a->plan->cpus[n];
	struct perf_event_attr attr = arena_attr(a->plan, c);
	struct aux_buffer *x = &a->rings[n];
	_cleanup_close_ int fd = -1;
	char what[96];
	int rc;

	snprintf(what, sizeof(what), "tracing CPU %u (perf_event_open)", c->cpu);
	rc = perf_event_open(&attr, -1, (int)c->cpu, &fd);
	if (rc == 0 && x->fd >= 0) {
		rc = perf_event_control(fd, PERF_EVENT_IOC_SET_OUTPUT, (unsigned long)x->fd);
	} else if (rc == 0) {
		snprintf(what, sizeof(what), "mapping the ring of CPU %u", c->cpu);
		rc = perf_ring_map(fd, a->plan->data_size, x->size, &x->ring);
		if (rc == 0 && epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &wanted) < 0) {
			rc = -errno;
			perf_ring_unmap(&x->ring);
		}
	}
	if (rc < 0) {
		if (rc != -ENODEV)
			perf_event_explain(why, rc, what, a->plan->memory);
		return rc;
	}
	if (x->fd < 0)
		x->fd = fd;
	else if (a->events[n] != x->fd)
		close(a->events[n]);
	a->events[n] = TAKE_FD(fd);
	/* If hold_event() fails, the keeper has ended: arena_hold() passes all events to its successor. */
	if (keeper_client_is_connected(a->keeper))
		hold_event(a, n);
	return 0;
}

static void control_all(struct arena *a, bool collectors, unsigned long what)
{
	for (size_t n = 0; n < a->plan->n_cpus; n++)
		if (a->plan->cpus[n].collector == collectors && a->events[n] >= 0)
			perf_event_control(a->events[n], what, 0);
}

static int init_arena(struct arena *a, struct plan *p)
{
	*a = (struct arena){ .plan = p,
			     .rings = calloc(p->n_cpus + 1, sizeof(*a->rings)),
			     .events = calloc(p->n_cpus + 1, sizeof(*a->events)),
			     .enabled = calloc(p->n_cpus + 1, sizeof(*a->enabled)) };
	for (size_t n = 0; n < p->n_cpus && a->rings && a->events; n++) {
		aux_init(&a->rings[n], p->cpus[n].cpu, p->cpus[n].aux_size, p->cpus[n].trace_id);
		a->events[n] = -1;
	}
	return a->rings && a->events && a->enabled ? 0 : -ENOMEM;
}

/*
 * The first event to be mapped determines the size of a shared sink's buffer; the last event to stop receives the
 * contents.
 */
int arena_open(struct arena *a, struct plan *p, int poll_fd, struct reason *why)
{
	size_t n_open = 0;
	int rc = init_arena(a, p);

	for (unsigned collector = 2; collector-- > 0;)
		for (size_t n = 0; n < p->n_cpus && rc == 0; n++) {
			if (p->cpus[n].collector != collector)
				continue;
			rc = open_ring(a, n, poll_fd, why);
			n_open += rc == 0;
			if (rc == -ENODEV)
				rc = 0;
		}
	if (rc == 0 && !n_open) {
		rc = reason_set(why, -ENODEV, "all CPUs with trace units are offline");
	}
	if (rc < 0) {
		arena_close(a);
		return rc;
	}
	arena_start(a);
	return 0;
}

static void close_events(struct arena *a)
{
	for (size_t n = 0; a->rings && a->events && n < a->plan->n_cpus; n++) {
		if (a->events[n] != a->rings[n].fd)
			close(a->events[n]);
		aux_done(&a->rings[n]);
	}
	free(a->rings);
	free(a->events);
	free(a->enabled);
	backlog_done(&a->backlogs);
	replay_log_free(a->log);
}

static int adopt_event(void *data, const struct keeper_message *m, int fd)
{
	struct arena *a = data;
	_cleanup_close_ int kept = fd;

	if (m->kind == KEEPER_FILE) {
		closep(&a->log_fd);
		a->log_fd = TAKE_FD(kept);
		return 0;
	}
	if (m->number >= a->plan->n_cpus)
		return -ESTALE;
	switch (m->kind) {
	case KEEPER_RING:
		if (m->data_size != a->plan->data_size || m->aux_size != a->rings[m->number].size)
			return -ESTALE;
		a->rings[m->number].fd = TAKE_FD(kept);
		return 0;
	case KEEPER_EVENT:
		a->events[m->number] = TAKE_FD(kept);
		return 0;
	case KEEPER_BACKLOG:
		return backlog_add(&a->backlogs, m, &kept);
	default:
		return -EPROTO;
	}
}

static int map_adopted(struct arena *a, size_t n, int poll_fd)
{
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET };
	struct aux_buffer *x = &a->rings[n];
	int rc = x->fd < 0 ? 0 : perf_ring_map(x->fd, a->plan->data_size, x->size, &x->ring);

	if (rc < 0 || x->fd < 0)
		return rc;
	if (a->events[n] < 0)
		a->events[n] = x->fd;
	return epoll_ctl(poll_fd, EPOLL_CTL_ADD, x->fd, &wanted) < 0 ? -errno : 1;
}

int arena_adopt(struct arena *a, struct plan *p, struct keeper_client *k, int poll_fd, int *ret_log)
{
	size_t n_open = 0;
	int rc = init_arena(a, p);

	a->log_fd = -1;
	if (rc == 0)
		rc = keeper_client_list(k, KEEPER_ARENA, adopt_event, a);
	for (size_t n = 0; n < p->n_cpus && rc >= 0; n++) {
		rc = map_adopted(a, n, poll_fd);
		n_open += rc > 0;
	}
	*ret_log = a->log_fd;
	if (rc >= 0 && (!n_open || a->log_fd < 0))
		rc = -ENOENT;
	if (rc < 0) {
		closep(ret_log);
		arena_abandon(a);
		return rc;
	}
	a->keeper = k;
	a->adopted = true;
	arena_start(a);
	return 0;
}

void arena_abandon(struct arena *a)
{
	close_events(a);
	pause_list_done(&a->pauses);
	*a = (struct arena){ 0 };
}

void arena_close(struct arena *a)
{
	close_events(a);
	keeper_client_close(a->keeper, &(struct kept_name){ .group = KEEPER_ARENA });
	plan_free(a->plan);
	pause_list_done(&a->pauses);
	*a = (struct arena){ 0 };
}

void arena_stop(struct arena *a)
{
	uint64_t began = now_ns(CLOCK_MONOTONIC);

	control_all(a, false, PERF_EVENT_IOC_DISABLE);
	control_all(a, true, PERF_EVENT_IOC_DISABLE);
	pause_list_change(&a->pauses, began);
	a->stopped = true;
}

void arena_start(struct arena *a)
{
	uint64_t began = now_ns(CLOCK_MONOTONIC);

	control_all(a, true, PERF_EVENT_IOC_ENABLE);
	control_all(a, false, PERF_EVENT_IOC_ENABLE);
	/* Time stood still while the arena was stopped; that does not mean that the events are dead. */
	memset(a->enabled, 0, a->plan->n_cpus * sizeof(*a->enabled));
	if (a->stopped)
		pause_list_change(&a->pauses, began);
	a->stopped = false;
}

uint64_t arena_flush(struct arena *a)
{
	uint64_t began = now_ns(CLOCK_MONOTONIC);

	if (a->stopped)
		return 0;
	arena_stop(a);
	arena_start(a);
	return now_ns(CLOCK_MONOTONIC) - began;
}

void arena_drain(struct arena *a, uint64_t now, int64_t shift, struct buf *scratch)
{
	uint64_t oldest = UINT64_MAX;

	for (size_t n = 0; a->plan && n < a->plan->n_cpus; n++) {
		aux_drain(&a->rings[n], scratch);
		oldest = MIN(oldest, aux_oldest(&a->rings[n]));
	}
	pause_list_settle(&a->pauses, now, shift, a->stopped, oldest, a->log);
}

static bool runs_contained(uint32_t tid)
{
	struct credentials c;

	/* Thread 0 is the idle task. A thread that has ended may have been contained. */
	return tid != 0 && tid != (uint32_t)gettid() && (credentials_read((pid_t)tid, &c) < 0 || c.contained);
}

unsigned arena_restore_contexts(struct arena *a)
{
	uint64_t began = now_ns(CLOCK_MONOTONIC);
	cpu_set_t before;
	unsigned n_mended = 0;

	if (!a->plan || sched_getaffinity(0, sizeof(before), &before) < 0)
		return 0;
	for (size_t n = 0; n < a->plan->n_cpus; n++) {
		struct aux_buffer *x = &a->rings[n];
		cpu_set_t here;

		if (a->events[n] < 0 || !x->started_empty || !runs_contained(x->started_tid))
			continue;
		x->started_tid = 0;
		CPU_ZERO(&here);
		CPU_SET(x->cpu, &here);
		if (sched_setaffinity(0, sizeof(here), &here) < 0)
			continue;
		perf_event_control(a->events[n], PERF_EVENT_IOC_DISABLE, 0);
		perf_event_control(a->events[n], PERF_EVENT_IOC_ENABLE, 0);
		n_mended++;
	}
	if (n_mended) {
		pause_list_change(&a->pauses, began);
		sched_setaffinity(0, sizeof(before), &before);
	}
	return n_mended;
}

int arena_maintain(struct arena *a, int poll_fd, bool *ret_failed, struct reason *why)
{
	int rc = 0;

	*ret_failed = false;
	for (size_t n = 0; a->plan && n < a->plan->n_cpus && rc == 0; n++) {
		struct aux_buffer *x = &a->rings[n];
		uint64_t enabled = a->events[n] < 0 ? 0 : perf_event_time_enabled(a->events[n]);

		if (a->events[n] >= 0 && (x->failed || enabled == 0)) {
			*ret_failed = true;
			x->failed = false;
			perf_event_control(a->events[n], PERF_EVENT_IOC_ENABLE, 0);
		} else if (a->events[n] < 0 || enabled == a->enabled[n]) {
			/* The CPU is new, or the event's time stands still: it is dead. */
			if (a->adopted)
				return reason_set(
				    why, -EBUSY,
				    "CPU %u came online after a restart of csightd, and the kernel refuses "
				    "the shared sink to it until all its targets are disarmed",
				    x->cpu);
			rc = open_ring(a, n, poll_fd, why);
			if (rc == 0)
				rc = perf_event_control(a->events[n], PERF_EVENT_IOC_ENABLE, 0);
			else if (rc == -ENODEV)
				rc = 0;
		}
		a->enabled[n] = enabled;
	}
	return rc;
}
