#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "client/decode/cage.h"
#include "client/decode/decode.h"
#include "client/decode/output.h"
#include "client/decode/source.h"
#include "client/decode/tally.h"
#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/coresight/deframe.h"

enum { CHUNK_SIZE = 64 << 10 };

struct decode {
	struct job *job;
	struct source *source;
	struct output *outputs[WORKER_OUTPUTS_MAX];
	size_t n_outputs;
	struct output *calls; /* among them, or NULL */
	const struct stream *stream;
	struct tally tally, total;
	uint64_t done, to_do; /* bytes */
	uint8_t *chunk;       /* of the input */
	struct deframe *deframe;
	const struct engine_ops *ops;
	struct engine *engine;
	struct buf bytes; /* of the stream's source, out of frames */
	json_object *threads, *warnings;
};

static void warn(struct decode *d, const char *text)
{
	json_object_array_add(d->warnings, json_object_new_string(text));
}

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	struct decode *d = user;

	return d->source->ops->code(d->source, d->stream, context, address, ret, size);
}

static uint64_t code_version(void *user, const struct engine_context *context)
{
	struct decode *d = user;

	return d->source->ops->version(d->source, d->stream, context);
}

static int output_failed(struct decode *d, size_t i, int rc)
{
	return job_why(d->job, rc, "writing %s: %s", d->outputs[i]->ops->format, strerror(-rc));
}

static int on_element(void *user, const struct element *e)
{
	struct decode *d = user;

	tally_element(&d->tally, e);
	for (size_t i = 0; i < d->n_outputs; i++) {
		int rc = d->outputs[i]->ops->element(d->outputs[i], e);

		if (rc < 0)
			return output_failed(d, i, rc);
	}
	return 0;
}

static int on_packet(void *user, const struct engine_packet *p)
{
	struct decode *d = user;

	for (size_t i = 0; i < d->n_outputs; i++) {
		int rc = d->outputs[i]->ops->packet ? d->outputs[i]->ops->packet(d->outputs[i], p) : 0;

		if (rc < 0)
			return output_failed(d, i, rc);
	}
	return 0;
}

/* Also tells whether anybody wants packets: their text costs more than all the rest. */
static int begin_piece(struct decode *d, const struct pd_piece *p, bool *ret_packets)
{
	*ret_packets = false;
	for (size_t i = 0; i < d->n_outputs; i++) {
		int rc = d->outputs[i]->ops->piece ? d->outputs[i]->ops->piece(d->outputs[i], p) : 0;

		if (rc < 0)
			return output_failed(d, i, rc);
		*ret_packets = *ret_packets || d->outputs[i]->ops->packet;
	}
	return 0;
}

static int open_outputs(struct decode *d)
{
	const struct output_source source = { d->job, d->source->contents, d->source->images, d->source->map_files,
					      d->source->has_clock };
	int rc = output_calls_new(&source, &d->calls);

	if (rc < 0)
		return rc;
	if (d->calls)
		d->outputs[d->n_outputs++] = d->calls;
	for (size_t i = 0; i < d->job->n_outputs; i++) {
		const struct job_output *o = &d->job->outputs[i];

		if (output_is_calls(o->format))
			continue;
		rc = strcmp(o->format, "autofdo") == 0
			     ? output_autofdo_new(d->source, o->fd, &d->outputs[d->n_outputs])
			     : output_text_new(o->format, o->fd, &d->outputs[d->n_outputs]);
		if (rc == -EOPNOTSUPP)
			return job_why(d->job, rc, "%s: the code of this input is of no files", o->format);
		if (rc == -EINVAL)
			return job_why(d->job, rc, "no output format %s", o->format);
		if (rc < 0)
			return rc;
		d->n_outputs++;
	}
	return 0;
}

/* Bytes come out of frames in small runs, and OpenCSD does better with long ones. */
static int push_gathered(struct decode *d)
{
	int rc = buf_error(&d->bytes);

	if (rc == 0 && d->bytes.size)
		rc = d->ops->push(d->engine, d->bytes.data, d->bytes.size);
	buf_clear(&d->bytes);
	return rc;
}

static int on_run(void *user, const struct deframe_run *run)
{
	struct decode *d = user;
	struct engine_stats stats;
	int rc = 0;

	if (run->reset) {
		rc = push_gathered(d);
		d->ops->stats(d->engine, &stats);
		return rc == 0 && stats.bytes ? d->ops->reset(d->engine) : rc;
	}
	if (run->id == d->stream->config.trace_id)
		buf_add(&d->bytes, run->data, run->size);
	return 0;
}

static int push_chunk(struct decode *d, size_t size)
{
	int rc;

	if (!d->stream->formatted)
		return d->ops->push(d->engine, d->chunk, size);
	rc = deframe_push(d->deframe, d->chunk, size);
	return rc < 0 ? rc : push_gathered(d);
}

static int push_piece(struct decode *d, const struct pd_piece *p)
{
	const struct deframe_sink runs = { on_run, d };
	uint64_t at = 0;
	int rc = 0;

	deframe_init(d->deframe, &runs);
	while (rc == 0 && at < p->size) {
		ssize_t n = d->source->ops->read(d->source, p, at, d->chunk, CHUNK_SIZE);

		if (n <= 0) {
			rc = (int)n;
			break;
		}
		rc = push_chunk(d, (size_t)n);
		at += (uint64_t)n;
		d->done += (uint64_t)n;
		job_progress(d->job, d->done, d->to_do);
	}
	if (rc == 0)
		rc = d->ops->finish(d->engine);
	if (rc == 0 && (p->lost || at < p->size))
		d->tally.gaps[GAP_TYPE_CUT]++;
	return rc;
}

static int decode_piece(struct decode *d, const struct pd_piece *p)
{
	const struct engine_memory memory = { read_code, code_version, d->source->by_space, d };
	struct element_sink sink = { on_element, d };
	struct engine_stats stats;
	bool packets;
	int rc = begin_piece(d, p, &packets);

	if (rc < 0)
		return rc;
	if (packets)
		sink.packet = on_packet;
	if (p->flags & (PD_AUX_TRUNCATED | PD_AUX_PARTIAL | PD_AUX_COLLISION))
		d->tally.gaps[GAP_TYPE_LOST]++;
	rc = d->ops->open(&d->stream->config, &memory, &sink, &d->engine);
	if (rc == -EOPNOTSUPP) {
		d->tally.gaps[GAP_TYPE_UNSUPPORTED]++;
		d->tally.bytes += d->stream->shares ? 0 : p->size;
		return 0;
	}
	if (rc < 0)
		return rc;
	rc = push_piece(d, p);
	d->ops->stats(d->engine, &stats);
	tally_engine(&d->tally, &stats);
	d->engine = d->ops->close(d->engine);
	return rc;
}

static void note_thread(struct decode *d)
{
	const struct stream *s = d->stream;
	json_object *o = json_object_new_object();

	if (!o)
		return;
	if (s->buffer) {
		json_add_bytes(o, "buffer", s->buffer);
		json_add_bytes(o, "source", s->name);
		json_add_str(o, "protocol", engine_protocol_str(s->config.protocol));
	} else if (s->cpu == UINT32_MAX) {
		json_add_u64(o, "tid", s->tid);
		json_add_bytes(o, "name", s->name);
	} else {
		json_add_u64(o, "cpu", s->cpu);
	}
	json_add_u64(o, "id", s->config.trace_id);
	if (d->tally.sync != UINT64_MAX)
		json_add_u64(o, "sync", d->tally.sync);
	tally_json(&d->tally, o);
	json_object_array_add(d->threads, o);
}

static int decode_stream(struct decode *d, const struct stream *s)
{
	int rc = 0;

	d->stream = s;
	d->tally = (struct tally){ .sync = UINT64_MAX };
	for (size_t i = 0; i < d->n_outputs && rc == 0; i++) {
		rc = d->outputs[i]->ops->begin(d->outputs[i], s);
		if (rc < 0)
			return output_failed(d, i, rc);
	}
	for (size_t i = 0; s->supported && i < s->n_pieces && rc == 0; i++)
		rc = decode_piece(d, &s->pieces[i]);
	if (!s->supported) {
		d->tally.gaps[GAP_TYPE_UNSUPPORTED]++;
		d->tally.bytes += s->shares ? 0 : s->bytes;
	}
	for (size_t i = 0; i < d->n_outputs && rc == 0; i++) {
		rc = d->outputs[i]->ops->end(d->outputs[i]);
		if (rc < 0)
			return output_failed(d, i, rc);
	}
	tally_add(&d->total, &d->tally);
	note_thread(d);
	return rc;
}

static json_object *images_json(const struct decode *d)
{
	json_object *list = json_object_new_array();

	for (uint32_t i = 0; list && i < image_files(d->source->images); i++) {
		const struct image_file *f = image_file(d->source->images, i);
		json_object *o = json_object_new_object();
		char id[2 * IMAGE_BUILD_ID_MAX + 1];

		json_add_bytes(o, "path", f->path);
		json_add_str(o, "build_id", source_build_id(f, id));
		json_add_bool(o, "found", f->fd >= 0);
		json_add_str(o, "reason", f->reason);
		json_object_array_add(list, o);
	}
	return list;
}

static void note_problems(struct decode *d)
{
	const struct pd_contents *c = d->source->contents;
	const char *opencsd = NULL;
	unsigned told = 0; /* of protocols */
	char text[256];

	opencsd_version(&opencsd);
	if (opencsd)
		warn(d, opencsd);
	for (size_t i = 0; i < d->source->streams.n; i++) {
		enum engine_protocol protocol = d->source->streams.list[i].config.protocol;

		if (d->source->streams.list[i].supported && !(told & 1u << protocol) && opencsd_known_wrong(protocol))
			warn(d, opencsd_known_wrong(protocol));
		told |= 1u << protocol;
	}
	if (c->damage.cause) {
		snprintf(text, sizeof(text), "%s, at byte %llu", c->damage.cause, (unsigned long long)c->damage.offset);
		warn(d, text);
	}
	if (c->aux_unplaced) {
		snprintf(text, sizeof(text), "%llu AUX records name trace that the file does not have",
			 (unsigned long long)c->aux_unplaced);
		warn(d, text);
		d->total.gaps[GAP_TYPE_CUT] += c->aux_unplaced;
	}
	if (c->lost_records) {
		snprintf(text, sizeof(text),
			 "%llu records were lost while it was recorded, perhaps of maps or of trace",
			 (unsigned long long)c->lost_records);
		warn(d, text);
	}
	d->total.gaps[GAP_TYPE_LOST] += c->aux_empty_lost;
	if (!d->source->streams.n)
		warn(d, "there is no trace in it");
}

static int tell_result(struct decode *d, uint64_t started)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	note_problems(d);
	json_add_str(o, "type", "result");
	tally_json(&d->total, o);
	if (d->calls)
		output_calls_json(d->calls, o);
	json_object_object_add(o, "threads", json_object_get(d->threads));
	json_object_object_add(o, "images", images_json(d));
	json_object_object_add(o, "seconds", json_object_new_double((double)(now_ns(CLOCK_MONOTONIC) - started) / 1e9));
	json_add_str(o, "engine", d->ops->name);
	json_add_str(o, "opencsd", opencsd_version(NULL));
	json_object_object_add(o, "cage", cage_json(d->job->cage));
	json_object_object_add(o, "warnings", json_object_get(d->warnings));
	return job_result(d->job, o);
}

/* What the input is: alone, as nothing is decoded for it. */
static int tell_info(struct decode *d, const struct job_output *o)
{
	int rc = d->source->ops->info(d->source, strcmp(o->format, "info-json") == 0, o->fd);

	return rc < 0 ? job_why(d->job, rc, "writing %s: %s", o->format, strerror(-rc)) : 0;
}

static int open_source(struct decode *d)
{
	static const struct {
		const char *type;
		int (*open)(struct job *job, json_object *warnings, struct source **ret);
	} sources[] = {
		{ "perf.data", source_perf_open },
		{ "snapshot", source_snapshot_open },
		{ "bytes", source_bytes_open },
	};

	for (size_t i = 0; i < ELEMENTS(sources); i++)
		if (strcmp(d->job->type, sources[i].type) == 0)
			return sources[i].open(d->job, d->warnings, &d->source);
	return job_why(d->job, -EINVAL, "no inputs of type %s", d->job->type);
}

static int run(struct decode *d)
{
	int rc = open_source(d);

	if (rc == 0 && d->job->info)
		return tell_info(d, &d->job->outputs[0]);
	if (rc == 0)
		rc = open_outputs(d);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < d->source->streams.n; i++)
		d->to_do += d->source->streams.list[i].bytes;
	for (size_t i = 0; i < d->source->streams.n && rc == 0; i++)
		rc = decode_stream(d, &d->source->streams.list[i]);
	for (size_t i = 0; i < d->n_outputs && rc == 0; i++) {
		rc = d->outputs[i]->ops->finish(d->outputs[i]);
		if (rc < 0)
			return output_failed(d, i, rc);
	}
	return rc;
}

int decode_run(struct job *job)
{
	uint64_t started = now_ns(CLOCK_MONOTONIC);
	struct decode d = { .job = job, .ops = &engine_opencsd };
	int rc = -ENOMEM;

	d.chunk = malloc(CHUNK_SIZE);
	d.threads = json_object_new_array();
	d.warnings = json_object_new_array();
	d.deframe = malloc(sizeof(*d.deframe));
	if (d.chunk && d.deframe && d.threads && d.warnings)
		rc = run(&d);
	if (rc == 0)
		rc = tell_result(&d, started);
	for (size_t i = 0; i < d.n_outputs; i++)
		d.outputs[i]->ops->free(d.outputs[i]);
	source_close(d.source);
	buf_done(&d.bytes);
	free(d.deframe);
	free(d.chunk);
	json_object_put(d.threads);
	json_object_put(d.warnings);
	if (rc < 0 && !job->reason[0])
		job_why(job, rc, "%s", strerror(-rc));
	return rc;
}
