/* SPDX-License-Identifier: MIT */
/* Copies of the rings and the log of a program under the emulated ETM. */
#include "config.h"

#include <string.h>
#include <sys/mman.h>

#include "daemon/capture/emu/emu-internal.h"
#include "lib/base/util.h"
#include "lib/emu/etm-encode.h"
#include "lib/emu/etm-sync.h"

enum {
	SCAN_SIZE = 64 << 10, /* bytes of a ring in which a sync point is looked for at a time */
	NO_PMU_TYPE = 8,      /* stands for the type of the PMU, which readers compare only within the file */
};

uint8_t *emu_map_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Reads the bytes [from, to) of a ring. */
static int read_range(const struct emu_source *s, uint32_t n, uint64_t from, uint64_t to, uint8_t *ret)
{
	uint64_t base = s->rings_offset + (uint64_t)n * s->ring_size;

	while (from < to) {
		uint64_t at = from & (s->ring_size - 1), size = MIN(to - from, s->ring_size - at);
		int rc = emu_pread(s->memfd, ret, size, base + at);

		if (rc < 0)
			return rc;
		from += size;
		ret += size;
	}
	return 0;
}

int emu_copy_range(const struct emu_source *s, uint32_t n, uint64_t from, uint64_t to, uint8_t *data, size_t room)
{
	while (from < to) {
		uint64_t there = from % room, size = MIN(to - from, room - there);
		int rc = read_range(s, n, from, from + size, data + there);

		if (rc < 0)
			return rc;
		from += size;
	}
	return 0;
}

/*
 * A ring is copied in two passes, so that tracing stops only during the second: the first pass copies the contents
 * while they are being written, the second, after the freeze, copies the bytes added since. This is correct because
 * byte p of a stream is final once the head has passed it, and intact until the head is one ring size further: bytes of
 * the first pass that are still valid at the freeze were final when they were copied.
 */
struct ring_copy {
	uint8_t *data; /* NULL: nothing copied yet */
	size_t room;
	uint32_t serial;
	uint64_t from, to;
	uint64_t begin, begin_ns; /* position and time of a sync point at or before the window; 0: none is known */
	struct capture_lost lost; /* before `from`, of a recording */
};

/* The part of the history to copy: the last ns before a time of CLOCK_MONOTONIC. last 0: all of it. */
struct window {
	uint64_t last, monotonic;
};

struct copying {
	struct window window;
	const struct capture_limits *limits;
	size_t room;   /* of a ring in the copy */
	size_t shares; /* rings that may be copied besides those that are copied already */
};

/* Returns the present time of a running thread on its virtual clock. */
static uint64_t reached(const struct slot_state *o)
{
	return MIN(o->base_ns, UINT64_MAX - o->instructions) + o->instructions;
}

/* True if it is known when the thread obeyed the freeze: what it has executed since is not traced. */
static bool has_stopped(const struct emu_source *s, const struct slot_state *o)
{
	return s->control & 1 && o->seen == s->control && o->stopped_ns;
}

/*
 * Returns the time of a thread's clock at the freeze. Of a thread in a system call it is estimated: it is not before
 * the call, also if that began after the time of the copy, and includes the time for which the thread waited for a CPU.
 */
static uint64_t stopped_at(const struct emu_source *s, const struct slot_state *o, uint64_t monotonic)
{
	uint64_t now = monotonic - MIN(o->lag_ns, monotonic);

	if (has_stopped(s, o))
		return o->stopped_ns;
	if (s->virtual_clock)
		now = o->state == EMU_RUNNING ? reached(o) : MAX(now, reached(o));
	return now;
}

/* Returns where the window begins on the thread's clock. */
static uint64_t window_since(const struct emu_source *s, const struct slot_state *o, const struct window *w)
{
	uint64_t now = stopped_at(s, o, w->monotonic);

	return now - MIN(now, w->last);
}

/* Finds the last sync point of a ring with a time of at most latest. Returns false if there is none. */
static bool find_sync(const struct emu_source *s, uint32_t n, const struct slot_state *o, uint64_t latest,
		      struct ring_copy *ret)
{
	_cleanup_free_ uint8_t *bytes = malloc(SCAN_SIZE);
	uint64_t from, to = o->head;

	for (; bytes && to > o->from; to = from) {
		uint64_t end = to + MIN((uint64_t)ETM_SYNC_MAX, o->head - to);
		size_t at;

		from = end - MIN(end - o->from, (uint64_t)SCAN_SIZE);
		if (read_range(s, n, from, end, bytes) < 0)
			return false;
		if (etm_sync_find(bytes, to - from, end - from, latest, &at, &ret->begin_ns)) {
			ret->begin = from + at;
			return true;
		}
	}
	return false;
}

/* Returns when a program ended, CLOCK_MONOTONIC: the latest time that the clock of one of its threads shows. */
static uint64_t program_end(const struct emu_source *s, const struct slot_state *slots)
{
	uint64_t end = 0;

	for (uint32_t n = 0; n < s->n_rings; n++) {
		struct ring_copy r = { 0 };
		uint64_t last = slots[n].end_ns;

		if (slots[n].state == EMU_FREE)
			continue;
		if (!last && s->virtual_clock)
			last = reached(&slots[n]);
		else if (!last && find_sync(s, n, &slots[n], UINT64_MAX, &r))
			last = r.begin_ns;
		end = MAX(end, last + MIN(slots[n].lag_ns, UINT64_MAX - last));
	}
	return end;
}

/* Returns where the window of a ring begins: at a sync point, or with the ring. */
static uint64_t window_begin(const struct emu_source *s, uint32_t n, const struct slot_state *o, const struct window *w,
			     struct ring_copy *c)
{
	c->begin = 0;
	if (w->last)
		find_sync(s, n, o, window_since(s, o, w), c);
	return MAX(o->from, c->begin);
}

static int copy_ring(const struct emu_source *s, uint32_t n, const struct slot_state *o, const struct copying *copying,
		     struct ring_copy *c)
{
	size_t room = copying->room;
	uint64_t from = MAX(window_begin(s, n, o, &copying->window, c), o->head - MIN(o->head, room));
	const struct capture_positions *since = copying->limits->since;
	int rc;

	if (copying->limits->closed)
		from = o->head;
	else if (since && n < since->n)
		from = emu_continue(&since->list[n], o, from, &c->lost);

	if (c->data && c->serial == o->serial && c->to <= o->head && c->to >= from && c->from <= from) {
		rc = emu_copy_range(s, n, c->to, o->head, c->data, c->room);
	} else {
		if (!c->data)
			c->data = emu_map_memory(room);
		c->room = room;
		c->serial = o->serial;
		rc = c->data ? emu_copy_range(s, n, from, o->head, c->data, room) : -ENOMEM;
	}
	c->from = from;
	c->to = o->head;
	return rc;
}

/*
 * A thread that missed the freeze may have written on while its ring was copied, and overwritten the beginning. Cuts
 * off the part that may be overwritten; returns false if nothing is left.
 */
static bool cut_overwritten(const struct emu_source *s, uint32_t n, struct ring_copy *c)
{
	struct slot_state now;
	uint64_t oldest;

	if (emu_read_slot(s, n, &now) < 0 || now.serial != c->serial || now.head < c->to ||
	    __builtin_add_overflow(now.head, EMU_UNPUBLISHED, &oldest))
		return false;
	oldest -= MIN(oldest, s->ring_size);
	c->from = MAX(c->from, oldest);
	return c->from < c->to;
}

/* Returns until when a thread may have waited, CLOCK_MONOTONIC: the time of the copy, or the program's end. */
static uint64_t waits_until(const struct emu_source *s, const struct capture_limits *limits, uint64_t copied)
{
	uint64_t end = MIN(limits->gone, copied);
	struct emu_header h;

	if (!limits->gone)
		return copied;
	emu_read_changing(s, &h);
	return atomic_load(&h.ended) & EMU_ENDED && h.ended_ns ? MIN(h.ended_ns, end) : end;
}

/* Moves the copied ring of a thread into the copy; the copy owns the memory from then on. */
static void keep_thread(const struct emu_source *s, const struct slot_state *o, bool alive,
			const struct capture_limits *limits, struct ring_copy *r, struct capture_copy *c)
{
	struct capture_thread *t = &c->threads[c->n_threads];
	uint64_t from = r->from;

	emu_fill_thread(s, o, t);
	t->acknowledged = !alive || o->state != EMU_RUNNING || o->seen == s->control;
	if (((s->virtual_clock && o->state == EMU_IDLE) || has_stopped(s, o)) && !o->full)
		t->until_ns = stopped_at(s, o, waits_until(s, limits, c->monotonic));
	if (!t->acknowledged) {
		bool left = cut_overwritten(s, o->n, r);

		capture_note_missing(c, "thread %u did not stop tracing in time: %s", o->tid,
				     left ? "its last bytes are uncertain" : "it was left out");
		if (!left && !limits->since)
			return;
		if (!left)
			r->from = r->to;
		r->lost.own += limits->closed ? 0 : r->from - from;
	}
	t->lost = r->lost;
	if (r->from > MAX(o->from, r->begin) && t->acknowledged && !limits->since)
		capture_note_missing(c, "only the newest %llu bytes of thread %u were kept (snapshot-max)",
				     (unsigned long long)(r->to - r->from), o->tid);
	t->from = r->from;
	t->size = r->to - r->from;
	t->wrapped = r->from > 0;
	t->data = TAKE_PTR(r->data);
	t->room = r->room;
	if (!alive && !limits->closed && (t->size || limits->since))
		t->end_size = etm_finish_stream(o->head, o->pending, t->end);
	c->n_threads++;
}

uint64_t emu_virtual_time(const struct emu_source *s, const struct slot_state *slots, uint64_t monotonic)
{
	uint64_t least = monotonic;

	for (uint32_t n = 0; n < s->n_rings; n++)
		if (slots[n].state != EMU_FREE)
			least = MIN(least, slots[n].lag_ns);
	return monotonic - (least < monotonic ? least : 0);
}

/* Copies a ring if there is memory for it: a program may begin any number of threads once it sees the freeze. */
static int copy_ring_if_room(const struct emu_source *s, uint32_t n, const struct slot_state *o,
			     struct copying *copying, struct ring_copy *c)
{
	const struct capture_positions *since = copying->limits->since;

	if (!c->data && copying->shares == 0) {
		c->from = c->to = since && n < since->n ? emu_continue(&since->list[n], o, o->head, &c->lost) : o->head;
		return -ENOSPC;
	}
	copying->shares -= !c->data;
	return copy_ring(s, n, o, copying, c);
}

/* True if a thread ended before the window. */
static bool ended_before(const struct emu_source *s, const struct slot_state *o, const struct window *w)
{
	return w->last && o->state == EMU_EXITED && o->end_ns && o->end_ns < window_since(s, o, w);
}

/* Copies the rings of all threads while the threads are stopped, and completes copies that were made before. */
static int copy_stopped(const struct emu_source *s, bool alive, struct copying *copying, struct slot_state *slots,
			struct ring_copy *rings, struct capture_copy *c)
{
	int rc = 0;

	for (uint32_t n = 0; n < s->n_rings && rc == 0; n++) {
		rc = emu_read_slot(s, n, &slots[n]);
		if (rc < 0 || slots[n].state == EMU_FREE || ended_before(s, &slots[n], &copying->window))
			continue;
		rc = copy_ring_if_room(s, n, &slots[n], copying, &rings[n]);
		if (rc == 0 || (rc == -ENOSPC && copying->limits->since))
			keep_thread(s, &slots[n], alive, copying->limits, &rings[n], c);
		if (rc == -ENOSPC) {
			capture_note_missing(c, "thread %u was left out: it began during the copy", slots[n].tid);
			rc = 0;
		}
	}
	return rc;
}

static int copy_threads(struct emu_source *s, bool alive, const struct capture_limits *limits, struct capture_copy *c)
{
	_cleanup_free_ struct slot_state *slots = calloc(s->n_rings, sizeof(*slots));
	_cleanup_free_ struct ring_copy *rings = calloc(s->n_rings, sizeof(*rings));
	struct copying copying = { .window = { .last = limits->last }, .limits = limits };
	bool runs = alive && !(s->control & 1);
	uint32_t n_used = 0;
	uint64_t stopped;
	int rc = 0;

	c->threads = calloc(s->n_rings, sizeof(*c->threads));
	if (!slots || !rings || !c->threads)
		return -ENOMEM;
	for (uint32_t n = 0; n < s->n_rings && rc == 0; n++) {
		rc = emu_read_slot(s, n, &slots[n]);
		n_used += slots[n].state != EMU_FREE;
	}
	/* Reserve a share for a thread that may start before the freeze. */
	copying.room = MAX(MIN(limits->trace / (n_used + 1), s->ring_size) & ~(size_t)4095, (size_t)4096);
	copying.shares = MAX(limits->trace / copying.room, (size_t)n_used + 1);
	copying.window.monotonic = now_ns(CLOCK_MONOTONIC);
	for (uint32_t n = 0; n < s->n_rings && rc == 0 && runs; n++)
		if (slots[n].state != EMU_FREE)
			rc = copy_ring_if_room(s, n, &slots[n], &copying, &rings[n]);
	now_both(&c->time, &c->monotonic);
	stopped = c->monotonic;
	copying.window.monotonic = limits->last && !alive ? program_end(s, slots) : c->monotonic;
	if (runs) {
		stopped = emu_held_since(s, c->monotonic);
		emu_freeze(s);
	}
	if (rc == 0)
		rc = copy_stopped(s, alive, &copying, slots, rings, c);
	if (runs) {
		emu_thaw(s);
		c->blind = now_ns(CLOCK_MONOTONIC) - stopped;
	}
	c->virtual_clock = s->virtual_clock;
	if (s->virtual_clock)
		c->monotonic = emu_virtual_time(s, slots, c->monotonic);
	for (uint32_t n = 0; n < s->n_rings; n++)
		if (rings[n].data)
			munmap(rings[n].data, rings[n].room);
	return rc;
}

/* Returns how many of the first size bytes of a log are whole records. */
static size_t whole_records(const uint8_t *log, size_t size)
{
	struct emu_record head;
	size_t at = 0;

	while (size - at >= sizeof(head)) {
		memcpy(&head, log + at, sizeof(head));
		if (head.size < sizeof(head) || head.size > size - at)
			break;
		at += head.size;
	}
	return at;
}

/* Records are only appended, so complete ones can be copied while the program runs. */
static int copy_log(const struct emu_source *s, size_t limit, struct capture_copy *c)
{
	struct emu_header h;
	uint64_t size;
	int rc;

	emu_read_changing(s, &h);
	size = atomic_load(&h.log_head);

	if (size > s->log_size) {
		capture_note_missing(c, "the log of mappings and code is damaged");
		return 0;
	}
	c->log_size = MIN(size, limit);
	c->log = malloc(c->log_size + 1);
	if (!c->log)
		return -ENOMEM;
	rc = emu_pread(s->memfd, c->log, c->log_size, s->log_offset);
	if (rc == 0 && c->log_size < size) {
		c->log_size = whole_records(c->log, c->log_size);
		capture_note_missing(c,
				     "the newest %llu bytes of the log of mappings and code were left out: it grew "
				     "before it was copied",
				     (unsigned long long)(size - c->log_size));
	}
	return rc;
}

int emu_describe_unit(const struct emu_source *s, struct capture_copy *c)
{
	const struct emu_regs *r = &s->regs;

	c->pmu_type = NO_PMU_TYPE;
	c->cpus = malloc(sizeof(*c->cpus));
	if (!c->cpus)
		return -ENOMEM;
	*c->cpus = (struct pd_cpu){
		.magic = PD_MAGIC_ETMV4,
		.n_params = 7,
		.params = { r->configr, r->traceidr, r->idr0, r->idr1, r->idr2, r->idr8, r->authstatus },
	};
	c->n_cpus = 1;
	return 0;
}

int emu_copy(struct capture_source *source, bool alive, const struct capture_limits *limits, struct capture_copy **ret)
{
	struct emu_source *s = emu_source_of(source);
	struct capture_copy *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->jitdump.fd = -1;
	c->missing.limit = CAPTURE_MISSING_MAX;
	rc = emu_describe_unit(s, c);
	if (rc == 0)
		rc = copy_threads(s, alive, limits, c);
	if (rc == 0)
		rc = copy_log(s, limits->log, c);
	emu_missing(source, &c->missing);
	if (limits->last && !(s->regs.configr & ETM_CONFIGR_TS))
		capture_note_missing(c, "all of the history was copied: the trace has no timestamps");
	if (rc < 0) {
		capture_copy_free(c);
		return rc;
	}
	*ret = c;
	return 0;
}
