/* SPDX-License-Identifier: MIT */
/* Branches of trace with branch broadcast, as text or in the binary format branches-bin of csight-formats(5). */
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/output.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/etm/branches.h"

enum { FLUSH_AT = 256 << 10, RECORD_MAX = 16, RECORD_SPACE = 24, VERSION = 1 };

/* Types of records besides those of enum branch_type. */
enum { RECORD_PIECE = 14, RECORD_STREAM = 15 };

struct branches_output {
	struct output output;
	int fd;
	struct buf out;
	char id[8]; /* trace ID of the stream, the prefix of each line */
	size_t id_size;
	uint32_t number; /* of the stream, plus one; 0: none */
	/* Values of the preceding record, to which those of the next one are relative in the binary format. */
	uint64_t address, time;
};

static int output_flush(struct branches_output *t)
{
	int rc = buf_error(&t->out);

	if (rc == 0)
		rc = io_write(t->fd, t->out.data, t->out.size);
	buf_clear(&t->out);
	return rc;
}

static int flush_if_large(struct branches_output *t)
{
	return t->out.size >= FLUSH_AT ? output_flush(t) : buf_error(&t->out);
}

static int text_begin(struct output *o, const struct stream *s)
{
	struct branches_output *t = (struct branches_output *)o;

	t->id_size = (size_t)snprintf(t->id, sizeof(t->id), "%x ", s->config.trace_id);
	if (t->number == s->number + 1)
		return 0;
	t->number = s->number + 1;
	return output_heading(&t->out, s);
}

static int text_piece(struct output *o, const struct pd_piece *p)
{
	struct branches_output *t = (struct branches_output *)o;

	buf_printf(&t->out, "# piece at %" PRIu64 ", %" PRIu64 " bytes\n", p->offset, p->size);
	return buf_error(&t->out);
}

static int text_branches(struct output *o, const struct branch *list, size_t n)
{
	struct branches_output *t = (struct branches_output *)o;
	char *to = (char *)buf_reserve(&t->out, n * (sizeof(t->id) + BRANCHES_LINE_MAX)), *at = to;

	if (!to)
		return buf_error(&t->out);
	for (size_t i = 0; i < n; i++) {
		size_t size;

		memcpy(at, t->id, sizeof(t->id));
		size = branches_format(&list[i], at + t->id_size);
		if (!size)
			continue;
		at += t->id_size + size;
		*at++ = '\n';
	}
	buf_grew(&t->out, (size_t)(at - to));
	return flush_if_large(t);
}

/* Returns the least number of bytes that hold v in two's complement; 0 for 0. */
static inline unsigned bytes_of_signed(uint64_t v)
{
	uint64_t magnitude = v ^ (uint64_t)((int64_t)v >> 63);

	return v ? (72u - (unsigned)__builtin_clzll(magnitude | 1)) / 8 : 0;
}

/* Returns the least number of bytes, at least 1, that hold v. */
static inline unsigned bytes_of_unsigned(uint64_t v)
{
	return (71u - (unsigned)__builtin_clzll(v | 1)) / 8;
}

/* Appends a header and n bytes of value; 8 bytes more are writable. */
static inline uint8_t *put_record(uint8_t *to, unsigned type, unsigned n, uint64_t value)
{
	*to = (uint8_t)(n << 4 | type);
	value = htole64(value);
	memcpy(to + 1, &value, sizeof(value));
	return to + 1 + n;
}

static uint8_t *put_context(uint8_t *to, const struct branch *b)
{
	uint32_t ctxid = htole32((uint32_t)b->value), vmid = htole32((uint32_t)(b->value >> 32));

	*to = 9 << 4 | BRANCH_CONTEXT;
	to[1] = (uint8_t)branch_number(b);
	memcpy(to + 2, &ctxid, sizeof(ctxid));
	memcpy(to + 6, &vmid, sizeof(vmid));
	return to + 10;
}

static uint8_t *put_other(struct branches_output *t, uint8_t *to, const struct branch *b)
{
	enum branch_type type = branch_type(b);
	uint64_t d;

	switch (type) {
	case BRANCH_EXCEPTION:
		d = b->value - t->address;
		t->address = b->value;
		to[1] = (uint8_t)branch_number(b);
		to[2] = (uint8_t)(branch_number(b) >> 8);
		*to = (uint8_t)((2 + bytes_of_signed(d)) << 4 | type);
		d = htole64(d);
		memcpy(to + 3, &d, sizeof(d));
		return to + 1 + (*to >> 4);
	case BRANCH_TIME:
		d = b->value - t->time;
		t->time = b->value;
		return put_record(to, type, bytes_of_signed(d), d);
	case BRANCH_CYCLES:
		return put_record(to, type, bytes_of_unsigned(b->value), b->value);
	case BRANCH_EVENT:
		return put_record(to, type, 1, branch_number(b));
	case BRANCH_CONTEXT:
		return put_context(to, b);
	default:
		return put_record(to, type, 0, 0);
	}
}

static int bin_branches(struct output *o, const struct branch *list, size_t n)
{
	struct branches_output *t = (struct branches_output *)o;
	uint8_t *to = buf_reserve(&t->out, n * RECORD_MAX + RECORD_SPACE), *at = to;

	if (!to)
		return buf_error(&t->out);
	for (size_t i = 0; i < n; i++) {
		const struct branch *b = &list[i];
		enum branch_type type = branch_type(b);

		if (type <= BRANCH_AT) {
			uint64_t d = b->value - t->address;

			at = put_record(at, type, bytes_of_signed(d), d);
			t->address = b->value;
		} else {
			at = put_other(t, at, b);
		}
	}
	buf_grew(&t->out, (size_t)(at - to));
	return flush_if_large(t);
}

static int bin_begin(struct output *o, const struct stream *s)
{
	static const uint8_t magic[] = { 'C', 'S', 'B', 'R', VERSION, 0, 0, 0 };
	struct branches_output *t = (struct branches_output *)o;
	bool of_cpu = s->cpu != UINT32_MAX;

	if (t->number == s->number + 1)
		return 0;
	if (!t->number)
		buf_add(&t->out, magic, sizeof(magic));
	t->number = s->number + 1;
	t->address = t->time = 0;
	buf_u8(&t->out, 6 << 4 | RECORD_STREAM);
	buf_u8(&t->out, s->config.trace_id);
	buf_u8(&t->out, s->buffer ? 2 : of_cpu);
	buf_u32(&t->out, s->buffer ? s->number : of_cpu ? s->cpu : s->tid);
	return buf_error(&t->out);
}

static int bin_piece(struct output *o, const struct pd_piece *p)
{
	struct branches_output *t = (struct branches_output *)o;

	t->address = t->time = 0;
	buf_u8(&t->out, 8 << 4 | RECORD_PIECE);
	buf_u64(&t->out, p->offset);
	return buf_error(&t->out);
}

static int ignore_element(struct output *o, const struct element *e)
{
	return 0;
}

static int output_end(struct output *o, const struct stream *s)
{
	return 0;
}

static int output_finish(struct output *o)
{
	return output_flush((struct branches_output *)o);
}

static void output_free(struct output *o)
{
	struct branches_output *t = (struct branches_output *)o;

	buf_done(&t->out);
	free(t);
}

int output_branches_new(enum decode_format_id format, int fd, struct output **ret)
{
	static const struct output_ops text = { .format = DECODE_FORMAT_BRANCHES,
						.begin = text_begin,
						.element = ignore_element,
						.end = output_end,
						.finish = output_finish,
						.free = output_free,
						.piece = text_piece,
						.branches = text_branches };
	static const struct output_ops bin = { .format = DECODE_FORMAT_BRANCHES_BIN,
					       .begin = bin_begin,
					       .element = ignore_element,
					       .end = output_end,
					       .finish = output_finish,
					       .free = output_free,
					       .piece = bin_piece,
					       .branches = bin_branches };
	struct branches_output *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->output.ops = format == DECODE_FORMAT_BRANCHES ? &text : &bin;
	t->fd = fd;
	*ret = &t->output;
	return 0;
}
