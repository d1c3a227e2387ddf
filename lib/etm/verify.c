#include "lib/etm/verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/hex.h"
#include "lib/base/util.h"
#include "lib/etm/packet.h"

enum { LINE_MAX = 256, AROUND = 6, RECENT = 1 << 17 };

/* One engine, and what it has said that the other one has not. */
struct side {
	const struct engine_ops *ops;
	struct engine *engine;
	struct buf said;
	size_t at;
};

struct engine {
	struct side opencsd, native;
	struct element_sink sink;
	bool comparing;
	uint64_t alike;
	struct buf report;
	/* The packets that were pushed last, to show those around a difference. */
	struct packet_reader packets;
	struct buf bytes;         /* that end at bytes_end */
	uint64_t bytes_end, next; /* where a packet begins, as far as it is known */
	bool framed;
};

static int say(struct side *s, const struct element *e)
{
	buf_add(&s->said, e, sizeof(*e));
	return buf_error(&s->said);
}

static int on_reference(void *user, const struct element *e)
{
	struct engine *v = user;
	int rc = v->comparing ? say(&v->opencsd, e) : 0;

	return rc < 0 ? rc : v->sink.element(v->sink.user, e);
}

static int on_subject(void *user, const struct element *e)
{
	struct engine *v = user;

	return v->comparing ? say(&v->native, e) : 0;
}

static int on_packet(void *user, const struct engine_packet *p)
{
	struct engine *v = user;

	return v->sink.packet ? v->sink.packet(v->sink.user, p) : 0;
}

static const struct element *head(const struct side *s)
{
	return s->at < s->said.size ? (const struct element *)(s->said.data + s->at) : NULL;
}

static size_t line(const struct element *e, char ret[LINE_MAX])
{
	size_t n = element_format(e, ret, LINE_MAX);

	if (e->kind == ELEM_RANGE && e->torn && n + 6 < LINE_MAX)
		n += (size_t)snprintf(ret + n, LINE_MAX - n, " torn");
	return n;
}

static void show_bytes(struct engine *v, const uint8_t *bytes, uint64_t offset, const struct packet *p)
{
	buf_printf(&v->report, "    %" PRIu64 " %s ", offset, packet_name(p->kind));
	hex_append(&v->report, bytes, MIN(p->size, 24u));
	buf_printf(&v->report, "\n");
}

/* Packets from a few before an offset to a few behind it; of what is not at hand any more, none. */
static void show_packets(struct engine *v, uint64_t offset)
{
	uint64_t begin = v->bytes_end - v->bytes.size;
	uint64_t starts[AROUND] = { 0 };
	struct packet_reader packets = v->packets;
	size_t at = v->next > begin ? (size_t)(v->next - begin) : 0, n = 0;
	struct packet p;

	if (!v->framed || offset < v->next)
		return;
	/* First to find where they begin, then to show them. */
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
			show_bytes(v, v->bytes.data + at, begin + at, &p);
		behind += begin + at >= offset;
	}
}

static void differ(struct engine *v, const struct element *reference, const struct element *subject)
{
	char text[LINE_MAX];

	v->comparing = false;
	buf_printf(&v->report, "the engines differ after %" PRIu64 " elements, at byte %" PRIu64 " of the source\n",
		   v->alike, reference->offset);
	line(reference, text);
	buf_printf(&v->report, "  opencsd: %s\n", text);
	line(subject, text);
	buf_printf(&v->report, "  native:  %s\n", text);
	show_packets(v, MIN(reference->offset, subject->offset));
	buf_u8(&v->report, 0);
}

static void take(struct side *s)
{
	s->at += sizeof(struct element);
	if (s->at == s->said.size) {
		buf_clear(&s->said);
		s->at = 0;
	}
}

static int compare(struct engine *v)
{
	const struct element *reference, *subject;

	while (v->comparing && (reference = head(&v->opencsd)) && (subject = head(&v->native))) {
		char a[LINE_MAX], b[LINE_MAX];
		size_t n = line(reference, a);

		if (n != line(subject, b) || memcmp(a, b, n) != 0) {
			differ(v, reference, subject);
			break;
		}
		v->alike++;
		take(&v->opencsd);
		take(&v->native);
	}
	return buf_error(&v->report);
}

/* Where the parser is moves up, so that what is kept is not more than it needs to be. */
static void forget(struct engine *v)
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

static void remember(struct engine *v, const uint8_t *data, size_t size)
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
	forget(v);
}

static struct engine *verify_close(struct engine *v)
{
	if (!v)
		return NULL;
	v->opencsd.ops->close(v->opencsd.engine);
	v->native.ops->close(v->native.engine);
	buf_done(&v->opencsd.said);
	buf_done(&v->native.said);
	buf_done(&v->report);
	buf_done(&v->bytes);
	free(v);
	return NULL;
}

static int verify_open(const struct engine_config *config, const struct engine_memory *memory,
		       const struct element_sink *sink, struct engine **ret)
{
	struct engine *v = calloc(1, sizeof(*v));
	const struct element_sink reference = { on_reference, v, sink->packet ? on_packet : NULL };
	const struct element_sink subject = { on_subject, v };
	int rc;

	if (!v)
		return -ENOMEM;
	v->sink = *sink;
	v->opencsd.ops = &engine_opencsd;
	v->native.ops = &native_engine_ops;
	packet_reader_init(&v->packets, config);
	rc = v->opencsd.ops->open(config, memory, &reference, &v->opencsd.engine);
	if (rc == 0) {
		rc = v->native.ops->open(config, memory, &subject, &v->native.engine);
		v->comparing = rc == 0;
		rc = rc == -EOPNOTSUPP ? 0 : rc;
	}
	if (rc < 0) {
		verify_close(v);
		return rc;
	}
	*ret = v;
	return 0;
}

/* What the native engine returned; it may have come to an end. */
static int subject_did(struct engine *v, int rc)
{
	int compared = compare(v);

	if (rc == -EOPNOTSUPP)
		v->comparing = false;
	return rc < 0 && rc != -EOPNOTSUPP ? rc : compared;
}

static int verify_push(struct engine *v, const void *data, size_t size)
{
	int rc = v->opencsd.ops->push(v->opencsd.engine, data, size);

	if (rc < 0 || !v->comparing)
		return rc;
	remember(v, data, size);
	rc = buf_error(&v->bytes);
	return rc < 0 ? rc : subject_did(v, v->native.ops->push(v->native.engine, data, size));
}

static int verify_reset(struct engine *v)
{
	int rc = v->opencsd.ops->reset(v->opencsd.engine);

	if (rc < 0 || !v->comparing)
		return rc;
	v->framed = false;
	buf_clear(&v->bytes);
	packet_reader_reset(&v->packets);
	return subject_did(v, v->native.ops->reset(v->native.engine));
}

static int verify_finish(struct engine *v)
{
	int rc = v->opencsd.ops->finish(v->opencsd.engine);
	const struct element end = { .kind = ELEM_END, .offset = v->bytes_end };

	if (rc < 0 || !v->comparing)
		return rc;
	rc = subject_did(v, v->native.ops->finish(v->native.engine));
	if (rc == 0 && v->comparing && (head(&v->opencsd) || head(&v->native)))
		differ(v, head(&v->opencsd) ? head(&v->opencsd) : &end, head(&v->native) ? head(&v->native) : &end);
	return rc < 0 ? rc : buf_error(&v->report);
}

static void verify_stats(const struct engine *v, struct engine_stats *ret)
{
	v->opencsd.ops->stats(v->opencsd.engine, ret);
}

const char *verify_report(const struct engine *v, uint64_t *ret_alike)
{
	*ret_alike = v->alike;
	return v->report.size ? (const char *)v->report.data : NULL;
}

const struct engine_ops engine_verify = {
	.name = "verify",
	.open = verify_open,
	.push = verify_push,
	.reset = verify_reset,
	.finish = verify_finish,
	.stats = verify_stats,
	.close = verify_close,
};
