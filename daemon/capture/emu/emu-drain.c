/* SPDX-License-Identifier: MIT */
/*
 * Drains the rings of a program under the emulated ETM while it runs. Byte p of a stream is final once the head has
 * passed it, and intact until the head is one ring size further: so nothing needs to be stopped. After a copy the head
 * is read again; what may have been overwritten in the meantime is lost, and its length is known from the positions.
 */
#include "config.h"

#include <sys/mman.h>

#include "daemon/capture/emu/emu-internal.h"
#include "lib/base/buf.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum { LOG_PART = 64 << 10 /* bytes of the log that are drained at once */ };

uint64_t emu_continue(const struct capture_position *p, const struct slot_state *o, uint64_t oldest,
		      struct capture_lost *ret)
{
	bool same = p->serial == o->serial;
	uint64_t expected = same ? p->to : 0, from = MIN(MAX(expected, oldest), o->head);

	*ret = (struct capture_lost){ .own = from - MIN(expected, from) };
	if (!same)
		ret->earlier = o->earlier - MIN(o->earlier, p->earlier + p->to);
	return from;
}

/* Returns the first byte of a ring that is intact, also if the thread goes on. */
static uint64_t first_intact(const struct emu_source *s, const struct slot_state *o)
{
	uint64_t limit = o->head;

	if (o->state == EMU_RUNNING && __builtin_add_overflow(o->head, (uint64_t)EMU_UNPUBLISHED, &limit))
		limit = UINT64_MAX;
	return MAX(o->from, limit - MIN(limit, s->ring_size));
}

/* True while another thread takes the ring over, or if the program has damaged its positions. */
static bool is_changing(const struct capture_position *p, const struct slot_state *o)
{
	return p->serial == o->serial && (o->head < p->to || o->earlier != p->earlier);
}

/* True in a live drain, of a thread that has ended, until its end has been drained. */
static bool is_ending(const struct capture_position *p, const struct slot_state *o, const struct capture_drain *drain)
{
	return drain->live && (o->state == EMU_EXITED || drain->ended) && (p->serial != o->serial || !p->ended);
}

/* Copies the bytes of a ring from t->from on. -ESTALE: another thread has taken the ring over. */
static int drain_ring(const struct emu_source *s, const struct slot_state *o, size_t size, struct capture_thread *t)
{
	size_t room = (size + 4095) & ~(size_t)4095;
	uint64_t to = t->from + size, intact;
	struct slot_state now;
	int rc;

	t->data = size ? emu_map_memory(room) : NULL;
	t->room = room;
	rc = !size ? 0 : t->data ? emu_copy_range(s, o->n, t->from, to, t->data, room) : -ENOMEM;
	if (rc == 0)
		rc = emu_read_slot(s, o->n, &now);
	if (rc == 0 && (now.serial != o->serial || now.head < o->head || now.earlier != o->earlier))
		rc = -ESTALE;
	if (rc < 0)
		return rc;
	intact = MIN(first_intact(s, &now), to);
	if (intact > t->from) {
		t->lost.own += intact - t->from;
		t->from = intact;
	}
	t->size = to - t->from;
	t->wrapped = t->from > 0;
	return 0;
}

/* Drains one ring. Returns 0 also if nothing could be had of it. */
static int drain_slot(const struct emu_source *s, const struct slot_state *o, struct capture_position *p,
		      struct capture_drain *drain, struct capture_copy *c)
{
	struct capture_thread *t = &c->threads[c->n_threads];
	uint64_t left;
	bool ends;
	int rc;

	if (o->state == EMU_FREE || is_changing(p, o))
		return 0;
	emu_fill_thread(s, o, t);
	t->from = emu_continue(p, o, first_intact(s, o), &t->lost);
	left = o->head - t->from;
	if (left > drain->most) {
		drain->more = true;
		left = drain->most;
	}
	ends = is_ending(p, o, drain) && t->from + left == o->head;
	if (!left && !t->lost.own && !t->lost.earlier && p->serial == o->serial && !ends)
		return 0;
	rc = drain_ring(s, o, left, t);
	/* Overwritten bytes count as well: they were copied, and a program can overwrite all of its rings at once. */
	drain->most -= left;
	if (t->data && (rc < 0 || !t->size)) {
		munmap(t->data, t->room);
		t->data = NULL;
	}
	if (rc < 0)
		return rc == -ESTALE ? 0 : rc;
	t->ended = ends;
	if (ends && drain->ended)
		t->end_size = etm_finish_stream(o->head, o->pending, t->end);
	*p = (struct capture_position){ o->serial, t->from + t->size, o->earlier, ends };
	c->n_threads++;
	return 0;
}

/* The history in the rings is the beginning of the recording. */
static int begin_positions(const struct emu_source *s, const struct slot_state *slots, struct capture_positions *p)
{
	p->list = calloc(s->n_rings, sizeof(*p->list));
	if (!p->list)
		return -ENOMEM;
	p->n = s->n_rings;
	for (uint32_t n = 0; n < p->n; n++)
		p->list[n] = (struct capture_position){ slots[n].serial, slots[n].from, slots[n].earlier, false };
	return 0;
}

/* Returns the largest part of a ring, 0 to 1, that is not drained yet; 1 if a thread that has ended has any. */
static double fullest(const struct emu_source *s, const struct slot_state *slots, const struct capture_positions *p)
{
	double most = 0;

	for (uint32_t n = 0; n < p->n; n++) {
		struct capture_lost lost;
		uint64_t left;

		if (slots[n].state == EMU_FREE || is_changing(&p->list[n], &slots[n]))
			continue;
		left = slots[n].head - emu_continue(&p->list[n], &slots[n], 0, &lost);
		if (left && slots[n].state == EMU_EXITED)
			return 1;
		most = MAX(most, (double)left / (double)s->ring_size);
	}
	return MIN(most, 1.0);
}

static int drain_slots(const struct emu_source *s, const struct slot_state *slots, struct capture_positions *p,
		       struct capture_drain *drain, struct capture_copy *c)
{
	uint32_t first = p->next;
	int rc = 0;

	for (uint32_t i = 0; i < p->n && rc == 0; i++) {
		uint32_t n = (first + i) % p->n;
		bool left = drain->most;

		rc = drain_slot(s, &slots[n], &p->list[n], drain, c);
		if (left && !drain->most)
			p->next = (n + 1) % p->n;
	}
	/* The positions of the rings that were drained have moved. */
	return c->n_threads ? 0 : rc;
}

/*
 * Appends the names and mappings of a part of the log to ret, and returns how many bytes of it have been read. Code is
 * left out, also beyond the end of the part. UINT64_MAX: the log is damaged.
 */
static uint64_t pick_records(const uint8_t *part, size_t size, struct buf *ret)
{
	struct reader r = reader_of(part, size), look = r;
	struct emu_record head;
	uint64_t at = 0;

	for (; rd_copy(&look, &head, sizeof(head)) == 0; look = r) {
		const uint8_t *record;
		bool is_code = head.type != EMU_REC_MAP && head.type != EMU_REC_COMM;

		if (head.size < sizeof(head) || head.size % 8)
			return UINT64_MAX;
		if (rd_bytes(&r, head.size, &record) < 0)
			return is_code ? at + head.size : at ? at : UINT64_MAX;
		if (!is_code)
			buf_add(ret, record, head.size);
		at += head.size;
	}
	return at;
}

/*
 * Drains what is new in the log. The heads of the rings have been read before its head: a mapping is in the log before
 * the trace of what it maps is in a ring.
 */
static int drain_log(const struct emu_source *s, struct capture_positions *p, struct capture_drain *drain,
		     struct capture_copy *c)
{
	uint64_t size = c->log_size - MIN(c->log_size, p->log), read;
	_cleanup_buf_ struct buf kept = { 0 };
	_cleanup_free_ uint8_t *part = NULL;
	int rc;

	c->log_size = 0;
	if (!size)
		return 0;
	drain->more = size > LOG_PART;
	size = MIN(size, (uint64_t)LOG_PART);
	part = malloc(size);
	rc = part ? emu_pread(s->memfd, part, size, s->log_offset + p->log) : -ENOMEM;
	if (rc < 0)
		return rc;
	read = pick_records(part, size, &kept);
	rc = buf_error(&kept);
	if (rc < 0)
		return rc;
	p->log = read == UINT64_MAX ? UINT64_MAX : p->log + read;
	c->log_size = kept.size;
	c->log = TAKE_PTR(kept.data);
	return 0;
}

static int drain_into(const struct emu_source *s, struct capture_positions *p, struct capture_drain *drain,
		      struct capture_copy *c)
{
	_cleanup_free_ struct slot_state *slots = calloc(s->n_rings, sizeof(*slots));
	_cleanup_free_ uint8_t *raw = NULL;
	struct emu_header h;
	int rc = slots ? emu_copy_slots(s, &raw) : -ENOMEM;

	if (rc < 0)
		return rc;
	for (uint32_t n = 0; n < s->n_rings; n++)
		emu_parse_slot(s, emu_raw_slot(s, raw, n), n, &slots[n]);
	if (!p->list)
		rc = begin_positions(s, slots, p);
	if (rc < 0)
		return rc;
	now_both(&c->time, &c->monotonic);
	c->virtual_clock = s->virtual_clock;
	if (s->virtual_clock)
		c->monotonic = emu_virtual_time(s, slots, c->monotonic);
	drain->fullest = fullest(s, slots, p);
	if (drain->fullest < drain->least)
		return 0;
	emu_read_changing(s, &h);
	c->log_size = MIN(atomic_load(&h.log_head), s->log_size);
	c->threads = calloc(s->n_rings, sizeof(*c->threads));
	rc = c->threads ? emu_describe_unit(s, c) : -ENOMEM;
	if (rc == 0 && drain->live)
		rc = drain_log(s, p, drain, c);
	return rc < 0 || drain->more ? rc : drain_slots(s, slots, p, drain, c);
}

int emu_drain(struct capture_source *source, struct capture_positions *positions, struct capture_drain *drain,
	      struct capture_copy **ret)
{
	struct capture_copy *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->jitdump.fd = -1;
	drain->more = false;
	rc = drain_into(emu_source_of(source), positions, drain, c);
	if (rc < 0)
		capture_copy_free(c);
	else
		*ret = c;
	return rc;
}
