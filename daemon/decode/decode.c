/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/decode/cage.h"
#include "daemon/decode/decode.h"
#include "daemon/decode/demux.h"
#include "daemon/decode/stream-decoder.h"
#include "daemon/decode/outputs.h"
#include "lib/base/util.h"

struct decode {
	struct decode_job *job;
	struct input *input;
	struct outputs outputs;
	enum engine_choice engine;
	struct decode_stats stats, total; /* of the elements of the current stream; of all streams */
	uint64_t bytes_done, bytes_total;
	json_object *threads, *warnings;
};

static void warn(struct decode *d, const char *text)
{
	json_array_add(d->warnings, json_object_new_string(text));
}

static int on_element(void *user, const struct element *e)
{
	struct decode *d = user;

	decode_stats_add_element(&d->stats, e);
	return outputs_element(&d->outputs, e);
}

static int on_batch(void *user, const struct native_batch *b, struct native_sums *sums)
{
	struct decode *d = user;
	struct native_sums before = *sums;
	int rc = outputs_batch(&d->outputs, b);

	outputs_update_sums(&d->outputs, b, sums);
	decode_stats_add_batch(&d->stats, b, &before, sums);
	return rc;
}

static int on_branches(void *user, const struct branch *list, size_t n)
{
	return outputs_branches(&((struct decode *)user)->outputs, list, n);
}

static int on_packet(void *user, const struct engine_packet *p)
{
	return outputs_packet(&((struct decode *)user)->outputs, p);
}

static int on_piece(void *user, const struct pd_piece *p, bool ends)
{
	struct decode *d = user;

	return ends ? 0 : outputs_piece(&d->outputs, p);
}

static int push_stream(struct decode *d, struct stream_decoder *sd)
{
	int rc;

	do {
		uint64_t before = stream_decoder_bytes_read(sd);

		rc = stream_decoder_step(sd, STREAM_DECODER_STEP);
		d->bytes_done += stream_decoder_bytes_read(sd) - before;
		job_progress(d->job, d->bytes_done, d->bytes_total);
	} while (rc > 0);
	return rc;
}

/* Decodes one stream and passes its elements to the outputs in the order of the trace. */
static int decode_stream(struct decode *d, const struct stream *s)
{
	const struct stream_decoder_sink to = { on_element,
						d->outputs.packets ? on_packet : NULL,
						on_piece,
						d,
						outputs_take_batches(&d->outputs) ? on_batch : NULL,
						outputs_need_sums(&d->outputs),
						on_branches };
	struct stream_decoder *sd = NULL;
	int rc = outputs_begin(&d->outputs, s);

	d->stats = (struct decode_stats){ .sync = UINT64_MAX };
	if (rc == 0)
		rc = stream_decoder_open(d->input, s, &to, input_workers(d->input), &sd);
	if (rc == 0)
		rc = push_stream(d, sd);
	if (rc == 0)
		rc = outputs_end(&d->outputs, s);
	if (rc == 0) {
		decode_stats_sum(&d->stats, stream_decoder_stats(sd));
		d->stats.sync = stream_decoder_stats(sd)->sync;
		decode_stats_sum(&d->total, &d->stats);
		demux_add_thread(d->threads, s, &d->stats, true);
	}
	stream_decoder_close(sd);
	return rc;
}

static void add_warnings(struct decode *d)
{
	const struct pd_contents *c = d->input->contents;
	const char *opencsd = NULL;
	bool used = false;
	char text[256];

	for (size_t i = 0; i < PROTOCOLS; i++)
		used = used || d->input->opencsd[i];
	opencsd_version(&opencsd);
	if (opencsd && used)
		warn(d, opencsd);
	for (size_t i = 0; i < PROTOCOLS; i++)
		if (d->input->opencsd[i] && opencsd_known_wrong((enum engine_protocol)i))
			warn(d, opencsd_known_wrong((enum engine_protocol)i));
	if (c->damage.cause) {
		snprintf(text, sizeof(text), "%s, at byte %llu", c->damage.cause, (unsigned long long)c->damage.offset);
		warn(d, text);
	}
	if (c->aux_unplaced) {
		snprintf(text, sizeof(text), "%llu AUX records describe trace that the file does not have",
			 (unsigned long long)c->aux_unplaced);
		warn(d, text);
		d->total.gaps[GAP_TYPE_CUT] += c->aux_unplaced;
	}
	if (c->lost_records) {
		snprintf(text, sizeof(text),
			 "%llu records were lost during recording, possibly of mappings or of trace",
			 (unsigned long long)c->lost_records);
		warn(d, text);
	}
	d->total.gaps[GAP_TYPE_LOST] += c->aux_empty_lost;
	if (!d->input->streams.n && !d->input->store) {
		snprintf(text, sizeof(text), "the input has no trace of thread %lld", (long long)d->job->only_thread);
		warn(d, d->job->only_thread < 0 ? "the input has no trace" : text);
	}
	if (d->input->shown && d->input->streams.n && d->job->only_thread < 0 && !d->total.instructions)
		warn(
		    d,
		    "no execution in the trace is known to be of the process: its sink is shared, and keeps the newest "
		    "trace of all processes");
}

static int send_result(struct decode *d, uint64_t started)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	add_warnings(d);
	json_add_str(o, "type", "result");
	decode_stats_json(&d->total, o);
	if (d->outputs.calls)
		output_calls_json(d->outputs.calls, o);
	json_add(o, "threads", json_object_get(d->threads));
	json_add(o, "images", input_images_json(d->input));
	json_add_double(o, "seconds", (double)(now_ns(CLOCK_MONOTONIC) - started) / 1e9);
	json_add_str(o, "engine", stream_decoder_engine_str(d->engine));
	if (d->job->verify) {
		json_add_u64(o, "alike", d->input->alike);
		json_add_u64(o, "differences", d->input->differences);
	}
	json_add_str(o, "opencsd", opencsd_version(NULL));
	json_add(o, "cage", cage_json(d->job->cage));
	json_add(o, "warnings", json_object_get(d->warnings));
	return job_result(d->job, o);
}

/* Describes the input in place of decoding it. */
static int write_info(struct decode *d, const struct job_output *o)
{
	int rc = d->input->ops->info(d->input, o->format->id == DECODE_FORMAT_INFO_JSON, o->fd);

	return rc < 0 ? reason_set(&d->job->reason, rc, "writing %s: %s", o->format->name, strerror(-rc)) : 0;
}

static int open_source(struct decode *d)
{
	static const struct {
		const char *type;
		int (*open)(struct decode_job *job, json_object *warnings, struct input **ret);
	} sources[] = {
		{ "perf.data", input_perf_open },
		{ "snapshot", input_snapshot_open },
		{ "bytes", input_bytes_open },
		{ "store", input_store_open },
	};

	for (size_t i = 0; i < ELEMENTS(sources); i++)
		if (strcmp(d->job->type, sources[i].type) == 0)
			return sources[i].open(d->job, d->warnings, &d->input);
	return reason_set(&d->job->reason, -EINVAL, "unknown input type %s", d->job->type);
}

/*
 * Decides whether elements are emitted by thread (demux.h). Packets are emitted by trace source; so are elements,
 * unless the job requests them by thread, or a thread. All other formats are emitted by thread.
 */
static int choose_order(struct decode *d, bool *ret_by_thread)
{
	const struct stream_list *s = &d->input->streams;
	bool packets = false, by_thread = d->input->shown != NULL;

	if (d->job->options && json_get_bool(d->job->options, "by_thread", &by_thread) == -EINVAL)
		return -EBADMSG;
	by_thread = by_thread || d->input->shown;
	for (size_t i = 0; i < d->job->n_outputs; i++) {
		packets = packets || d->job->outputs[i].format->basis == DECODE_FORMAT_FROM_PACKETS;
		by_thread = by_thread || d->job->outputs[i].format->id != DECODE_FORMAT_ELEMENTS;
	}
	for (size_t i = 0; i < s->n; i++)
		by_thread = by_thread || (d->job->only_thread >= 0 && s->list[i].cpu != UINT32_MAX);
	if (packets && d->input->shown)
		return reason_set(&d->job->reason, -EACCES,
				  "packets of a shared sink are not available: they hold trace of all users");
	*ret_by_thread = by_thread && !packets;
	return 0;
}

static int decode_streams(struct decode *d)
{
	struct stream_list *s = &d->input->streams;
	int rc = 0;

	for (size_t i = 0; i < s->n; i++)
		d->bytes_total += s->list[i].bytes;
	for (size_t i = 0; i < s->n && rc == 0; i++) {
		s->list[i].number = (uint32_t)i;
		if (d->job->only_thread < 0 || s->list[i].cpu == UINT32_MAX)
			rc = decode_stream(d, &s->list[i]);
	}
	return rc;
}

static int run_job(struct decode *d)
{
	bool by_thread = false;
	int rc = 0;

	if (!stream_decoder_engine(d->job, &d->engine))
		return reason_set(&d->job->reason, -EINVAL, "unknown engine %s", d->job->engine);
	rc = open_source(d);
	if (rc == 0 && d->job->info)
		return write_info(d, &d->job->outputs[0]);
	if (rc == 0)
		rc = choose_order(d, &by_thread);
	if (rc == 0)
		rc = outputs_open(&d->outputs, d->input);
	if (rc < 0)
		return rc;
	d->input->regions = outputs_regions(&d->outputs);
	input_start_workers(d->input);
	if (by_thread && demux_needed(d->input))
		rc = demux_run(d->input, &d->outputs, &d->total, d->threads);
	else
		rc = decode_streams(d);
	return rc < 0 ? rc : outputs_finish(&d->outputs);
}

int decode_run(struct decode_job *job)
{
	uint64_t started = now_ns(CLOCK_MONOTONIC);
	struct decode d = { .job = job };
	int rc = -ENOMEM;

	d.threads = json_object_new_array();
	d.warnings = json_object_new_array();
	if (d.threads && d.warnings)
		rc = run_job(&d);
	if (rc == 0)
		rc = send_result(&d, started);
	outputs_done(&d.outputs);
	input_stop_workers(d.input);
	input_close(d.input);
	json_object_put(d.threads);
	json_object_put(d.warnings);
	if (rc < 0 && !job->reason.text[0])
		reason_set(&job->reason, rc, "%s", strerror(-rc));
	return rc;
}
