/* SPDX-License-Identifier: MIT */
/* The end of a store: its sections, and the header that completes it. */
#include "lib/store/writer.h"

/* Sections are built one at a time and written in pieces. */
struct table_writer {
	struct store_writer *writer;
	struct buf table; /* the section table */
	uint32_t n;
	struct buf section;
	uint32_t checksum; /* of the part of the section written so far */
	int error;
};

static void table_writer_done(struct table_writer *t)
{
	buf_done(&t->table);
	buf_done(&t->section);
}

static void section_flush(struct table_writer *t)
{
	if (!t->error)
		t->error = buf_error(&t->section);
	if (!t->error)
		t->error = store_append(t->writer, t->section.data, t->section.size);
	t->checksum = store_checksum_more(t->checksum, t->section.data, t->section.size);
	buf_clear(&t->section);
}

static struct buf *section_buf(struct table_writer *t)
{
	if (t->section.size >= BLOCK_BYTES)
		section_flush(t);
	return &t->section;
}

static void section_begin(struct table_writer *t, enum store_section_type type, uint32_t record)
{
	buf_u32(&t->table, type);
	buf_u32(&t->table, record);
	buf_u64(&t->table, t->writer->offset);
	t->n++;
	t->checksum = 0;
}

/* Adds size and checksum to the section's entry. */
static void section_end(struct table_writer *t, uint64_t begin)
{
	section_flush(t);
	buf_u64(&t->table, t->writer->offset - begin);
	buf_u32(&t->table, t->checksum);
	buf_u32(&t->table, 0);
}

static void write_bytes(struct table_writer *t, enum store_section_type type, const struct buf *bytes)
{
	uint64_t begin = t->writer->offset;

	section_begin(t, type, 0);
	buf_add(&t->section, bytes->data, bytes->size);
	section_end(t, begin);
}

static void write_functions(struct table_writer *t)
{
	const struct store_writer *w = t->writer;
	uint64_t begin = w->offset;

	section_begin(t, SECTION_FUNCTIONS, FUNCTION_SIZE);
	for (size_t i = 0; i < w->n_functions; i++) {
		struct buf *b = section_buf(t);

		buf_u32(b, w->functions[i].name);
		buf_u32(b, w->functions[i].image);
		buf_u64(b, w->functions[i].address);
		buf_u32(b, w->functions[i].kind);
		buf_u32(b, w->functions[i].line);
		buf_u32(b, w->functions[i].file);
		buf_u32(b, w->functions[i].build_id);
		buf_u64(b, w->functions[i].offset);
	}
	section_end(t, begin);
	begin = w->offset;
	section_begin(t, SECTION_TOTALS, TOTALS_SIZE);
	for (size_t i = 0; i < w->n_functions; i++) {
		const struct writer_function *f = &w->functions[i];
		struct buf *b = section_buf(t);

		/* A function that ran was called, even if its code has no entry. */
		buf_u64(b, f->calls ? f->calls : f->resumed);
		buf_u64(b, f->total_ns);
		buf_u64(b, f->self_ns);
		buf_u64(b, f->total_instructions);
		buf_u64(b, f->self_instructions);
		buf_u64(b, f->longest_ns);
		buf_u64(b, f->longest_enter);
		buf_u64(b, f->shortest_ns);
		buf_u32(b, f->longest_thread);
		buf_u32(b, f->calls_uncertain || (!f->calls && f->resumed) ? TOTALS_CALLS_UNCERTAIN : 0);
		buf_u64(b, f->wait_ns);
	}
	section_end(t, begin);
}

static void write_sites(struct table_writer *t)
{
	const struct store_writer *w = t->writer;
	uint64_t begin = w->offset;

	section_begin(t, SECTION_SITES, SITE_SIZE);
	for (size_t i = 0; i < w->n_sites; i++) {
		struct buf *b = section_buf(t);

		buf_u32(b, w->sites[i].function);
		buf_u32(b, w->sites[i].file);
		buf_u32(b, w->sites[i].line);
		buf_u32(b, 0);
	}
	section_end(t, begin);
}

static void write_times(struct table_writer *t)
{
	const struct store_writer *w = t->writer;
	uint64_t begin = w->offset;

	section_begin(t, SECTION_TIMES, 0);
	for (size_t i = 0; i < w->n_functions; i++) {
		const struct histogram *h = &w->functions[i].times;
		struct buf *b = section_buf(t);
		uint32_t classes = 0, last = 0;

		for (uint32_t k = 0; k < h->n; k++)
			classes += h->counts[k] != 0;
		buf_varint(b, classes);
		for (uint32_t k = 0; k < h->n; k++) {
			if (!h->counts[k])
				continue;
			buf_varint(b, h->first + k - last);
			buf_varint(b, h->counts[k]);
			last = h->first + k;
		}
	}
	section_end(t, begin);
}

static void write_threads(struct table_writer *t)
{
	const struct store_writer *w = t->writer;
	uint64_t begin = w->offset, blocks = 0, segments = 0;

	section_begin(t, SECTION_THREADS, THREAD_SIZE);
	for (size_t i = 0; i < w->n_threads; i++) {
		const struct writer_thread *th = w->threads[i];
		struct buf *b = section_buf(t);

		buf_u32(b, th->tid);
		buf_u32(b, th->name);
		buf_u64(b, th->first);
		buf_u64(b, th->last);
		buf_u64(b, th->events);
		buf_u64(b, th->slices);
		buf_u64(b, th->gaps);
		buf_u64(b, th->instructions);
		buf_u64(b, th->unexplained);
		buf_u64(b, th->bound);
		buf_u32(b, th->deepest);
		buf_u32(b, 0);
		buf_u64(b, blocks);
		buf_u64(b, th->blocks.size / BLOCK_SIZE);
		buf_u64(b, segments);
		buf_u64(b, th->n_segments);
		blocks += th->blocks.size / BLOCK_SIZE;
		segments += th->n_segments;
	}
	section_end(t, begin);
}

static void write_gaps(struct table_writer *t)
{
	const struct store_writer *w = t->writer;
	uint64_t begin = w->offset;

	section_begin(t, SECTION_GAPS, GAP_SIZE);
	for (size_t i = 0; i < w->n_threads; i++) {
		for (uint32_t kind = 0; kind < STORE_GAP_KINDS; kind++) {
			const struct store_gaps *g = &w->threads[i]->gaps_of[kind];
			struct buf *b = section_buf(t);

			if (!g->n)
				continue;
			buf_u32(b, (uint32_t)i);
			buf_u32(b, kind);
			buf_u64(b, g->n);
			buf_u64(b, g->ns);
		}
	}
	section_end(t, begin);
}

static void write_indexes(struct table_writer *t)
{
	const struct store_writer *w = t->writer;
	uint64_t begin = w->offset, roots = 0;

	section_begin(t, SECTION_BLOCKS, BLOCK_SIZE);
	for (size_t i = 0; i < w->n_threads; i++)
		buf_add(section_buf(t), w->threads[i]->blocks.data, w->threads[i]->blocks.size);
	section_end(t, begin);
	begin = w->offset;
	section_begin(t, SECTION_SEGMENTS, SEGMENT_SIZE);
	for (size_t i = 0; i < w->n_threads; i++) {
		const struct writer_thread *th = w->threads[i];

		for (size_t k = 0; k < th->n_segments; k++) {
			struct buf *b = section_buf(t);

			buf_u64(b, th->segments[k].time);
			buf_u64(b, th->segments[k].instructions);
			buf_u64(b, roots + th->segments[k].first_root);
			buf_u32(b, th->segments[k].n_roots);
			buf_u32(b, th->segments[k].uncertain);
			buf_u64(b, th->segments[k].waited);
			buf_u32(b, th->segments[k].again ? SEGMENT_IS_AGAIN : 0);
			buf_u32(b, 0);
		}
		roots += th->n_roots;
	}
	section_end(t, begin);
	begin = w->offset;
	section_begin(t, SECTION_ROOTS, ROOT_SIZE);
	for (size_t i = 0; i < w->n_threads; i++) {
		for (size_t k = 0; k < w->threads[i]->n_roots; k++)
			buf_u32(section_buf(t), w->threads[i]->roots[k]);
	}
	section_end(t, begin);
}

static void write_notes(struct table_writer *t)
{
	const struct store_writer *w = t->writer;
	uint64_t begin = w->offset;

	if (!w->n_notes)
		return;
	section_begin(t, SECTION_NOTES, NOTE_SIZE);
	for (size_t i = 0; i < w->n_notes; i++) {
		const struct writer_note *n = &w->notes[i];
		struct buf *b = section_buf(t);

		buf_u32(b, n->tid);
		buf_u32(b, n->label);
		buf_u32(b, n->kind);
		buf_u32(b, 0);
		buf_u64(b, n->time);
		buf_u64(b, n->until);
		buf_u64(b, (uint64_t)n->value);
	}
	section_end(t, begin);
}

int store_finish(struct store_writer *w)
{
	_cleanup_(table_writer_done) struct table_writer t = { .writer = w };
	struct store_header header = { .version = STORE_VERSION };

	for (size_t i = 0; i < w->n_threads; i++) {
		int rc = w->threads[i]->ended ? 0 : store_thread_end(w, (uint32_t)i, NULL);

		if (rc < 0)
			return rc;
	}
	t.error = store_place_notes(w);
	write_bytes(&t, SECTION_META, &w->meta);
	write_bytes(&t, SECTION_STRINGS, &w->strings.bytes);
	write_functions(&t);
	write_sites(&t);
	write_times(&t);
	write_threads(&t);
	write_gaps(&t);
	write_indexes(&t);
	write_notes(&t);
	header.table = w->offset;
	if (!t.error)
		t.error = buf_error(&t.table);
	if (!t.error)
		t.error = buf_error(&w->meta);
	if (!t.error)
		t.error = store_append(w, t.table.data, t.table.size);
	header.size = w->offset;
	header.sections = t.n;
	header.checksum = store_checksum(t.table.data, t.table.size);
	return t.error ? t.error : store_write_header(w->fd, &header);
}
