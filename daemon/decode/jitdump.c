/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/decode/jitdump.h"
#include "lib/base/array.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum {
	PIECES_MAX = 1 << 20,
	NAMES_MAX = 64 << 20,
	RECORD_MAX = 16 << 20, /* longer records are skipped */
	MAGIC = 0x4a695444,
	RECORD_LOAD = 0,
	RECORD_MOVE = 1,
	ARCH_TIME = 1, /* flag: its times are of an unknown clock */
	HEADER_SIZE = 40,
	HEAD_SIZE = 16, /* of a record */
};

struct parser {
	int fd;
	int64_t shift;
	uint64_t at;   /* offset of the next record */
	uint8_t *body; /* of a record */
	size_t body_capacity;
	struct hash latest; /* number of the latest piece with an index */
	struct jitdump dump;
};

void jitdump_done(struct jitdump *j)
{
	free(j->pieces);
	buf_done(&j->names);
	*j = (struct jitdump){ 0 };
}

static void parser_done(struct parser *p)
{
	free(p->body);
	hash_done(&p->latest);
	jitdump_done(&p->dump);
}

static int add_piece(struct parser *p, const struct jitdump_piece *piece)
{
	struct jitdump *d = &p->dump;
	uint32_t *latest;

	if (d->n >= PIECES_MAX)
		return -EFBIG;
	if (array_reserve(d->pieces, d->n, &d->capacity) < 0 || hash_find(&p->latest, piece->index, 0, &latest) < 0)
		return -ENOMEM;
	*latest = (uint32_t)d->n;
	d->pieces[d->n++] = *piece;
	return 0;
}

/*
 * JIT_CODE_LOAD: u32 pid, u32 tid, virtual address, address, size, index; then the name and the code. end: of the
 * record in the file.
 */
static int read_load(struct parser *p, struct reader *r, uint64_t time, uint64_t end)
{
	struct jitdump_piece piece = { .time = time };
	const char *name;

	if (rd_skip(r, 16) < 0 || rd_u64(r, &piece.start) < 0 || rd_u64(r, &piece.size) < 0 ||
	    rd_u64(r, &piece.index) < 0 || rd_str(r, &name) < 0 || piece.size > rd_left(r) ||
	    piece.size > INT64_MAX - piece.start)
		return -EBADMSG;
	piece.offset = end - rd_left(r);
	piece.name = (uint32_t)p->dump.names.size;
	buf_add(&p->dump.names, name, strlen(name) + 1);
	return add_piece(p, &piece);
}

/* JIT_CODE_MOVE: u32 pid, u32 tid, virtual address, old address, new address, size, index. */
static int read_move(struct parser *p, struct reader *r, uint64_t time)
{
	struct jitdump_piece piece = { .time = time };
	uint32_t *latest;
	int rc;

	if (rd_skip(r, 24) < 0 || rd_u64(r, &piece.start) < 0 || rd_u64(r, &piece.size) < 0 ||
	    rd_u64(r, &piece.index) < 0 || piece.start > INT64_MAX)
		return -EBADMSG;
	rc = hash_find(&p->latest, piece.index, 0, &latest);
	if (rc < 0)
		return rc;
	if (rc == 1)
		*latest = UINT32_MAX;
	if (*latest == UINT32_MAX)
		return 0;
	piece.offset = p->dump.pieces[*latest].offset;
	piece.name = p->dump.pieces[*latest].name;
	piece.size = MIN(piece.size, p->dump.pieces[*latest].size);
	return piece.size > INT64_MAX - piece.start ? -EBADMSG : add_piece(p, &piece);
}

/* Sets p->at to the first record. -EAGAIN: the program had not written the header. */
static int read_header(struct parser *p)
{
	uint8_t header[HEADER_SIZE];
	ssize_t got = io_pread(p->fd, header, sizeof(header), 0);
	struct reader r = reader_of(header, got > 0 ? (size_t)got : 0);
	uint32_t magic, version, size;
	uint64_t flags;

	if (got < (ssize_t)sizeof(header))
		return -EAGAIN;
	if (rd_u32(&r, &magic) < 0 || rd_u32(&r, &version) < 0 || rd_u32(&r, &size) < 0 || rd_skip(&r, 20) < 0 ||
	    rd_u64(&r, &flags) < 0)
		return -EBADMSG;
	if (magic != MAGIC || version != 1 || size < sizeof(header) || size > RECORD_MAX || flags & ARCH_TIME)
		return -EBADMSG;
	p->at = size;
	return 0;
}

static int reserve_body(struct parser *p, size_t size)
{
	uint8_t *body = size > p->body_capacity ? realloc(p->body, size) : p->body;

	if (!body && size)
		return -ENOMEM;
	p->body = body;
	p->body_capacity = MAX(p->body_capacity, size);
	return 0;
}

/* Parses the record at p->at. -EAGAIN: the file does not contain all of it. */
static int read_record(struct parser *p)
{
	uint8_t head[HEAD_SIZE];
	ssize_t got = io_pread(p->fd, head, sizeof(head), p->at);
	struct reader r = reader_of(head, got > 0 ? (size_t)got : 0);
	uint32_t type, size;
	uint64_t time;
	int rc = 0;

	if (got < (ssize_t)sizeof(head))
		return -EAGAIN;
	if (rd_u32(&r, &type) < 0 || rd_u32(&r, &size) < 0 || rd_u64(&r, &time) < 0 || size < sizeof(head))
		return -EBADMSG;
	if ((type == RECORD_LOAD || type == RECORD_MOVE) && size <= RECORD_MAX) {
		size_t left = size - sizeof(head);

		rc = reserve_body(p, left);
		if (rc < 0)
			return rc;
		got = io_pread(p->fd, p->body, left, p->at + sizeof(head));
		if (got != (ssize_t)left)
			return -EAGAIN;
		r = reader_of(p->body, left);
		time += (uint64_t)p->shift;
		rc = type == RECORD_LOAD ? read_load(p, &r, time, p->at + size) : read_move(p, &r, time);
	}
	p->at += size;
	return rc;
}

int jitdump_read(int fd, int64_t shift, struct jitdump *ret)
{
	_cleanup_(parser_done) struct parser p = { .fd = fd, .shift = shift, .dump.names.limit = NAMES_MAX };
	int rc = read_header(&p);

	while (rc == 0)
		rc = read_record(&p);
	if (rc == -ENOMEM)
		return rc;
	p.dump.broken = rc != -EAGAIN;
	*ret = p.dump;
	p.dump = (struct jitdump){ 0 };
	return 0;
}

/* The unreadable rest may describe new code at any address at which there was code before. */
static int hide_later_code(const struct jitdump *j, struct image_set *images, uint32_t pid)
{
	uint64_t last = 0;
	int rc = 0;

	for (size_t i = 0; i < j->n; i++)
		last = MAX(last, j->pieces[i].time);
	for (size_t i = 0; i < j->n && rc == 0; i++)
		rc = image_map(images, pid,
			       &(struct image_mapping){ .addr = j->pieces[i].start,
							.len = j->pieces[i].size,
							.time = MIN(last, UINT64_MAX - 2) + 1,
							.file = IMAGE_UNKNOWN });
	return rc;
}

int jitdump_add(const struct jitdump *j, int fd, struct image_set *images, uint32_t pid)
{
	_cleanup_free_ struct image_mapping *pieces = calloc(j->n + 1, sizeof(*pieces));
	int rc;

	if (!pieces)
		return -ENOMEM;
	for (size_t i = 0; i < j->n; i++)
		pieces[i] = (struct image_mapping){ .addr = j->pieces[i].start,
						    .len = j->pieces[i].size,
						    .offset = j->pieces[i].offset,
						    .time = j->pieces[i].time };
	rc = image_add_generated(images, pid, fd, pieces, j->n);
	return rc == 0 && j->broken ? hide_later_code(j, images, pid) : rc;
}

static int compare_pieces(const void *left, const void *right)
{
	const struct jitdump_piece *a = *(struct jitdump_piece *const *)left,
				   *b = *(struct jitdump_piece *const *)right;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a > b) - (a < b);
}

int jitdump_take_names(struct jitdump *j, struct symbols **ret)
{
	_cleanup_free_ const struct jitdump_piece **list = calloc(j->n + 1, sizeof(*list));
	_cleanup_free_ struct symbol_layer *layers = calloc(j->n + 1, sizeof(*layers));
	size_t n = 0;

	if (!list || !layers)
		return -ENOMEM;
	if (buf_error(&j->names))
		return buf_error(&j->names);
	for (size_t i = 0; i < j->n; i++)
		list[i] = &j->pieces[i];
	qsort(list, j->n, sizeof(*list), compare_pieces);
	for (size_t i = 0; i < j->n; i++)
		if (list[i]->size && j->names.data[list[i]->name])
			layers[n++] =
			    (struct symbol_layer){ list[i]->start, list[i]->start + list[i]->size, list[i]->name };
	return symbols_from_layers(layers, n, &j->names, ret);
}
