/* SPDX-License-Identifier: MIT */
/* A perf.data as input: streams by thread or CPU, code from the mapped files and from code that csightd captured. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/decode/info.h"
#include "daemon/decode/input.h"
#include "daemon/decode/jitdump.h"
#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/coresight/deframe.h"
#include "lib/perfdata/sums.h"

enum { CHUNK_SIZE = 256 << 10 };

#define KERNEL_PID UINT32_MAX

static const char kernel_name[] = "[kernel.kallsyms]";

/* csightd's path for its copy of the program's perf map, among the images of a snapshot. */
static const char perf_map_name[] = "//perf-map";

struct perf_input {
	struct input input;
	struct pd_file *file;
	uint32_t ctxid, ctxid_pid; /* cache: the last context ID and its process */
	bool has_ctxid;
	uint32_t only_pid;           /* the process with mappings; UINT32_MAX: none, or several */
	const struct pd_map *kernel; /* mapping of the kernel, or NULL */
	uint32_t kernel_file;
	bool is_part; /* of a recording of csightd that is followed; the images are the caller's */
};

/* True if csightd wrote the file. */
static bool is_from_csightd(const struct pd_contents *c)
{
	return c->version && strncmp(c->version, PACKAGE_NAME " ", sizeof(PACKAGE_NAME)) == 0;
}

/* True if timestamps of all trace units are from the virtual counter (TS_SOURCE), which the kernel's conversion
 * expects. */
static bool is_virtual(const struct pd_contents *c)
{
	for (size_t i = 0; i < c->n_cpus; i++) {
		const struct pd_cpu *cpu = &c->cpus[i];
		uint32_t at = cpu->magic == PD_MAGIC_ETMV4 ? 7 : cpu->magic == PD_MAGIC_ETE ? 8 : UINT32_MAX;

		if (at >= cpu->n_params || cpu->params[at] != 1)
			return false;
	}
	return c->n_cpus > 0;
}

static bool has_cpu_buffers(const struct pd_contents *c)
{
	for (size_t i = 0; i < c->n_pieces; i++)
		if (c->pieces[i].cpu != UINT32_MAX)
			return true;
	return false;
}

/*
 * Decides how timestamps relate to times of records. Those of the emulated ETM, which has a buffer per thread, are such
 * times already; those of hardware must be converted.
 */
static void find_clock(struct input *in)
{
	const struct pd_contents *c = in->contents;
	const char *clock = NULL;

	if (in->job->snapshot)
		json_get_str(in->job->snapshot, "clock", &clock);
	if (c->clock.known && c->clock.shift < 64 && c->clock.mult && c->last_time && is_virtual(c) &&
	    (!clock || strcmp(clock, "perf") == 0))
		in->clock = &c->clock;
	in->has_clock = in->clock || (!has_cpu_buffers(c) &&
				      (clock ? strcmp(clock, "perf") != 0 : is_from_csightd(c) && !c->clock.known));
}

/* Before the first timestamp of a trace that has some, the last mapping counts. */
static uint64_t context_time(const struct perf_input *p, const struct stream *stream,
			     const struct engine_context *context)
{
	bool known = stream->config.protocol == PROTOCOL_ETMV4 || stream->config.protocol == PROTOCOL_ETE;

	if (!p->input.has_clock)
		return IMAGE_ANY_TIME;
	if (context->has_time)
		return input_time(&p->input, context->time);
	return known && !(stream->config.configr & TRCCONFIGR_TS) ? IMAGE_ANY_TIME : UINT64_MAX;
}

/* Addresses with the top bit set belong to the kernel, in every process; its mappings have process ID -1. */
static bool is_kernel(uint64_t address)
{
	return address >> 63;
}

/* Returns the process ID of a CPU's trace without context IDs; UINT32_MAX: unknown. */
static uint32_t scheduled_pid(const struct perf_input *p, const struct stream *stream, uint64_t time)
{
	uint32_t tid, pid;

	if (p->only_pid != UINT32_MAX)
		return p->only_pid;
	return p->input.has_clock && schedule_only_thread(p->input.schedule, stream->source_cpu, time, time, &tid, &pid)
		   ? pid
		   : stream->pid;
}

/* Returns the ID of the process in whose memory an address is looked up. */
static uint32_t pid_of(struct perf_input *p, const struct stream *stream, const struct engine_context *context)
{
	uint32_t tid;

	if (!stream_thread_id(stream, context, &tid))
		return stream->of_threads ? stream->pid : scheduled_pid(p, stream, context_time(p, stream, context));
	if (!p->has_ctxid || p->ctxid != tid) {
		p->has_ctxid = true;
		p->ctxid = tid;
		p->ctxid_pid = stream_list_pid(&p->input.streams, tid);
	}
	/* An unknown thread on a CPU must not be looked up in the memory of another process. */
	return p->ctxid_pid != UINT32_MAX || !stream->of_threads ? p->ctxid_pid : stream->pid;
}

static size_t perf_code(struct input *in, const struct stream *stream, const struct engine_context *context,
			uint64_t address, void *ret, size_t size)
{
	struct perf_input *p = (struct perf_input *)in;

	return image_read(in->images, is_kernel(address) ? KERNEL_PID : pid_of(p, stream, context), address,
			  context_time(p, stream, context), ret, size);
}

static uint64_t perf_version(struct input *in, const struct stream *stream, const struct engine_context *context)
{
	struct perf_input *p = (struct perf_input *)in;

	return image_version(in->images, pid_of(p, stream, context), context_time(p, stream, context));
}

static bool perf_where(struct input *in, const struct stream *stream, const struct engine_context *context,
		       uint64_t address, uint32_t *ret_file, uint64_t *ret_offset)
{
	struct perf_input *p = (struct perf_input *)in;

	return image_locate(in->images, is_kernel(address) ? KERNEL_PID : pid_of(p, stream, context), address,
			    context_time(p, stream, context), ret_file, ret_offset);
}

static ssize_t perf_read(struct input *in, const struct pd_piece *piece, uint64_t at, void *ret, size_t size)
{
	return pd_read(((struct perf_input *)in)->file, piece, at, ret, size);
}

static int perf_info(struct input *in, bool json, int fd)
{
	return info_write(in->contents, json, fd);
}

static void perf_close(struct input *in)
{
	struct perf_input *p = (struct perf_input *)in;

	if (p->is_part)
		in->images = NULL;
	pd_close(p->file);
}

/*
 * Compares a file of captured code with the checksum in a member of snapshot.json, if there is one. -EILSEQ: it
 * differs. Damaged captured code is fatal: without it, older code at the same addresses would be decoded.
 */
static int check_code(struct decode_job *job, const char *member, int fd)
{
	json_object *o = NULL;
	uint64_t wanted = 0;
	uint32_t crc = 0;
	int rc;

	if (!job->snapshot || json_get(job->snapshot, member, json_type_object, &o) < 0 ||
	    json_get_u64(o, "crc32", &wanted) < 0)
		return 0;
	rc = sums_file(fd, UINT64_MAX, &crc);
	if (rc == 0 && crc != wanted)
		rc = reason_set(&job->reason, -EILSEQ, "the captured code is damaged: its checksum differs");
	return rc;
}

/* Returns the ID of the process whose code csightd captured. */
static uint32_t target_pid(const struct input *in)
{
	uint64_t pid;

	if (in->job->snapshot && json_get_u64(in->job->snapshot, "pid", &pid) == 0)
		return (uint32_t)pid;
	return in->contents->n_maps ? in->contents->maps[0].pid : 0;
}

static int add_captured(struct input *in)
{
	int rc = check_code(in->job, "code", in->job->code);

	if (rc == 0)
		rc = image_add_code(in->images, target_pid(in), in->job->code);
	if (rc == -EBADMSG) {
		input_warn(in, "the captured code is truncated or damaged; only its beginning is used");
		rc = 0;
	}
	return rc;
}

static int add_jitdump(struct input *in)
{
	_cleanup_(jitdump_done) struct jitdump j = { 0 };
	json_object *o = NULL;
	int64_t shift = 0;
	bool cut = false;
	int rc = check_code(in->job, "jitdump", in->job->jitdump);

	if (rc == 0 && in->job->snapshot && json_get(in->job->snapshot, "jitdump", json_type_object, &o) == 0) {
		json_get_i64(o, "clock_shift", &shift);
		json_get_bool(o, "cut", &cut);
	}
	if (rc == 0)
		rc = jitdump_read(in->job->jitdump, shift, &j);
	if (rc < 0)
		return rc;
	j.broken |= cut;
	if (j.broken)
		input_warn(in,
			   "the program's jitdump is cut, invalid or too large: code it describes later is unknown");
	rc = jitdump_add(&j, in->job->jitdump, in->images, target_pid(in));
	if (rc == 0 && jitdump_take_names(&j, &in->described) == -ENOMEM)
		rc = -ENOMEM;
	return rc;
}

static int map_images(struct perf_input *p)
{
	struct input *in = &p->input;
	const struct pd_contents *c = in->contents;
	bool named = false;
	int rc = 0;

	in->map_files = calloc(c->n_maps + 1, sizeof(*in->map_files));
	if (!in->map_files)
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < c->n_maps; i++) {
		const struct pd_map *m = &c->maps[i];
		uint32_t file = IMAGE_NONE;

		if (strncmp(m->path, kernel_name, strlen(kernel_name)) == 0) {
			rc = image_file_add(in->images, kernel_name, m->build_id, m->build_id_size, 0, &file);
			in->map_files[i] = IMAGE_NONE;
			p->kernel = m;
			p->kernel_file = file;
			continue;
		}
		rc = input_map(in, m, in->has_clock ? m->time : i, &in->map_files[i]);
	}
	if (rc == 0 && in->job->snapshot && json_get_bool(in->job->snapshot, "perf_map", &named) == 0 && named)
		rc = image_file_add(in->images, perf_map_name, NULL, 0, 0, &in->names);
	if (rc == 0 && in->job->code >= 0)
		rc = add_captured(in);
	if (rc == 0 && in->job->jitdump >= 0)
		rc = add_jitdump(in);
	if (rc == -EILSEQ)
		return rc;
	if (rc < 0)
		return reason_set(&in->job->reason, rc, "the mappings: %s", strerror(-rc));
	return 0;
}

/* The path of the mapping ends with the name of a symbol; the offset of the mapping is the address of that symbol. */
static int map_kernel(struct perf_input *p)
{
	const struct pd_map *m = p->kernel;
	int rc = m ? image_map_elf(p->input.images, KERNEL_PID, p->kernel_file, m->path + strlen(kernel_name),
				   m->offset, &p->input.kernel)
		   : 0;

	if (rc == -ENODATA)
		input_warn(&p->input, "cannot place the kernel's image: it lacks the symbol that the mapping names");
	return rc == -ENOENT || rc == -ENODATA ? 0 : rc;
}

static int on_deframed(void *user, const struct deframe_run *run)
{
	bool *present = user;

	if (!run->reset && run->size)
		present[run->id % TRACE_IDS] = true;
	return 0;
}

/* Finds the trace IDs in all frames of a buffer. */
static int find_ids(void *user, const struct stream *stream, bool ret[TRACE_IDS])
{
	const struct deframe_sink sink = { on_deframed, ret };
	_cleanup_free_ struct deframe *deframe = malloc(sizeof(*deframe));
	_cleanup_free_ uint8_t *chunk = malloc(CHUNK_SIZE);
	struct perf_input *p = user;
	int rc = deframe && chunk ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < stream->n_pieces; i++) {
		uint64_t at = 0;
		ssize_t n = 0;

		deframe_init(deframe, &sink);
		while (rc == 0 && (n = pd_read(p->file, &stream->pieces[i], at, chunk, CHUNK_SIZE)) > 0) {
			rc = deframe_push(deframe, chunk, (size_t)n);
			at += (uint64_t)n;
		}
		rc = rc < 0 ? rc : (int)MIN(n, 0);
	}
	return rc;
}

/*
 * Decides how the threads of a CPU's trace are determined: by context IDs (TRCCONFIGR.CID or VMID), if timestamps (TS)
 * or records of switches give them their order; else by those records. Timestamps that do not relate to the times of
 * records still are in order.
 */
static void set_attribution(const struct perf_input *p, struct stream *s)
{
	enum { CONTEXTS = 3 << 6 };
	const struct input *in = &p->input;
	bool known = s->config.protocol == PROTOCOL_ETMV4 || s->config.protocol == PROTOCOL_ETE;
	/* Of a part, those that it needs may all be lost. */
	bool switches = in->has_clock && (p->is_part || schedule_has_switches(in->schedule));

	if (s->cpu == UINT32_MAX || !known)
		return;
	s->by_context = s->config.configr & CONTEXTS && (s->config.configr & TRCCONFIGR_TS || switches);
	s->by_switches = !s->by_context && s->of_threads && switches;
}

/* csightd records whether a buffer is shared; one that is not shared holds only threads of the target. */
static enum pd_slices slices_of(const struct perf_input *p)
{
	const struct input *in = &p->input;

	if (in->shown)
		return PD_SLICES_OF_CPUS;
	return p->is_part || in->job->snapshot || is_from_csightd(in->contents) ? PD_SLICES_OF_THREADS
										: in->contents->slices;
}

/* Reads the intervals of the target from the description of a snapshot of a shared sink. */
static int parse_intervals(struct input *in)
{
	json_object *list = NULL;
	bool shared = false;
	int rc = in->job->snapshot ? json_get_bool(in->job->snapshot, "shared", &shared) : 0;

	if (rc == -EINVAL)
		return -EBADMSG;
	if (!shared)
		return 0;
	if (json_get(in->job->snapshot, "intervals", json_type_array, &list) == -EINVAL)
		return -EBADMSG;
	rc = intervals_new(list, &in->shown);
	if (rc == 0 && !in->has_clock)
		rc = reason_set(&in->job->reason, -EACCES,
				"cannot attribute the trace to threads: its timestamps use a different clock");
	return rc;
}

static uint32_t only_pid(const struct pd_contents *c)
{
	uint32_t pid = UINT32_MAX;

	for (size_t i = 0; i < c->n_maps; i++) {
		if (c->maps[i].pid == KERNEL_PID)
			continue;
		if (pid != UINT32_MAX && c->maps[i].pid != pid)
			return UINT32_MAX;
		pid = c->maps[i].pid;
	}
	return pid;
}

static int open_file(struct perf_input *p, int fd, uint32_t pid)
{
	struct input *in = &p->input;
	struct pd_problem problem;
	int rc = pd_open(fd, &p->file, &in->contents, &problem);

	if (rc == -EBADMSG)
		return reason_set(&in->job->reason, rc, "%s, at byte %llu", problem.cause,
				  (unsigned long long)problem.offset);
	if (rc < 0)
		return reason_set(&in->job->reason, rc, "the input: %s", strerror(-rc));
	find_clock(in);
	p->only_pid = p->is_part ? pid : only_pid(in->contents);
	in->one_process = p->only_pid != UINT32_MAX;
	rc = parse_intervals(in);
	if (rc == 0)
		rc = schedule_new(in->contents, &in->schedule);
	if (rc == 0)
		rc = stream_list_find(in->contents, in->job->only_thread, slices_of(p), &in->streams);
	if (rc == 0 && !in->job->info)
		rc = stream_list_filter(&in->streams, find_ids, p);
	for (size_t i = 0; rc == 0 && i < in->streams.n; i++)
		set_attribution(p, &in->streams.list[i]);
	return rc;
}

static struct perf_input *make_input(struct decode_job *job, json_object *warnings)
{
	static const struct input_ops ops = { perf_read, perf_code, perf_version, perf_where, perf_close, perf_info };
	struct perf_input *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->input.ops = &ops;
	p->input.job = job;
	p->input.names = IMAGE_NONE;
	p->input.warnings = warnings;
	return p;
}

int input_part_open(struct decode_job *job, const struct input_part *part, json_object *warnings, struct input **ret)
{
	struct perf_input *p = make_input(job, warnings);
	int rc;

	if (!p)
		return -ENOMEM;
	p->is_part = true;
	p->input.images = part->images;
	p->input.begins = part->since;
	rc = open_file(p, part->fd, part->pid);
	if (rc < 0)
		input_close(&p->input);
	else
		*ret = &p->input;
	return rc;
}

int input_perf_open(struct decode_job *job, json_object *warnings, struct input **ret)
{
	struct perf_input *p = make_input(job, warnings);
	int rc;

	if (!p)
		return -ENOMEM;
	rc = open_file(p, job->input, UINT32_MAX);
	if (rc == 0)
		rc = image_set_new(&p->input.images);
	/* A description of the input needs no code. */
	if (rc == 0 && !job->info)
		rc = map_images(p);
	if (rc == 0 && !job->info)
		rc = input_request_images(&p->input);
	if (rc == 0 && !job->info)
		rc = map_kernel(p);
	if (rc == 0 && !job->info)
		rc = image_seal(p->input.images);
	if (rc < 0) {
		input_close(&p->input);
		return rc;
	}
	*ret = &p->input;
	return 0;
}
