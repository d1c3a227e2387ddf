/* SPDX-License-Identifier: MIT */
/* Recovery of truncated stores: decodes the whole chunks and writes their events to a new store. */
#include <string.h>

#include "lib/base/array.h"
#include "lib/store/reader.h"

/* No block is larger, even with the deepest stack that lib/calls keeps. */
enum { CHUNK_MAX = 64 << 20 };

struct recovered_thread {
	uint32_t index; /* in the writer */
	uint32_t depth;
	uint64_t time, instructions;
	bool gap; /* the last event was one */
};

struct recovery {
	struct store *from;
	struct store_writer *writer;
	uint64_t at; /* offset of the next chunk */
	char *bytes; /* of the current chunk */
	size_t capacity;
	struct recovered_thread *threads;
	size_t n_threads, cap_threads;
	struct region **functions;
	size_t n_functions, cap_functions;
	struct inlined **sites;
	size_t n_sites, cap_sites;
	char **names; /* bytes of the NAMES chunks, which the regions point into */
	size_t n_names, cap_names;
};

struct chunk_head {
	uint32_t type, size, leaves_size, thread;
	uint64_t time;
};

static void recovery_done(struct recovery *r)
{
	for (size_t i = 0; i < r->n_functions; i++)
		free(r->functions[i]);
	free(r->functions);
	for (size_t i = 0; i < r->n_sites; i++)
		free(r->sites[i]);
	free(r->sites);
	for (size_t i = 0; i < r->n_names; i++)
		free(r->names[i]);
	free(r->names);
	free(r->threads);
	free(r->bytes);
	store_writer_free(r->writer);
	store_close(r->from);
}

/* Reads the next chunk. Returns 1 if it is whole, 0 if it is not or the file ends. */
static int read_chunk(struct recovery *r, struct chunk_head *ret)
{
	uint8_t head[CHUNK_HEAD_SIZE];
	struct reader in = reader_of(head, sizeof(head));
	uint32_t magic = 0, checksum = 0, zero, mine = 0;
	int rc = store_read_at(r->from, r->at, head, sizeof(head));

	if (rc < 0)
		return rc == -EBADMSG ? 0 : rc;
	rd_u32(&in, &magic);
	rd_u32(&in, &ret->type);
	rd_u32(&in, &ret->size);
	rd_u32(&in, &ret->leaves_size);
	rd_u32(&in, &checksum);
	rd_u32(&in, &zero);
	rd_u32(&in, &ret->thread);
	rd_u32(&in, &zero);
	rd_u64(&in, &ret->time);
	rd_u32(&in, &zero);
	rd_u32(&in, &mine);
	if (magic != CHUNK_MAGIC || mine != store_checksum(head, sizeof(head) - sizeof(mine)) || ret->size > CHUNK_MAX)
		return 0;
	if (ret->size + 1u > r->capacity) {
		char *bytes = realloc(r->bytes, ret->size + 1u);

		if (!bytes)
			return -ENOMEM;
		r->bytes = bytes;
		r->capacity = ret->size + 1u;
	}
	rc = store_read_checked(r->from, r->at + sizeof(head), r->bytes, ret->size, checksum);
	if (rc < 0)
		return rc == -EBADMSG ? 0 : rc;
	r->bytes[ret->size] = '\0';
	return 1;
}

static int add_thread(struct recovery *r, struct reader *in)
{
	struct recovered_thread t = { 0 };
	uint64_t tid;
	const char *name;
	int rc;

	if (rd_varint(in, &tid) < 0 || tid > UINT32_MAX || rd_str(in, &name) < 0)
		return -EBADMSG;
	rc = store_thread_add(r->writer, (uint32_t)tid, name, &t.index);
	if (rc == 0)
		rc = array_reserve(r->threads, r->n_threads, &r->cap_threads);
	if (rc == 0)
		r->threads[r->n_threads++] = t;
	return rc;
}

static int add_function(struct recovery *r, struct reader *in)
{
	struct region f = { .id = (uint32_t)r->n_functions };
	uint64_t kind, line;

	if (rd_varint(in, &f.start) < 0 || rd_varint(in, &kind) < 0 || kind > REGION_PREEMPTED ||
	    rd_varint(in, &line) < 0 || line > UINT32_MAX || rd_varint(in, &f.offset) < 0 || rd_str(in, &f.name) < 0 ||
	    rd_str(in, &f.image) < 0 || rd_str(in, &f.file) < 0 || rd_str(in, &f.build_id) < 0)
		return -EBADMSG;
	f.kind = (enum region_kind)kind;
	f.line = (uint32_t)line;
	if (array_reserve(r->functions, r->n_functions, &r->cap_functions) < 0)
		return -ENOMEM;
	/* Allocated one by one, since the writer identifies them by address. */
	r->functions[r->n_functions] = malloc(sizeof(f));
	if (!r->functions[r->n_functions])
		return -ENOMEM;
	*r->functions[r->n_functions++] = f;
	return 0;
}

static int add_site(struct recovery *r, struct reader *in)
{
	/* Whether calls are certain is known only at the end of a decode. */
	struct inlined s = { .depth = 1, .uncertain = true };
	uint64_t function, line;

	if (rd_varint(in, &function) < 0 || function >= r->n_functions || rd_varint(in, &line) < 0 ||
	    line > UINT32_MAX || rd_str(in, &s.call_file) < 0)
		return -EBADMSG;
	s.function = r->functions[function];
	s.call_line = (uint32_t)line;
	if (array_reserve(r->sites, r->n_sites, &r->cap_sites) < 0)
		return -ENOMEM;
	r->sites[r->n_sites] = malloc(sizeof(s));
	if (!r->sites[r->n_sites])
		return -ENOMEM;
	*r->sites[r->n_sites++] = s;
	return 0;
}

static int recover_names(struct recovery *r, const struct chunk_head *c)
{
	int rc = array_reserve(r->names, r->n_names, &r->cap_names);
	struct reader in;
	uint64_t n;

	if (rc < 0)
		return rc;
	r->names[r->n_names++] = r->bytes;
	in = reader_of(r->bytes, c->size);
	r->bytes = NULL;
	r->capacity = 0;
	rc = rd_varint(&in, &n);
	for (; rc == 0 && n; n--)
		rc = add_thread(r, &in);
	if (rc == 0)
		rc = rd_varint(&in, &n);
	for (; rc == 0 && n; n--)
		rc = add_function(r, &in);
	if (rc == 0)
		rc = rd_varint(&in, &n);
	for (; rc == 0 && n; n--)
		rc = add_site(r, &in);
	return rc;
}

static int resolve_event_name(const struct recovery *r, uint64_t number, bool inlined, struct call_event *e)
{
	if (number >= (inlined ? r->n_sites : r->n_functions))
		return -EBADMSG;
	e->inlined = inlined ? r->sites[number] : NULL;
	e->function = inlined ? e->inlined->function : r->functions[number];
	return 0;
}

static int recover_event(struct recovery *r, struct recovered_thread *t, const struct written_event *w)
{
	struct call_event e = { .bound = UINT64_MAX, .time = t->time, .instructions = t->instructions };
	bool inlined = false;
	uint64_t number;
	int rc = 0;

	if (__builtin_add_overflow(t->time, w->time, &e.time) ||
	    __builtin_add_overflow(t->instructions, w->instructions, &e.instructions))
		return -EBADMSG;
	switch (w->code) {
	case CODE_CALL:
		e.type = CALL_EVENT_ENTER;
		rc = resolve_event_name(r, w->value, false, &e);
		break;
	case CODE_ENTER:
		e.type = CALL_EVENT_ENTER;
		number = store_unpack(r->from->layout, w->value, &inlined, &e.kind);
		e.kind = inlined && e.kind == CALL_PLAIN ? CALL_INLINED : store_kind_now(r->from->layout, e.kind);
		rc = resolve_event_name(r, number, inlined, &e);
		break;
	case CODE_ROOT:
		e.type = CALL_EVENT_ROOT;
		e.kind = CALL_INFERRED;
		rc = resolve_event_name(r, w->value >> 1, w->value & 1, &e);
		break;
	case CODE_RETURN:
	case CODE_LEAVE:
		e.type = CALL_EVENT_LEAVE;
		e.kind = w->code == CODE_RETURN ? LEAVE_RETURN : (uint8_t)MIN(w->value, UINT8_MAX);
		t->depth--;
		break;
	case CODE_NOTE:
		/* Readers refuse a mark of an unknown kind. */
		if (w->value & 1 && w->value >> 1 >= MARK_KINDS)
			return -EBADMSG;
		e.type = w->value & 1 ? CALL_EVENT_MARK : CALL_EVENT_GAP;
		e.kind = (uint8_t)MIN(w->value >> 1, UINT8_MAX);
		break;
	case CODE_SEGMENT:
		e.type = CALL_EVENT_SEGMENT;
		break;
	default:
		return -EBADMSG;
	}
	if (rc < 0)
		return rc;
	t->gap = e.type == CALL_EVENT_GAP;
	t->depth += e.type == CALL_EVENT_ENTER || e.type == CALL_EVENT_ROOT;
	t->time = e.time;
	t->instructions = e.instructions;
	return store_event(r->writer, t->index, &e);
}

/* Adds a move as single leaves and enters. */
static int recover_move(struct recovery *r, struct recovered_thread *t, struct written_event move, struct reader *sites)
{
	const struct store_layout *layout = r->from->layout;
	uint64_t left = move.value >> layout->move_shift, entered = move.value & MOVE_MAX, site;
	enum call_kind kind = layout->resumed && move.value & MOVE_RESUMED ? CALL_RESUMED : CALL_PLAIN;
	int rc = 0;

	for (move.code = CODE_RETURN; rc == 0 && left; left--) {
		rc = recover_event(r, t, &move);
		move.time = move.instructions = 0;
	}
	for (move.code = CODE_ENTER; rc == 0 && entered; entered--) {
		if (rd_varint(sites, &site) < 0 || site >= r->n_sites)
			return -EBADMSG;
		move.value = (site << 1 | 1) << layout->kind_bits | kind;
		rc = recover_event(r, t, &move);
		move.time = move.instructions = 0;
	}
	return rc;
}

static int recover_block(struct recovery *r, const struct chunk_head *c)
{
	struct reader in = reader_of(r->bytes, c->size);
	struct recovered_thread *t = c->thread < r->n_threads ? &r->threads[c->thread] : NULL;
	bool waits = r->from->layout->waits;
	struct written_event e;
	uint64_t depth, frame, waited;
	int rc = 0;

	if (!t || rd_varint(&in, &t->instructions) < 0 || (waits && rd_varint(&in, &waited) < 0) ||
	    rd_varint(&in, &depth) < 0 || depth != t->depth)
		return -EBADMSG;
	t->time = c->time;
	/* The stack at the block's start repeats the state at the end of the block before. */
	for (depth *= waits ? 4 : 3; rc == 0 && depth; depth--)
		rc = rd_varint(&in, &frame);
	while (rc == 0 && rd_left(&in)) {
		rc = store_read_event(&in, &e);
		if (rc == 0)
			rc = e.code == CODE_MOVE ? recover_move(r, t, e, &in) : recover_event(r, t, &e);
	}
	return rc;
}

static int recover_description(struct recovery *r, const struct chunk_head *c, int to)
{
	struct store description = { .meta = r->bytes, .meta_size = c->size, .layout = r->from->layout };
	const struct store_meta meta = store_meta_all(&description);

	return store_create(to, &meta, &r->writer);
}

static int recover_chunk(struct recovery *r, const struct chunk_head *c, int to)
{
	if (!r->writer)
		return c->type == CHUNK_DESCRIPTION ? recover_description(r, c, to) : -EBADMSG;
	switch (c->type) {
	case CHUNK_NAMES:
		return recover_names(r, c);
	case CHUNK_BLOCK:
		return recover_block(r, c);
	default:
		return -EBADMSG;
	}
}

/* What followed the whole chunks is missing in each thread. */
static int close_threads(struct recovery *r)
{
	const struct written_event leave = { .code = CODE_LEAVE, .value = LEAVE_GAP },
				   gap = { .code = CODE_NOTE, .value = GAP_TRUNCATED << 1 };
	int rc = 0;

	for (size_t i = 0; i < r->n_threads; i++) {
		struct recovered_thread *t = &r->threads[i];

		while (rc == 0 && t->depth)
			rc = recover_event(r, t, &leave);
		if (rc == 0 && !t->gap)
			rc = recover_event(r, t, &gap);
	}
	return rc;
}

int store_recover(int fd, int to, uint64_t *ret_end)
{
	_cleanup_(recovery_done) struct recovery r = { .from = calloc(1, sizeof(*r.from)), .at = STORE_HEADER_SIZE };
	uint8_t header[STORE_HEADER_SIZE];
	struct reader rest;
	struct chunk_head c;
	int rc;

	if (!r.from)
		return -ENOMEM;
	r.from->fd = fd;
	rc = store_read_header(r.from, &rest, header);
	if (rc < 0)
		return rc;
	while ((rc = read_chunk(&r, &c)) == 1) {
		rc = recover_chunk(&r, &c, to);
		if (rc < 0)
			break;
		r.at += CHUNK_HEAD_SIZE + (uint64_t)c.size + c.leaves_size;
	}
	/* A chunk with a right checksum and impossible contents was not written by this program. */
	if (rc < 0)
		return rc == -EINVAL ? -EBADMSG : rc;
	if (!r.writer)
		return -ENODATA;
	rc = close_threads(&r);
	*ret_end = MIN(r.at, r.from->size);
	return rc == 0 ? store_finish(r.writer) : rc;
}
