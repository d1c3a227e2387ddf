/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/capture/perf/perf-event.h"
#include "daemon/standing/process-events.h"
#include "lib/base/array.h"
#include "lib/base/log.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum { RING_SIZE = 256 << 10, TURN_NS = 2000000 };

struct cpu_ring {
	struct process_events *all;
	int cpu, fd;
	uint64_t enabled; /* enabled time of the event at the last tick, ns */
	struct perf_ring ring;
	struct event *readable, *next;
	struct buf records; /* that have been read */
	size_t at;          /* of the first one that is not handled */
};

struct process_events {
	struct event_base *base;
	struct process_events_listener listener;
	struct cpu_ring **cpus;
	size_t n, room;
	struct event *tick;
	bool failing; /* the last tick could not open a CPU's event, which was logged */
};

static void close_ring(struct cpu_ring *c)
{
	if (c->readable)
		event_free(c->readable);
	if (c->next)
		event_free(c->next);
	buf_done(&c->records);
	perf_ring_unmap(&c->ring);
	closep(&c->fd);
	free(c);
}

static void handle_record(struct process_events *p, const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	uint32_t pid = 0, parent = 0;

	if (perf_record_lost(r))
		p->listener.lost(p->listener.data);
	if (r->type == PERF_RECORD_FORK && rd_u32(&body, &pid) == 0 && rd_u32(&body, &parent) == 0 && pid != parent)
		p->listener.forked(p->listener.data, (pid_t)parent, (pid_t)pid);
	else if (r->type == PERF_RECORD_COMM && r->misc & PERF_RECORD_MISC_COMM_EXEC && rd_u32(&body, &pid) == 0)
		p->listener.executed(p->listener.data, (pid_t)pid);
}

/*
 * Any user may fork fast: what takes too long is continued in the next turn of the loop. If the ring overflows
 * meanwhile, all processes are looked at, bit by bit.
 */
static void on_next(evutil_socket_t fd, short what, void *data)
{
	uint64_t until = now_ns(CLOCK_MONOTONIC) + TURN_NS;
	const struct timeval now = { 0, 0 };
	struct cpu_ring *c = data;

	while (c->at < c->records.size) {
		struct perf_record r;
		int size = perf_record_parse(c->records.data + c->at, c->records.size - c->at, &r);

		if (size <= 0)
			break;
		c->at += (size_t)size;
		handle_record(c->all, &r);
		if (now_ns(CLOCK_MONOTONIC) > until && event_add(c->next, &now) == 0)
			return;
	}
	buf_clear(&c->records);
	c->at = 0;
	event_add(c->readable, NULL);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
	struct cpu_ring *c = data;
	int rc = perf_ring_read(&c->ring, &c->records);

	perf_ring_release(&c->ring);
	if (rc < 0) {
		c->all->listener.lost(c->all->listener.data);
		buf_clear(&c->records);
	}
	on_next(-1, EV_TIMEOUT, c);
}

static int open_ring(struct process_events *p, int cpu, struct reason *why)
{
	struct perf_event_attr attr =
	    perf_event_default_attr(PERF_TYPE_SOFTWARE, (const uint64_t[5]){ PERF_COUNT_SW_DUMMY, 0, 0, 0, 0 });
	struct cpu_ring *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	*c = (struct cpu_ring){ .all = p, .cpu = cpu, .fd = -1 };
	attr.exclude_kernel = 1;
	attr.comm = attr.comm_exec = attr.task = 1;
	attr.watermark = 1;
	attr.wakeup_watermark = 1;
	rc = perf_event_open(&attr, -1, cpu, &c->fd);
	if (rc == 0)
		rc = perf_ring_map(c->fd, RING_SIZE, 0, &c->ring);
	if (rc == 0) {
		c->readable = event_new(p->base, c->fd, EV_READ, on_readable, c);
		c->next = evtimer_new(p->base, on_next, c);
		rc = c->readable && c->next && event_add(c->readable, NULL) == 0
			 ? array_reserve(p->cpus, p->n, &p->room)
			 : -ENOMEM;
	}
	if (rc == 0)
		rc = perf_event_control(c->fd, PERF_EVENT_IOC_ENABLE, 0);
	if (rc == 0) {
		p->cpus[p->n++] = c;
		return 0;
	}
	close_ring(c);
	return rc == -ENODEV
		   ? 0
		   : perf_event_explain(why, rc, "recording which programs are executed (perf_event_open)", RING_SIZE);
}

static struct cpu_ring *find_ring(struct process_events *p, int cpu)
{
	for (size_t n = 0; n < p->n; n++)
		if (p->cpus[n]->cpu == cpu)
			return p->cpus[n];
	return NULL;
}

/* The event of a CPU that went offline is dead even when the CPU is back: its enabled time stands still. */
static bool is_alive(struct cpu_ring *c)
{
	uint64_t before = c->enabled;

	c->enabled = perf_event_time_enabled(c->fd);
	return c->enabled != before;
}

static void drop_ring(struct process_events *p, struct cpu_ring *c)
{
	size_t n = 0;

	while (p->cpus[n] != c)
		n++;
	p->cpus[n] = p->cpus[--p->n];
	close_ring(c);
}

/* Opens the events of CPUs that came online. What happened on them before is lost. */
static void on_tick(evutil_socket_t fd, short what, void *data)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_CONF), rc = 0;
	struct process_events *p = data;
	struct reason why = { "" };
	bool opened = false;

	for (int cpu = 0; cpu < cpus && rc == 0; cpu++) {
		struct cpu_ring *c = find_ring(p, cpu);
		size_t before;

		if (c && is_alive(c))
			continue;
		if (c)
			drop_ring(p, c);
		before = p->n;
		rc = open_ring(p, cpu, &why);
		opened |= p->n > before;
	}
	if (rc < 0 && !p->failing)
		log_warning("standing targets do not see the programs of all CPUs: %s", why.text);
	p->failing = rc < 0;
	if (opened)
		p->listener.lost(p->listener.data);
}

int process_events_new(struct event_base *base, const struct process_events_listener *listener,
		       struct process_events **ret, struct reason *why)
{
	static const struct timeval interval = { .tv_sec = 1 };
	struct process_events *p = calloc(1, sizeof(*p));
	int cpus = (int)sysconf(_SC_NPROCESSORS_CONF), rc = 0;

	if (!p)
		return -ENOMEM;
	p->base = base;
	p->listener = *listener;
	p->tick = event_new(base, -1, EV_PERSIST, on_tick, p);
	if (!p->tick || event_add(p->tick, &interval) < 0)
		rc = -ENOMEM;
	for (int cpu = 0; cpu < cpus && rc == 0; cpu++)
		rc = open_ring(p, cpu, why);
	if (rc == 0 && p->n == 0)
		rc = -ENODEV;
	if (rc < 0) {
		process_events_free(p);
		return rc;
	}
	*ret = p;
	return 0;
}

struct process_events *process_events_free(struct process_events *p)
{
	if (!p)
		return NULL;
	for (size_t n = 0; n < p->n; n++)
		close_ring(p->cpus[n]);
	if (p->tick)
		event_free(p->tick);
	free(p->cpus);
	free(p);
	return NULL;
}
