/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/perf/pmu-counters.h"
#include "daemon/capture/process/proc-file.h"
#include "daemon/capture/process/process-threads.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/parse.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "lib/perfdata/format.h"

enum {
	SHARE_EVENTS_MAX = 4096,
	FAULTS = 16, /* a period */
	RING_SIZE = 128 << 10,
	TRACEPOINT_HEAD = 8, /* bytes of fields that all tracepoints have */
};
enum { SAMPLE_TYPE = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU };

struct pmu_ring {
	uint32_t cpu;
	int fd;           /* of the first event on this CPU; -1: the CPU is unavailable */
	unsigned refused; /* bit mask of the counters that it does not have */
	struct perf_ring ring;
};

struct pmu_event {
	int fd;
	uint64_t id;
	uint32_t counter, ring, tid;
};

/* The kernel's own name of an event, by that of perf. */
struct known_event {
	const char *name;
	uint32_t type;
	uint64_t config, period;
};

/* PERF_TYPE_HW_CACHE: the cache, the operation << 8, and whether it missed << 16. */
#define CACHE_READS(cache) PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_##cache, 0
#define CACHE_MISSES(cache) PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_RESULT_MISS << 16, 0

static const struct known_event known_events[] = {
	{ "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0 },
	{ "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 0 },
	{ "cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, 0 },
	{ "cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, 0 },
	{ "branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 0 },
	{ "branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, 0 },
	{ "bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES, 0 },
	{ "stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 0 },
	{ "stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 0 },
	{ "L1-dcache-loads", CACHE_READS(L1D) },
	{ "L1-dcache-load-misses", CACHE_MISSES(L1D) },
	{ "L1-icache-load-misses", CACHE_MISSES(L1I) },
	{ "LLC-loads", CACHE_READS(LL) },
	{ "LLC-load-misses", CACHE_MISSES(LL) },
	{ "dTLB-load-misses", CACHE_MISSES(DTLB) },
	{ "iTLB-load-misses", CACHE_MISSES(ITLB) },
	{ "page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, FAULTS },
	{ "minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, FAULTS },
	{ "major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1 },
	{ "context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 1 },
	{ "cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, 1 },
	{ "alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS, 1 },
	{ "emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS, 1 },
};

/*
 * Looks for an event by the name that the kernel gives it in the directory of a CPU's counters. Most numbers of events
 * are those of the architecture. The kernel does not know which of them a CPU has: what it lacks is not counted.
 */
static bool find_in_sysfs(const char *name, const char *sysroot, uint64_t *ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char path[512], text[64], *number;
	struct dirent *e;

	snprintf(path, sizeof(path), "%s/sys/bus/event_source/devices", sysroot ? sysroot : "");
	dir = strchr(name, '/') ? NULL : opendir(path);
	while (dir && (e = readdir(dir))) {
		if (strncmp(e->d_name, "armv", 4) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/sys/bus/event_source/devices/%.64s/events/%.64s",
			 sysroot ? sysroot : "", e->d_name, name);
		if (proc_file_read(AT_FDCWD, path, text, sizeof(text)) < 0)
			continue;
		number = strncmp(text, "event=", 6) == 0 ? text + 6 : NULL;
		if (!number)
			continue;
		number[strcspn(number, ",\n")] = 0;
		if (parse_u64(number, UINT32_MAX, ret) == 0)
			return true;
	}
	return false;
}

static int parse_name(struct pmu_counter *c, const char *sysroot, struct reason *why)
{
	char number[32];

	for (size_t i = 0; i < ELEMENTS(known_events); i++)
		if (strcmp(known_events[i].name, c->name) == 0) {
			c->type = known_events[i].type;
			c->config = known_events[i].config;
			c->period = known_events[i].period;
			return 0;
		}
	if (strcmp(c->name, PD_FREQUENCY_NAME) == 0) {
		c->type = PERF_TYPE_TRACEPOINT;
		c->frequency = true;
		return perf_event_tracepoint("power/cpu_frequency", &c->config, why);
	}
	c->type = PERF_TYPE_RAW;
	snprintf(number, sizeof(number), "0x%.16s", c->name + 1);
	if ((c->name[0] == 'r' && parse_u64(number, UINT32_MAX, &c->config) == 0) ||
	    find_in_sysfs(c->name, sysroot, &c->config))
		return 0;
	return reason_set(why, -EINVAL,
			  "counters: there is no event \"%s\": csight(1) and the events directories of "
			  "/sys/bus/event_source/devices/armv* list them",
			  esc(c->name));
}

int pmu_counters_parse(const char *text, const char *sysroot, struct pmu_counters *ret, struct reason *why)
{
	int rc = 0;

	*ret = (struct pmu_counters){ .n = 0 };
	if (!*text)
		return reason_set(why, -EINVAL, "counters: the list is empty");
	while (rc == 0 && *text) {
		struct pmu_counter *c = &ret->list[ret->n];
		size_t size = strcspn(text, ",");

		if (ret->n == PMU_COUNTERS_MAX)
			return reason_set(why, -EINVAL, "counters: there are at most %d", PMU_COUNTERS_MAX);
		if (size == 0 || size >= sizeof(c->name))
			return reason_set(why, -EINVAL, "counters: \"%s\" is no list of names", esc(text));
		memcpy(c->name, text, size);
		ret->n++;
		rc = parse_name(c, sysroot, why);
		for (size_t i = 0; rc == 0 && i + 1 < ret->n; i++)
			if (strcmp(ret->list[i].name, c->name) == 0)
				rc = reason_set(why, -EINVAL, "counters: %s is there twice", esc(c->name));
		text += size + (text[size] == ',' && text[size + 1]);
	}
	return rc;
}

static struct perf_event_attr attr_of(const struct pmu_counter *c, const struct pmu_counters_scope *s)
{
	const uint64_t words[5] = { c->config, 0, 0, 0, 0 };
	struct perf_event_attr attr = perf_event_default_attr(c->type, words);

	/* Where the kernel has a sample of its own event say the period, it takes one of each event. */
	attr.sample_type = SAMPLE_TYPE | (c->frequency ? PERF_SAMPLE_RAW : c->period ? 0 : PERF_SAMPLE_PERIOD);
	attr.write_backward = 1;
	if (c->frequency)
		return attr;
	attr.freq = !c->period;
	attr.sample_period = c->period ? c->period : PMU_COUNTERS_RATE;
	attr.inherit = attr.inherit_thread = !s->plan->thread;
	/* To the kernel, some events of its own happen in itself: a switch, for one. */
	attr.exclude_kernel = !s->kernel && c->type != PERF_TYPE_SOFTWARE;
	return attr;
}

/* Has an event write into the ring of its CPU, which is mapped with the first one. */
static int add_event(struct pmu_counters *c, struct pmu_event event, int *fd)
{
	struct pmu_ring *r = &c->rings[event.ring];
	int rc = perf_event_control(*fd, PERF_EVENT_IOC_ID, (unsigned long)&event.id);

	if (rc == 0)
		rc = array_reserve(c->events, c->n_events, &c->events_room);
	if (rc == 0)
		rc = r->fd < 0 ? perf_ring_map_backward(*fd, RING_SIZE, &r->ring)
			       : perf_event_control(*fd, PERF_EVENT_IOC_SET_OUTPUT, (unsigned long)r->fd);
	if (rc < 0)
		return rc;
	event.fd = TAKE_FD(*fd);
	if (r->fd < 0)
		r->fd = event.fd;
	c->events[c->n_events++] = event;
	return 0;
}

/* What to open for each thread: a counter on one CPU. */
struct pmu_opening {
	struct pmu_counters *c;
	const struct pmu_counters_scope *scope;
	uint32_t ring, counter;
	bool refused; /* the CPU cannot count this */
	struct reason *why;
};

/* The kernel lowers its limit of samples a second where they take too long, and refuses what is above. */
static int open_at_rate(const struct pmu_opening *o, struct perf_event_attr *attr, uint32_t tid, int *ret_fd)
{
	int cpu = (int)o->c->rings[o->ring].cpu, rc;
	long long most;

	if (o->c->list[o->counter].frequency)
		return perf_event_open(attr, -1, cpu, ret_fd);
	rc = perf_event_open_thread(o->scope->of, attr, (struct perf_event_place){ tid, cpu, 0 }, ret_fd);
	most = rc == -EINVAL && attr->freq ? proc_file_number("/proc/sys/kernel/perf_event_max_sample_rate") : 0;
	if (most <= 0 || most >= PMU_COUNTERS_RATE)
		return rc;
	attr->sample_freq = (uint64_t)most;
	return perf_event_open_thread(o->scope->of, attr, (struct perf_event_place){ tid, cpu, 0 }, ret_fd);
}

/* A thread that has begun meanwhile has inherited this event if the one that made it had it. */
static int add_doubt(struct pmu_counters *c, const struct pmu_event *event)
{
	int rc = array_reserve(c->doubts, c->n_doubts, &c->doubts_room);

	if (rc == 0)
		c->doubts[c->n_doubts++] = (struct pmu_doubt){ event->tid, event->counter, event->ring };
	return rc;
}

static int open_event(void *data, uint32_t tid, bool later)
{
	struct pmu_opening *o = data;
	const struct pmu_counter *counter = &o->c->list[o->counter];
	const struct pmu_event event = { .counter = o->counter, .ring = o->ring, .tid = tid };
	struct perf_event_attr attr = attr_of(counter, o->scope);
	_cleanup_close_ int fd = -1;
	char what[128];
	int rc;

	if (o->c->n_events >= o->scope->most_events)
		return reason_set(o->why, -EMFILE,
				  "counters: its threads need more than the %zu descriptors that its user may still "
				  "have: one for each counter, thread and CPU (LimitNOFILE of csightd's unit)",
				  o->scope->most_events);
	rc = open_at_rate(o, &attr, tid, &fd);
	/* The thread has ended, or the CPU is off. */
	if (rc == -ESRCH || rc == -ENODEV)
		return 0;
	o->refused = rc == -ENOENT || rc == -EINVAL || rc == -EOPNOTSUPP || rc == -ENXIO;
	if (o->refused)
		return 0;
	if (rc == 0)
		rc = add_event(o->c, event, &fd);
	if (rc == 0 && later)
		rc = add_doubt(o->c, &event);
	snprintf(what, sizeof(what), "counting %s in thread %u on CPU %u", counter->name, tid,
		 o->c->rings[o->ring].cpu);
	return rc < 0 ? perf_event_explain(o->why, rc, what, RING_SIZE) : 0;
}

/* Closes the events of a CPU. */
static void close_cpu(struct pmu_counters *c, uint32_t ring)
{
	size_t n = 0;

	perf_ring_unmap(&c->rings[ring].ring);
	for (size_t i = 0; i < c->n_events; i++)
		if (c->events[i].ring == ring)
			closep(&c->events[i].fd);
		else
			c->events[n++] = c->events[i];
	c->n_events = n;
	c->rings[ring].fd = -1;
}

/* Opens all counters on a CPU. */
static int open_cpu(struct pmu_counters *c, const struct pmu_counters_scope *scope, uint32_t ring, struct reason *why)
{
	int rc = 0;

	c->rings[ring].refused = 0;
	for (uint32_t i = 0; rc == 0 && i < c->n; i++) {
		struct pmu_opening o = { c, scope, ring, i, false, why };

		rc = c->list[i].frequency ? open_event(&o, 0, false)
					  : process_threads_visit(scope->pid, scope->plan->thread, open_event, &o);
		c->rings[ring].refused |= (unsigned)o.refused << i;
	}
	if (rc < 0)
		close_cpu(c, ring);
	return rc;
}

static bool is_open(const struct pmu_counters *c, uint32_t counter)
{
	for (size_t i = 0; i < c->n_events; i++)
		if (c->events[i].counter == counter)
			return true;
	return false;
}

static int compare_events(const void *left, const void *right)
{
	const struct pmu_event *a = left, *b = right;

	return (a->id > b->id) - (a->id < b->id);
}

static void control_all(const struct pmu_counters *c, unsigned long what)
{
	for (size_t i = 0; i < c->n_events; i++)
		perf_event_control(c->events[i].fd, what, 0);
}

int pmu_counters_open(struct pmu_counters *c, const struct pmu_counters_scope *scope, struct reason *why)
{
	int rc = 0;

	if (!c->rings && c->n) {
		c->rings = calloc(scope->plan->n_cpus + 1, sizeof(*c->rings));
		if (!c->rings)
			return -ENOMEM;
		c->n_rings = scope->plan->n_cpus;
		for (size_t n = 0; n < c->n_rings; n++)
			c->rings[n] = (struct pmu_ring){ .cpu = scope->plan->cpus[n].cpu, .fd = -1 };
	}
	for (uint32_t n = 0; rc == 0 && n < c->n_rings; n++)
		if (c->rings[n].fd < 0)
			rc = open_cpu(c, scope, n, why);
	c->failed = rc < 0;
	for (uint32_t i = 0; rc == 0 && i < c->n; i++)
		if (!is_open(c, i))
			rc = reason_set(why, -EOPNOTSUPP, "counters: no CPU here counts %s", esc(c->list[i].name));
	if (c->n_events)
		qsort(c->events, c->n_events, sizeof(*c->events), compare_events);
	control_all(c, c->paused ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE);
	return rc;
}

void pmu_counters_pause(struct pmu_counters *c, bool paused)
{
	if (c->paused != paused)
		control_all(c, paused ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE);
	c->paused = paused;
}

void pmu_counters_close(struct pmu_counters *c, bool stuck)
{
	int *fds = stuck ? calloc(c->n_events + 1, sizeof(*fds)) : NULL;

	for (size_t n = 0; n < c->n_rings; n++)
		perf_ring_unmap(&c->rings[n].ring);
	for (size_t i = 0; i < c->n_events; i++)
		if (fds)
			fds[i] = c->events[i].fd;
		else if (!stuck)
			closep(&c->events[i].fd);
	if (fds) {
		fds[c->n_events] = -1;
		perf_event_close_apart(fds);
	}
	free(c->rings);
	free(c->events);
	free(c->doubts);
	*c = (struct pmu_counters){ .n = 0 };
}

unsigned pmu_counters_refused(const struct pmu_counters *c, uint32_t counter)
{
	unsigned n = 0;

	for (size_t i = 0; i < c->n_rings; i++)
		n += c->rings[i].refused >> counter & 1;
	return n;
}

/* The event of a thread on a CPU is enabled while the thread runs on any, and counts on that one. */
unsigned pmu_counters_share(const struct pmu_counters *c, uint32_t counter)
{
	struct {
		uint64_t value, enabled, running, id;
	} values;
	uint64_t enabled = 0, running = 0, cpus = 0;

	for (size_t n = 0; n < c->n_rings; n++)
		cpus += c->rings[n].fd >= 0 && !(c->rings[n].refused >> counter & 1);
	/* Of very many, that would take too long. */
	for (size_t i = 0; i < c->n_events && c->n_events <= SHARE_EVENTS_MAX; i++)
		if (c->events[i].counter == counter &&
		    read(c->events[i].fd, &values, sizeof(values)) == sizeof(values)) {
			enabled += values.enabled;
			running += values.running;
		}
	return enabled ? (unsigned)MIN(100.0 * (double)running * (double)cpus / (double)enabled + 0.5, 100.0) : 100;
}

uint64_t pmu_counters_memory(const struct pmu_counters *c, size_t n_cpus)
{
	return c->n ? n_cpus * RING_SIZE : 0;
}

/* True if the thread has an event of its own for this, so that one that it has inherited counts the same again. */
static bool is_doubted(const struct pmu_counters *c, uint32_t tid, uint32_t counter, uint32_t ring)
{
	for (size_t i = 0; i < c->n_doubts; i++)
		if (c->doubts[i].tid == tid && c->doubts[i].counter == counter && c->doubts[i].ring == ring)
			return true;
	return false;
}

/* Parses the record of a sample; other records are none of these. */
static bool read_sample(const struct pmu_counters *c, uint32_t ring, struct reader *r, struct pd_sample *ret)
{
	struct pmu_event key = { 0 }, *event;
	uint32_t reserved, size, khz;
	struct pd_sample s = { 0 };

	if (rd_u64(r, &key.id) < 0 || rd_u32(r, &s.origin.pid) < 0 || rd_u32(r, &s.origin.tid) < 0 ||
	    rd_u64(r, &s.origin.time) < 0 || rd_u32(r, &s.origin.cpu) < 0 || rd_u32(r, &reserved) < 0)
		return false;
	event = bsearch(&key, c->events, c->n_events, sizeof(key), compare_events);
	if (!event || (event->tid != s.origin.tid && is_doubted(c, s.origin.tid, event->counter, ring)))
		return false;
	s.counter = event->counter;
	if (c->list[event->counter].frequency) {
		if (rd_u32(r, &size) < 0 || rd_skip(r, TRACEPOINT_HEAD) < 0 || rd_u32(r, &khz) < 0 ||
		    rd_u32(r, &s.origin.cpu) < 0)
			return false;
		s.value = khz;
		/* Which thread changed it does not matter. */
		s.origin.pid = s.origin.tid = UINT32_MAX;
	} else if (c->list[event->counter].period) {
		s.value = c->list[event->counter].period;
	} else if (rd_u64(r, &s.value) < 0) {
		return false;
	}
	*ret = s;
	return true;
}

int pmu_counters_copy(struct pmu_counters *c, size_t n, uint64_t *head, struct buf *ret)
{
	const struct pmu_ring *ring = &c->rings[n];
	_cleanup_buf_ struct buf records = { 0 };
	uint64_t before = *head;
	struct reader all;
	int rc;

	if (ring->fd < 0)
		return 0;
	perf_event_control(ring->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1);
	rc = perf_ring_read_newest(&ring->ring, head, &records);
	perf_event_control(ring->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0);
	if (rc < 0)
		return rc;
	c->lost = c->lost || (before && before - *head > RING_SIZE);
	all = reader_of(records.data, records.size);
	while (rd_left(&all) >= sizeof(struct perf_event_header)) {
		struct perf_event_header of;
		struct pd_sample sample;
		struct reader body;

		if (rd_copy(&all, &of, sizeof(of)) < 0 || of.size < sizeof(of) ||
		    rd_sub(&all, of.size - sizeof(of), &body) < 0)
			break;
		if (of.type == PERF_RECORD_SAMPLE && read_sample(c, (uint32_t)n, &body, &sample))
			buf_add(ret, &sample, sizeof(sample));
		else if (of.type == PERF_RECORD_LOST || of.type == PERF_RECORD_THROTTLE)
			c->lost = true;
	}
	return buf_error(ret);
}
