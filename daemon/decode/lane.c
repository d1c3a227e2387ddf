#include <stdlib.h>
#include <string.h>

#include "daemon/decode/lane.h"
#include "daemon/decode/demux.h"
#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/coresight/deframe.h"
#include "lib/etm/branches.h"
#include "lib/etm/pool.h"
#include "lib/etm/verify.h"

/* How far in a piece: ranges are counted by instructions, as several may be told as one. */
struct lane_place {
	uint64_t instructions, others;
};

struct lane {
	struct source *source;
	struct stream stream;
	struct lane_to to;
	enum lane_engine wanted;
	const struct engine_ops *ops;  /* of the piece at hand */
	struct engine *engine;         /* NULL: none has begun */
	struct lane_place told, again; /* what of the piece was told; of that, what comes once more */
	struct deframe *deframe;
	struct buf bytes; /* of the stream's source, out of frames */
	uint8_t *chunk;   /* of the input */
	size_t piece;
	uint64_t at; /* in the piece */
	uint64_t read;
	struct tally tally;
};

static const char *const engines[] = { [LANE_OPENCSD] = "opencsd",
				       [LANE_NATIVE] = "native",
				       [LANE_AUTO] = "auto",
				       [LANE_VERIFY] = "verify",
				       [LANE_BRANCHES] = "branches" };

bool lane_engine(const struct job *job, enum lane_engine *ret)
{
	bool branches = job->n_outputs == 1 && strcmp(job->outputs[0].format, "branches") == 0;

	*ret = branches ? LANE_BRANCHES : job->verify ? LANE_VERIFY : LANE_AUTO;
	if (!job->engine || *ret != LANE_AUTO)
		return true;
	for (size_t i = 0; i < ELEMENTS(engines); i++)
		if (strcmp(job->engine, engines[i]) == 0) {
			*ret = (enum lane_engine)i;
			return true;
		}
	return false;
}

const char *lane_engine_str(enum lane_engine engine)
{
	return engines[engine];
}

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	struct lane *l = user;

	return source_code(l->source, &l->stream, context, address, ret, size);
}

static uint64_t code_version(void *user, const struct engine_context *context)
{
	struct lane *l = user;

	return source_version(l->source, &l->stream, context);
}

/* Bytes come out of frames in small runs, and OpenCSD does better with long ones. */
static int push_gathered(struct lane *l)
{
	int rc = buf_error(&l->bytes);

	if (rc == 0 && l->bytes.size)
		rc = l->ops->push(l->engine, l->bytes.data, l->bytes.size);
	buf_clear(&l->bytes);
	return rc;
}

static int on_run(void *user, const struct deframe_run *run)
{
	struct lane *l = user;
	struct engine_stats stats;
	int rc = 0;

	if (run->reset) {
		rc = push_gathered(l);
		l->ops->stats(l->engine, &stats);
		return rc == 0 && stats.bytes ? l->ops->reset(l->engine) : rc;
	}
	if (run->id == l->stream.config.trace_id)
		buf_add(&l->bytes, run->data, run->size);
	return 0;
}

static int push_bytes(struct lane *l, const uint8_t *bytes, size_t size)
{
	int rc;

	if (!l->stream.formatted)
		return l->ops->push(l->engine, bytes, size);
	rc = deframe_push(l->deframe, bytes, size);
	return rc < 0 ? rc : push_gathered(l);
}

/* Of a piece that two engines may have to share. */
static int count_element(void *user, const struct element *e)
{
	struct lane *l = user;

	bool is_range = e->kind == ELEM_RANGE && e->range.count;
	uint64_t *again = is_range ? &l->again.instructions : &l->again.others;
	uint64_t n = is_range ? e->range.count : 1;

	if (*again) {
		*again -= MIN(*again, n);
		return 0;
	}
	*(is_range ? &l->told.instructions : &l->told.others) += n;
	return l->to.element(l->to.user, e);
}

/* Streams that are read side by side share the threads. */
static unsigned workers_of(const struct source *s)
{
	unsigned threads = s->pool ? pool_threads(s->pool) : 0;

	return demux_needed(s) ? (unsigned)((threads + s->streams.n - 1) / MAX(s->streams.n, (size_t)1)) : threads;
}

static int open_engine(struct lane *l, const struct pd_piece *p, const struct engine_ops *ops)
{
	const struct engine_memory memory = { read_code, code_version, l->source->by_space, l };
	const struct deframe_sink runs = { on_run, l };
	struct element_sink sink = { l->to.element, l->to.user, l->to.packet, l->source->regions, l->source->pool };
	struct engine_config config;

	if (l->wanted == LANE_AUTO && !l->to.packet)
		sink = (struct element_sink){ count_element, l, NULL, l->source->regions, l->source->pool };
	sink.workers = workers_of(l->source);
	streams_configure(l->source->contents, &l->stream, p, &config);
	l->ops = ops;
	l->at = 0;
	if ((ops == &engine_opencsd || ops == &engine_verify) && (size_t)config.protocol < PROTOCOLS)
		l->source->opencsd[config.protocol] = true;
	if (l->deframe)
		deframe_init(l->deframe, &runs);
	return ops->open(&config, &memory, &sink, &l->engine);
}

/* 1: it has begun; 0: no engine takes it. */
static int begin_piece(struct lane *l, const struct pd_piece *p)
{
	static const struct engine_ops *const ops[] = {
		[LANE_OPENCSD] = &engine_opencsd, [LANE_NATIVE] = &engine_native,     [LANE_AUTO] = &engine_native,
		[LANE_VERIFY] = &engine_verify,   [LANE_BRANCHES] = &engine_branches,
	};
	int rc;

	if (l->stream.of_threads && l->stream.cpu != UINT32_MAX) {
		l->stream.tid = p->origin.tid;
		l->stream.pid = p->origin.pid;
	}
	rc = l->to.piece(l->to.user, p, false);
	if (rc < 0)
		return rc;
	if (p->flags & (PD_AUX_TRUNCATED | PD_AUX_PARTIAL | PD_AUX_COLLISION))
		l->tally.gaps[GAP_TYPE_LOST]++;
	l->told = l->again = (struct lane_place){ 0 };
	rc = open_engine(l, p, ops[l->wanted]);
	if (rc == -EOPNOTSUPP && l->wanted == LANE_AUTO)
		rc = open_engine(l, p, &engine_opencsd);
	if (rc == -EOPNOTSUPP) {
		l->tally.gaps[GAP_TYPE_UNSUPPORTED]++;
		l->tally.bytes += l->stream.shares ? 0 : p->size;
		return 0;
	}
	return rc < 0 ? rc : 1;
}

/* The native engine has come to what it does not take. */
static int hand_over(struct lane *l, const struct pd_piece *p)
{
	l->engine = l->ops->close(l->engine);
	buf_clear(&l->bytes);
	if (l->wanted == LANE_AUTO) {
		l->again = l->told;
		return open_engine(l, p, &engine_opencsd);
	}
	l->tally.gaps[GAP_TYPE_UNSUPPORTED]++;
	l->tally.bytes += l->stream.shares ? 0 : p->size;
	l->piece++;
	return l->to.piece(l->to.user, p, true);
}

static void note_verified(struct lane *l)
{
	uint64_t alike;
	const char *report = verify_report(l->engine, &alike);

	l->source->alike += alike;
	if (!report)
		return;
	l->source->differences++;
	json_object_array_add(l->source->warnings, json_object_new_string(report));
}

static int end_piece(struct lane *l, const struct pd_piece *p)
{
	struct engine_stats stats;
	int rc = l->ops->finish(l->engine);

	if (rc == -EOPNOTSUPP)
		return rc;
	if (rc == 0 && (p->lost || l->at < p->size))
		l->tally.gaps[GAP_TYPE_CUT]++;
	l->ops->stats(l->engine, &stats);
	tally_engine(&l->tally, &stats);
	if (rc == 0 && l->ops == &engine_verify)
		note_verified(l);
	l->engine = l->ops->close(l->engine);
	l->piece++;
	return rc < 0 ? rc : l->to.piece(l->to.user, p, true);
}

int lane_step(struct lane *l, size_t most)
{
	const struct pd_piece *p;
	uint8_t *bytes = NULL;
	ssize_t n;
	int rc;

	if (l->piece == l->stream.n_pieces || !l->stream.supported)
		return 0;
	p = &l->stream.pieces[l->piece];
	if (!l->engine) {
		rc = begin_piece(l, p);
		if (rc == 0)
			l->piece++;
		if (rc <= 0)
			return rc < 0 ? rc : 1;
	}
	most = MIN(most, (size_t)LANE_STEP);
	if (l->ops->room && !l->stream.formatted)
		bytes = l->ops->room(l->engine, most);
	bytes = bytes ? bytes : l->chunk;
	n = l->source->ops->read(l->source, p, l->at, bytes, most);
	if (n < 0)
		return (int)n;
	rc = n > 0 ? push_bytes(l, bytes, (size_t)n) : 0;
	l->at += (uint64_t)n;
	l->read += (uint64_t)n;
	if (rc == 0 && (n == 0 || l->at >= p->size))
		rc = end_piece(l, p);
	if (rc == -EOPNOTSUPP && l->engine && l->ops == &engine_native)
		rc = hand_over(l, p);
	return rc < 0 ? rc : 1;
}

int lane_open(struct source *source, const struct stream *s, const struct lane_to *to, struct lane **ret)
{
	struct lane *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->source = source;
	l->stream = *s;
	l->to = *to;
	l->ops = &engine_opencsd;
	lane_engine(source->job, &l->wanted);
	l->tally.sync = UINT64_MAX;
	l->chunk = malloc(LANE_STEP);
	l->deframe = s->formatted ? malloc(sizeof(*l->deframe)) : NULL;
	if (!l->chunk || (s->formatted && !l->deframe)) {
		lane_close(l);
		return -ENOMEM;
	}
	if (!s->supported) {
		l->tally.gaps[GAP_TYPE_UNSUPPORTED]++;
		l->tally.bytes += s->shares ? 0 : s->bytes;
	}
	*ret = l;
	return 0;
}

const struct stream *lane_stream(const struct lane *l)
{
	return &l->stream;
}

const struct tally *lane_tally(const struct lane *l)
{
	return &l->tally;
}

uint64_t lane_sync(const struct lane *l)
{
	struct engine_stats stats = { .first_sync = UINT64_MAX };

	if (l->engine)
		l->ops->stats(l->engine, &stats);
	return stats.first_sync;
}

uint64_t lane_read(const struct lane *l)
{
	return l->read;
}

struct lane *lane_close(struct lane *l)
{
	if (!l)
		return NULL;
	l->ops->close(l->engine);
	buf_done(&l->bytes);
	free(l->deframe);
	free(l->chunk);
	free(l);
	return NULL;
}
