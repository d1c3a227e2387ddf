#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/decode/decode.h"
#include "client/decode/output.h"
#include "client/decode/stream.h"
#include "client/decode/tally.h"
#include "lib/base/util.h"
#include "lib/code/image.h"
#include "lib/perfdata/read.h"

enum { CHUNK_SIZE = 256 << 10 };

struct decode {
	struct job *job;
	struct pd_file *file;
	const struct pd_contents *contents;
	struct streams streams;
	struct image_set *images;
	bool has_clock;      /* the stream's timestamps are on the clock of the file's records */
	uint32_t *map_files; /* which image each mapping shows */
	struct output *outputs[WORKER_OUTPUTS_MAX];
	size_t n_outputs;
	struct output *calls; /* among them, or NULL */
	const struct stream *stream;
	uint32_t ctxid, ctxid_pid; /* the last context ID that was looked up */
	bool has_ctxid;
	struct tally tally, total;
	uint64_t done, to_do; /* bytes */
	uint8_t *chunk;
	json_object *threads, *warnings;
};

static void warn(struct decode *d, const char *text)
{
	json_object_array_add(d->warnings, json_object_new_string(text));
}

/* csightd's own files say so; for others the two clocks are not compared yet. */
static bool has_clock(const struct job *job, const struct pd_contents *c)
{
	const char *clock;

	if (job->snapshot && json_get_str(job->snapshot, "clock", &clock) == 0)
		return strcmp(clock, "monotonic") == 0;
	return c->version && strncmp(c->version, PACKAGE_NAME " ", sizeof(PACKAGE_NAME)) == 0;
}

static uint64_t time_of(const struct decode *d, const struct engine_context *context)
{
	return d->has_clock && context->has_time ? context->time : UINT64_MAX;
}

/* Linux has the thread's number in the context ID. */
static uint32_t pid_of(struct decode *d, const struct engine_context *context)
{
	if (!context->has_ctxid)
		return d->stream->pid;
	if (!d->has_ctxid || d->ctxid != context->ctxid) {
		d->has_ctxid = true;
		d->ctxid = context->ctxid;
		d->ctxid_pid = streams_pid(&d->streams, context->ctxid);
	}
	return d->ctxid_pid != UINT32_MAX ? d->ctxid_pid : d->stream->pid;
}

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	struct decode *d = user;

	return image_read(d->images, pid_of(d, context), address, time_of(d, context), ret, size);
}

static uint64_t code_version(void *user, const struct engine_context *context)
{
	struct decode *d = user;

	return image_version(d->images, pid_of(d, context), time_of(d, context));
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

static const char *hex(const uint8_t *data, size_t size, char *ret)
{
	static const char digits[] = "0123456789abcdef";
	char *at = ret;

	for (size_t i = 0; i < size; i++) {
		*at++ = digits[data[i] >> 4];
		*at++ = digits[data[i] & 15];
	}
	*at = 0;
	return size ? ret : NULL;
}

static int ask_images(struct decode *d)
{
	for (uint32_t i = 0; i < image_files(d->images); i++) {
		const struct image_file *f = image_file(d->images, i);
		char id[2 * IMAGE_BUILD_ID_MAX + 1], reason[256];
		int fd = -1, rc;

		rc = job_image(d->job, i, f->path, hex(f->build_id, f->build_id_size, id), f->inode, &fd, reason,
			       sizeof(reason));
		if (rc < 0)
			return job_why(d->job, rc, "no answer to a question for an image: %s", strerror(-rc));
		image_file_give(d->images, i, fd, reason);
	}
	return 0;
}

static int map_images(struct decode *d)
{
	const struct pd_contents *c = d->contents;
	uint32_t code_pid = c->n_maps ? c->maps[0].pid : 0;
	uint64_t pid;
	int rc = 0;

	d->map_files = calloc(c->n_maps + 1, sizeof(*d->map_files));
	if (!d->map_files)
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < c->n_maps; i++) {
		const struct pd_map *m = &c->maps[i];
		uint32_t file = IMAGE_NONE;

		/* Memory that is not executable hides what was there before. */
		if (m->path[0] == '/' && m->path[1] != '/' && m->prot & PROT_EXEC)
			rc = image_file_add(d->images, m->path, m->build_id, m->build_id_size, m->inode, &file);
		d->map_files[i] = file;
		if (rc == 0)
			rc = image_map(d->images, m->pid, m->addr, m->len, m->offset, file, d->has_clock ? m->time : i);
	}
	if (rc == 0 && d->job->code >= 0) {
		if (d->job->snapshot && json_get_u64(d->job->snapshot, "pid", &pid) == 0)
			code_pid = (uint32_t)pid;
		rc = image_code(d->images, code_pid, d->job->code);
		if (rc == -EBADMSG) {
			warn(d, "the captured code is cut or garbled; its first part is used");
			rc = 0;
		}
	}
	if (rc == 0)
		rc = image_seal(d->images);
	if (rc < 0)
		return job_why(d->job, rc, "the mappings: %s", strerror(-rc));
	return 0;
}

static int open_outputs(struct decode *d)
{
	const struct output_source source = { d->job, d->contents, d->images, d->map_files, d->has_clock };
	int rc = output_calls_new(&source, &d->calls);

	if (rc < 0)
		return rc;
	if (d->calls)
		d->outputs[d->n_outputs++] = d->calls;
	for (size_t i = 0; i < d->job->n_outputs; i++) {
		const struct job_output *o = &d->job->outputs[i];

		if (output_is_calls(o->format))
			continue;
		rc = output_text_new(o->format, o->fd, &d->outputs[d->n_outputs]);
		if (rc == -EINVAL)
			return job_why(d->job, rc, "no output format %s", o->format);
		if (rc < 0)
			return rc;
		d->n_outputs++;
	}
	return 0;
}

static int decode_piece(struct decode *d, const struct pd_piece *p)
{
	const struct engine_memory memory = { read_code, code_version, d };
	const struct element_sink sink = { on_element, d };
	const struct engine_ops *ops = &engine_opencsd;
	struct engine_stats stats;
	struct engine *engine;
	uint64_t at = 0;
	int rc;

	if (p->flags & (PD_AUX_TRUNCATED | PD_AUX_PARTIAL | PD_AUX_COLLISION))
		d->tally.gaps[GAP_TYPE_LOST]++;
	rc = ops->open(&d->stream->config, &memory, &sink, &engine);
	if (rc == -EOPNOTSUPP) {
		d->tally.gaps[GAP_TYPE_UNSUPPORTED]++;
		d->tally.bytes += p->size;
		return 0;
	}
	if (rc < 0)
		return rc;
	while (rc == 0 && at < p->size) {
		ssize_t n = pd_read(d->file, p, at, d->chunk, CHUNK_SIZE);

		if (n <= 0) {
			rc = (int)n;
			break;
		}
		rc = ops->push(engine, d->chunk, (size_t)n);
		at += (uint64_t)n;
		d->done += (uint64_t)n;
		job_progress(d->job, d->done, d->to_do);
	}
	if (rc == 0)
		rc = ops->finish(engine);
	if (rc == 0 && (p->lost || at < p->size))
		d->tally.gaps[GAP_TYPE_CUT]++;
	ops->stats(engine, &stats);
	tally_engine(&d->tally, &stats);
	if (d->stream->shares)
		d->tally.bytes = 0;
	ops->close(engine);
	return rc;
}

static void note_thread(struct decode *d)
{
	const struct stream *s = d->stream;
	json_object *o = json_object_new_object();

	if (!o)
		return;
	if (s->cpu == UINT32_MAX) {
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
	for (size_t i = 0; s->supported && i < s->count && rc == 0; i++)
		rc = decode_piece(d, &d->contents->pieces[s->first + i]);
	if (!s->supported)
		d->tally.gaps[GAP_TYPE_UNSUPPORTED]++;
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

	for (uint32_t i = 0; list && i < image_files(d->images); i++) {
		const struct image_file *f = image_file(d->images, i);
		json_object *o = json_object_new_object();
		char id[2 * IMAGE_BUILD_ID_MAX + 1];

		json_add_bytes(o, "path", f->path);
		json_add_str(o, "build_id", hex(f->build_id, f->build_id_size, id));
		json_add_bool(o, "found", f->fd >= 0);
		json_add_str(o, "reason", f->reason);
		json_object_array_add(list, o);
	}
	return list;
}

static void note_problems(struct decode *d)
{
	const struct pd_contents *c = d->contents;
	const char *opencsd = NULL;
	char text[256];

	opencsd_version(&opencsd);
	if (opencsd)
		warn(d, opencsd);
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
		snprintf(text, sizeof(text), "%llu records were lost while it was recorded, perhaps of maps or of trace",
			 (unsigned long long)c->lost_records);
		warn(d, text);
	}
	d->total.gaps[GAP_TYPE_LOST] += c->aux_empty_lost;
	if (!d->streams.n)
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
	json_add_str(o, "engine", engine_opencsd.name);
	json_add_str(o, "opencsd", opencsd_version(NULL));
	json_object_object_add(o, "warnings", json_object_get(d->warnings));
	return job_result(d->job, o);
}

static int open_input(struct decode *d)
{
	struct pd_problem problem;
	int rc = pd_open(d->job->input, &d->file, &d->contents, &problem);

	if (rc == -EBADMSG)
		return job_why(d->job, rc, "%s, at byte %llu", problem.cause, (unsigned long long)problem.offset);
	if (rc < 0)
		return job_why(d->job, rc, "the input: %s", strerror(-rc));
	d->has_clock = has_clock(d->job, d->contents);
	return streams_find(d->contents, d->job->only_thread, &d->streams);
}

static int run(struct decode *d)
{
	int rc = open_input(d);

	if (rc == 0)
		rc = image_set_new(&d->images);
	if (rc == 0)
		rc = map_images(d);
	if (rc == 0)
		rc = ask_images(d);
	if (rc == 0)
		rc = open_outputs(d);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < d->streams.n; i++)
		d->to_do += d->streams.list[i].bytes;
	for (size_t i = 0; i < d->streams.n && rc == 0; i++)
		rc = decode_stream(d, &d->streams.list[i]);
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
	struct decode d = { .job = job };
	int rc = -ENOMEM;

	d.chunk = malloc(CHUNK_SIZE);
	d.threads = json_object_new_array();
	d.warnings = json_object_new_array();
	if (d.chunk && d.threads && d.warnings)
		rc = run(&d);
	if (rc == 0)
		rc = tell_result(&d, started);
	for (size_t i = 0; i < d.n_outputs; i++)
		d.outputs[i]->ops->free(d.outputs[i]);
	image_set_free(d.images);
	streams_done(&d.streams);
	pd_close(d.file);
	free(d.map_files);
	free(d.chunk);
	json_object_put(d.threads);
	json_object_put(d.warnings);
	if (rc < 0 && !job->reason[0])
		job_why(job, rc, "%s", strerror(-rc));
	return rc;
}
