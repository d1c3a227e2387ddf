/* SPDX-License-Identifier: MIT */
/* Text outputs: elements, addresses of instructions, packets. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/output.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/util.h"

enum { FLUSH_AT = 256 << 10, LINE_MAX_SIZE = 256, CELL_BITS = 14, CELL_TEXT = 192, COPY = 64 };

/* The text of an edge's range; the same edge gives the same text. */
struct range_text {
	struct basic_block block;
	uint16_t size; /* 0: none, or longer than CELL_TEXT */
	bool taken;
	char text[CELL_TEXT];
};

struct text_output {
	struct output output;
	int fd;
	struct buf out;
	uint64_t flushes;
	char id[8]; /* trace ID of the stream, the prefix of each line */
	size_t id_size;
	uint32_t number;          /* of the stream, plus one; 0: none */
	struct range_text *cells; /* a hash table by block and outcome of the branch, for batches */
};

static int text_flush(struct text_output *t)
{
	int rc = buf_error(&t->out);

	t->flushes++;
	if (rc == 0)
		rc = io_write(t->fd, t->out.data, t->out.size);
	buf_clear(&t->out);
	return rc;
}

int output_heading(struct buf *out, const struct stream *s)
{
	if (s->buffer)
		buf_printf(out, "# buffer %s source %s\n", esc(s->buffer), esc(s->name));
	else if (s->cpu == UINT32_MAX)
		buf_printf(out, "# thread %u\n", s->tid);
	else
		buf_printf(out, "# cpu %u\n", s->cpu);
	return buf_error(out);
}

static int text_begin(struct output *o, const struct stream *s)
{
	struct text_output *t = (struct text_output *)o;

	/* The texts of the cells begin with the trace ID of the preceding stream. */
	free(t->cells);
	t->cells = NULL;
	t->id_size = (size_t)snprintf(t->id, sizeof(t->id), "%x ", s->config.trace_id);
	if (t->number == s->number + 1)
		return 0;
	t->number = s->number + 1;
	return output_heading(&t->out, s);
}

static int elements_element(struct output *o, const struct element *e)
{
	struct text_output *t = (struct text_output *)o;
	char *line = (char *)buf_reserve(&t->out, LINE_MAX_SIZE);
	size_t n;

	if (!line)
		return buf_error(&t->out);
	memcpy(line, t->id, t->id_size);
	n = t->id_size + element_format(e, line + t->id_size, LINE_MAX_SIZE - t->id_size - 1);
	line[n++] = '\n';
	buf_grew(&t->out, n);
	return t->out.size >= FLUSH_AT ? text_flush(t) : 0;
}

static size_t format_address(char *line, uint64_t address)
{
	char digits[16];
	size_t n = 0, size = 0;

	do {
		digits[n++] = "0123456789abcdef"[address & 15];
		address >>= 4;
	} while (address);
	while (n)
		line[size++] = digits[--n];
	line[size++] = '\n';
	return size;
}

static int pcs_element(struct output *o, const struct element *e)
{
	struct text_output *t = (struct text_output *)o;
	uint64_t pc, step;

	if (e->kind != ELEM_RANGE || !e->range.count)
		return 0;
	/* T32 has instructions of two sizes. Without their bytes, addresses are spread evenly. */
	step = e->isa == ISA_A64 || e->isa == ISA_A32 ? 4 : (e->range.end - e->range.start) / e->range.count;
	pc = e->range.start;
	for (uint32_t i = 0; i < e->range.count; i++, pc += step) {
		char *line = (char *)buf_reserve(&t->out, 20);

		if (!line)
			return buf_error(&t->out);
		buf_grew(&t->out, format_address(line, pc));
		if (t->out.size >= FLUSH_AT) {
			int rc = text_flush(t);

			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

/* Appends the text of a range to the output, and copies it to the cell for the next execution. */
static int fill_cell(struct text_output *t, struct range_text *cell, const struct basic_block *b, bool taken)
{
	struct element range;
	size_t before = t->out.size;
	uint64_t flushes = t->flushes;
	int rc;

	native_range(b, taken, &range);
	rc = t->output.ops->element(&t->output, &range);
	*cell = (struct range_text){ .block = *b, .taken = taken };
	/*
	 * If the element has flushed the buffer, its text is not in it, or only the end: the cell stays empty, and the
	 * next execution of the range fills it.
	 */
	if (t->flushes == flushes && t->out.size - before <= CELL_TEXT) {
		cell->size = (uint16_t)(t->out.size - before);
		memcpy(cell->text, t->out.data + before, cell->size);
	}
	return rc;
}

static inline int put_block(struct text_output *t, const struct basic_block *b, bool taken)
{
	size_t hash = (size_t)((b->start + taken) * 0x9e3779b97f4a7c15u >> (64 - CELL_BITS));
	struct range_text *cell = &t->cells[hash];
	uint8_t *to;

	if (!cell->size || cell->taken != taken || !block_same(&cell->block, b))
		return fill_cell(t, cell, b, taken);
	to = buf_reserve(&t->out, CELL_TEXT);
	if (!to)
		return buf_error(&t->out);
	for (size_t i = 0; i < cell->size; i += COPY)
		memcpy(to + i, cell->text + i, COPY);
	buf_grew(&t->out, cell->size);
	return t->out.size >= FLUSH_AT ? text_flush(t) : 0;
}

static int text_batch(struct output *o, const struct native_batch *b)
{
	struct text_output *t = (struct text_output *)o;
	size_t event = 0;
	int rc = 0;

	t->cells = t->cells ? t->cells : calloc((size_t)1 << CELL_BITS, sizeof(*t->cells));
	if (!t->cells)
		return -ENOMEM;
	for (size_t i = 0; i < b->n && rc == 0; i++) {
		uint32_t edge = b->edges[i];

		if (edge == NATIVE_EVENT) {
			rc = o->ops->element(o, &b->events[event++]);
		} else if (edge & NATIVE_CYCLES) {
			struct element cycles = { .kind = ELEM_CYCLES, .isa = ISA_A64, .has_cycles = true };

			cycles.cycles = edge & ~NATIVE_CYCLES;
			rc = o->ops->element(o, &cycles);
		} else {
			rc = put_block(t, &b->blocks[edge_block(edge)], edge_is_taken(edge));
		}
	}
	return rc;
}

static int ignore_element(struct output *o, const struct element *e)
{
	return 0;
}

static int packets_piece(struct output *o, const struct pd_piece *p)
{
	struct text_output *t = (struct text_output *)o;

	buf_printf(&t->out, "# piece at %" PRIu64 ", %" PRIu64 " bytes\n", p->offset, p->size);
	return buf_error(&t->out);
}

/* Writes a decimal number and a space; returns their size. */
static size_t format_offset(char *to, uint64_t offset)
{
	char digits[20];
	size_t n = 0, size = 0;

	do {
		digits[n++] = (char)('0' + offset % 10);
		offset /= 10;
	} while (offset);
	while (n)
		to[size++] = digits[--n];
	to[size++] = ' ';
	return size;
}

/* Reformats OpenCSD's "NAME : description; fields": the description only repeats the name. */
static int packets_packet(struct output *o, const struct engine_packet *p)
{
	struct text_output *t = (struct text_output *)o;
	size_t name = strcspn(p->text, " :");
	const char *fields = strchr(p->text, ';');
	char offset[24];

	buf_add(&t->out, t->id, t->id_size);
	buf_add(&t->out, offset, format_offset(offset, p->offset));
	hex_append(&t->out, p->bytes, p->size);
	buf_add(&t->out, " ", 1);
	buf_add(&t->out, p->text, name);
	if (fields) {
		fields += 1 + strspn(fields + 1, " ");
		buf_add(&t->out, " ", 1);
		buf_add(&t->out, fields, strcspn(fields, "\n"));
		while (t->out.size && t->out.data[t->out.size - 1] == ' ')
			t->out.size--;
	}
	buf_add(&t->out, "\n", 1);
	return t->out.size >= FLUSH_AT ? text_flush(t) : buf_error(&t->out);
}

static int text_end(struct output *o, const struct stream *s)
{
	return 0;
}

static int text_finish(struct output *o)
{
	return text_flush((struct text_output *)o);
}

static void text_free(struct output *o)
{
	struct text_output *t = (struct text_output *)o;

	buf_done(&t->out);
	free(t->cells);
	free(t);
}

static int none_batch(struct output *o, const struct native_batch *b)
{
	return 0;
}

static int none_begin(struct output *o, const struct stream *s)
{
	return 0;
}

static int none_element(struct output *o, const struct element *e)
{
	return 0;
}

static const struct output_ops text_formats[] = {
	{ DECODE_FORMAT_ELEMENTS, text_begin, elements_element, text_end, text_finish, text_free, NULL, NULL,
	  text_batch },
	{ DECODE_FORMAT_PCS, text_begin, pcs_element, text_end, text_finish, text_free, NULL, NULL, text_batch },
	{ DECODE_FORMAT_PACKETS, text_begin, ignore_element, text_end, text_finish, text_free, packets_piece,
	  packets_packet },
	{ DECODE_FORMAT_NONE, none_begin, none_element, text_end, text_finish, text_free, NULL, NULL, none_batch,
	  .needs_sums = true },
};

int output_text_new(enum decode_format_id format, int fd, struct output **ret)
{
	struct text_output *t;

	for (size_t i = 0; i < ELEMENTS(text_formats); i++) {
		if (format != text_formats[i].format)
			continue;
		t = calloc(1, sizeof(*t));
		if (!t)
			return -ENOMEM;
		t->output.ops = &text_formats[i];
		t->fd = fd;
		*ret = &t->output;
		return 0;
	}
	return -EINVAL;
}
