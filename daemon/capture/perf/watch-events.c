/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <dirent.h>
#include <linux/hw_breakpoint.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "daemon/capture/perf/watch-events.h"
#include "lib/base/array.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

/* The registers of samples, in the order of their numbers. Those of x86 are for tests; it has no link register. */
static const struct {
	unsigned number;
	enum watch_register is;
} sampled[] = {
#ifdef __aarch64__
	{ 0, WATCH_OTHERS },     { 1, WATCH_OTHERS + 1 }, { 19, WATCH_OTHERS + 2 }, { 20, WATCH_OTHERS + 3 },
	{ 28, WATCH_GOROUTINE }, { 30, WATCH_LR },        { 31, WATCH_SP },         { 32, WATCH_PC },
#else
	{ 1, WATCH_OTHERS }, { 4, WATCH_OTHERS + 1 },  { 5, WATCH_OTHERS + 2 }, { 7, WATCH_SP },
	{ 8, WATCH_PC },     { 20, WATCH_OTHERS + 3 }, { 22, WATCH_GOROUTINE },
#endif
};

enum { RING_SIZE = 64 << 10, SAMPLE_MAX = 256, TRIES = 16, PASSES = 4, EVENTS_MAX = 8192 };

/* The fields of samples; with sample_id_all, other records end with them. */
enum { SAMPLE_TYPE = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME };

struct watch_event {
	int fd;
	uint64_t id;
	const struct watch_spec *spec;
};

struct watch_ring {
	uint32_t cpu;
	int fd; /* an event that never occurs */
	struct perf_ring ring;
	uint64_t newest; /* time of a sample that was read */
	bool lost;       /* later ones: the next one is behind the loss */
	bool loses;      /* WATCH_LOSES was passed on, and WATCH_LOST was not */
};

struct watch_events {
	struct address_space_of of;
	struct watch_specs specs;
	struct watch_spec loses, lost; /* of what is passed on where samples were lost */
	size_t most;                   /* events */
	uint64_t until;                /* they are opened */
	struct watch_ring *rings;
	size_t n_rings;
	struct watch_event *list; /* in order of their ids */
	size_t n, room;
	struct watch_sample *samples; /* that have been read */
	size_t n_samples, n_passed, samples_room;
	struct watch_repeats repeats;
	struct buf scratch;
	uint64_t n_read;    /* samples */
	uint64_t newest;    /* time of a sample that was read */
	uint64_t n_counted; /* of these, those that is_counted() */
	/* Samples were lost, and it is not known how many of these; counted: by the kernel, before the last reading */
	bool incomplete;
	uint64_t counted, dropped, reported;
};

struct tids {
	uint32_t *list;
	size_t n, room;
};

static int compare_tids(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* In order. */
static int read_tids(pid_t pid, struct tids *ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *e;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -ESRCH;
	ret->n = 0;
	while ((e = readdir(dir))) {
		uint32_t tid = (uint32_t)strtoul(e->d_name, NULL, 10);

		if (tid && array_reserve(ret->list, ret->n, &ret->room) < 0)
			return -ENOMEM;
		if (tid)
			ret->list[ret->n++] = tid;
	}
	if (ret->n)
		qsort(ret->list, ret->n, sizeof(*ret->list), compare_tids);
	return 0;
}

static bool has_tid(const struct tids *t, uint32_t tid)
{
	return t->n && bsearch(&tid, t->list, t->n, sizeof(*t->list), compare_tids);
}

static bool has_registers(const struct watch_spec *s)
{
	return s->breakpoint || s->role == WATCH_HANDLER;
}

/* The kernel has no event with a sample where a thread gets a CPU: an event that never occurs records switches. */
static struct perf_event_attr switch_attr(void)
{
	struct perf_event_attr attr =
	    perf_event_default_attr(PERF_TYPE_SOFTWARE, (const uint64_t[5]){ PERF_COUNT_SW_DUMMY, 0, 0, 0, 0 });

	attr.inherit = attr.inherit_thread = 1;
	attr.sample_type = SAMPLE_TYPE;
	attr.context_switch = 1;
	return attr;
}

static struct perf_event_attr attr_of(const struct watch_spec *s)
{
	const uint64_t words[5] = { s->breakpoint ? 0 : s->config, 0, 0, 0, 0 };
	struct perf_event_attr attr =
	    perf_event_default_attr(s->breakpoint ? PERF_TYPE_BREAKPOINT : PERF_TYPE_TRACEPOINT, words);

	if (s->role == WATCH_SWITCH)
		return switch_attr();
	attr.inherit = attr.inherit_thread = 1;
	attr.sample_type = SAMPLE_TYPE;
	/* An entry causes no wake-up: what matters is how long the call takes. */
	attr.wakeup_events = s->role != WATCH_ENTER && s->role != WATCH_HANDLER;
	if (has_registers(s))
		attr.sample_type |= PERF_SAMPLE_REGS_USER;
	for (size_t i = 0; has_registers(s) && i < ELEMENTS(sampled); i++)
		attr.sample_regs_user |= 1ull << sampled[i].number;
	if (!s->breakpoint)
		return attr;
	attr.bp_type = HW_BREAKPOINT_X;
	attr.bp_addr = s->config;
	attr.bp_len = sizeof(long);
	attr.exclude_kernel = 1;
	/* Addresses are others in the next program. */
	attr.remove_on_exec = 1;
	return attr;
}

static void explain(int rc, const struct watch_spec *s, struct reason *why)
{
	if (rc == -ENOSPC)
		reason_set(why, rc,
			   "the CPU has too few breakpoint registers for all places that are watched in this process "
			   "(of most cores: 6; --longer-than takes one for each end of the function)");
	else
		perf_event_explain(why, rc,
				   s->breakpoint             ? "inserting a breakpoint (perf_event_open)"
				   : s->role == WATCH_SWITCH ? "watching context switches (perf_event_open)"
							     : "watching a tracepoint (perf_event_open)",
				   RING_SIZE);
}

static int open_one(struct watch_events *e, const struct watch_ring *r, const struct watch_spec *s, uint32_t tid,
		    struct reason *why)
{
	struct perf_event_attr attr = attr_of(s);
	struct watch_event event = { .fd = -1, .spec = s };
	int rc = perf_event_open_thread(e->of, &attr, (struct perf_event_place){ tid, (int)r->cpu, 0 }, &event.fd);

	if (rc == 0 && *s->filter)
		rc = perf_event_control(event.fd, PERF_EVENT_IOC_SET_FILTER, (unsigned long)s->filter);
	if (rc == 0)
		rc = perf_event_control(event.fd, PERF_EVENT_IOC_SET_OUTPUT, (unsigned long)r->fd);
	if (rc == 0)
		rc = perf_event_control(event.fd, PERF_EVENT_IOC_ID, (unsigned long)&event.id);
	if (rc == 0)
		rc = array_reserve(e->list, e->n, &e->room);
	if (rc == 0)
		e->list[e->n++] = event;
	else
		closep(&event.fd);
	if (rc < 0 && rc != -ESRCH)
		explain(rc, s, why);
	return rc;
}

static int open_thread(struct watch_events *e, uint32_t tid, struct reason *why)
{
	int rc = 0;

	if (watch_events_count(e) + e->specs.n * e->n_rings > e->most)
		return reason_set(why, -E2BIG,
				  "the process has too many threads on this number of CPUs to be watched: its user may "
				  "have %zu descriptors more (LimitNOFILE of csightd's unit), and %d in one watch",
				  e->most, EVENTS_MAX);
	if (now_ns(CLOCK_MONOTONIC) > e->until)
		return reason_set(why, -EAGAIN,
				  "opening the events of all threads took too long; others wait meanwhile");
	for (size_t i = 0; i < e->specs.n; i++)
		for (size_t n = 0; n < e->n_rings; n++) {
			rc = open_one(e, &e->rings[n], &e->specs.list[i], tid, why);
			/* The thread has ended. */
			if (rc == -ESRCH)
				return 0;
			if (rc < 0)
				return rc;
		}
	return 0;
}

static void close_events(struct watch_events *e)
{
	for (size_t i = 0; i < e->n; i++)
		closep(&e->list[i].fd);
	e->n = 0;
}

/*
 * A thread that was created meanwhile has inherited some events, or none. With those that it lacks it would have others
 * twice, so that all are opened again.
 */
static int open_threads(struct watch_events *e, pid_t pid, struct reason *why)
{
	struct tids before = { 0 }, now = { 0 };
	bool complete = false;
	int rc = read_tids(pid, &before);

	for (unsigned i = 0; i < TRIES && rc == 0 && !complete; i++) {
		struct tids swap;

		close_events(e);
		for (size_t k = 0; k < before.n && rc == 0; k++)
			rc = open_thread(e, before.list[k], why);
		if (rc == 0)
			rc = read_tids(pid, &now);
		complete = rc == 0;
		for (size_t k = 0; complete && k < now.n; k++)
			complete = has_tid(&before, now.list[k]);
		swap = before;
		before = now;
		now = swap;
	}
	free(before.list);
	free(now.list);
	if (rc == 0 && !complete)
		return reason_set(why, -EAGAIN, "the process creates threads faster than they can be watched");
	return rc == 0 && !e->n ? -ESRCH : rc;
}

static int open_ring(struct watch_events *e, const struct watch_opening *o, uint32_t cpu, struct reason *why)
{
	struct perf_event_attr attr =
	    perf_event_default_attr(PERF_TYPE_SOFTWARE, (const uint64_t[5]){ PERF_COUNT_SW_DUMMY, 0, 0, 0, 0 });
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET };
	struct watch_ring *r = &e->rings[e->n_rings];
	int rc;

	*r = (struct watch_ring){ .cpu = cpu, .fd = -1 };
	attr.exclude_kernel = 1;
	rc =
	    perf_event_open_thread(o->of, &attr, (struct perf_event_place){ (uint32_t)o->of.pid, (int)cpu, 0 }, &r->fd);
	if (rc == -ENODEV)
		return 0;
	if (rc == 0)
		rc = perf_ring_map(r->fd, RING_SIZE, 0, &r->ring);
	if (rc == 0 && epoll_ctl(o->poll_fd, EPOLL_CTL_ADD, r->fd, &wanted) < 0)
		rc = -errno;
	e->n_rings++;
	if (rc < 0 && rc != -ESRCH)
		perf_event_explain(why, rc, "mapping the ring of hits (perf_event_open)", RING_SIZE);
	return rc;
}

int watch_events_open(const struct watch_opening *o, struct watch_specs *specs, struct watch_events **ret,
		      struct reason *why)
{
	struct watch_events *e = calloc(1, sizeof(*e));
	int rc = 0;

	if (!e)
		return -ENOMEM;
	e->of = o->of;
	e->specs = *specs;
	e->loses = (struct watch_spec){ .slot = specs->n ? specs->list[0].slot : 0, .role = WATCH_LOSES };
	e->lost = (struct watch_spec){ .slot = e->loses.slot, .role = WATCH_LOST };
	e->most = MIN(o->most, (size_t)EVENTS_MAX);
	e->until = o->until;
	e->rings = calloc(o->n_cpus + 1, sizeof(*e->rings));
	if (!e->rings)
		rc = -ENOMEM;
	for (size_t n = 0; n < o->n_cpus && rc == 0; n++)
		rc = open_ring(e, o, o->cpus[n], why);
	if (rc == 0)
		rc = open_threads(e, o->of.pid, why);
	if (rc < 0) {
		e->specs = (struct watch_specs){ 0 };
		watch_events_free(e);
		return rc;
	}
	*specs = (struct watch_specs){ 0 };
	*ret = e;
	return 0;
}

struct watch_events *watch_events_free(struct watch_events *e)
{
	if (!e)
		return NULL;
	close_events(e);
	for (size_t n = 0; n < e->n_rings; n++) {
		perf_ring_unmap(&e->rings[n].ring);
		closep(&e->rings[n].fd);
	}
	watch_specs_done(&e->specs);
	watch_repeats_done(&e->repeats);
	buf_done(&e->scratch);
	free(e->samples);
	free(e->rings);
	free(e->list);
	free(e);
	return NULL;
}

static void *free_events(void *data)
{
	return watch_events_free(data);
}

struct watch_events *watch_events_free_in_thread(struct watch_events *e)
{
	pthread_t thread;

	if (e && pthread_create(&thread, NULL, free_events, e) == 0)
		pthread_detach(thread);
	return NULL;
}

size_t watch_events_count(const struct watch_events *e)
{
	return e->n + e->n_rings;
}

void watch_events_enable(struct watch_events *e, bool enabled)
{
	for (size_t i = 0; i < e->n; i++)
		perf_event_control(e->list[i].fd, enabled ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

static const struct watch_spec *find_spec(const struct watch_events *e, uint64_t id)
{
	size_t low = 0, high = e->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (e->list[middle].id == id)
			return e->list[middle].spec;
		if (e->list[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static void read_registers(struct reader *body, struct watch_registers *ret)
{
	uint64_t abi;

	if (rd_u64(body, &abi) < 0 || !abi)
		return;
	for (size_t i = 0; i < ELEMENTS(sampled); i++)
		rd_u64(body, &ret->values[sampled[i].is]);
}

/* True of the samples that begin something: each is a hit, or a call. */
static bool is_counted(const struct watch_spec *s)
{
	return s->role == WATCH_REACHED || s->role == WATCH_ENDS || s->role == WATCH_ENTER;
}

static int append_sample(struct watch_events *e, const struct watch_sample *s)
{
	int rc = array_reserve(e->samples, e->n_samples, &e->samples_room);

	if (rc < 0)
		return rc;
	e->samples[e->n_samples] = *s;
	e->samples[e->n_samples++].order = e->n_read++;
	return 0;
}

static void set_lost(struct watch_events *e, struct watch_ring *r)
{
	r->lost = e->incomplete = true;
}

/* Samples are missing from that of r->newest on. */
static int begin_loss(struct watch_events *e, struct watch_ring *r)
{
	int rc = r->loses ? 0
			  : append_sample(e, &(struct watch_sample){
						 .spec = &e->loses, .pid = (uint32_t)e->of.pid, .time = r->newest });

	r->loses = rc == 0;
	return rc;
}

static int end_loss(struct watch_events *e, struct watch_ring *r, uint64_t time)
{
	int rc = !r->loses ? 0
			   : append_sample(e, &(struct watch_sample){ .spec = &e->lost,
								      .pid = (uint32_t)e->of.pid,
								      .time = MAX(time, r->newest) });

	r->loses &= rc < 0;
	return rc;
}

static void keep_sample(struct watch_events *e, struct watch_ring *r, const struct watch_sample *s)
{
	if ((r->lost && begin_loss(e, r) < 0) || end_loss(e, r, s->time) < 0 || append_sample(e, s) < 0) {
		set_lost(e, r);
		return;
	}
	r->lost = false;
	r->newest = MAX(s->time, r->newest);
	e->newest = MAX(e->newest, r->newest);
	e->n_counted += is_counted(s->spec);
}

static void add_sample(struct watch_events *e, struct watch_ring *r, struct reader *body)
{
	struct watch_sample s = { .spec = NULL };
	uint64_t id;

	if (rd_u64(body, &id) < 0 || rd_u32(body, &s.pid) < 0 || rd_u32(body, &s.tid) < 0 || rd_u64(body, &s.time) < 0)
		return;
	s.spec = find_spec(e, id);
	if (!s.spec)
		return;
	if (has_registers(s.spec))
		read_registers(body, &s.registers);
	keep_sample(e, r, &s);
}

static void add_switch(struct watch_events *e, struct watch_ring *r, struct reader *body, bool out)
{
	struct watch_sample s = { .out = out };
	uint64_t id;

	if (rd_u32(body, &s.pid) < 0 || rd_u32(body, &s.tid) < 0 || rd_u64(body, &s.time) < 0 || rd_u64(body, &id) < 0)
		return;
	s.spec = find_spec(e, id);
	if (s.spec)
		keep_sample(e, r, &s);
}

static void add_record(struct watch_events *e, struct watch_ring *r, const struct perf_event_header *head,
		       struct reader *body)
{
	if (head->type == PERF_RECORD_SAMPLE)
		add_sample(e, r, body);
	else if (head->type == PERF_RECORD_SWITCH)
		add_switch(e, r, body, head->misc & PERF_RECORD_MISC_SWITCH_OUT);
	else if (head->type == PERF_RECORD_LOST)
		set_lost(e, r);
}

static void add_records(struct watch_events *e, struct watch_ring *r)
{
	struct reader all = reader_of(e->scratch.data, e->scratch.size);

	for (;;) {
		struct perf_event_header head;
		const uint8_t *bytes;
		struct reader body;

		if (rd_u32(&all, &head.type) < 0 || rd_u16(&all, &head.misc) < 0 || rd_u16(&all, &head.size) < 0 ||
		    head.size < 8 || rd_bytes(&all, head.size - 8u, &bytes) < 0)
			return;
		body = reader_of(bytes, head.size - 8u);
		add_record(e, r, &head, &body);
	}
}

static void read_ring(struct watch_events *e, struct watch_ring *r)
{
	bool full = perf_ring_filled(&r->ring) > RING_SIZE - SAMPLE_MAX;

	if (!full && end_loss(e, r, e->newest) < 0)
		set_lost(e, r);
	buf_clear(&e->scratch);
	if (perf_ring_read(&r->ring, &e->scratch) < 0)
		set_lost(e, r);
	perf_ring_release(&r->ring);
	add_records(e, r);
	/* The kernel records a loss before the next sample only, which may come late; threads go to other CPUs before.
	 */
	e->incomplete |= full;
	if (full && begin_loss(e, r) < 0)
		set_lost(e, r);
}

static void read_rings(struct watch_events *e)
{
	for (size_t n = 0; n < e->n_rings; n++)
		if (e->rings[n].ring.page)
			read_ring(e, &e->rings[n]);
}

static int by_time(const void *a, const void *b)
{
	const struct watch_sample *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static uint64_t newest(struct watch_events *const *all, size_t n)
{
	uint64_t time = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; all[i] && k < all[i]->n_samples; k++)
			time = MAX(time, all[i]->samples[k].time);
	return time;
}

static void read_all(struct watch_events *const *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (all[i])
			read_rings(all[i]);
}

static void sort_all(struct watch_events *const *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (all[i] && all[i]->n_samples)
			qsort(all[i]->samples, all[i]->n_samples, sizeof(*all[i]->samples), by_time);
}

/* Returns the next sample that has not been passed on, and to which list it belongs; NULL: there is none. */
static const struct watch_sample *next_sample(struct watch_events *const *all, size_t n, struct watch_events **ret)
{
	const struct watch_sample *next = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct watch_sample *first;

		if (!all[i] || all[i]->n_passed == all[i]->n_samples)
			continue;
		first = &all[i]->samples[all[i]->n_passed];
		if (next && first->time >= next->time)
			continue;
		next = first;
		*ret = all[i];
	}
	return next;
}

/* Returns false if a sample is not to be passed on. */
static bool is_new(struct watch_events *e, const struct watch_sample *s)
{
	/* A signal, or the hit after it, may be missing. */
	if (s->spec->role == WATCH_LOSES || s->spec->role == WATCH_LOST)
		watch_repeats_drop(&e->repeats, 0);
	if (s->spec->role == WATCH_HANDLER) {
		watch_repeats_deliver(&e->repeats, s->tid, &s->registers);
		return false;
	}
	return !s->spec->breakpoint || !watch_repeats_hit(&e->repeats, s->tid, &s->registers);
}

static void drop_passed(struct watch_events *const *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct watch_events *e = all[i];

		if (!e || !e->n_passed)
			continue;
		e->n_samples -= e->n_passed;
		memmove(e->samples, e->samples + e->n_passed, e->n_samples * sizeof(*e->samples));
		e->n_passed = 0;
	}
}

/* Returns how many hits and entries the kernel has counted, also those whose samples it has dropped. */
static uint64_t read_counters(const struct watch_events *e)
{
	uint64_t values[4], n = 0;

	for (size_t i = 0; i < e->n; i++)
		if (is_counted(e->list[i].spec) && read(e->list[i].fd, values, sizeof(values)) == sizeof(values))
			n += values[0];
	return n;
}

static void begin_count(struct watch_events *const *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (all[i])
			all[i]->counted = all[i]->incomplete ? read_counters(all[i]) : 0;
}

/* Samples of what had been counted before have been read now, or were dropped. */
static void end_count(struct watch_events *const *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct watch_events *e = all[i];

		if (!e || !e->incomplete || !e->counted)
			continue;
		e->dropped = MAX(e->dropped, e->counted - MIN(e->counted, e->n_counted));
		/* Else there have been more since. */
		e->incomplete = e->n_counted + e->dropped != e->counted;
	}
}

/*
 * When a sample is read, an older one may be missing, of another thread, or of this one on another CPU: in a ring that
 * was read before it was written. Reading all rings once more finds those that are older than what the first reading
 * found.
 */
void watch_events_read(struct watch_events *const *all, size_t n, void (*fn)(void *data, const struct watch_sample *s),
		       void *data)
{
	const struct watch_sample *s;
	struct watch_events *e;
	uint64_t until;

	begin_count(all, n);
	read_all(all, n);
	for (unsigned pass = 0; pass < PASSES && (until = newest(all, n)) != 0; pass++) {
		read_all(all, n);
		sort_all(all, n);
		while ((s = next_sample(all, n, &e)) && s->time <= until) {
			e->n_passed++;
			if (is_new(e, s))
				fn(data, s);
		}
		drop_passed(all, n);
	}
	end_count(all, n);
}

uint64_t watch_events_lost(struct watch_events *e)
{
	uint64_t n = e->dropped - e->reported;

	e->reported = e->dropped;
	return n;
}

void watch_events_forget(struct watch_events *e, uint32_t tid)
{
	watch_repeats_drop(&e->repeats, tid);
}

uint64_t watch_events_unread(const struct watch_events *e)
{
	uint64_t counted = read_counters(e), known = e->n_counted + e->reported;

	for (size_t i = 0; i < e->n_samples; i++)
		known -= is_counted(e->samples[i].spec);
	return counted - MIN(counted, known);
}
