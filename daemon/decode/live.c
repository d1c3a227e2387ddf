/* SPDX-License-Identifier: MIT */
#include "daemon/decode/live.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/decode/cage.h"
#include "daemon/decode/call-lines.h"
#include "daemon/decode/code-tables.h"
#include "daemon/decode/decode-stats.h"
#include "daemon/decode/live-lines.h"
#include "daemon/decode/live-rounds.h"
#include "daemon/decode/region-numbers.h"
#include "lib/perfdata/live.h"

/* Of more threads than THREADS_MAX, the one whose trace came first is forgotten, and begins anew with its next trace.
 */
enum { CHUNK = 256 << 10, THREADS_MAX = 256 };

struct live_thread {
	struct live *live;
	uint32_t tid, index;
	struct stream stream;
	struct engine *engine; /* NULL: none, until trace comes that does not continue what came before */
	struct calls *calls;
	struct call_lines_thread lines;
	uint64_t used; /* when trace came last, in slices of all threads */
};

struct live {
	struct input input; /* its operations are not used */
	struct pd_live *reader;
	struct code_tables tables;
	struct region_map *regions;
	struct region_numbers numbers;
	struct call_lines lines;
	struct live_thread *threads[THREADS_MAX];
	size_t n_threads;
	struct live_thread *current; /* whose slice is being read; NULL: it is skipped */
	struct live_rounds *rounds;  /* of the trace of CPUs; NULL: it is that of threads */
	struct outputs outputs;      /* of the rounds */
	uint64_t slices;
	uint32_t pid; /* of the first mapping */
	bool has_pid, mapped;
	struct decode_stats stats;
	uint64_t forgotten;
	bool unsupported, aarch32;
};

static uint64_t code_time(const struct engine_context *context)
{
	return context->has_time ? context->time : UINT64_MAX;
}

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	const struct live_thread *t = user;

	return image_read(t->live->input.images, t->live->pid, address, code_time(context), ret, size);
}

static uint64_t code_version(void *user, const struct engine_context *context)
{
	const struct live_thread *t = user;

	return image_version(t->live->input.images, t->live->pid, code_time(context));
}

static int on_element(void *user, const struct element *e)
{
	struct live_thread *t = user;

	decode_stats_add_element(&t->live->stats, e);
	return calls_element(t->calls, e);
}

/* Ends the engine; the trace that comes next does not continue what it has decoded. */
static int end_engine(struct live_thread *t)
{
	struct engine_stats stats;
	int rc = 0;

	if (!t->engine)
		return 0;
	rc = native_engine_ops.finish(t->engine);
	native_engine_ops.stats(t->engine, &stats);
	decode_stats_add_engine(&t->live->stats, &stats);
	t->engine = native_engine_ops.close(t->engine);
	return rc == -EOPNOTSUPP ? 0 : rc;
}

static void thread_free(struct live_thread *t)
{
	if (!t)
		return;
	native_engine_ops.close(t->engine);
	calls_free(t->calls);
	free(t->lines.stack);
	free(t);
}

/* Ends a thread, whose calls that are open are left. */
static int end_thread(struct live *l, size_t i)
{
	struct live_thread *t = l->threads[i];
	int rc = end_engine(t);

	if (rc == 0)
		rc = calls_end(t->calls, 0);
	thread_free(t);
	l->threads[i] = l->threads[--l->n_threads];
	return rc;
}

/* Finds what decodes the trace of a piece, as for a file with this piece alone. */
static int find_stream(const struct live *l, const struct pd_piece *p, struct stream *ret)
{
	struct pd_contents one = *pd_live_contents(l->reader);
	struct stream_list list = { 0 };
	int rc;

	one.pieces = p;
	one.n_pieces = 1;
	rc = stream_list_find(&one, -1, PD_SLICES_OF_THREADS, &list);
	if (rc == 0 && list.n != 1)
		rc = -EBADMSG;
	if (rc == 0)
		*ret = list.list[0];
	stream_list_done(&list);
	return rc;
}

static int add_thread(struct live *l, const struct pd_piece *p, struct live_thread **ret)
{
	struct live_thread *t = calloc(1, sizeof(*t));
	int rc = t ? find_stream(l, p, &t->stream) : -ENOMEM;

	if (rc == 0) {
		t->live = l;
		t->tid = p->tid;
		t->index = p->index;
		t->lines.lines = &l->lines;
		t->lines.tid = p->tid;
		rc = calls_new(l->regions, &(struct calls_sink){ call_lines_event, &t->lines, false }, &t->calls);
	}
	if (rc < 0) {
		thread_free(t);
		return rc;
	}
	/* csightd sends such recordings of the emulator alone; its virtual clock has no name. */
	calls_set_emulated(t->calls, !pd_live_contents(l->reader)->names_clock);
	l->threads[l->n_threads++] = t;
	*ret = t;
	return 0;
}

static size_t least_recent(const struct live *l)
{
	size_t found = 0;

	for (size_t i = 1; i < l->n_threads; i++)
		if (l->threads[i]->used < l->threads[found]->used)
			found = i;
	return found;
}

/* Finds the thread of a piece, or makes it. One of the same ID with another buffer has ended. */
static int find_thread(struct live *l, const struct pd_piece *p, struct live_thread **ret)
{
	int rc = 0;

	for (size_t i = 0; i < l->n_threads; i++) {
		if (l->threads[i]->tid != p->tid)
			continue;
		if (l->threads[i]->index == p->index) {
			*ret = l->threads[i];
			return 0;
		}
		rc = end_thread(l, i);
		break;
	}
	if (rc == 0 && l->n_threads == THREADS_MAX) {
		l->forgotten++;
		rc = end_thread(l, least_recent(l));
	}
	return rc < 0 ? rc : add_thread(l, p, ret);
}

/* Sorts the mappings that have come. */
static int seal(struct live *l)
{
	int rc = l->mapped ? image_seal(l->input.images) : 0;

	if (rc == 0 && l->mapped)
		rc = region_map_seal(l->regions);
	l->mapped = l->mapped && rc < 0;
	return rc;
}

static int open_engine(struct live_thread *t)
{
	const struct engine_memory memory = { read_code, code_version, false, t };
	const struct element_sink sink = { .element = on_element, .user = t, .regions = &t->live->numbers.regions };
	int rc =
	    t->stream.supported ? native_engine_ops.open(&t->stream.config, &memory, &sink, &t->engine) : -EOPNOTSUPP;

	if (rc == -EOPNOTSUPP) {
		t->live->unsupported = true;
		t->live->stats.gaps[GAP_TYPE_UNSUPPORTED]++;
		return 0;
	}
	return rc;
}

/* Bytes were overwritten before they could be drained. */
static int on_gap(struct live_thread *t, const struct pd_piece *p)
{
	const struct element gap = {
		.kind = ELEM_NO_SYNC, .isa = ISA_UNKNOWN, .reason = REASON_OVERWRITTEN, .value = p->lost
	};

	t->live->stats.gaps[GAP_TYPE_LOST]++;
	t->live->stats.lost += p->lost;
	return calls_element(t->calls, &gap);
}

static int on_slice(void *user, const struct pd_piece *p)
{
	struct live *l = user;
	struct live_thread *t = NULL;
	int rc;

	l->current = NULL;
	l->rounds = live_rounds_free(l->rounds);
	if (p->cpu != UINT32_MAX || !(p->flags & PD_AUX_RAW))
		return reason_set(&l->input.job->reason, -EBADMSG, "the trace is not that of single threads");
	rc = seal(l);
	if (rc == 0)
		rc = find_thread(l, p, &t);
	if (rc < 0)
		return rc;
	t->used = ++l->slices;
	if (!(p->flags & PD_AUX_CONTINUES))
		rc = end_engine(t);
	if (rc == 0 && p->flags & PD_AUX_GAP)
		return on_gap(t, p);
	if (rc == 0 && !(p->flags & PD_AUX_CONTINUES))
		rc = open_engine(t);
	l->current = t;
	return rc;
}

static int on_bytes(void *user, const void *data, size_t size)
{
	struct live *l = user;
	struct live_thread *t = l->current;
	int rc;

	if (!t || !t->engine)
		return 0;
	rc = native_engine_ops.push(t->engine, data, size);
	if (rc != -EOPNOTSUPP)
		return rc;
	/* Another engine would have to begin with the first byte, which has gone. */
	l->aarch32 = true;
	l->stats.gaps[GAP_TYPE_UNSUPPORTED]++;
	return end_engine(t);
}

static int on_end(void *user)
{
	struct live_thread *t = ((struct live *)user)->current;

	return t && t->engine ? native_engine_ops.settle(t->engine) : 0;
}

static int on_map(void *user, const struct pd_map *m)
{
	const struct image_mapping place = { m->addr, m->len, m->offset, m->time, IMAGE_NONE };
	char id[2 * IMAGE_BUILD_ID_MAX + 1];
	struct region_mapping mapping;
	struct live *l = user;
	uint32_t file;
	size_t known = image_file_count(l->input.images);
	int rc;

	if (!l->has_pid && m->pid != UINT32_MAX) {
		l->pid = m->pid;
		l->has_pid = true;
	}
	if (!l->has_pid || m->pid != l->pid)
		return 0;
	rc = input_map(&l->input, m, m->time, &file);
	if (rc == 0 && image_file_count(l->input.images) > known)
		rc = input_request_image(&l->input, file);
	if (rc == 0)
		rc = code_tables_load(&l->tables);
	if (rc < 0)
		return rc;
	l->mapped = true;
	mapping = code_tables_mapping(&l->tables, file, &place, m->path, id);
	return region_map_add(l->regions, &mapping);
}

static int on_exit_record(void *user, const struct pd_task *task)
{
	struct live *l = user;

	for (size_t i = 0; i < l->n_threads; i++)
		if (l->threads[i]->tid == task->tid)
			return end_thread(l, i);
	return l->rounds ? live_rounds_add_exit(l->rounds, task) : 0;
}

static int on_raw(void *user, const struct pd_live_raw *raw)
{
	struct live *l = user;

	if (l->rounds)
		return live_rounds_add(l->rounds, raw);
	return raw->part == PD_LIVE_TRACE
		   ? reason_set(&l->input.job->reason, -EBADMSG, "the trace of threads is followed by that of CPUs")
		   : 0;
}

static int on_round(void *user, uint64_t time)
{
	struct live *l = user;
	int rc = l->rounds ? seal(l) : 0;

	return rc < 0 || !l->rounds ? rc : live_rounds_end(l->rounds, time, l->has_pid ? l->pid : UINT32_MAX);
}

static const struct pd_live_sink sink = { .map = on_map,
					  .exit = on_exit_record,
					  .raw = on_raw,
					  .round = on_round,
					  .slice = on_slice,
					  .bytes = on_bytes,
					  .end = on_end };

static int parse_options(const struct decode_job *job, struct call_lines_options *ret)
{
	*ret = (struct call_lines_options){ .json = job->outputs[0].format->id == DECODE_FORMAT_LIVE_JSON };
	if (job->options && (json_get_u64(job->options, "longer", &ret->longer) == -EINVAL ||
			     json_get_u64(job->options, "depth", &ret->depth) == -EINVAL ||
			     json_get_str(job->options, "function", &ret->function) == -EINVAL ||
			     json_get_bool(job->options, "full_names", &ret->full_names) == -EINVAL))
		return -EBADMSG;
	return 0;
}

static int open_rounds(struct live *l)
{
	struct live_rounds_options o = { .live = &l->input,
					 .regions = &l->numbers.regions,
					 .outputs = &l->outputs,
					 .stats = &l->stats,
					 .opened = live_lines_open,
					 .decoded = live_lines_decoded };
	int rc = live_lines_new(l->regions, &l->lines, &l->outputs.list[0]);

	if (rc < 0)
		return rc;
	l->outputs.job = l->input.job;
	l->outputs.n = 1;
	o.user = l->outputs.list[0];
	return live_rounds_new(&o, &l->rounds);
}

static int open_live(struct live *l)
{
	struct pd_live_sink to = sink;
	int rc = image_set_new(&l->input.images);

	to.user = l;
	if (rc == 0)
		rc = region_map_new(&l->regions);
	if (rc < 0)
		return rc;
	if (l->input.job->inlines)
		region_map_enable_inlined(l->regions);
	region_numbers_init(&l->numbers, l->regions);
	l->tables.input = &l->input;
	l->input.names = IMAGE_NONE;
	l->mapped = true;
	rc = open_rounds(l);
	return rc < 0 ? rc : pd_live_new(&to, &l->reader);
}

/* Reads the pipe to its end. Lines are written as soon as their bytes have been decoded. */
static int read_all(struct live *l)
{
	struct decode_job *job = l->input.job;
	_cleanup_free_ uint8_t *chunk = malloc(CHUNK);
	ssize_t n;
	int rc = chunk ? 0 : -ENOMEM;

	while (rc == 0) {
		n = read(job->input, chunk, CHUNK);
		if (n < 0 && errno != EINTR)
			return reason_set(&job->reason, -errno, "the recording: %s", strerror(errno));
		if (n == 0)
			break;
		if (n > 0)
			rc = pd_live_push(l->reader, chunk, (size_t)n);
		if (rc == -EBADMSG && !job->reason.text[0] && pd_live_problem(l->reader).cause)
			return reason_set(&job->reason, rc, "the recording: %s, at byte %llu",
					  pd_live_problem(l->reader).cause,
					  (unsigned long long)pd_live_problem(l->reader).offset);
		if (rc == 0)
			rc = call_lines_flush(&l->lines);
	}
	while (rc == 0 && l->n_threads)
		rc = end_thread(l, 0);
	if (rc == 0 && l->rounds)
		rc = live_rounds_finish(l->rounds);
	return rc == 0 ? call_lines_flush(&l->lines) : rc;
}

static void add_warnings(struct live *l)
{
	if (!pd_live_whole(l->reader))
		input_warn(&l->input, "the recording ends within a record");
	if (l->unsupported)
		input_warn(&l->input, "the trace is of a trace unit that cannot be followed");
	if (l->aarch32)
		input_warn(&l->input, "threads that entered AArch32 are not followed");
	if (l->forgotten)
		input_warn(&l->input,
			   "more than %d threads ran at once: %llu times the calls of one were not followed up",
			   THREADS_MAX, (unsigned long long)l->forgotten);
}

static int send_result(struct live *l)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	add_warnings(l);
	json_add_str(o, "type", "result");
	decode_stats_json(&l->stats, o);
	json_add_u64(o, "lines", l->lines.written);
	json_add_u64(o, "left_out", l->lines.left_out);
	json_add(o, "images", input_images_json(&l->input));
	json_add(o, "cage", cage_json(l->input.job->cage));
	json_add(o, "warnings", json_object_get(l->input.warnings));
	return job_result(l->input.job, o);
}

static void live_done(struct live *l)
{
	for (size_t i = 0; i < l->n_threads; i++)
		thread_free(l->threads[i]);
	live_rounds_free(l->rounds);
	outputs_done(&l->outputs);
	pd_live_free(l->reader);
	region_numbers_done(&l->numbers);
	region_map_free(l->regions);
	code_tables_done(&l->tables);
	image_set_free(l->input.images);
	call_lines_done(&l->lines);
	json_object_put(l->input.warnings);
}

int live_run(struct decode_job *job)
{
	struct live *l = calloc(1, sizeof(*l));
	struct call_lines_options options;
	int rc = l ? 0 : -ENOMEM;

	if (rc == 0)
		l->input.warnings = json_object_new_array();
	if (rc == 0 && !l->input.warnings)
		rc = -ENOMEM;
	if (rc == 0)
		rc = parse_options(job, &options);
	if (rc == 0) {
		l->input.job = job;
		call_lines_begin(&l->lines, job->outputs[0].fd, &options);
		rc = call_lines_flush(&l->lines);
	}
	if (rc == 0)
		rc = open_live(l);
	if (rc == 0)
		rc = read_all(l);
	if (rc == 0)
		rc = send_result(l);
	if (rc < 0 && !job->reason.text[0])
		reason_set(&job->reason, rc, "%s", strerror(-rc));
	if (l)
		live_done(l);
	free(l);
	return rc;
}
