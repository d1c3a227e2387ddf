/* SPDX-License-Identifier: MIT */
/*
 * Recordings of trace units. The rings are copied again and again while the process runs, each time behind the last
 * copy. Trace reaches the rings only when an event stops, so events are stopped and started for it: of private sinks,
 * which write into the rings all the time, the copy is made in between. That costs the process a pause in its trace;
 * so nothing is stopped before a ring has probably filled as far as it is wanted, or the caller's time is over.
 *
 * What has been copied is all that ended up to some time, of all rings, or has a record of its loss: so nothing that is
 * missing without a word lies between two slices of a thread, wherever the recording ends.
 */
#include "config.h"

#include <string.h>

#include "daemon/capture/perf/perf-internal.h"
#include "daemon/capture/process/code-log.h"
#include "lib/base/util.h"

/* A ring of which nothing is known may be full to DRAIN_PACE_AT in 10 ms. */
#define FIRST_RATE (1.0 / 8 / 10e6)

void perf_drain_recorded(struct capture_source *source, bool begins)
{
	perf_target_of(source)->recordings += begins ? 1 : -1u;
}

uint64_t perf_drain_kept(struct perf_target *s)
{
	if (!s->recordings)
		s->kept_since = UINT64_MAX;
	return s->kept_since;
}

static int begin_positions(struct perf_target *s, struct capture_positions *p)
{
	const struct plan *plan = perf_target_plan(s);
	const struct aux_buffer *rings = perf_target_rings(s);

	p->list = calloc(plan->n_cpus, sizeof(*p->list));
	if (!p->list)
		return -ENOMEM;
	p->n = (uint32_t)plan->n_cpus;
	/* The history in the rings is the beginning of the recording. */
	for (uint32_t n = 0; n < p->n; n++) {
		aux_held(&rings[n], &p->list[n].to);
		p->list[n].since = 1;
		/* It is not in the header of the file. */
		p->list[n].unknown = !perf_copy_has_registers(s, &rings[n]);
	}
	p->records.rate = FIRST_RATE;
	p->records.armed = s->armed_at;
	s->kept_since = MIN(s->kept_since, perf_target_oldest(s));
	return 0;
}

/* Returns the largest part of a ring, 0 to 1, whose bytes are behind the positions. */
static double fullest(const struct perf_target *s, const struct capture_positions *p)
{
	const struct aux_buffer *rings = perf_target_rings(s);
	double most = 0;

	for (uint32_t n = 0; n < p->n; n++) {
		bool goes_on = rings[n].ring.page && !rings[n].ended;
		uint64_t head = MAX(rings[n].end, goes_on ? perf_ring_aux_head(&rings[n].ring) : 0);

		most = MAX(most, (double)(head - MIN(head, p->list[n].to)) / (double)rings[n].size);
	}
	return MIN(most, 1.0);
}

/* Records that the recording lacks what a ring got between two times. */
static void add_overwritten(struct capture_copy *c, uint64_t from, uint64_t to)
{
	const uint64_t flags = PERF_AUX_FLAG_PARTIAL | PERF_AUX_FLAG_COLLISION, body[3] = { from, 0, flags };
	struct pd_origin origin = { UINT32_MAX, UINT32_MAX, UINT32_MAX, MAX(to, from + 1) };

	capture_add_record(&c->records, PERF_RECORD_AUX, 0, body, sizeof(body), &origin);
}

/* What is copied of a ring. */
struct part {
	uint64_t from, to;
	size_t next; /* index of the first slice that is not in it as a whole */
};

/* Returns the ring whose next slice ended first; n_rings: nothing is left. */
static uint32_t next_ring(const struct aux_buffer *rings, const struct part *parts, uint32_t n_rings)
{
	uint32_t first = n_rings;

	for (uint32_t n = 0; n < n_rings; n++)
		if (parts[n].next < rings[n].n_slices &&
		    (first == n_rings ||
		     rings[n].slices[parts[n].next].ended < rings[first].slices[parts[first].next].ended))
			first = n;
	return first;
}

/*
 * Chooses what is copied: slices in the order of their ends, while there is room, and of a live drain those of its
 * round. Of one that is larger than all the room, a part is.
 */
static void choose_parts(const struct perf_target *s, const struct capture_positions *p, struct capture_drain *drain,
			 struct part *parts)
{
	const struct aux_buffer *rings = perf_target_rings(s);
	uint64_t left = drain->most, until = p->records.round ? p->records.round : UINT64_MAX;
	uint32_t n;

	for (n = 0; n < p->n; n++) {
		aux_held(&rings[n], &parts[n].from);
		parts[n].from = parts[n].to = MAX(parts[n].from, p->list[n].to);
		parts[n].next = p->list[n].unknown ? rings[n].n_slices : aux_first_behind(&rings[n], parts[n].to);
	}
	while ((n = next_ring(rings, parts, p->n)) < p->n) {
		const struct aux_slice *slice = &rings[n].slices[parts[n].next];
		uint64_t size = slice->to - parts[n].to;

		if (slice->ended > until)
			return;
		drain->more = size > left;
		if (drain->more && left < drain->most)
			return;
		parts[n].to = drain->more ? parts[n].to + left : slice->to;
		if (drain->more)
			return;
		left -= size;
		parts[n].next++;
	}
}

static int copy_part(const struct aux_buffer *a, const struct part *part, struct capture_position *p,
		     struct capture_copy *c)
{
	struct capture_ring *ring = &c->rings[c->n_rings];
	const struct aux_slice *last;
	int rc = aux_copy_between(a, part->from, part->to, p->continues, ring);

	if (rc < 0 || !ring->size)
		return rc;
	last = aux_slice_at(a, part->to - 1);
	p->to = part->to;
	p->continues = true;
	/* Where the rest of a slice is lost, so is what the thread executed since it began. */
	p->since = !last ? p->since : last->to == part->to ? last->ended : last->begun;
	c->n_rings++;
	return 0;
}

/* Moves a position over what cannot be copied any more, with a record of it. */
static void lose(const struct perf_target *s, const struct aux_buffer *a, struct capture_position *p, uint64_t to,
		 struct capture_copy *c)
{
	const struct aux_slice *next = aux_slice_at(a, to);
	uint64_t until = next ? next->ended + 1 : sideband_now(s->m->sideband);

	add_overwritten(c, p->since, until);
	c->rings[c->n_rings++] = (struct capture_ring){ .cpu = a->cpu, .from = to, .lost = to - p->to };
	p->to = to;
	p->continues = false;
	p->since = next ? next->begun : until;
}

static int copy_new(struct perf_target *s, struct capture_positions *p, struct capture_drain *drain,
		    struct capture_copy *c)
{
	const struct aux_buffer *rings = perf_target_rings(s);
	_cleanup_free_ struct part *parts = calloc(p->n + 1, sizeof(*parts));
	int rc = 0;

	c->rings = calloc(2 * (size_t)p->n + 1, sizeof(*c->rings));
	if (!c->rings || !parts)
		return -ENOMEM;
	choose_parts(s, p, drain, parts);
	for (uint32_t n = 0; n < p->n && rc == 0; n++) {
		uint64_t from = p->list[n].unknown ? rings[n].end : parts[n].from;

		if (from > p->list[n].to)
			lose(s, &rings[n], &p->list[n], from, c);
		if (parts[n].from < parts[n].to)
			rc = copy_part(&rings[n], &parts[n], &p->list[n], c);
	}
	return rc;
}

/* Adds what the kernel recorded since the positions, which move. */
static void add_records(const struct perf_target *s, struct capture_positions *p, struct capture_copy *c)
{
	thread_table_switches(&s->thread_table, &p->records, &c->records);
	if (!s->shared)
		perf_copy_starts(s, c);
	perf_copy_losses(s, p->records.time, c);
	p->records.time = sideband_now(s->m->sideband);
}

/* The trace IDs, which may not have been known when the header was written. */
static void add_ids(const struct perf_target *s, struct capture_copy *c)
{
	const struct aux_buffer *rings = perf_target_rings(s);

	for (size_t n = 0; n < perf_target_plan(s)->n_cpus; n++) {
		struct pd_origin origin = { (uint32_t)s->pid, (uint32_t)s->pid, rings[n].cpu, s->armed_at };
		const uint64_t id = rings[n].trace_id;

		if (rings[n].has_id)
			capture_add_record(&c->records, PERF_RECORD_AUX_OUTPUT_HW_ID, 0, &id, sizeof(id), &origin);
	}
}

/* True if what is in the rings may be the trace of another user's program, which the process has executed. */
static bool is_foreign(const struct perf_target *s)
{
	return s->lost || (s->thread_table.execs && perf_target_exists(s));
}

/*
 * Adds the threads that are new or have ended, and all mappings. The program may have executed another user's while
 * these were read: then the copy has nothing, and the round does not end.
 */
static int add_program(struct perf_target *s, struct capture_positions *p, struct capture_drain *drain,
		       struct capture_copy *c)
{
	struct buf log = { 0 };
	int rc;

	add_ids(s, c);
	thread_table_records(&s->thread_table, p->records.listed, &c->records);
	p->records.listed = p->records.time;
	rc = perf_copy_mappings(s, &log);
	if (rc == 0 && !is_foreign(s)) {
		c->log_size = log.size;
		c->log = log.data;
		return 0;
	}
	buf_done(&log);
	drain->round = 0;
	capture_copy_drop_rings(c);
	buf_clear(&c->records);
	return rc;
}

/*
 * Reads all records, and copies the rings, with the events stopped where they write into them. Before that, *ret_full
 * is set to the part of a ring that is new.
 */
static int copy_flushed(struct perf_target *s, struct capture_positions *p, struct capture_drain *drain,
			double *ret_full, struct capture_copy *c)
{
	struct perf_machine *m = s->m;
	bool direct = perf_target_plan(s)->direct;
	bool stops = s->shared ? direct && !m->arena.stopped : !s->grid.off && !s->grid.ended;
	uint64_t began = now_ns(CLOCK_MONOTONIC);
	int rc;

	if (stops)
		perf_target_stop(s);
	else if (s->shared)
		c->blind = arena_flush(&m->arena);
	perf_machine_read_records(m);
	if (s->shared && !stops)
		perf_restore_contexts(m);
	*ret_full = fullest(s, p);
	if (drain->live && !p->records.round)
		p->records.round = sideband_now(m->sideband);
	rc = is_foreign(s) ? 0 : copy_new(s, p, drain, c);
	if (stops) {
		perf_target_start(s);
		c->blind = now_ns(CLOCK_MONOTONIC) - began;
	}
	return rc;
}

static int drain_rings(struct perf_target *s, struct capture_positions *p, struct capture_drain *drain,
		       struct capture_copy *c)
{
	double full;
	int rc;

	perf_machine_read_records(s->m);
	perf_target_catch_up(s);
	perf_target_check_owner(s);
	if (is_foreign(s))
		return 0;
	rc = perf_copy_units(s, c);
	if (rc == 0)
		rc = copy_flushed(s, p, drain, &full, c);
	if (rc < 0)
		return rc;
	/* What is left of a round is not copied. */
	if (is_foreign(s))
		return 0;
	drain->flushed = true;
	if (drain->live && !drain->more) {
		drain->round = p->records.round;
		p->records.round = 0;
	}
	drain->fullest = full;
	if (p->records.flushed)
		p->records.rate = MAX(full / (double)(c->monotonic - p->records.flushed), p->records.rate / 2);
	p->records.flushed = c->monotonic;
	/* A copy without trace is dropped. */
	if (!c->n_rings)
		return 0;
	if (!drain->live)
		rc = perf_counters_copy(s, p, c);
	if (rc < 0)
		return rc;
	add_records(s, p, c);
	if (s->shared)
		perf_copy_hide_others(c);
	if (drain->round)
		rc = add_program(s, p, drain, c);
	return rc < 0 ? rc : buf_error(&c->records);
}

/* The positions move only if all is well. */
static int drain_behind(struct perf_target *s, struct capture_positions *positions, struct capture_drain *drain,
			struct capture_copy *c)
{
	struct capture_positions next = *positions;
	int rc;

	next.list = calloc(next.n, sizeof(*next.list));
	if (!next.list)
		return -ENOMEM;
	memcpy(next.list, positions->list, next.n * sizeof(*next.list));
	rc = drain_rings(s, &next, drain, c);
	if (rc == 0) {
		memcpy(positions->list, next.list, next.n * sizeof(*next.list));
		positions->records = next.records;
	}
	free(next.list);
	return rc;
}

int perf_drain(struct capture_source *source, struct capture_positions *positions, struct capture_drain *drain,
	       struct capture_copy **ret)
{
	struct perf_target *s = perf_target_of(source);
	struct capture_records *r = &positions->records;
	struct capture_copy *c;
	int rc;

	drain->more = drain->flushed = false;
	drain->round = 0;
	if (!s->armed || !perf_target_plan(s) || (positions->list && r->armed != s->armed_at) ||
	    (drain->live && perf_not_live(source)))
		return -ENODATA;
	c = calloc(1, sizeof(*c));
	rc = !c ? -ENOMEM : positions->list ? 0 : begin_positions(s, positions);
	if (rc < 0) {
		free(c);
		return rc;
	}
	c->jitdump.fd = -1;
	c->log_size = drain->live ? 0 : CAPTURE_LOG_ALL;
	c->shared = s->shared;
	now_both(&c->time, &c->monotonic);
	drain->fullest = MIN(MAX(fullest(s, positions), r->rate * (double)(c->monotonic - r->flushed)), 1.0);
	rc = drain->fullest < drain->least ? 0 : drain_behind(s, positions, drain, c);
	if (rc < 0)
		capture_copy_free(c);
	else
		*ret = c;
	return rc;
}

const char *perf_not_live(const struct capture_source *source)
{
	const struct perf_target *s = perf_target_of((struct capture_source *)source);

	if (s->shared)
		return "its trace is in a sink that processes share: csight tail needs sinks of its own (--sink)";
	if (s->options.kernel)
		return "its execution in the kernel is traced, whose code only a snapshot or a recording has";
	if (s->options.no_timestamps)
		return "it is traced without timestamps";
	return s->options.mode == CAPTURE_MODE_FILL ? "its rings are filled once" : NULL;
}

static void note_unknown(const struct perf_target *s, const struct capture_positions *p, struct capture_copy *c)
{
	const struct aux_buffer *rings = perf_target_rings(s);

	for (uint32_t n = 0; n < perf_target_plan(s)->n_cpus; n++)
		if (rings[n].traces && (p->list ? p->list[n].unknown : !perf_copy_has_registers(s, &rings[n])))
			capture_note_missing(c,
					     "the trace of CPU %u was left out: its trace unit was unknown when the "
					     "recording began",
					     rings[n].cpu);
}

int perf_drain_last(struct perf_target *s, const struct capture_limits *limits, struct capture_copy *c)
{
	struct capture_positions p = *limits->since;
	struct capture_drain drain = { .most = limits->trace };
	double full;
	int rc;

	add_ids(s, c);
	if (limits->closed || is_foreign(s))
		return 0;
	p.list = NULL;
	rc = begin_positions(s, &p);
	if (rc == 0 && limits->since->list)
		memcpy(p.list, limits->since->list, p.n * sizeof(*p.list));
	if (rc == 0)
		rc = copy_flushed(s, &p, &drain, &full, c);
	if (rc == 0 && !is_foreign(s))
		rc = perf_counters_copy(s, &p, c);
	free(p.list);
	/* What has been recorded is not given up for its end. */
	if (rc < 0) {
		capture_copy_drop_rings(c);
		capture_note_missing(c, "the end of the recording was left out: %s", strerror(-rc));
	}
	if (drain.more)
		capture_note_missing(c, "the end of the recording is larger than snapshot-max: the rest was left out");
	return 0;
}

void perf_drain_cut(const struct perf_target *s, const struct capture_positions *since, struct capture_copy *c)
{
	if (is_foreign(s)) {
		capture_copy_cut(c, since->records.time);
		capture_note_missing(c, "what the process executed after it had changed its user was left out");
	}
	note_unknown(s, since, c);
}
