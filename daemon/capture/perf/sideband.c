/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "daemon/capture/perf/sideband.h"
#include "lib/base/array.h"
#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum { DATA_SIZE = 256 << 10, PENDING_MAX = 64 << 20, RECORD_MAX = 8 << 10 };

struct sideband_ring {
	int fd;
	uint32_t number; /* for the keeper */
	struct perf_ring ring;
	uint64_t newest; /* time of its last record */
	bool adopted;    /* opened by an earlier daemon */
};

/* The events of one CPU. */
struct sideband_cpu {
	uint32_t cpu;
	struct sideband_ring processes, switches;
	uint64_t enabled; /* enabled time at the last check */
};

struct loss {
	bool lost;
	uint64_t since;
};

struct pending_record {
	uint64_t time;
	size_t at; /* offset in pending */
};

/* A ring, or the backlog of one, that an earlier daemon has opened. */
struct kept_ring {
	struct keeper_message about;
	int fd;
};

struct sideband {
	struct sideband_listener user;
	int poll_fd;
	struct keeper_client *keeper; /* or NULL */
	struct kept_ring *kept;       /* not taken yet */
	size_t n_kept, kept_room;
	struct sideband_cpu *cpus;
	size_t n_cpus_open;
	struct buf raw, pending; /* pending: records to be passed on later */
	struct pending_record *order;
	size_t n_order, order_room;
	uint64_t now, newest;
	int64_t shift;
	bool switches_needed;
	struct loss records, switches;
};

int sideband_new(const struct sideband_listener *user, int poll_fd, struct sideband **ret)
{
	struct sideband *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->user = *user;
	s->poll_fd = poll_fd;
	s->pending.limit = PENDING_MAX;
	*ret = s;
	return 0;
}

static void close_ring(const struct sideband *s, struct sideband_ring *r)
{
	if (r->fd < 0)
		return;
	perf_ring_unmap(&r->ring);
	closep(&r->fd);
	keeper_client_close(s->keeper, &(struct kept_name){ KEEPER_SIDEBAND, KEEPER_RING, r->number });
}

static void close_cpu(const struct sideband *s, struct sideband_cpu *l)
{
	close_ring(s, &l->switches);
	close_ring(s, &l->processes);
}

static int add_kept_ring(void *data, const struct keeper_message *m, int fd)
{
	struct sideband *s = data;
	int rc = array_reserve(s->kept, s->n_kept, &s->kept_room);

	if (rc < 0)
		closep(&fd);
	else
		s->kept[s->n_kept++] = (struct kept_ring){ *m, fd };
	return rc;
}

int sideband_set_keeper(struct sideband *s, struct keeper_client *k)
{
	s->keeper = k;
	return k ? keeper_client_list(k, KEEPER_SIDEBAND, add_kept_ring, s) : 0;
}

static int hold_ring(const struct sideband *s, const struct sideband_ring *r)
{
	const struct kept_name name = { KEEPER_SIDEBAND, KEEPER_RING, r->number };

	return r->fd < 0 ? 0 : keeper_client_hold_ring(s->keeper, &name, r->fd, &r->ring);
}

int sideband_hold(struct sideband *s, struct keeper_client *k)
{
	int rc = 0;

	s->keeper = k;
	for (size_t i = 0; i < s->n_cpus_open && rc == 0; i++) {
		rc = hold_ring(s, &s->cpus[i].processes);
		if (rc == 0)
			rc = hold_ring(s, &s->cpus[i].switches);
	}
	return rc;
}

bool sideband_was_kept(const struct sideband *s)
{
	for (size_t i = 0; i < s->n_cpus_open; i++)
		if (!s->cpus[i].processes.adopted)
			return false;
	return s->n_cpus_open > 0;
}

void sideband_drop_kept(struct sideband *s)
{
	for (size_t i = 0; i < s->n_kept; i++) {
		if (s->kept[i].fd >= 0 && s->kept[i].about.kind == KEEPER_RING)
			keeper_client_close(
			    s->keeper, &(struct kept_name){ KEEPER_SIDEBAND, KEEPER_RING, s->kept[i].about.number });
		closep(&s->kept[i].fd);
	}
	s->n_kept = 0;
}

/* Takes the descriptor of a kept ring or backlog; -1 if there is none. */
static int take_kept(struct sideband *s, enum keeper_kind kind, uint32_t number, struct keeper_message *ret)
{
	for (size_t i = 0; i < s->n_kept; i++)
		if (s->kept[i].about.kind == kind && s->kept[i].about.number == number) {
			*ret = s->kept[i].about;
			return TAKE_FD(s->kept[i].fd);
		}
	return -1;
}

void sideband_close(struct sideband *s)
{
	for (size_t i = 0; i < s->n_cpus_open; i++)
		close_cpu(s, &s->cpus[i]);
	free(s->cpus);
	s->cpus = NULL;
	s->n_cpus_open = 0;
}

struct sideband *sideband_free(struct sideband *s)
{
	if (!s)
		return NULL;
	sideband_close(s);
	for (size_t i = 0; i < s->n_kept; i++)
		closep(&s->kept[i].fd);
	free(s->kept);
	buf_done(&s->raw);
	buf_done(&s->pending);
	free(s->order);
	free(s);
	return NULL;
}

bool sideband_is_open(const struct sideband *s)
{
	return s->n_cpus_open > 0;
}

static struct perf_event_attr dummy_attr(void)
{
	struct perf_event_attr attr =
	    perf_event_default_attr(PERF_TYPE_SOFTWARE, (const uint64_t[5]){ PERF_COUNT_SW_DUMMY, 0, 0, 0, 0 });

	attr.exclude_kernel = 1;
	attr.watermark = 1;
	attr.wakeup_watermark = DATA_SIZE / 4;
	return attr;
}

static void note_loss(struct loss *l, uint64_t since)
{
	l->since = l->lost ? MIN(l->since, since) : since;
	l->lost = true;
}

static struct loss *loss_of(struct sideband *s, bool is_switch)
{
	return is_switch && !s->switches_needed ? &s->switches : &s->records;
}

static void keep_record(struct sideband *s, const struct perf_record *r, const uint8_t *record, size_t size)
{
	struct loss *loss = loss_of(s, r->type == PERF_RECORD_SWITCH_CPU_WIDE);

	if (array_reserve(s->order, s->n_order, &s->order_room) < 0) {
		note_loss(loss, r->origin.time);
		return;
	}
	s->order[s->n_order++] = (struct pending_record){ r->origin.time, s->pending.size };
	buf_add(&s->pending, record, size);
	if (buf_error(&s->pending)) {
		s->pending.error = 0;
		s->n_order--;
		note_loss(loss, r->origin.time);
	}
}

/* Passes on the records in s->raw. self: the thread whose name is set to find the present time; 0: none. */
static void take_records(struct sideband *s, struct sideband_ring *ring, struct loss *loss, uint32_t self)
{
	const uint8_t *at = s->raw.data;

	for (size_t left = s->raw.size; left;) {
		struct perf_record r;
		int size = perf_record_parse(at, left, &r);
		uint32_t pid;

		if (size < 0) {
			note_loss(loss, ring->newest);
			break;
		}
		pid = perf_record_pid(&r);
		if (r.type == PERF_RECORD_LOST)
			note_loss(loss, ring->newest);
		else if (pid && s->user.wants(s->user.data, pid, &r))
			keep_record(s, &r, at, (size_t)size);
		if (r.type == PERF_RECORD_COMM && self && r.origin.tid == self)
			s->now = MAX(s->now, r.origin.time);
		ring->newest = MAX(ring->newest, r.origin.time);
		s->newest = MAX(s->newest, r.origin.time);
		at += size;
		left -= (size_t)size;
	}
}

/* A backlog is what precedes the ring's contents. */
static void read_backlog(struct sideband *s, struct sideband_ring *ring, int fd, const struct keeper_message *m)
{
	struct loss *loss = loss_of(s, ring->number % 2);
	uint8_t *to;

	buf_clear(&s->raw);
	to = buf_reserve(&s->raw, m->data_size);
	if (!to || io_pread(fd, to, m->data_size, 0) != (ssize_t)m->data_size ||
	    m->position + m->data_size != ring->ring.position) {
		note_loss(loss, 0);
		return;
	}
	buf_grew(&s->raw, m->data_size);
	take_records(s, ring, loss, 0);
}

static void read_ring(struct sideband *s, struct sideband_ring *ring, struct loss *loss, uint32_t self)
{
	if (!ring->ring.page)
		return;
	/*
	 * The kernel reports lost records only with the next record, which may come late; a ring that is almost full
	 * counts as a loss.
	 */
	if (ring->ring.data_size - perf_ring_filled(&ring->ring) < RECORD_MAX)
		note_loss(loss, ring->newest);
	buf_clear(&s->raw);
	if (perf_ring_read(&ring->ring, &s->raw) < 0) {
		note_loss(loss, ring->newest);
		return;
	}
	take_records(s, ring, loss, self);
}

/*
 * What was passed on is not needed any more. A keeper has what was not: a new daemon reads it again. Without one, the
 * ring's space is freed at once.
 */
static void release_ring(const struct sideband *s, struct sideband_ring *ring)
{
	if (ring->ring.page && (!s->keeper || !s->n_order || perf_ring_filled(&ring->ring) > DATA_SIZE / 2))
		perf_ring_release(&ring->ring);
}

static int make_ring(struct sideband *s, uint32_t cpu, const struct perf_event_attr *attr, struct sideband_ring *r)
{
	const struct kept_name name = { KEEPER_SIDEBAND, KEEPER_RING, r->number };
	int rc = keeper_client_open(s->keeper, &name, attr, -1, (int)cpu, &r->fd);

	if (rc == 0)
		rc = keeper_client_map(s->keeper, &name, DATA_SIZE, 0, false);
	if (rc == 0)
		rc = perf_ring_map(r->fd, DATA_SIZE, 0, &r->ring);
	if (rc == 0)
		rc = perf_event_control(r->fd, PERF_EVENT_IOC_ENABLE, 0);
	return rc;
}

/* Continues with the ring of an earlier daemon. Returns false if there is none. */
static bool adopt_ring(struct sideband *s, struct sideband_ring *r)
{
	struct keeper_message m;
	int backlog;

	r->fd = take_kept(s, KEEPER_RING, r->number, &m);
	if (r->fd < 0 || m.data_size != DATA_SIZE || perf_ring_map(r->fd, DATA_SIZE, 0, &r->ring) < 0) {
		close_ring(s, r);
		return false;
	}
	backlog = take_kept(s, KEEPER_BACKLOG, r->number, &m);
	if (backlog >= 0)
		read_backlog(s, r, backlog, &m);
	closep(&backlog);
	r->adopted = true;
	return true;
}

static int open_ring(struct sideband *s, uint32_t cpu, bool switches, const struct perf_event_attr *attr,
		     struct sideband_ring *ret)
{
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET };
	struct sideband_ring r = { .fd = -1, .number = 2 * cpu + switches };
	int rc = adopt_ring(s, &r) ? 0 : make_ring(s, cpu, attr, &r);

	if (rc == 0 && epoll_ctl(s->poll_fd, EPOLL_CTL_ADD, r.fd, &wanted) < 0)
		rc = -errno;
	if (rc < 0)
		close_ring(s, &r);
	else
		*ret = r;
	return rc;
}

static int open_switches(struct sideband *s, struct sideband_cpu *l)
{
	struct perf_event_attr attr = dummy_attr();
	int rc;

	attr.context_switch = 1;
	rc = open_ring(s, l->cpu, true, &attr, &l->switches);
	return s->switches_needed ? rc : 0;
}

static int open_cpu(struct sideband *s, uint32_t cpu, struct sideband_cpu *ret)
{
	struct sideband_cpu l = { .cpu = cpu, .processes.fd = -1, .switches.fd = -1 };
	struct perf_event_attr attr = dummy_attr();
	int rc;

	attr.mmap = attr.mmap2 = attr.mmap_data = 1;
	attr.comm = attr.comm_exec = attr.task = 1;
	rc = open_ring(s, cpu, false, &attr, &l.processes);
	if (rc == 0)
		*ret = l;
	return rc;
}

static const struct sideband_cpu_choice *find_choice(const struct sideband_cpu_choice *cpus, size_t n_cpus,
						     uint32_t cpu)
{
	for (size_t i = 0; i < n_cpus; i++)
		if (cpus[i].cpu == cpu)
			return &cpus[i];
	return NULL;
}

/* The event of a CPU that went offline is dead even when the CPU is back: its enabled time stands still. */
static bool is_alive(struct sideband *s, struct sideband_cpu *l)
{
	uint64_t enabled = perf_event_time_enabled(l->processes.fd);

	if (enabled == l->enabled) {
		note_loss(&s->records, l->processes.newest);
		if (l->switches.fd >= 0)
			note_loss(&s->switches, l->switches.newest);
		return false;
	}
	l->enabled = enabled;
	return true;
}

static struct sideband_cpu *find_cpu(struct sideband *s, uint32_t cpu)
{
	for (size_t i = 0; i < s->n_cpus_open; i++)
		if (s->cpus[i].cpu == cpu)
			return &s->cpus[i];
	return NULL;
}

int sideband_open(struct sideband *s, const struct sideband_cpu_choice *cpus, size_t n_cpus, struct reason *why)
{
	struct sideband_cpu *more = reallocarray(s->cpus, s->n_cpus_open + n_cpus, sizeof(*more));
	size_t kept = 0;
	int rc = 0;

	if (!more)
		return -ENOMEM;
	s->cpus = more;
	for (size_t i = 0; i < s->n_cpus_open; i++)
		if (find_choice(cpus, n_cpus, s->cpus[i].cpu) && is_alive(s, &s->cpus[i]))
			s->cpus[kept++] = s->cpus[i];
		else
			close_cpu(s, &s->cpus[i]);
	s->n_cpus_open = kept;
	s->switches_needed = false;
	for (size_t i = 0; i < n_cpus; i++)
		s->switches_needed |= cpus[i].switches == SIDEBAND_SWITCHES_NEEDED;
	for (size_t i = 0; i < n_cpus && rc == 0; i++) {
		if (find_cpu(s, cpus[i].cpu))
			continue;
		rc = open_cpu(s, cpus[i].cpu, &s->cpus[s->n_cpus_open]);
		if (rc == 0)
			s->n_cpus_open++;
		else if (rc == -ENODEV)
			rc = 0;
	}
	for (size_t i = 0; i < s->n_cpus_open && rc == 0; i++) {
		struct sideband_cpu *l = &s->cpus[i];
		enum sideband_switches switches = find_choice(cpus, n_cpus, l->cpu)->switches;

		if (switches && l->switches.fd < 0)
			rc = open_switches(s, l);
		else if (!switches)
			close_ring(s, &l->switches);
	}
	if (rc < 0)
		perf_event_explain(why, rc, "watching processes (perf_event_open)",
				   2 * n_cpus * (uint64_t)(DATA_SIZE + 4096));
	return rc;
}

static int by_time(const void *a, const void *b)
{
	const struct pending_record *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/*
 * Passes on the pending records in order of time. Records later than now stay: another CPU may still write an earlier
 * one.
 */
static void pass_on(struct sideband *s)
{
	struct buf rest = { .limit = PENDING_MAX };
	size_t n_rest = 0;

	if (s->n_order)
		qsort(s->order, s->n_order, sizeof(*s->order), by_time);
	for (size_t i = 0; i < s->n_order; i++) {
		const uint8_t *record = s->pending.data + s->order[i].at;
		struct perf_record r;
		int size = perf_record_parse(record, s->pending.size - s->order[i].at, &r);

		if (size < 0)
			continue;
		if (r.origin.time <= s->now) {
			s->user.record(s->user.data, perf_record_pid(&r), &r);
			continue;
		}
		s->order[n_rest++] = (struct pending_record){ r.origin.time, rest.size };
		buf_add(&rest, record, (size_t)size);
	}
	if (buf_error(&rest)) {
		note_loss(&s->records, s->now);
		n_rest = 0;
		buf_clear(&rest);
	}
	s->n_order = n_rest;
	buf_done(&s->pending);
	s->pending = rest;
}

static void read_rings(struct sideband *s, uint32_t self)
{
	for (size_t i = 0; i < s->n_cpus_open; i++) {
		read_ring(s, &s->cpus[i].switches, loss_of(s, true), self);
		read_ring(s, &s->cpus[i].processes, &s->records, self);
	}
}

static void release_rings(struct sideband *s)
{
	for (size_t i = 0; i < s->n_cpus_open; i++) {
		release_ring(s, &s->cpus[i].switches);
		release_ring(s, &s->cpus[i].processes);
	}
}

void sideband_collect(struct sideband *s)
{
	read_rings(s, 0);
	release_rings(s);
}

/*
 * Determines the current time of the kernel's clock by setting this thread's name to its present value, which the
 * kernel records. All records with an earlier time have been written by then.
 */
void sideband_drain(struct sideband *s)
{
	uint32_t self = (uint32_t)gettid();
	uint64_t before = s->now, begun, ended;
	char name[16] = "";

	if (!s->n_cpus_open)
		return;
	prctl(PR_GET_NAME, name);
	begun = now_ns(CLOCK_MONOTONIC);
	prctl(PR_SET_NAME, name);
	ended = now_ns(CLOCK_MONOTONIC);
	read_rings(s, self);
	/* The record of the name was lost, or its CPU has no event. */
	if (s->now == before)
		s->now = s->newest;
	else if (!perf_ring_shift(&s->cpus[0].processes.ring, &s->shift))
		s->shift = (int64_t)(s->now - (begun + (ended - begun) / 2));
	pass_on(s);
	release_rings(s);
	if (s->switches.lost)
		s->user.switches_lost(s->user.data, s->switches.since);
	s->switches.lost = false;
}

int64_t sideband_shift(const struct sideband *s)
{
	return s->shift;
}

uint64_t sideband_now(const struct sideband *s)
{
	return s->now;
}

bool sideband_lost(struct sideband *s, uint64_t *ret_since)
{
	bool lost = s->records.lost;

	if (lost)
		*ret_since = s->records.since;
	s->records.lost = false;
	return lost;
}

struct pd_clock sideband_clock(const struct sideband *s)
{
	return s->n_cpus_open ? perf_ring_clock(&s->cpus[0].processes.ring) : (struct pd_clock){ 0 };
}
