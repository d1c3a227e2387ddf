/* SPDX-License-Identifier: MIT */
#include "lib/etm/verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/hex.h"
#include "lib/base/util.h"
#include "lib/etm/packet.h"

enum { LINE_MAX = 256, AROUND = 6, RECENT = 1 << 17 };

/* One engine, and its elements that are not compared yet. */
struct verify_side {
	const struct engine_ops *ops;
	struct engine *engine;
	struct buf pending;
	size_t at; /* offset of the first pending element */
};

struct verify_engine {
	struct verify_side opencsd, native;
	struct element_sink sink;
	bool comparing;
	uint64_t equal;
	struct buf report;
	/* The bytes that were pushed last, to print the packets around a difference. */
	struct packet_reader packets;
	struct buf bytes;         /* the last of them has the offset bytes_end - 1 */
	uint64_t bytes_end, next; /* next: the packet that the reader is at, if framed */
	bool framed;              /* a sync point was found */
};

static int keep_element(struct verify_side *s, const struct element *e)
{
	buf_add(&s->pending, e, sizeof(*e));
	return buf_error(&s->pending);
}

static int on_reference(void *user, const struct element *e)
{
	struct verify_engine *v = user;
	int rc = v->comparing ? keep_element(&v->opencsd, e) : 0;

	return rc < 0 ? rc : v->sink.element(v->sink.user, e);
}

static int on_subject(void *user, const struct element *e)
{
	struct verify_engine *v = user;

	return v->comparing ? keep_element(&v->native, e) : 0;
}

static int on_packet(void *user, const struct engine_packet *p)
{
	struct verify_engine *v = user;

	return v->sink.packet ? v->sink.packet(v->sink.user, p) : 0;
}

static const struct element *first_pending(const struct verify_side *s)
{
	return s->at < s->pending.size ? (const struct element *)(s->pending.data + s->at) : NULL;
}

static size_t format_element(const struct element *e, char ret[LINE_MAX])
{
	size_t n = element_format(e, ret, LINE_MAX);

	if (e->kind == ELEM_RANGE && e->torn && n + 6 < LINE_MAX)
		n += (size_t)snprintf(ret + n, LINE_MAX - n, " torn");
	return n;
}

static void report_packet(struct verify_engine *v, const uint8_t *bytes, uint64_t offset, const struct packet *p)
{
	buf_printf(&v->report, "    %" PRIu64 " %s ", offset, packet_name(p->kind));
	hex_append(&v->report, bytes, MIN(p->size, 24u));
	buf_printf(&v->report, "\n");
}

/* Reports the packets around an offset, as far as their bytes are kept. */
static void report_packets(struct verify_engine *v, uint64_t offset)
{
	uint64_t begin = v->bytes_end - v->bytes.size;
	uint64_t starts[AROUND] = { 0 };
	struct packet_reader packets = v->packets;
	size_t at = v->next > begin ? (size_t)(v->next - begin) : 0, n = 0;
	struct packet p;

	if (!v->framed || offset < v->next)
		return;
	/* The first pass finds where the packets begin, the second reports them. */
	for (size_t k = at;
	     k < v->bytes.size && begin + k < offset && packet_next(&packets, v->bytes.data + k, v->bytes.size - k, &p);
	     k += p.size)
		starts[n++ % AROUND] = begin + k;
	packets = v->packets;
	buf_printf(&v->report, "  packets:\n");
	for (unsigned behind = 0; behind < AROUND && at < v->bytes.size; at += p.size) {
		if (!packet_next(&packets, v->bytes.data + at, v->bytes.size - at, &p))
			break;
		if (begin + at >= (n < AROUND ? starts[0] : starts[n % AROUND]) || n == 0)
			report_packet(v, v->bytes.data + at, begin + at, &p);
		behind += begin + at >= offset;
	}
}

static void report_difference(struct verify_engine *v, const struct element *reference, const struct element *subject)
{
	char text[LINE_MAX];

	v->comparing = false;
	buf_printf(&v->report, "the engines differ after %" PRIu64 " elements, at byte %" PRIu64 " of the source\n",
		   v->equal, reference->offset);
	format_element(reference, text);
	buf_printf(&v->report, "  opencsd: %s\n", text);
	format_element(subject, text);
	buf_printf(&v->report, "  native:  %s\n", text);
	report_packets(v, MIN(reference->offset, subject->offset));
	buf_u8(&v->report, 0);
}

static void drop_first(struct verify_side *s)
{
	s->at += sizeof(struct element);
	if (s->at == s->pending.size) {
		buf_clear(&s->pending);
		s->at = 0;
	}
}

static int compare(struct verify_engine *v)
{
	const struct element *reference, *subject;

	while (v->comparing && (reference = first_pending(&v->opencsd)) && (subject = first_pending(&v->native))) {
		char a[LINE_MAX], b[LINE_MAX];
		size_t n = format_element(reference, a);

		if (n != format_element(subject, b) || memcmp(a, b, n) != 0) {
			report_difference(v, reference, subject);
			break;
		}
		v->equal++;
		drop_first(&v->opencsd);
		drop_first(&v->native);
	}
	return buf_error(&v->report);
}

/* Advances the packet reader and drops the bytes before it, down to RECENT bytes. */
static void drop_old_bytes(struct verify_engine *v)
{
	uint64_t begin = v->bytes_end - v->bytes.size;
	size_t at = v->next > begin ? (size_t)(v->next - begin) : 0, rest;
	struct packet p;

	while (v->framed && v->bytes.size - at > RECENT &&
	       packet_next(&v->packets, v->bytes.data + at, v->bytes.size - at, &p))
		at += p.size;
	v->next = begin + at;
	rest = v->bytes.size - at;
	if (at && rest)
		memmove(v->bytes.data, v->bytes.data + at, rest);
	v->bytes.size = rest;
}

static void keep_bytes(struct verify_engine *v, const uint8_t *data, size_t size)
{
	static const uint8_t sync[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80 };
	const uint8_t *found;

	buf_add(&v->bytes, data, size);
	v->bytes_end += size;
	if (!v->framed) {
		found = memmem(v->bytes.data, v->bytes.size, sync, sizeof(sync));
		v->framed = found;
		v->next = found ? v->bytes_end - v->bytes.size + (size_t)(found - v->bytes.data) : v->bytes_end;
	}
	drop_old_bytes(v);
}

static struct engine *verify_close(struct engine *engine)
{
	struct verify_engine *v = (struct verify_engine *)engine;

	if (!v)
		return NULL;
	v->opencsd.ops->close(v->opencsd.engine);
	v->native.ops->close(v->native.engine);
	buf_done(&v->opencsd.pending);
	buf_done(&v->native.pending);
	buf_done(&v->report);
	buf_done(&v->bytes);
	free(v);
	return NULL;
}

static int verify_open(const struct engine_config *config, const struct engine_memory *memory,
		       const struct element_sink *sink, struct engine **ret)
{
	struct verify_engine *v = calloc(1, sizeof(*v));
	const struct element_sink reference = { on_reference, v, sink->packet ? on_packet : NULL };
	const struct element_sink subject = { on_subject, v };
	int rc;

	if (!v)
		return -ENOMEM;
	v->sink = *sink;
	v->opencsd.ops = &opencsd_engine_ops;
	v->native.ops = &native_engine_ops;
	packet_reader_init(&v->packets, config);
	rc = v->opencsd.ops->open(config, memory, &reference, &v->opencsd.engine);
	if (rc == 0) {
		rc = v->native.ops->open(config, memory, &subject, &v->native.engine);
		v->comparing = rc == 0;
		rc = rc == -EOPNOTSUPP ? 0 : rc;
	}
	if (rc < 0) {
		verify_close((struct engine *)v);
		return rc;
	}
	*ret = (struct engine *)v;
	return 0;
}

/* Compares after a call of the native engine that returned rc; -EOPNOTSUPP ends the comparison and is no error. */
static int after_subject(struct verify_engine *v, int rc)
{
	int compared = compare(v);

	if (rc == -EOPNOTSUPP)
		v->comparing = false;
	return rc < 0 && rc != -EOPNOTSUPP ? rc : compared;
}

static int verify_push(struct engine *engine, const void *data, size_t size)
{
	struct verify_engine *v = (struct verify_engine *)engine;
	int rc = v->opencsd.ops->push(v->opencsd.engine, data, size);

	if (rc < 0 || !v->comparing)
		return rc;
	keep_bytes(v, data, size);
	rc = buf_error(&v->bytes);
	return rc < 0 ? rc : after_subject(v, v->native.ops->push(v->native.engine, data, size));
}

static int verify_reset(struct engine *engine)
{
	struct verify_engine *v = (struct verify_engine *)engine;
	int rc = v->opencsd.ops->reset(v->opencsd.engine);

	if (rc < 0 || !v->comparing)
		return rc;
	v->framed = false;
	buf_clear(&v->bytes);
	packet_reader_reset(&v->packets);
	return after_subject(v, v->native.ops->reset(v->native.engine));
}

static int verify_finish(struct engine *engine)
{
	struct verify_engine *v = (struct verify_engine *)engine;
	int rc = v->opencsd.ops->finish(v->opencsd.engine);
	const struct element end = { .kind = ELEM_END, .offset = v->bytes_end };

	if (rc < 0 || !v->comparing)
		return rc;
	rc = after_subject(v, v->native.ops->finish(v->native.engine));
	if (rc == 0 && v->comparing && (first_pending(&v->opencsd) || first_pending(&v->native)))
		report_difference(v, first_pending(&v->opencsd) ? first_pending(&v->opencsd) : &end,
				  first_pending(&v->native) ? first_pending(&v->native) : &end);
	return rc < 0 ? rc : buf_error(&v->report);
}

static void verify_stats(const struct engine *engine, struct engine_stats *ret)
{
	const struct verify_engine *v = (const struct verify_engine *)engine;

	v->opencsd.ops->stats(v->opencsd.engine, ret);
}

const char *verify_report(const struct engine *engine, uint64_t *ret_equal)
{
	const struct verify_engine *v = (const struct verify_engine *)engine;

	*ret_equal = v->equal;
	return v->report.size ? (const char *)v->report.data : NULL;
}

const struct engine_ops verify_engine_ops = {
	.name = "verify",
	.open = verify_open,
	.push = verify_push,
	.reset = verify_reset,
	.finish = verify_finish,
	.stats = verify_stats,
	.close = verify_close,
};
