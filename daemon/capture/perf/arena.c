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
	return 0;
}

static void control_all(struct arena *a, bool collectors, unsigned long what)
{
	for (size_t n = 0; n < a->plan->n_cpus; n++)
		if (a->plan->cpus[n].collector == collectors && a->events[n] >= 0)
			perf_event_control(a->events[n], what, 0);
}

/*
 * The first event to be mapped determines the size of a shared sink's buffer; the last event to stop receives the
 * contents.
 */
int arena_open(struct arena *a, struct plan *p, int poll_fd, struct reason *why)
{
	size_t n_open = 0;
	int rc = 0;

	*a = (struct arena){ .plan = p,
			     .rings = calloc(p->n_cpus + 1, sizeof(*a->rings)),
			     .events = calloc(p->n_cpus + 1, sizeof(*a->events)),
			     .enabled = calloc(p->n_cpus + 1, sizeof(*a->enabled)) };
	for (size_t n = 0; n < p->n_cpus && a->rings && a->events; n++) {
		aux_init(&a->rings[n], p->cpus[n].cpu, p->cpus[n].aux_size, p->cpus[n].trace_id);
		a->events[n] = -1;
	}
	if (!a->rings || !a->events || !a->enabled) {
		arena_close(a);
		return -ENOMEM;
	}
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

void arena_close(struct arena *a)
{
	for (size_t n = 0; a->rings && a->events && n < a->plan->n_cpus; n++) {
		if (a->events[n] != a->rings[n].fd)
			close(a->events[n]);
		aux_done(&a->rings[n]);
	}
	free(a->rings);
	free(a->events);
	free(a->enabled);
	plan_free(a->plan);
	*a = (struct arena){ 0 };
}

void arena_stop(struct arena *a)
{
	control_all(a, false, PERF_EVENT_IOC_DISABLE);
	control_all(a, true, PERF_EVENT_IOC_DISABLE);
	a->stopped = true;
}

void arena_start(struct arena *a)
{
	control_all(a, true, PERF_EVENT_IOC_ENABLE);
	control_all(a, false, PERF_EVENT_IOC_ENABLE);
	/* Time stood still while the arena was stopped; that does not mean that the events are dead. */
	memset(a->enabled, 0, a->plan->n_cpus * sizeof(*a->enabled));
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

void arena_drain(struct arena *a, struct buf *scratch)
{
	for (size_t n = 0; a->plan && n < a->plan->n_cpus; n++)
		aux_drain(&a->rings[n], scratch);
}

static bool runs_contained(uint32_t tid)
{
	struct credentials c;

	/* Thread 0 is the idle task. A thread that has ended may have been contained. */
	return tid != 0 && tid != (uint32_t)gettid() && (credentials_read((pid_t)tid, &c) < 0 || c.contained);
}

unsigned arena_restore_contexts(struct arena *a)
{
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
	if (n_mended)
		sched_setaffinity(0, sizeof(before), &before);
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
