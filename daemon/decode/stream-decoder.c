#include <stdlib.h>
#include <string.h>

#include "daemon/decode/stream-decoder.h"
#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/coresight/deframe.h"
#include "lib/etm/branches.h"
#include "lib/etm/pool.h"
#include "lib/etm/verify.h"

/* How far in a piece: ranges are counted by instructions, as several may be told as one. */
struct decode_position {
	uint64_t instructions, others;
};

struct stream_decoder {
	struct input *input;
	struct stream stream;
	struct stream_decoder_sink to;
	unsigned workers;
	enum engine_choice wanted;
	const struct engine_ops *ops;       /* of the piece at hand */
	struct engine *engine;              /* NULL: none has begun */
	struct decode_position told, again; /* what of the piece was told; of that, what comes once more */
	struct deframe *deframe;
	struct buf bytes; /* of the stream's source, out of frames */
	uint8_t *chunk;   /* of the input */
	size_t piece;
	uint64_t at; /* in the piece */
	uint64_t read;
	struct decode_stats stats;
};

static const char *const engines[] = { [ENGINE_CHOICE_OPENCSD] = "opencsd",
				       [ENGINE_CHOICE_NATIVE] = "native",
				       [ENGINE_CHOICE_AUTO] = "auto",
				       [ENGINE_CHOICE_VERIFY] = "verify",
				       [ENGINE_CHOICE_BRANCHES] = "branches" };

bool stream_decoder_engine(const struct decode_job *job, enum engine_choice *ret)
{
	bool branches = job->n_outputs == 1 && job->outputs[0].format->id == DECODE_FORMAT_BRANCHES;

	*ret = branches ? ENGINE_CHOICE_BRANCHES : job->verify ? ENGINE_CHOICE_VERIFY : ENGINE_CHOICE_AUTO;
	if (!job->engine || *ret != ENGINE_CHOICE_AUTO)
		return true;
	for (size_t i = 0; i < ELEMENTS(engines); i++)
		if (strcmp(job->engine, engines[i]) == 0) {
			*ret = (enum engine_choice)i;
			return true;
		}
	return false;
}

const char *stream_decoder_engine_str(enum engine_choice engine)
{
	return engines[engine];
}

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	struct stream_decoder *sd = user;

	return input_code(sd->input, &sd->stream, context, address, ret, size);
}

static uint64_t code_version(void *user, const struct engine_context *context)
{
	struct stream_decoder *sd = user;

	return input_code_version(sd->input, &sd->stream, context);
}

/* Bytes come out of frames in small runs, and OpenCSD does better with long ones. */
static int push_gathered(struct stream_decoder *sd)
{
	int rc = buf_error(&sd->bytes);

	if (rc == 0 && sd->bytes.size)
		rc = sd->ops->push(sd->engine, sd->bytes.data, sd->bytes.size);
	buf_clear(&sd->bytes);
	return rc;
}

static int on_run(void *user, const struct deframe_run *run)
{
	struct stream_decoder *sd = user;
	struct engine_stats stats;
	int rc = 0;

	if (run->reset) {
		rc = push_gathered(sd);
		sd->ops->stats(sd->engine, &stats);
		return rc == 0 && stats.bytes ? sd->ops->reset(sd->engine) : rc;
	}
	if (run->id == sd->stream.config.trace_id)
		buf_add(&sd->bytes, run->data, run->size);
	return 0;
}

static int push_bytes(struct stream_decoder *sd, const uint8_t *bytes, size_t size)
{
	int rc;

	if (!sd->stream.formatted)
		return sd->ops->push(sd->engine, bytes, size);
	rc = deframe_push(sd->deframe, bytes, size);
	return rc < 0 ? rc : push_gathered(sd);
}

/* Of a piece that two engines may have to share. */
static int count_element(void *user, const struct element *e)
{
	struct stream_decoder *sd = user;

	bool is_range = e->kind == ELEM_RANGE && e->range.count;
	uint64_t *again = is_range ? &sd->again.instructions : &sd->again.others;
	uint64_t n = is_range ? e->range.count : 1;

	if (*again) {
		*again -= MIN(*again, n);
		return 0;
	}
	*(is_range ? &sd->told.instructions : &sd->told.others) += n;
	return sd->to.element(sd->to.user, e);
}

static int open_engine(struct stream_decoder *sd, const struct pd_piece *p, const struct engine_ops *ops)
{
	const struct engine_memory memory = { read_code, code_version, sd->input->by_space, sd };
	const struct deframe_sink runs = { on_run, sd };
	struct element_sink sink = { sd->to.element, sd->to.user, sd->to.packet, sd->input->regions, sd->input->pool };
	struct engine_config config;

	if (sd->wanted == ENGINE_CHOICE_AUTO && !sd->to.packet)
		sink = (struct element_sink){ count_element, sd, NULL, sd->input->regions, sd->input->pool };
	sink.workers = sd->workers;
	stream_configure(sd->input->contents, &sd->stream, p, &config);
	sd->ops = ops;
	sd->at = 0;
	if ((ops == &opencsd_engine_ops || ops == &verify_engine_ops) && (size_t)config.protocol < PROTOCOLS)
		sd->input->opencsd[config.protocol] = true;
	if (sd->deframe)
		deframe_init(sd->deframe, &runs);
	return ops->open(&config, &memory, &sink, &sd->engine);
}

/* 1: it has begun; 0: no engine takes it. */
static int begin_piece(struct stream_decoder *sd, const struct pd_piece *p)
{
	static const struct engine_ops *const ops[] = {
		[ENGINE_CHOICE_OPENCSD] = &opencsd_engine_ops,   [ENGINE_CHOICE_NATIVE] = &native_engine_ops,
		[ENGINE_CHOICE_AUTO] = &native_engine_ops,       [ENGINE_CHOICE_VERIFY] = &verify_engine_ops,
		[ENGINE_CHOICE_BRANCHES] = &branches_engine_ops,
	};
	int rc;

	if (sd->stream.of_threads && sd->stream.cpu != UINT32_MAX) {
		sd->stream.tid = p->origin.tid;
		sd->stream.pid = p->origin.pid;
	}
	rc = sd->to.piece(sd->to.user, p, false);
	if (rc < 0)
		return rc;
	if (p->flags & (PD_AUX_TRUNCATED | PD_AUX_PARTIAL | PD_AUX_COLLISION))
		sd->stats.gaps[GAP_TYPE_LOST]++;
	sd->told = sd->again = (struct decode_position){ 0 };
	rc = open_engine(sd, p, ops[sd->wanted]);
	if (rc == -EOPNOTSUPP && sd->wanted == ENGINE_CHOICE_AUTO)
		rc = open_engine(sd, p, &opencsd_engine_ops);
	if (rc == -EOPNOTSUPP) {
		sd->stats.gaps[GAP_TYPE_UNSUPPORTED]++;
		sd->stats.bytes += sd->stream.shares ? 0 : p->size;
		return 0;
	}
	return rc < 0 ? rc : 1;
}

/* The native engine has come to what it does not take. */
static int hand_over(struct stream_decoder *sd, const struct pd_piece *p)
{
	sd->engine = sd->ops->close(sd->engine);
	buf_clear(&sd->bytes);
	if (sd->wanted == ENGINE_CHOICE_AUTO) {
		sd->again = sd->told;
		return open_engine(sd, p, &opencsd_engine_ops);
	}
	sd->stats.gaps[GAP_TYPE_UNSUPPORTED]++;
	sd->stats.bytes += sd->stream.shares ? 0 : p->size;
	sd->piece++;
	return sd->to.piece(sd->to.user, p, true);
}

static void note_verified(struct stream_decoder *sd)
{
	uint64_t alike;
	const char *report = verify_report(sd->engine, &alike);

	sd->input->alike += alike;
	if (!report)
		return;
	sd->input->differences++;
	json_object_array_add(sd->input->warnings, json_object_new_string(report));
}

static int end_piece(struct stream_decoder *sd, const struct pd_piece *p)
{
	struct engine_stats stats;
	int rc = sd->ops->finish(sd->engine);

	if (rc == -EOPNOTSUPP)
		return rc;
	if (rc == 0 && (p->lost || sd->at < p->size))
		sd->stats.gaps[GAP_TYPE_CUT]++;
	sd->ops->stats(sd->engine, &stats);
	decode_stats_add_engine(&sd->stats, &stats);
	if (rc == 0 && sd->ops == &verify_engine_ops)
		note_verified(sd);
	sd->engine = sd->ops->close(sd->engine);
	sd->piece++;
	return rc < 0 ? rc : sd->to.piece(sd->to.user, p, true);
}

int stream_decoder_step(struct stream_decoder *sd, size_t most)
{
	const struct pd_piece *p;
	uint8_t *bytes = NULL;
	ssize_t n;
	int rc;

	if (sd->piece == sd->stream.n_pieces || !sd->stream.supported)
		return 0;
	p = &sd->stream.pieces[sd->piece];
	if (!sd->engine) {
		rc = begin_piece(sd, p);
		if (rc == 0)
			sd->piece++;
		if (rc <= 0)
			return rc < 0 ? rc : 1;
	}
	most = MIN(most, (size_t)STREAM_DECODER_STEP);
	if (sd->ops->reserve && !sd->stream.formatted)
		bytes = sd->ops->reserve(sd->engine, most);
	bytes = bytes ? bytes : sd->chunk;
	n = sd->input->ops->read(sd->input, p, sd->at, bytes, most);
	if (n < 0)
		return (int)n;
	rc = n > 0 ? push_bytes(sd, bytes, (size_t)n) : 0;
	sd->at += (uint64_t)n;
	sd->read += (uint64_t)n;
	if (rc == 0 && (n == 0 || sd->at >= p->size))
		rc = end_piece(sd, p);
	if (rc == -EOPNOTSUPP && sd->engine && sd->ops == &native_engine_ops)
		rc = hand_over(sd, p);
	return rc < 0 ? rc : 1;
}

int stream_decoder_open(struct input *input, const struct stream *s, const struct stream_decoder_sink *to,
			unsigned workers, struct stream_decoder **ret)
{
	struct stream_decoder *sd = calloc(1, sizeof(*sd));

	if (!sd)
		return -ENOMEM;
	sd->input = input;
	sd->stream = *s;
	sd->to = *to;
	sd->workers = workers;
	sd->ops = &opencsd_engine_ops;
	stream_decoder_engine(input->job, &sd->wanted);
	sd->stats.sync = UINT64_MAX;
	sd->chunk = malloc(STREAM_DECODER_STEP);
	sd->deframe = s->formatted ? malloc(sizeof(*sd->deframe)) : NULL;
	if (!sd->chunk || (s->formatted && !sd->deframe)) {
		stream_decoder_close(sd);
		return -ENOMEM;
	}
	if (!s->supported) {
		sd->stats.gaps[GAP_TYPE_UNSUPPORTED]++;
		sd->stats.bytes += s->shares ? 0 : s->bytes;
	}
	*ret = sd;
	return 0;
}

const struct stream *stream_decoder_stream(const struct stream_decoder *sd)
{
	return &sd->stream;
}

const struct decode_stats *stream_decoder_stats(const struct stream_decoder *sd)
{
	return &sd->stats;
}

uint64_t stream_decoder_sync(const struct stream_decoder *sd)
{
	struct engine_stats stats = { .first_sync = UINT64_MAX };

	if (sd->engine)
		sd->ops->stats(sd->engine, &stats);
	return stats.first_sync;
}

uint64_t stream_decoder_bytes_read(const struct stream_decoder *sd)
{
	return sd->read;
}

struct stream_decoder *stream_decoder_close(struct stream_decoder *sd)
{
	if (!sd)
		return NULL;
	sd->ops->close(sd->engine);
	buf_done(&sd->bytes);
	free(sd->deframe);
	free(sd->chunk);
	free(sd);
	return NULL;
}
