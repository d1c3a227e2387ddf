/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/stream-decoder.h"
#include "daemon/decode/window.h"
#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/coresight/deframe.h"
#include "lib/etm/branches.h"
#include "lib/etm/pool.h"
#include "lib/etm/verify.h"

/* A number of elements. Ranges count as instructions, since an engine may merge several into one element. */
struct decode_position {
	uint64_t instructions, others;
};

struct stream_decoder {
	struct input *input;
	struct stream stream;
	struct stream_decoder_sink to;
	unsigned workers;
	enum engine_choice choice;
	const struct engine_ops *ops;         /* of the current piece */
	struct engine *engine;                /* NULL between pieces */
	struct decode_position emitted, skip; /* of the current piece; skip: still to be suppressed after a fallback */
	struct native_sums sums;              /* of the current piece's batches */
	struct deframe *deframe;
	struct buf bytes; /* de-framed, of this stream's trace source */
	uint8_t *chunk;   /* as read from the input */
	size_t piece;
	uint64_t begin; /* offset in the piece at which its decode begins */
	uint64_t at;    /* offset in the piece */
	bool synced;    /* the last piece that ended had a sync point */
	uint64_t read;  /* bytes of all pieces */
	struct decode_stats stats;
};

static const char *const engines[] = { [ENGINE_CHOICE_OPENCSD] = "opencsd",
				       [ENGINE_CHOICE_NATIVE] = "native",
				       [ENGINE_CHOICE_AUTO] = "auto",
				       [ENGINE_CHOICE_VERIFY] = "verify",
				       [ENGINE_CHOICE_BRANCHES] = "branches" };

bool stream_decoder_engine(const struct decode_job *job, enum engine_choice *ret)
{
	bool branches = job->n_outputs == 1 && (job->outputs[0].format->id == DECODE_FORMAT_BRANCHES ||
						job->outputs[0].format->id == DECODE_FORMAT_BRANCHES_BIN);

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

/* The de-framer emits short runs; OpenCSD is faster with long ones. */
static int push_gathered(struct stream_decoder *sd)
{
	int rc = buf_error(&sd->bytes);

	if (rc == 0 && sd->bytes.size)
		rc = sd->ops->push(sd->engine, sd->bytes.data, sd->bytes.size);
	buf_clear(&sd->bytes);
	return rc;
}

static int on_deframed(void *user, const struct deframe_run *run)
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

/* Emits an element unless the native engine emitted it before the fallback to OpenCSD. */
static int emit_new_element(void *user, const struct element *e)
{
	struct stream_decoder *sd = user;

	bool is_range = e->kind == ELEM_RANGE && e->range.count;
	uint64_t *skip = is_range ? &sd->skip.instructions : &sd->skip.others;
	uint64_t n = is_range ? e->range.count : 1;

	if (*skip) {
		*skip -= MIN(*skip, n);
		return 0;
	}
	*(is_range ? &sd->emitted.instructions : &sd->emitted.others) += n;
	return sd->to.element(sd->to.user, e);
}

static int emit_batch(void *user, const struct native_batch *b)
{
	struct stream_decoder *sd = user;

	int rc = sd->to.batch(sd->to.user, b, &sd->sums);

	sd->emitted = (struct decode_position){ sd->sums.instructions, sd->sums.others };
	return rc;
}

static int open_engine(struct stream_decoder *sd, const struct pd_piece *p, const struct engine_ops *ops)
{
	const struct engine_memory memory = { read_code, code_version, sd->input->by_space, sd };
	const struct deframe_sink runs = { on_deframed, sd };
	struct element_sink sink = { sd->to.element, sd->to.user, sd->to.packet, sd->input->regions, sd->input->pool };
	const bool natively = sd->choice == ENGINE_CHOICE_AUTO || sd->choice == ENGINE_CHOICE_NATIVE;
	struct engine_config config;
	int rc;

	if (natively && !sd->to.packet)
		sink = (struct element_sink){ emit_new_element, sd, NULL, sd->input->regions, sd->input->pool };
	if (natively && !sd->to.packet && sd->to.batch) {
		sink.batch = emit_batch;
		sink.sums = sd->to.sums;
		sd->sums = (struct native_sums){ .next = NATIVE_UNKNOWN };
	}
	sink.branches = sd->choice == ENGINE_CHOICE_BRANCHES ? sd->to.branches : NULL;
	sink.workers = sd->workers;
	stream_configure(sd->input->contents, &sd->stream, p, &config);
	sd->ops = ops;
	sd->at = sd->begin;
	if (sd->deframe)
		deframe_init(sd->deframe, &runs);
	rc = ops->open(&config, &memory, &sink, &sd->engine);
	if (rc != -EOPNOTSUPP && (ops == &opencsd_engine_ops || ops == &verify_engine_ops) &&
	    (size_t)config.protocol < PROTOCOLS)
		sd->input->opencsd[config.protocol] = true;
	return rc;
}

static void count_undecoded(struct stream_decoder *sd, const struct pd_piece *p)
{
	sd->stats.gaps[GAP_TYPE_UNSUPPORTED]++;
	sd->stats.bytes += sd->stream.shares || sd->input->once ? 0 : p->size;
}

/* Returns 1, or 0 if no engine supports the source. */
static int start_piece(struct stream_decoder *sd, const struct pd_piece *p)
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
	sd->emitted = sd->skip = (struct decode_position){ 0 };
	rc = window_begin(sd->input, &sd->stream, p, &sd->begin);
	if (rc == 0)
		rc = open_engine(sd, p, ops[sd->choice]);
	if (rc == -EOPNOTSUPP && sd->choice == ENGINE_CHOICE_AUTO)
		rc = open_engine(sd, p, &opencsd_engine_ops);
	if (rc == -EOPNOTSUPP)
		rc = open_engine(sd, p, &itm_engine_ops);
	if (rc == -EOPNOTSUPP) {
		count_undecoded(sd, p);
		return 0;
	}
	if (rc == -ENOSYS)
		return reason_set(&sd->input->job->reason, -ELIBBAD, "OpenCSD %s lists no packets of %s",
				  opencsd_version(NULL), engine_protocol_str(sd->stream.config.protocol));
	if (rc == -ELIBBAD) {
		const char *why;

		opencsd_version(&why);
		return reason_set(&sd->input->job->reason, rc, "%s", why);
	}
	return rc < 0 ? rc : 1;
}

/* The native engine returned -EOPNOTSUPP: OpenCSD decodes the piece again, or it becomes a gap if that is not allowed.
 */
static int fall_back_to_opencsd(struct stream_decoder *sd, const struct pd_piece *p)
{
	sd->engine = sd->ops->close(sd->engine);
	buf_clear(&sd->bytes);
	if (sd->choice == ENGINE_CHOICE_AUTO && !sd->input->once) {
		sd->skip = sd->emitted;
		return open_engine(sd, p, &opencsd_engine_ops);
	}
	if (sd->input->once)
		input_warn(sd->input, "the trace enters AArch32, for which it has to be read again from its beginning: "
				      "write it to a file, and decode that");
	count_undecoded(sd, p);
	sd->piece++;
	return sd->to.piece(sd->to.user, p, true);
}

static void report_verification(struct stream_decoder *sd)
{
	uint64_t alike;
	const char *report = verify_report(sd->engine, &alike);

	sd->input->alike += alike;
	if (!report)
		return;
	sd->input->differences++;
	json_array_add(sd->input->warnings, json_object_new_string(report));
}

static int end_piece(struct stream_decoder *sd, const struct pd_piece *p)
{
	struct engine_stats stats;
	int rc = sd->ops->finish(sd->engine);

	if (rc == -EOPNOTSUPP)
		return rc;
	if (rc == 0 && (p->lost || (sd->at < p->size && !sd->input->once)))
		sd->stats.gaps[GAP_TYPE_CUT]++;
	sd->ops->stats(sd->engine, &stats);
	sd->synced = stats.first_sync != UINT64_MAX;
	decode_stats_add_engine(&sd->stats, &stats);
	if (rc == 0 && sd->ops == &verify_engine_ops)
		report_verification(sd);
	sd->engine = sd->ops->close(sd->engine);
	sd->piece++;
	return rc < 0 ? rc : sd->to.piece(sd->to.user, p, true);
}

/* Emits a slice that was overwritten before it could be copied. */
static int emit_gap(struct stream_decoder *sd, const struct pd_piece *p)
{
	const struct element gap = {
		.kind = ELEM_NO_SYNC, .isa = ISA_UNKNOWN, .reason = REASON_OVERWRITTEN, .value = p->lost
	};

	sd->piece++;
	sd->stats.gaps[GAP_TYPE_LOST]++;
	sd->stats.lost += p->lost;
	return sd->to.element(sd->to.user, &gap);
}

int stream_decoder_step(struct stream_decoder *sd, size_t max)
{
	const struct pd_piece *p;
	uint8_t *bytes = NULL;
	ssize_t n;
	int rc;

	if (sd->piece == sd->stream.n_pieces || !sd->stream.supported)
		return 0;
	p = &sd->stream.pieces[sd->piece];
	if (p->flags & PD_AUX_GAP) {
		rc = emit_gap(sd, p);
		return rc < 0 ? rc : 1;
	}
	if (!sd->engine) {
		rc = start_piece(sd, p);
		if (rc == 0)
			sd->piece++;
		if (rc <= 0)
			return rc < 0 ? rc : 1;
	}
	max = MIN(max, (size_t)STREAM_DECODER_STEP);
	if (sd->ops->reserve && !sd->stream.formatted)
		bytes = sd->ops->reserve(sd->engine, max);
	bytes = bytes ? bytes : sd->chunk;
	n = sd->input->ops->read(sd->input, p, sd->at, bytes, max);
	if (n < 0)
		return (int)n;
	rc = n > 0 ? push_bytes(sd, bytes, (size_t)n) : 0;
	sd->at += (uint64_t)n;
	sd->read += (uint64_t)n;
	if (rc == 0 && (n == 0 || sd->at >= p->size))
		rc = end_piece(sd, p);
	if (rc == -EOPNOTSUPP && sd->engine && sd->ops == &native_engine_ops)
		rc = fall_back_to_opencsd(sd, p);
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
	stream_decoder_engine(input->job, &sd->choice);
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

bool stream_decoder_synced(const struct stream_decoder *sd)
{
	return sd->synced;
}

uint64_t stream_decoder_sync(const struct stream_decoder *sd)
{
	struct engine_stats stats = { .first_sync = UINT64_MAX };

	if (sd->engine)
		sd->ops->stats(sd->engine, &stats);
	return stats.first_sync == UINT64_MAX ? UINT64_MAX : sd->begin + stats.first_sync;
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
