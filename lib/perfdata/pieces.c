/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "lib/base/util.h"
#include "lib/perfdata/pieces.h"

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int compare_places(const struct pd_aux_buffer *a, const struct pd_aux_buffer *b)
{
	int c = COMPARE(a->cpu, b->cpu);

	/* The tid of a CPU's buffer is the thread that happened to run. */
	if (!c && a->cpu == UINT32_MAX)
		c = COMPARE(a->tid, b->tid);
	return c ? c : COMPARE(a->offset, b->offset);
}

static int compare_buffers(const void *left, const void *right)
{
	const struct pd_aux_buffer *a = left, *b = right;
	int c = compare_places(a, b);

	c = c ? c : COMPARE(a->record, b->record);
	return c ? c : COMPARE(a->order, b->order);
}

static int compare_contents(const struct pd_aux_record *a, const struct pd_aux_record *b)
{
	int c = COMPARE(a->origin.cpu, b->origin.cpu);

	c = c ? c : COMPARE(a->origin.tid, b->origin.tid);
	c = c ? c : COMPARE(a->offset, b->offset);
	c = c ? c : COMPARE(a->size, b->size);
	c = c ? c : COMPARE(a->flags, b->flags);
	return c ? c : COMPARE(a->origin.time, b->origin.time);
}

static int compare_records(const void *left, const void *right)
{
	const struct pd_aux_record *a = left, *b = right;
	int c = compare_contents(a, b);

	return c ? c : COMPARE(a->order, b->order);
}

static int compare_order(const void *left, const void *right)
{
	const struct pd_aux_record *a = left, *b = right;

	return COMPARE(a->order, b->order);
}

static int compare_pieces(const void *left, const void *right)
{
	const struct pd_piece *a = left, *b = right;
	int c = COMPARE(a->cpu, b->cpu);

	if (!c && a->cpu == UINT32_MAX)
		c = COMPARE(a->tid, b->tid);
	c = c ? c : COMPARE(a->index, b->index);
	/* Until the pieces are sorted, lost holds the position of the record. */
	return c ? c : COMPARE(a->lost, b->lost);
}

/* Drops copies of records: perf has been seen to write a record twice. */
static size_t drop_repeated(struct pd_aux_record *records, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(records, n, sizeof(*records), compare_records);
	for (size_t i = 0; i < n; i++)
		if (!kept || compare_contents(&records[kept - 1], &records[i]) != 0)
			records[kept++] = records[i];
	if (kept)
		qsort(records, kept, sizeof(*records), compare_order);
	return kept;
}

/*
 * Returns the buffer that directly follows the record, if it begins with the slice, or NULL: where slices are written
 * while the program runs, threads that reused one tid have many buffers with the same offsets.
 */
static struct pd_aux_buffer *find_following(struct pd_aux_buffer *buffers, size_t n, const struct pd_aux_record *r)
{
	struct pd_aux_buffer key = {
		.cpu = r->origin.cpu, .tid = r->origin.tid, .offset = r->offset, .record = r->order + 1
	};
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_buffers(&buffers[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == n || buffers[low].record != key.record || compare_places(&buffers[low], &key) != 0)
		return NULL;
	return r->size <= buffers[low].size ? &buffers[low] : NULL;
}

/* Returns the last buffer of the CPU or thread that begins at or before the slice and contains it, or NULL. */
static struct pd_aux_buffer *find_buffer(struct pd_aux_buffer *buffers, size_t n, uint32_t cpu, uint32_t tid,
					 uint64_t offset, uint64_t size)
{
	struct pd_aux_buffer key = { .cpu = cpu, .tid = tid, .offset = offset }, *b;
	size_t low = 0, high = n, first, count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_places(&buffers[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	b = &buffers[low - 1];
	if (b->cpu != cpu || (cpu == UINT32_MAX && b->tid != tid))
		return NULL;
	if (offset - b->offset > b->size || size > b->size - (offset - b->offset))
		return NULL;
	if (offset != b->offset)
		return b;
	/* Threads that reused one tid have a buffer each, all beginning at 0: use these in their order. */
	key = *b;
	for (first = 0, high = low - 1; first < high;) {
		size_t middle = first + (high - first) / 2;

		if (compare_places(&buffers[middle], &key) < 0)
			first = middle + 1;
		else
			high = middle;
	}
	count = low - first;
	b = &buffers[first];
	if (b->first_free < count && size <= b[b->first_free].size)
		return &b[b->first_free++];
	return &buffers[low - 1];
}

static void add_piece(struct buf *pieces, const struct pd_aux_buffer *b, const struct pd_aux_record *r, uint64_t offset)
{
	struct pd_piece p = {
		.tid = b->tid,
		.cpu = b->cpu,
		.index = b->index,
		.flags = r->flags,
		.offset = offset,
		.size = r->size,
		.lost = r->order,
		.file_offset = b->file_offset + (offset - b->offset),
		.origin = r->origin,
	};

	buf_add(pieces, &p, sizeof(p));
}

/* Adds a slice of which the file has nothing: its offset there makes all its bytes missing. */
static void add_gap(struct buf *pieces, const struct pd_aux_record *r)
{
	struct pd_aux_buffer none = { .cpu = UINT32_MAX,
				      .tid = r->origin.tid,
				      .index = (uint32_t)(r->flags >> PD_AUX_INDEX_SHIFT) & PD_AUX_INDEX_MASK,
				      .offset = r->offset,
				      .file_offset = UINT64_MAX };

	add_piece(pieces, &none, r, r->offset);
}

/*
 * Adds the remaining end of a slice whose beginning was overwritten, as happens to the oldest slice of a snapshot. The
 * piece begins at a multiple of 16 bytes from the slice's beginning, to keep the alignment of the frames.
 */
static bool place_record_end(struct pd_pieces *to, const struct pd_aux_record *r, struct pd_aux_buffer *buffers,
			     size_t n)
{
	uint64_t offset = r->offset - MIN(r->size, r->offset), gone;
	struct pd_aux_record rest = *r;
	struct pd_aux_buffer *b;

	if (!(r->flags & PD_AUX_OVERWRITE) || !r->offset)
		return false;
	b = find_buffer(buffers, n, UINT32_MAX, r->origin.tid, r->offset - 1, 1);
	if (!b && r->origin.cpu != UINT32_MAX)
		b = find_buffer(buffers, n, r->origin.cpu, 0, r->offset - 1, 1);
	if (!b || b->offset <= offset)
		return false;
	gone = b->offset - offset + 15;
	gone -= gone % 16;
	if (gone >= r->size)
		return false;
	rest.size -= gone;
	rest.flags |= PD_AUX_PARTIAL;
	add_piece(&to->pieces, b, &rest, offset + gone);
	return true;
}

static void place_record(struct pd_pieces *to, const struct pd_aux_record *r, struct pd_aux_buffer *buffers, size_t n)
{
	uint64_t offset = r->offset;
	struct pd_aux_buffer *b;

	if (r->size == 0) {
		to->empty++;
		/*
		 * csightd writes an AUX record without a thread for an interval in which tracing was off, or of which a
		 * ring was overwritten. Its offset is the time at which the interval began; its own time is the end.
		 */
		if (r->flags & PD_AUX_PARTIAL && r->origin.tid == UINT32_MAX) {
			bool failed = r->flags & PD_AUX_TRUNCATED && r->offset != r->origin.time;

			pd_add_pause(&to->losses, r->offset, r->origin.time,
				     r->flags & PD_AUX_COLLISION ? PD_LOSS_OVERWRITTEN
				     : failed                    ? PD_LOSS_TRUNCATED
								 : PD_LOSS_PAUSED);
		} else if (r->flags & PD_AUX_TRUNCATED) {
			to->empty_lost++;
			pd_add_loss(&to->losses, &r->origin, PD_LOSS_TRUNCATED);
		}
		return;
	}
	if (r->flags & PD_AUX_GAP) {
		add_gap(&to->pieces, r);
		return;
	}
	/* In overwrite mode the offset of a record is the end of its slice. */
	if (r->flags & PD_AUX_OVERWRITE)
		offset -= MIN(r->size, offset);
	b = r->flags & PD_AUX_OVERWRITE ? NULL : find_following(buffers, n, r);
	if (!b)
		b = find_buffer(buffers, n, UINT32_MAX, r->origin.tid, offset, r->size);
	if (!b && r->origin.cpu != UINT32_MAX)
		b = find_buffer(buffers, n, r->origin.cpu, 0, offset, r->size);
	if (b) {
		add_piece(&to->pieces, b, r, offset);
	} else if (!place_record_end(to, r, buffers, n)) {
		to->unplaced++;
		pd_add_loss(&to->losses, &r->origin, PD_LOSS_OVERWRITTEN);
	}
}

int pd_make_pieces(struct pd_aux_record *records, size_t n_records, struct pd_aux_buffer *buffers, size_t n_buffers,
		   uint64_t end, struct pd_pieces *ret)
{
	size_t kept = drop_repeated(records, n_records), n;
	struct pd_piece *pieces;

	ret->repeated = n_records - kept;
	if (n_buffers)
		qsort(buffers, n_buffers, sizeof(*buffers), compare_buffers);
	for (size_t i = 0; i < kept; i++)
		place_record(ret, &records[i], buffers, n_buffers);
	/* Without AUX records each buffer is one piece. */
	for (size_t i = 0; n_records == 0 && i < n_buffers; i++) {
		const struct pd_aux_buffer *b = &buffers[i];
		struct pd_aux_record whole = { .size = b->size, .order = b->order };

		whole.origin = (struct pd_origin){ UINT32_MAX, b->tid, b->cpu, 0 };
		if (b->size)
			add_piece(&ret->pieces, b, &whole, b->offset);
	}
	if (buf_error(&ret->pieces))
		return buf_error(&ret->pieces);
	pieces = (struct pd_piece *)ret->pieces.data;
	n = ret->pieces.size / sizeof(*pieces);
	if (n)
		qsort(pieces, n, sizeof(*pieces), compare_pieces);
	for (size_t i = 0; i < n; i++) {
		uint64_t there = end - MIN(end, pieces[i].file_offset);

		pieces[i].lost = pieces[i].size - MIN(pieces[i].size, there);
		pieces[i].size -= pieces[i].lost;
	}
	return 0;
}

/* Rounds an offset in a piece up to the beginning of a 16-byte frame. */
static uint64_t next_frame(uint64_t part)
{
	return (part + 15) / 16 * 16;
}

static void cut_piece(struct buf *to, struct pd_piece rest, const struct stretch *damaged, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t end = rest.file_offset + rest.size, from, next;
		struct pd_piece before = rest;

		if (damaged[i].to <= rest.file_offset || damaged[i].from >= end)
			continue;
		from = damaged[i].from - MIN(damaged[i].from, rest.file_offset);
		next = next_frame(MIN(damaged[i].to, end) - rest.file_offset);
		before.size = from;
		before.lost = MIN(next, rest.size) - from;
		if (next >= rest.size) {
			before.lost += rest.lost;
			buf_add(to, &before, sizeof(before));
			return;
		}
		buf_add(to, &before, sizeof(before));
		rest.offset += next;
		rest.file_offset += next;
		rest.size -= next;
		rest.flags |= PD_AUX_PARTIAL;
	}
	buf_add(to, &rest, sizeof(rest));
}

int pd_cut_pieces(struct pd_pieces *pieces, const struct stretch *damaged, size_t n)
{
	const struct pd_piece *p = (const struct pd_piece *)pieces->pieces.data;
	struct buf cut = { 0 };

	for (size_t i = 0; i < pieces->pieces.size / sizeof(*p); i++)
		cut_piece(&cut, p[i], damaged, n);
	buf_done(&pieces->pieces);
	pieces->pieces = cut;
	return buf_error(&cut);
}

static bool continues(const struct pd_piece *before, const struct pd_piece *p)
{
	return p->flags & PD_AUX_CONTINUES && !((before->flags | p->flags) & PD_AUX_GAP) && before->lost == 0 &&
	       before->cpu == p->cpu && before->tid == p->tid && before->index == p->index &&
	       before->offset + before->size == p->offset;
}

static void add_extent(struct pd_pieces *pieces, struct pd_piece *of, uint64_t at, uint64_t file_offset)
{
	struct pd_extent e = { at, file_offset };

	if (!of->n_extents++)
		of->extents = pieces->extents.size / sizeof(e);
	buf_add(&pieces->extents, &e, sizeof(e));
}

int pd_join_pieces(struct pd_pieces *pieces)
{
	struct pd_piece *p = (struct pd_piece *)pieces->pieces.data;
	size_t n = 0;

	for (size_t i = 0; i < pieces->pieces.size / sizeof(*p); i++) {
		struct pd_piece *to = n ? &p[n - 1] : NULL;

		if (!to || !continues(to, &p[i])) {
			p[n++] = p[i];
			continue;
		}
		if (!to->n_extents)
			add_extent(pieces, to, 0, to->file_offset);
		add_extent(pieces, to, to->size, p[i].file_offset);
		to->size += p[i].size;
		to->lost = p[i].lost;
		to->flags |= p[i].flags & ~PD_AUX_CONTINUES;
		to->origin = p[i].origin;
	}
	pieces->pieces.size = n * sizeof(*p);
	return buf_error(&pieces->extents);
}
