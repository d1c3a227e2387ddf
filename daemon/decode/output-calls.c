/* SPDX-License-Identifier: MIT */
/* The output of all formats made of calls: writes a store, and exports from it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/decode/code-tables.h"
#include "daemon/decode/output.h"
#include "daemon/decode/input.h"
#include "daemon/decode/memory-files.h"
#include "daemon/decode/output-counters.h"
#include "daemon/decode/output-ending.h"
#include "daemon/decode/region-numbers.h"
#include "daemon/decode/rename.h"
#include "daemon/decode/store-queue.h"
#include "daemon/decode/syscall-names.h"
#include "daemon/decode/trigger-mark.h"
#include "lib/base/array.h"
#include "lib/calls/calls.h"
#include "lib/code/region-map.h"
#include "lib/code/symbols.h"
#include "lib/etm/native-runs.h"
#include "lib/export/export.h"
#include "lib/notes/notes.h"
#include "lib/store/store.h"

/* The region map of a process. The store writer refers to its names until the store is finished. */
struct process_regions {
	uint32_t pid;
	struct region_map *regions;
};

/* The calls of one stream, and the thread of the store to which they are written. */
struct output_thread {
	struct calls_output *output;
	struct calls *calls;
	struct store_queue_sink to;
	uint32_t tid;
	bool faulted;            /* its last element is a fault, unless runs.ran */
	struct native_runs runs; /* of the current piece's batches */
	/* The stream and the context by which its code is read. */
	struct stream stream;
	struct engine_context context;
	struct region_map *regions;
};

struct calls_output {
	struct output output;
	struct region_numbers region_numbers;
	struct input *input;
	struct syscall_names syscalls;
	struct code_tables tables;
	struct process_regions *processes;
	size_t n_processes, cap_processes;
	struct store_writer *writer;
	struct store_queue *queue; /* to the writer; NULL: no stream has begun */
	int fd;                    /* of the store */
	bool own_fd;
	struct output_thread **threads; /* by stream number; NULL: not begun, or complete */
	uint32_t n_threads;
	struct output_thread *current;
	uint64_t shift; /* time of records minus CLOCK_MONOTONIC, if has_shift */
	bool has_shift;
	struct calls_counts counts; /* of all streams */
	struct output_ending ending;
	uint64_t functions, slices, renamed;
};

static json_object *snapshot_thread(const struct decode_job *job, uint32_t tid)
{
	json_object *list;
	uint64_t number;

	if (!job->snapshot || json_get(job->snapshot, "threads", json_type_array, &list) < 0)
		return NULL;
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_object *o = json_object_array_get_idx(list, i);

		if (json_object_is_type(o, json_type_object) && json_get_u64(o, "tid", &number) == 0 && number == tid)
			return o;
	}
	return NULL;
}

/* Converts a time of records to the clock of the store. */
static uint64_t store_time(const struct calls_output *c, uint64_t time)
{
	return time && c->has_shift ? time - c->shift : time;
}

/*
 * Returns the time at which the thread ended, else that at which its ring buffer was frozen, on its clock; 0: unknown.
 */
static uint64_t thread_end_time(const struct calls_output *c, uint32_t tid)
{
	const struct decode_job *job = c->input->job;
	json_object *thread = snapshot_thread(job, tid);
	uint64_t end = 0;

	if (thread && json_get_u64(thread, "end", &end) == 0 && end)
		return store_time(c, end);
	if (thread && json_get_u64(thread, "until", &end) == 0 && end)
		return end;
	/* The time of the snapshot is usable only if the store uses its clock, which is not that of perf. */
	if (job->snapshot && (c->has_shift || (c->input->has_clock && !c->input->clock)))
		json_get_u64(job->snapshot, "monotonic", &end);
	return end;
}

static uint64_t snapshot_number(const struct decode_job *job, const char *key)
{
	uint64_t v = 0;

	if (job->snapshot)
		json_get_u64(job->snapshot, key, &v);
	return v;
}

static const char *snapshot_text(const struct decode_job *job, const char *key)
{
	const char *text;

	return job->snapshot && json_get_str(job->snapshot, key, &text) == 0 ? text : NULL;
}

/* The kernel has the same mappings in all processes. */
static int add_kernel(const struct calls_output *c, struct region_map *regions)
{
	const struct image_mapping *list = (const struct image_mapping *)c->input->kernel.data;
	size_t n = c->input->kernel.size / sizeof(*list);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		const char *path = image_file(c->input->images, list[i].file)->path;
		char id[2 * IMAGE_BUILD_ID_MAX + 1];
		const struct region_mapping mapping = code_tables_mapping(&c->tables, list[i].file, &list[i], path, id);

		rc = region_map_add(regions, &mapping);
	}
	return rc;
}

static int make_regions(struct calls_output *c, uint32_t pid, struct region_map **ret)
{
	const struct pd_contents *contents = c->input->contents;
	_cleanup_(region_map_freep) struct region_map *regions = NULL;
	int rc = region_map_new(&regions);

	for (size_t i = 0; rc == 0 && i < contents->n_maps; i++) {
		const struct pd_map *m = &contents->maps[i];
		uint32_t file = c->input->map_files[i];
		const struct image_mapping place = { m->addr, m->len, m->offset,
						     c->input->has_clock ? store_time(c, m->time) : 0, file };
		char id[2 * IMAGE_BUILD_ID_MAX + 1];
		const struct region_mapping mapping = code_tables_mapping(&c->tables, file, &place, m->path, id);

		if (m->pid == pid)
			rc = region_map_add(regions, &mapping);
	}
	if (rc == 0)
		rc = add_kernel(c, regions);
	if (rc < 0)
		return rc;
	if (c->input->job->inlines)
		region_map_enable_inlined(regions);
	if (pid == snapshot_number(c->input->job, "pid"))
		region_map_set_names(regions,
				     c->input->names != IMAGE_NONE ? c->tables.list[c->input->names].symbols : NULL,
				     c->input->described);
	if (array_reserve(c->processes, c->n_processes, &c->cap_processes) < 0)
		return -ENOMEM;
	c->processes[c->n_processes++] = (struct process_regions){ pid, regions };
	*ret = TAKE_PTR(regions);
	return 0;
}

static int find_regions(struct calls_output *c, uint32_t pid, struct region_map **ret)
{
	for (size_t i = 0; i < c->n_processes; i++)
		if (c->processes[i].pid == pid) {
			*ret = c->processes[i].regions;
			return 0;
		}
	return make_regions(c, pid, ret);
}

static void free_thread(struct calls_output *c, uint32_t number)
{
	if (c->threads[number])
		calls_free(c->threads[number]->calls);
	free(c->threads[number]);
	c->threads[number] = NULL;
}

static bool is_emulated(const struct calls_output *c)
{
	const char *capture = snapshot_text(c->input->job, "capture");

	return capture && strcmp(capture, "emu") == 0;
}

/* True if times are of the emulator's virtual clock. */
static bool is_virtual(const struct calls_output *c)
{
	const char *clock = snapshot_text(c->input->job, "clock");

	return clock && strcmp(clock, "virtual") == 0;
}

/* Of csightd's snapshots it is known whether they are filtered. */
static void set_filtered(const struct calls_output *c, struct calls *calls)
{
	bool filtered = false;

	if (!c->input->job->snapshot)
		return;
	json_get_bool(c->input->job->snapshot, "filtered", &filtered);
	calls_set_filtered(calls, filtered);
}

static int64_t find_syscall(void *user, uint64_t address)
{
	struct output_thread *t = user;
	const struct syscall_place place = { &t->stream, &t->context, t->regions,
					     store_time(t->output, input_time(t->output->input, t->context.time)),
					     address };

	return syscall_names_find(&t->output->syscalls, &place);
}

static bool find_pause(void *user, uint64_t from, uint64_t to, struct calls_pause *ret)
{
	const struct output_thread *t = user;
	uint64_t shift = t->output->has_shift ? t->output->shift : 0;
	struct schedule_pause found;

	if (!schedule_pause(t->output->input->schedule, t->tid, from + shift, to + shift, &found))
		return false;
	*ret = (struct calls_pause){ found.from - shift, found.to - shift, found.preempted };
	return true;
}

static int begin_thread(struct calls_output *c, const struct stream *s, struct output_thread *t)
{
	struct calls_sink sink;
	char name[32];
	int rc = find_regions(c, s->pid, &t->regions);

	/* The workers are started after the outputs are opened. */
	if (rc == 0 && !c->queue)
		rc = store_queue_new(c->writer, c->input->parallel, &c->queue);
	if (rc == 0)
		rc = store_queue_drain(c->queue);
	if (rc < 0)
		return rc;
	t->output = c;
	t->stream = *s;
	t->tid = s->cpu == UINT32_MAX ? s->tid : s->cpu;
	snprintf(name, sizeof(name), "cpu %u", s->cpu);
	rc = store_thread_add(c->writer, t->tid, s->cpu == UINT32_MAX ? s->name : name, &t->to.thread);
	if (rc < 0)
		return rc;
	t->to.queue = c->queue;
	sink = store_queue_sink(&t->to);
	rc = calls_new(t->regions, &sink, &t->calls);
	if (rc == 0 && c->input->clock)
		calls_set_resolution(t->calls, (c->input->clock->mult >> c->input->clock->shift) + 1);
	if (rc == 0 && is_emulated(c))
		calls_set_emulated(t->calls, is_virtual(c) && s->config.configr & TRCCONFIGR_TS);
	else if (rc == 0)
		calls_set_syscalls(t->calls, find_syscall, t);
	if (rc == 0 && !is_emulated(c) && c->input->has_clock && c->input->schedule && s->cpu == UINT32_MAX)
		calls_set_pauses(t->calls, find_pause, t);
	if (rc == 0)
		set_filtered(c, t->calls);
	return rc;
}

static int calls_output_begin(struct output *o, const struct stream *s)
{
	struct calls_output *c = (struct calls_output *)o;
	int rc;

	if (s->number >= c->n_threads) {
		uint32_t n = MAX(2 * c->n_threads, s->number + 1);
		struct output_thread **threads = reallocarray(c->threads, n, sizeof(*threads));

		if (!threads)
			return -ENOMEM;
		memset(threads + c->n_threads, 0, (n - c->n_threads) * sizeof(*threads));
		c->threads = threads;
		c->n_threads = n;
	}
	c->current = c->threads[s->number];
	if (c->current)
		return 0;
	c->current = c->threads[s->number] = calloc(1, sizeof(*c->current));
	if (!c->current)
		return -ENOMEM;
	rc = begin_thread(c, s, c->current);
	if (rc < 0)
		free_thread(c, s->number);
	return rc;
}

static int add_timestamp(struct calls_output *c, const struct element *e)
{
	struct element timed = *e;

	timed.value = store_time(c, input_time(c->input, e->value));
	return calls_element(c->current->calls, &timed);
}

static int calls_output_element(struct output *o, const struct element *e)
{
	struct calls_output *c = (struct calls_output *)o;

	if (e->kind == ELEM_RANGE) {
		c->current->faulted = false;
		return calls_element(c->current->calls, e);
	}
	if (!element_is_aside(e)) {
		c->current->faulted = output_ending_is_fault(e);
		c->current->runs.ran = false;
	}
	stream_note_context(&c->current->context, e);
	if (e->kind == ELEM_TIMESTAMP && !e->time_unknown && c->input->clock)
		return add_timestamp(c, e);
	return calls_element(c->current->calls, e);
}

static int on_batch_element(void *user, const struct element *e)
{
	return calls_output_element(user, e);
}

static int calls_output_piece(struct output *o, const struct pd_piece *p)
{
	struct calls_output *c = (struct calls_output *)o;

	(void)p;
	native_runs_init(&c->current->runs, &(struct element_sink){ .element = on_batch_element, .user = o });
	return 0;
}

static int calls_output_batch(struct output *o, const struct native_batch *b)
{
	struct output_thread *t = ((struct calls_output *)o)->current;

	return calls_batch(t->calls, &t->runs, b);
}

static const struct native_sums *calls_output_sums(const struct output *o)
{
	return &((const struct calls_output *)o)->current->runs.sums;
}

static int calls_output_end(struct output *o, const struct stream *s)
{
	struct calls_output *c = (struct calls_output *)o;
	struct output_thread *t = c->threads[s->number];
	const struct calls_counts *n;
	struct region_map *regions;
	int rc = find_regions(c, s->pid, &regions);

	if (rc < 0)
		return rc;
	output_ending_thread(&c->ending, s, regions, t->calls, t->faulted && !t->runs.ran);
	rc = calls_end(t->calls, s->ends_early ? 0 : thread_end_time(c, t->tid));
	if (rc == 0)
		rc = store_queue_drain(c->queue);
	if (rc < 0)
		return rc;
	n = calls_counts(t->calls);
	c->counts.calls += n->calls;
	c->counts.tails += n->tails;
	c->counts.signals += n->signals;
	c->counts.syscalls += n->syscalls;
	c->counts.unexplained += n->unexplained;
	c->counts.unwound += n->unwound;
	c->counts.switches += n->switches;
	c->counts.uncertain += n->uncertain;
	c->counts.gaps += n->gaps;
	if (store_thread_is_cut(c->writer, t->to.thread))
		input_warn(
		    c->input,
		    "thread %u: its trace has more gaps and switches of stacks than can be stored; what follows is "
		    "left out",
		    t->tid);
	rc = store_thread_end(c->writer, t->to.thread, n);
	free_thread(c, s->number);
	return rc;
}

static int calls_output_finish(struct output *o)
{
	struct calls_output *c = (struct calls_output *)o;
	const struct decode_job *job = c->input->job;
	_cleanup_(store_closep) struct store *s = NULL;
	int rc;

	code_tables_report(&c->tables);
	if (!c->input->store)
		output_ending_finish(&c->ending, c->writer);
	rc = c->input->store ? rename_store(c->input->store, &c->tables, c->fd, &c->renamed) : store_finish(c->writer);

	if (rc == 0)
		rc = store_open(c->fd, &s);
	if (rc < 0)
		return rc;
	c->functions = store_functions(s);
	for (size_t i = 0; i < store_threads(s); i++)
		c->slices += store_thread(s, i)->slices;
	for (size_t i = 0; i < job->n_outputs && rc == 0; i++) {
		const struct export_ops *ops = job->outputs[i].format->export;
		const struct export_options options = EXPORT_DEFAULTS;
		struct export_result result;

		if (ops)
			rc = ops->write(s, job->outputs[i].fd, &options, &result);
	}
	return rc;
}

static void calls_output_free(struct output *o)
{
	struct calls_output *c = (struct calls_output *)o;

	if (!c)
		return;
	for (uint32_t i = 0; i < c->n_threads; i++)
		free_thread(c, i);
	free(c->threads);
	store_queue_free(c->queue);
	store_writer_free(c->writer);
	output_ending_done(&c->ending);
	for (size_t i = 0; i < c->n_processes; i++)
		region_map_free(c->processes[i].regions);
	free(c->processes);
	region_numbers_done(&c->region_numbers);
	syscall_names_done(&c->syscalls);
	code_tables_done(&c->tables);
	if (c->own_fd)
		closep(&c->fd);
	free(c);
}

static const struct output_ops calls_ops = { .format = DECODE_FORMAT_CALLS,
					     .begin = calls_output_begin,
					     .element = calls_output_element,
					     .piece = calls_output_piece,
					     .batch = calls_output_batch,
					     .sums = calls_output_sums,
					     .end = calls_output_end,
					     .finish = calls_output_finish,
					     .free = calls_output_free };

/* Chooses the clock of times in the store; returns its name. */
static const char *find_clock(struct calls_output *c)
{
	const struct input *in = c->input;
	int64_t shift;

	c->has_shift = in->clock && in->job->snapshot && json_get_i64(in->job->snapshot, "clock_shift", &shift) == 0;
	if (c->has_shift)
		c->shift = (uint64_t)shift;
	if (is_virtual(c))
		return "virtual";
	if (c->has_shift || (in->has_clock && !in->clock))
		return "monotonic";
	return in->clock ? "perf" : "counter";
}

/*
 * Stores the notes. Their times are those of CLOCK_MONOTONIC: if the store has another clock, the times are set to 0,
 * and marks in the trace give them.
 */
static int put_notes(struct calls_output *c, bool monotonic)
{
	const struct pd_contents *contents = c->input->contents;
	_cleanup_free_ struct note *notes = NULL;
	size_t n;
	int rc = notes_parse(contents->notes, contents->notes_size, &notes, &n);

	for (size_t i = 0; rc == 0 && !monotonic && i < n; i++)
		notes[i].time = notes[i].begin_time = 0;
	return rc < 0 ? rc : store_put_notes(c->writer, notes, n);
}

/* True if a trace unit counted cycles, in whose intervals lib/calls emits no pauses. */
static bool counts_cycles(const struct pd_contents *contents)
{
	enum { ETMCR_CYCLES = 1 << 12 };

	for (size_t i = 0; i < contents->n_cpus; i++)
		if (contents->cpus[i].params[0] &
		    (contents->cpus[i].magic == PD_MAGIC_ETMV3 ? ETMCR_CYCLES : TRCCONFIGR_CCI))
			return true;
	return false;
}

static int begin_store(struct calls_output *c)
{
	const struct pd_contents *contents = c->input->contents;
	const struct decode_job *job = c->input->job;
	const char *capture = snapshot_text(job, "capture"), *name = snapshot_text(job, "name");
	uint32_t pid = (uint32_t)snapshot_number(job, "pid");
	struct trigger_mark mark;
	int rc;
	struct store_meta meta = {
		.source = capture ? capture : "perf.data",
		.id = snapshot_text(job, "id"),
		.clock = find_clock(c),
		.unrecorded = snapshot_number(job, "unrecorded"),
		.window = snapshot_number(job, "last"),
		.waits_unknown =
		    !is_emulated(c) && !(c->input->has_clock && c->input->schedule &&
					 schedule_has_switches(c->input->schedule) && !counts_cycles(contents)),
	};

	/* Wall-clock times can be shown only if times of the store are on the clock of the freeze. */
	if (strcmp(meta.clock, "monotonic") == 0 || is_virtual(c)) {
		meta.realtime = snapshot_number(job, "time");
		meta.monotonic = snapshot_number(job, "monotonic");
	}

	for (size_t i = 0; i < contents->n_comms; i++)
		if (contents->comms[i].exec || (pid && contents->comms[i].tid == pid)) {
			pid = pid ? pid : contents->comms[i].pid;
			name = name ? name : contents->comms[i].name;
		}
	if (!pid && contents->n_maps && !c->input->by_core)
		pid = contents->maps[0].pid;
	output_ending_begin(&c->ending, job);
	trigger_mark_read(job, &mark);
	meta.trigger = mark.trigger;
	meta.pid = pid;
	meta.program = name ? name : "";
	rc = store_create(c->fd, &meta, &c->writer);
	if (rc == 0)
		rc = put_notes(c, strcmp(meta.clock, "monotonic") == 0);
	if (rc == 0 && c->input->has_clock)
		rc = output_counters_put(contents, c->has_shift ? c->shift : 0, c->writer);
	return rc;
}

int output_calls_new(struct input *input, struct output **ret)
{
	const struct decode_job *job = input->job;
	struct calls_output *c;
	bool wanted = false;
	int fd = -1, rc = 0;

	*ret = NULL;
	for (size_t i = 0; i < job->n_outputs; i++) {
		wanted = wanted || job->outputs[i].format->basis == DECODE_FORMAT_FROM_CALLS;
		if (job->outputs[i].format->id == DECODE_FORMAT_STORE)
			fd = job->outputs[i].fd;
	}
	if (!wanted)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->output.ops = &calls_ops;
	c->input = c->tables.input = input;
	c->syscalls.input = input;
	c->own_fd = fd < 0;
	c->fd = fd >= 0 ? fd : memory_files_take_store();
	if (c->fd < 0)
		rc = -ENOMEM;
	if (rc == 0)
		rc = code_tables_load(&c->tables);
	if (rc == 0 && !input->store)
		rc = begin_store(c);
	if (rc < 0) {
		calls_output_free(&c->output);
		return rc;
	}
	*ret = &c->output;
	return 0;
}

/* Finds the core that all streams of an Arm snapshot have their code from. */
static bool find_only_core(const struct input *in, uint32_t *ret)
{
	for (size_t i = 1; i < in->streams.n; i++)
		if (in->streams.list[i].pid != in->streams.list[0].pid)
			return false;
	if (!in->streams.n || !in->contents->n_maps)
		return false;
	*ret = in->streams.list[0].pid;
	return true;
}

/* Finds the process if only one has mappings. */
static bool find_only_process(const struct input *in, uint32_t *ret)
{
	if (in->by_core)
		return find_only_core(in, ret);
	for (size_t i = 0; in->one_process && i < in->contents->n_maps; i++)
		if (in->contents->maps[i].pid != UINT32_MAX) {
			*ret = in->contents->maps[i].pid;
			return true;
		}
	return false;
}

const struct element_regions *output_calls_regions(struct output *o)
{
	struct calls_output *c = (struct calls_output *)o;
	struct region_map *map = NULL;
	uint32_t pid;

	if (!find_only_process(c->input, &pid) || find_regions(c, pid, &map) < 0 || region_map_seal(map) < 0)
		return NULL;
	region_numbers_init(&c->region_numbers, map);
	return &c->region_numbers.regions;
}

void output_calls_json(const struct output *o, json_object *to)
{
	const struct calls_output *c = (const struct calls_output *)o;

	if (c->ending.about)
		json_add(to, "ended", json_object_get(c->ending.about));
	json_add_u64(to, "calls", c->counts.calls + c->counts.tails + c->counts.signals);
	if (c->input->job->tables)
		json_add_u64(to, "symbols_known", c->tables.cached);
	json_add_u64(to, "syscalls", c->counts.syscalls);
	json_add_u64(to, "functions", c->functions);
	json_add_u64(to, "slices", c->slices);
	if (c->input->store)
		json_add_u64(to, "renamed", c->renamed);
	json_add_u64(to, "unwound", c->counts.unwound);
	json_add_u64(to, "unexplained", c->counts.unexplained);
	json_add_u64(to, "uncertain", c->counts.uncertain);
}
