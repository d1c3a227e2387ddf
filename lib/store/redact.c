/* SPDX-License-Identifier: MIT */
/*
 * Redaction: a copy of a store without what identifies a user or machine. Blocks and tables of numbers are copied
 * unchanged; everything that has text is written anew from what may remain, so that nothing else can be left in the
 * file.
 */
#include <string.h>

#include "lib/base/io.h"
#include "lib/base/texts.h"
#include "lib/store/reader.h"

enum { COPY_BYTES = 1 << 20 };

struct redaction {
	const struct store *from;
	int to;
	uint64_t size; /* bytes written so far */
	struct buf meta, names, table, section;
	struct texts strings;
	const struct stored_block **order; /* the blocks as they are in the file */
	uint64_t *offsets;                 /* of each block in the new file */
	uint32_t sections;
};

static void redaction_done(struct redaction *r)
{
	buf_done(&r->meta);
	buf_done(&r->names);
	buf_done(&r->table);
	buf_done(&r->section);
	texts_done(&r->strings);
	free(r->order);
	free(r->offsets);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* True for the name of an operator, of which the slash is a part. */
static bool is_operator(const char *name, const char *slash)
{
	static const char operator[] = "operator";
	size_t n = sizeof(operator) - 1;

	return (size_t)(slash - name) >= n && memcmp(slash - n, operator, n) == 0;
}

char *store_redact_name(const char *name)
{
	static const char delimiters[] = " \t\"'`([{<,;=|@";
	char *copy = strdup(name), *slash = copy, *begin, *last;

	while (slash && (slash = strchr(slash, '/'))) {
		if (is_operator(copy, slash)) {
			slash++;
			continue;
		}
		begin = slash;
		while (begin > copy && !strchr(delimiters, begin[-1]))
			begin--;
		/* Of an absolute path, directories may have spaces; of a relative one, all up to the next delimiter
		 * goes. */
		last = begin == slash ? strrchr(slash, '/') : slash;
		memmove(begin, last + 1, strlen(last + 1) + 1);
		slash = begin;
	}
	return copy;
}

/*
 * How the process ended, such as "died of SIGSEGV in walk at crash.c:7, called by main". Returns a new text. Files have
 * no directories; those of the function end before its caller.
 */
static char *redact_ending(const char *text)
{
	static const char caller[] = ", called by ";
	const char *next = strstr(text, caller);
	_cleanup_free_ char *first = next ? strndup(text, (size_t)(next - text)) : NULL,
			    *before = first ? store_redact_name(first) : NULL,
			    *after = before ? store_redact_name(next + strlen(caller)) : NULL;
	char *to = NULL;

	if (!next)
		return store_redact_name(text);
	return after && asprintf(&to, "%s%s%s", before, caller, after) >= 0 ? to : NULL;
}

static void put_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

static int put_ending(void *user, const char *text, uint32_t tid)
{
	struct redaction *r = user;
	_cleanup_free_ char *ending = redact_ending(text);
	char number[16];

	if (!ending)
		return -ENOMEM;
	snprintf(number, sizeof(number), "%u", (unsigned)tid);
	put_text(&r->meta, "ended");
	put_text(&r->meta, ending);
	put_text(&r->meta, "ended_thread");
	put_text(&r->meta, number);
	return 0;
}

static int put_process(void *user, const struct store_process *p)
{
	struct redaction *r = user;
	char pid[16], thread[16];

	snprintf(pid, sizeof(pid), "%u", (unsigned)p->pid);
	snprintf(thread, sizeof(thread), "%u", (unsigned)p->first_thread);
	put_text(&r->meta, "process");
	put_text(&r->meta, pid);
	put_text(&r->meta, "process_thread");
	put_text(&r->meta, thread);
	put_text(&r->meta, "process_program");
	put_text(&r->meta, "program");
	return 0;
}

/* Keeps what has neither names nor paths. */
static int make_meta(struct redaction *r)
{
	static const char *const kept[] = { "pid",      "program",   "source", "id",        "clock",
					    "realtime", "monotonic", "waits",  "unrecorded" };
	int rc;

	for (size_t i = 0; i < ELEMENTS(kept); i++) {
		const char *value = store_meta(r->from, kept[i]);

		if (!value)
			continue;
		put_text(&r->meta, kept[i]);
		put_text(&r->meta, strcmp(kept[i], "program") == 0 ? "program" : base_name(value));
	}
	store_processes(r->from, put_process, r);
	rc = store_endings(r->from, put_ending, r);
	return rc < 0 ? rc : buf_error(&r->meta);
}

static int redaction_write(struct redaction *r, const void *data, size_t size)
{
	int rc = io_pwrite(r->to, data, size, (off_t)r->size);

	r->size += size;
	return rc;
}

/* Adds a text to the names of the chunk and the strings of the sections. */
static int put_name(struct redaction *r, const char *text, bool in_section)
{
	uint32_t at = 0;
	int rc = in_section ? texts_find(&r->strings, text, &at) : 0;

	if (in_section)
		buf_u32(&r->section, at);
	else
		put_text(&r->names, text);
	return rc;
}

/* Returns a new text: the name of a function without paths; "[anon]" for memory, whose name is of a mapping. */
static char *function_text(const struct store_function *f)
{
	return f->kind == REGION_ANON ? strdup("[anon]") : store_redact_name(f->name);
}

static int put_function(struct redaction *r, const struct store_function *f, bool in_section)
{
	_cleanup_free_ char *name = function_text(f);
	int rc = name ? 0 : -ENOMEM;

	if (rc == 0 && !in_section) {
		buf_varint(&r->names, f->address);
		buf_varint(&r->names, f->kind);
		buf_varint(&r->names, f->line);
		buf_varint(&r->names, f->offset);
	}
	if (rc == 0)
		rc = put_name(r, name, in_section);
	if (rc == 0)
		rc = put_name(r, base_name(f->image), in_section);
	if (rc == 0 && in_section) {
		buf_u64(&r->section, f->address);
		buf_u32(&r->section, f->kind);
		buf_u32(&r->section, f->line);
	}
	if (rc == 0)
		rc = put_name(r, base_name(f->file), in_section);
	if (rc == 0)
		rc = put_name(r, f->build_id, in_section);
	if (rc == 0 && in_section)
		buf_u64(&r->section, f->offset);
	return rc;
}

/* Makes one chunk with all names, in the order of the tables. */
static int make_names(struct redaction *r)
{
	const struct store *s = r->from;
	int rc = 0;

	buf_varint(&r->names, s->n_threads);
	for (size_t i = 0; i < s->n_threads; i++) {
		buf_varint(&r->names, s->threads[i].shown.tid);
		put_text(&r->names, "thread");
	}
	buf_varint(&r->names, s->n_functions);
	for (size_t i = 0; rc == 0 && i < s->n_functions; i++)
		rc = put_function(r, &s->functions[i], false);
	buf_varint(&r->names, s->n_sites);
	for (size_t i = 0; i < s->n_sites; i++) {
		buf_varint(&r->names, s->sites[i].function);
		buf_varint(&r->names, s->sites[i].line);
		put_text(&r->names, base_name(s->sites[i].file));
	}
	return rc == 0 ? buf_error(&r->names) : rc;
}

static int write_chunk(struct redaction *r, enum store_chunk_type type, const struct buf *chunk)
{
	_cleanup_buf_ struct buf head = { 0 };
	int rc;

	buf_u32(&head, CHUNK_MAGIC);
	buf_u32(&head, type);
	buf_u32(&head, (uint32_t)chunk->size);
	buf_u32(&head, 0);
	buf_u32(&head, store_checksum(chunk->data, chunk->size));
	buf_zero(&head, CHUNK_HEAD_SIZE - 4 - head.size);
	buf_u32(&head, store_checksum(head.data, head.size));
	rc = buf_error(&head);
	if (rc == 0)
		rc = redaction_write(r, head.data, head.size);
	return rc == 0 ? redaction_write(r, chunk->data, chunk->size) : rc;
}

static int copy_bytes(struct redaction *r, uint64_t offset, uint64_t size)
{
	_cleanup_free_ char *bytes = malloc(COPY_BYTES);
	int rc = bytes ? 0 : -ENOMEM;

	while (rc == 0 && size) {
		size_t n = (size_t)MIN(size, (uint64_t)COPY_BYTES);

		rc = store_read_at(r->from, offset, bytes, n);
		if (rc == 0)
			rc = redaction_write(r, bytes, n);
		offset += n;
		size -= n;
	}
	return rc;
}

static int compare_offsets(const void *left, const void *right)
{
	const struct stored_block *a = *(const struct stored_block *const *)left,
				  *b = *(const struct stored_block *const *)right;

	return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Checks that the bytes to copy are a block: a block has numbers only, other bytes of the file may be names. */
static int check_head(const struct store *s, const struct stored_block *b)
{
	uint8_t head[CHUNK_HEAD_SIZE];
	struct reader r = reader_of(head, sizeof(head));
	uint32_t magic = 0, type = 0, size = 0, leaves = 0;
	int rc = b->offset < sizeof(head) ? -EBADMSG : store_read_at(s, b->offset - sizeof(head), head, sizeof(head));

	rd_u32(&r, &magic);
	rd_u32(&r, &type);
	rd_u32(&r, &size);
	rd_u32(&r, &leaves);
	if (rc == 0 && (magic != CHUNK_MAGIC || type != CHUNK_BLOCK || size != b->size || leaves != b->leaves_size))
		rc = -EBADMSG;
	return rc;
}

/* Copies the blocks with their heads and lists, in the order of the file. */
static int copy_blocks(struct redaction *r)
{
	const struct store *s = r->from;
	int rc = 0;

	r->order = calloc(s->n_blocks + 1, sizeof(*r->order));
	r->offsets = calloc(s->n_blocks + 1, sizeof(*r->offsets));
	if (!r->order || !r->offsets)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_blocks; i++)
		r->order[i] = &s->blocks[i];
	qsort(r->order, s->n_blocks, sizeof(*r->order), compare_offsets);
	for (size_t i = 0; rc == 0 && i < s->n_blocks; i++) {
		const struct stored_block *b = r->order[i];

		rc = check_head(s, b);
		if (rc < 0)
			return rc;
		r->offsets[b - s->blocks] = r->size + CHUNK_HEAD_SIZE;
		rc = copy_bytes(r, b->offset - CHUNK_HEAD_SIZE, (uint64_t)CHUNK_HEAD_SIZE + b->size + b->leaves_size);
	}
	return rc;
}

/* Writes what is in r->section as a section; it is empty then. */
static int end_section(struct redaction *r, enum store_section_type type, uint32_t record)
{
	int rc = buf_error(&r->section);

	buf_u32(&r->table, type);
	buf_u32(&r->table, record);
	buf_u64(&r->table, r->size);
	buf_u64(&r->table, r->section.size);
	buf_u32(&r->table, store_checksum(r->section.data, r->section.size));
	buf_u32(&r->table, 0);
	r->sections++;
	if (rc == 0)
		rc = redaction_write(r, r->section.data, r->section.size);
	buf_clear(&r->section);
	return rc;
}

/* Copies a section that has only numbers. */
static int copy_section(struct redaction *r, enum store_section_type type)
{
	const struct stored_section *old = &r->from->sections[type];
	/* A byte more, as there may be none. */
	uint8_t *to = buf_reserve(&r->section, old->size + 1);
	int rc = to ? store_read_checked(r->from, old->offset, to, old->size, old->checksum) : -ENOMEM;

	if (rc < 0)
		return rc;
	buf_grew(&r->section, old->size);
	return end_section(r, type, old->record);
}

static int write_functions(struct redaction *r)
{
	const struct store *s = r->from;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->n_functions; i++)
		rc = put_function(r, &s->functions[i], true);
	if (rc == 0)
		rc = end_section(r, SECTION_FUNCTIONS, FUNCTION_SIZE);
	for (size_t i = 0; rc == 0 && i < s->n_sites; i++) {
		buf_u32(&r->section, s->sites[i].function);
		rc = put_name(r, base_name(s->sites[i].file), true);
		buf_u32(&r->section, s->sites[i].line);
		buf_u32(&r->section, 0);
	}
	return rc == 0 ? end_section(r, SECTION_SITES, SITE_SIZE) : rc;
}

static int write_threads(struct redaction *r)
{
	const struct store *s = r->from;
	struct buf *b = &r->section;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->n_threads; i++) {
		const struct stored_thread *t = &s->threads[i];

		buf_u32(b, t->shown.tid);
		rc = put_name(r, "thread", true);
		buf_u64(b, t->shown.first);
		buf_u64(b, t->shown.last);
		buf_u64(b, t->shown.events);
		buf_u64(b, t->shown.slices);
		buf_u64(b, t->shown.gaps);
		buf_u64(b, t->shown.instructions);
		buf_u64(b, t->shown.unexplained);
		buf_u64(b, t->shown.bound);
		buf_u32(b, t->shown.deepest);
		buf_u32(b, 0);
		buf_u64(b, t->first_block);
		buf_u64(b, t->n_blocks);
		buf_u64(b, t->first_segment);
		buf_u64(b, t->n_segments);
	}
	return rc == 0 ? end_section(r, SECTION_THREADS, THREAD_SIZE) : rc;
}

static int write_blocks(struct redaction *r)
{
	struct buf *out = &r->section;

	for (size_t i = 0; i < r->from->n_blocks; i++) {
		const struct stored_block *b = &r->from->blocks[i];

		buf_u64(out, r->offsets[i]);
		buf_u32(out, b->size);
		buf_u32(out, b->events);
		buf_u64(out, b->first);
		buf_u64(out, b->last);
		buf_u64(out, b->slices);
		buf_u64(out, b->bound);
		buf_u64(out, b->segments);
		buf_u32(out, b->roots);
		buf_u32(out, b->leaves_size);
		buf_u32(out, b->checksum);
		buf_u32(out, b->leaves_checksum);
	}
	return end_section(r, SECTION_BLOCKS, BLOCK_SIZE);
}

/* perf's names of events may have a text of the user, as in cycles/name=TEXT/. */
static const char *counter_label(const char *label)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.: ()";

	return label[strspn(label, plain)] ? "counter" : label;
}

/* Writes the notes with "note" or "span" in place of labels that the program chose. */
static int write_notes(struct redaction *r)
{
	struct buf *b = &r->section;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->from->n_notes; i++) {
		const struct store_note *n = &r->from->notes[i];

		buf_u32(b, n->tid);
		rc = put_name(r,
			      n->kind == STORE_NOTE_COUNTER ? counter_label(n->label)
			      : n->kind == STORE_NOTE_POINT ? "note"
							    : "span",
			      true);
		buf_u32(b, n->kind);
		buf_u32(b, 0);
		buf_u64(b, n->time);
		buf_u64(b, n->until);
		buf_u64(b, (uint64_t)n->value);
	}
	return rc == 0 && r->from->n_notes ? end_section(r, SECTION_NOTES, NOTE_SIZE) : rc;
}

static int write_sections(struct redaction *r)
{
	static const enum store_section_type numbers[] = { SECTION_TOTALS, SECTION_TIMES, SECTION_SEGMENTS,
							   SECTION_ROOTS, SECTION_GAPS };
	int rc = write_functions(r);

	if (rc == 0)
		rc = write_threads(r);
	if (rc == 0)
		rc = write_notes(r);
	if (rc == 0)
		rc = write_blocks(r);
	for (size_t i = 0; rc == 0 && i < ELEMENTS(numbers); i++)
		rc = copy_section(r, numbers[i]);
	if (rc < 0)
		return rc;
	buf_add(&r->section, r->meta.data, r->meta.size);
	rc = end_section(r, SECTION_META, 0);
	buf_add(&r->section, r->strings.bytes.data, r->strings.bytes.size);
	return rc == 0 ? end_section(r, SECTION_STRINGS, 0) : rc;
}

static int finish(struct redaction *r)
{
	struct store_header header = { .version = r->from->version, .table = r->size, .sections = r->sections };
	int rc = buf_error(&r->table);

	if (rc == 0)
		rc = redaction_write(r, r->table.data, r->table.size);
	header.size = r->size;
	header.checksum = store_checksum(r->table.data, r->table.size);
	return rc == 0 ? store_write_header(r->to, &header) : rc;
}

int store_redact(const struct store *s, int to)
{
	_cleanup_(redaction_done) struct redaction r = { .from = s, .to = to, .size = STORE_HEADER_SIZE };
	int rc;

	r.names.limit = r.strings.bytes.limit = UINT32_MAX / 2;
	rc = make_meta(&r);
	if (rc == 0)
		rc = make_names(&r);
	if (rc == 0)
		rc = write_chunk(&r, CHUNK_DESCRIPTION, &r.meta);
	if (rc == 0)
		rc = write_chunk(&r, CHUNK_NAMES, &r.names);
	if (rc == 0)
		rc = copy_blocks(&r);
	if (rc == 0)
		rc = write_sections(&r);
	return rc == 0 ? finish(&r) : rc;
}
