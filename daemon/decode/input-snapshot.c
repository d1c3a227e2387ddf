/* SPDX-License-Identifier: MIT */
/*
 * One buffer of an Arm snapshot as input, or a file of bare trace. They differ only in where trace sources and memory
 * dumps are described: in the snapshot, or in one file of registers.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/decode/info.h"
#include "daemon/decode/input.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/base/ini.h"
#include "lib/coresight/armsnap.h"

enum { TRACE_ID_MASK = 0x7f };

struct snapshot_input {
	struct input input;
	struct pd_contents contents; /* mappings only */
	struct pd_map *maps;
	struct armsnap *snapshot;
	struct pd_piece piece; /* the whole buffer */
	int fd;
};

static int request_file(struct decode_job *job, const char *name, int *ret_fd)
{
	struct reason reason = { "" };
	int rc = job_file(job, name, ret_fd, &reason);

	if (rc < 0)
		return reason_set(&job->reason, rc, "requesting a file from the owner: %s", strerror(-rc));
	return *ret_fd < 0 ? reason_set(&job->reason, -ENOENT, "%s: %s", name, reason.text) : 0;
}

static int read_text(void *user, const char *name, char **ret, size_t *ret_size)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *text = NULL;
	struct decode_job *job = user;
	struct stat st;
	ssize_t n;
	int rc = request_file(job, name, &fd);

	if (rc < 0)
		return rc;
	if (fstat(fd, &st) < 0 || st.st_size > INI_SIZE_MAX)
		return reason_set(&job->reason, -EFBIG, "%s: too large", name);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	n = io_read(fd, text, (size_t)st.st_size);
	if (n < 0)
		return reason_set(&job->reason, (int)n, "%s: %s", name, strerror((int)-n));
	*ret_size = (size_t)n;
	*ret = TAKE_PTR(text);
	return 0;
}

static bool begins_with(const char *text, const char *with)
{
	return strncasecmp(text, with, strlen(with)) == 0;
}

/* Returns false for an unknown protocol. Types may end with a version: "PTM1.1". */
static bool configure(const struct armsnap_device *d, struct engine_config *c)
{
	static const struct {
		const char *type;
		enum engine_protocol protocol;
		enum armsnap_reg id;
		uint8_t id_shift;
	} types[] = {
		{ "ETM3", PROTOCOL_ETMV3, REG_ETMTRACEIDR, 0 }, { "ETMv3", PROTOCOL_ETMV3, REG_ETMTRACEIDR, 0 },
		{ "PTM", PROTOCOL_PTM, REG_ETMTRACEIDR, 0 },    { "PFT", PROTOCOL_PTM, REG_ETMTRACEIDR, 0 },
		{ "ETM4", PROTOCOL_ETMV4, REG_TRCTRACEIDR, 0 }, { "ETMv4", PROTOCOL_ETMV4, REG_TRCTRACEIDR, 0 },
		{ "ETE", PROTOCOL_ETE, REG_TRCTRACEIDR, 0 },    { "STM", PROTOCOL_STM, REG_STMTCSR, 16 },
		{ "ITM", PROTOCOL_ITM, REG_ITMTCR, 16 },
	};
	const uint32_t *r = d->regs;

	for (size_t i = 0; i < ELEMENTS(types); i++) {
		bool old = types[i].id == REG_ETMTRACEIDR;

		if (!begins_with(d->type, types[i].type))
			continue;
		c->protocol = types[i].protocol;
		c->trace_id = (uint8_t)(r[types[i].id] >> types[i].id_shift & TRACE_ID_MASK);
		c->configr = r[REG_TRCCONFIGR];
		c->traceidr = old ? r[REG_ETMTRACEIDR] : r[REG_TRCTRACEIDR];
		c->idr0 = old ? r[REG_ETMIDR] : r[REG_TRCIDR0];
		c->idr1 = r[REG_TRCIDR1];
		c->idr2 = r[REG_TRCIDR2];
		c->idr8 = r[REG_TRCIDR8];
		c->devarch = r[REG_TRCDEVARCH];
		c->ccer = r[REG_ETMCCER];
		c->control = old ? r[REG_ETMCR] : r[REG_STMTCSR] | r[REG_ITMTCR];
		return true;
	}
	return false;
}

static bool has_memory(const struct armsnap *s, uint32_t core)
{
	for (size_t i = 0; i < s->n_dumps; i++)
		if (s->dumps[i].device == core)
			return true;
	return false;
}

/*
 * Returns the core whose memory dumps hold the code of a trace source; UINT32_MAX: its core has no dumps, so that those
 * of any core are used.
 */
static uint32_t core_of(const struct snapshot_input *d, const char *source)
{
	const struct armsnap *s = d->snapshot;
	uint32_t core;

	for (size_t i = 0; i < s->n_cores; i++)
		if (strcmp(s->cores[i].to, source) == 0 && armsnap_device(s, s->cores[i].from, &core) == 0 &&
		    has_memory(s, core))
			return core;
	return UINT32_MAX;
}

static void add_stream(struct snapshot_input *d, struct buf *list, const struct armsnap_device *device,
		       const char *buffer, bool formatted)
{
	struct stream s = {
		.cpu = UINT32_MAX,
		.pid = core_of(d, device->name),
		.name = device->name,
		.buffer = buffer,
		.formatted = formatted,
		.pieces = &d->piece,
		.n_pieces = 1,
		.bytes = d->input.once ? 0 : d->piece.size,
		.shares = list->size > 0,
	};

	s.supported = configure(device, &s.config);
	if (s.supported && s.config.protocol == PROTOCOL_ETMV4 && s.pid != UINT32_MAX)
		s.config.core_aa64 = strstr(d->snapshot->devices[s.pid].type, "AA64");
	s.tid = s.config.trace_id;
	buf_add(list, &s, sizeof(s));
}

static int compare_streams(const void *left, const void *right)
{
	const struct stream *a = left, *b = right;

	/* By trace ID, then in the order of the file. */
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->shares - b->shares;
}

static int set_streams(struct snapshot_input *d, struct buf *list)
{
	if (buf_error(list)) {
		buf_done(list);
		return -ENOMEM;
	}
	d->input.streams.list = (struct stream *)list->data;
	d->input.streams.n = list->size / sizeof(struct stream);
	if (d->input.streams.n)
		qsort(list->data, d->input.streams.n, sizeof(struct stream), compare_streams);
	return 0;
}

static int measure_buffer(struct snapshot_input *d, const char *name)
{
	struct stat st;

	if (fstat(d->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return reason_set(&d->input.job->reason, -EINVAL, "%s: not a regular file", name);
	d->piece.size = (uint64_t)st.st_size;
	return 0;
}

static int find_streams(struct snapshot_input *d)
{
	const struct armsnap *s = d->snapshot;
	struct decode_job *job = d->input.job;
	const struct armsnap_buffer *b;
	struct buf list = { 0 };
	uint32_t n, device;
	int rc;

	if (armsnap_buffer(s, job->buffer, &n) < 0)
		return reason_set(&job->reason, -ENOENT,
				  job->buffer ? "there is no buffer %s" : "there is no trace buffer in the snapshot",
				  job->buffer);
	b = &s->buffers[n];
	rc = request_file(job, b->file, &d->fd);
	if (rc == 0)
		rc = measure_buffer(d, b->file);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < s->n_sources; i++) {
		if (strcmp(s->sources[i].to, b->name) != 0 && strcmp(s->sources[i].to, b->key) != 0)
			continue;
		if (armsnap_device(s, s->sources[i].from, &device) < 0)
			input_warn(&d->input, "%s is not described, and not decoded", s->sources[i].from);
		else
			add_stream(d, &list, &s->devices[device], b->name, b->formatted);
	}
	return set_streams(d, &list);
}

/*
 * Returns the process ID under which images of a core's memory space are mapped. Of overlapping dumps, the first one
 * takes precedence: since a later mapping replaces an earlier one, dumps are mapped at decreasing times.
 */
static uint32_t address_space(uint32_t core, unsigned space)
{
	return core * SPACES + space;
}

/* Returns the number of bytes of a dump that its file contains; 0 if the file is missing. */
static uint64_t dump_length(const struct snapshot_input *d, const struct armsnap_dump *dump, uint32_t file)
{
	int fd = image_file(d->input.images, file)->fd;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || dump->offset >= (uint64_t)st.st_size)
		return 0;
	return MIN(dump->length, (uint64_t)st.st_size - dump->offset);
}

static int map_dump(struct snapshot_input *d, const struct armsnap_dump *dump, uint64_t time)
{
	struct input *in = &d->input;
	struct reason reason = { "" };
	struct image_mapping mapping = { .addr = dump->address, .offset = dump->offset, .time = time };
	uint32_t file;
	int fd = -1, rc = image_file_add(in->images, dump->file, NULL, 0, 0, &file);

	if (rc < 0)
		return rc;
	if (image_file(in->images, file)->fd < 0 && !image_file(in->images, file)->reason) {
		rc = job_file(in->job, dump->file, &fd, &reason);
		if (rc < 0)
			return rc;
		image_file_attach(in->images, file, fd, reason.text);
	}
	mapping.file = file;
	mapping.len = dump_length(d, dump, file);
	for (unsigned space = 0; rc == 0 && mapping.len && space < (in->by_space ? (unsigned)SPACES : 1); space++)
		if (dump->spaces >> space & 1)
			rc = image_map(in->images, address_space(dump->device, space), &mapping);
	return rc;
}

/*
 * Lists the mappings from which calls get the names of functions. Each dump is mapped twice: for its core, whose number
 * takes the place of a process ID, and for streams whose core has no dumps (UINT32_MAX). Since a later mapping replaces
 * an earlier one, the first dump comes last.
 */
static int list_maps(struct snapshot_input *d)
{
	const struct armsnap *s = d->snapshot;
	uint32_t *files;

	/* An address may hold different code in each memory space, and calls do not know the space. */
	if (d->input.by_space)
		return 0;
	d->maps = calloc(2 * s->n_dumps + 1, sizeof(*d->maps));
	files = calloc(2 * s->n_dumps + 1, sizeof(*files));
	free(d->input.map_files);
	d->input.map_files = files;
	if (!d->maps || !files)
		return -ENOMEM;
	for (size_t i = s->n_dumps; i-- > 0;) {
		const struct armsnap_dump *dump = &s->dumps[i];
		uint32_t file;
		/* Returns the number that map_dump() got. */
		int rc = image_file_add(d->input.images, dump->file, NULL, 0, 0, &file);

		if (rc < 0)
			return rc;
		for (int k = 0; k < 2; k++) {
			d->maps[d->contents.n_maps] = (struct pd_map){ .pid = k ? UINT32_MAX : dump->device,
								       .addr = dump->address,
								       .len = dump_length(d, dump, file),
								       .offset = dump->offset,
								       .path = dump->file };
			files[d->contents.n_maps++] = file;
		}
	}
	d->contents.maps = d->maps;
	return 0;
}

static int map_dumps(struct snapshot_input *d)
{
	const struct armsnap *s = d->snapshot;
	int rc = image_set_new(&d->input.images);

	for (size_t i = 0; i < s->n_dumps; i++)
		d->input.by_space = d->input.by_space || s->dumps[i].spaces != SPACES_ANY;
	for (size_t i = 0; rc == 0 && i < s->n_dumps; i++)
		rc = map_dump(d, &s->dumps[i], s->n_dumps - i);
	if (rc == 0)
		rc = list_maps(d);
	if (rc == 0)
		rc = image_seal(d->input.images);
	return rc < 0 ? reason_set(&d->input.job->reason, rc, "the memory dumps: %s", strerror(-rc)) : 0;
}

static ssize_t snapshot_input_read(struct input *in, const struct pd_piece *piece, uint64_t at, void *ret, size_t size)
{
	int fd = ((struct snapshot_input *)in)->fd;
	ssize_t n;

	do
		n = in->once ? read(fd, ret, size)
			     : pread(fd, ret, (size_t)MIN((uint64_t)size, piece->size - at), (off_t)at);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static size_t snapshot_input_code(struct input *in, const struct stream *stream, const struct engine_context *context,
				  uint64_t address, void *ret, size_t size)
{
	const struct snapshot_input *d = (struct snapshot_input *)in;
	uint32_t first = stream->pid == UINT32_MAX ? 0 : stream->pid;
	uint32_t end = stream->pid == UINT32_MAX ? (uint32_t)d->snapshot->n_devices : first + 1;
	size_t n = 0;

	for (uint32_t core = first; n == 0 && core < end; core++)
		for (unsigned space = 0; n == 0 && space < (in->by_space ? (unsigned)SPACES : 1); space++)
			if (!in->by_space || context->spaces >> space & 1)
				n = image_read(in->images, address_space(core, space), address, UINT64_MAX, ret, size);
	return n;
}

static uint64_t snapshot_input_version(struct input *in, const struct stream *stream,
				       const struct engine_context *context)
{
	return 0;
}

static int snapshot_input_info(struct input *in, bool json, int fd)
{
	return info_write_snapshot(((struct snapshot_input *)in)->snapshot, json, fd);
}

static void snapshot_input_close(struct input *in)
{
	struct snapshot_input *d = (struct snapshot_input *)in;

	armsnap_free(d->snapshot);
	free(d->maps);
	if (d->fd != in->job->input)
		closep(&d->fd);
}

static struct snapshot_input *snapshot_input_new(struct decode_job *job, json_object *warnings)
{
	static const struct input_ops ops = { snapshot_input_read,  snapshot_input_code, snapshot_input_version, NULL,
					      snapshot_input_close, snapshot_input_info };
	struct snapshot_input *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->input.ops = &ops;
	d->input.job = job;
	d->input.contents = &d->contents;
	d->input.by_core = true;
	d->input.warnings = warnings;
	d->input.names = IMAGE_NONE;
	d->input.map_files = calloc(1, sizeof(*d->input.map_files));
	d->fd = -1;
	return d;
}

static int set_problem(struct decode_job *job, int rc, const struct armsnap_problem *p)
{
	if (rc != -EBADMSG || job->reason.text[0])
		return rc;
	if (p->line)
		return reason_set(&job->reason, rc, "%s: line %u: %s", p->file, p->line, p->cause);
	return reason_set(&job->reason, rc, "%s: %s", p->file, p->cause);
}

static int finish_open(struct snapshot_input *d, int rc, struct input **ret)
{
	if (rc == 0 && !d->input.job->info)
		rc = map_dumps(d);
	if (rc == 0)
		*ret = &d->input;
	else
		input_close(&d->input);
	return rc;
}

int input_snapshot_open(struct decode_job *job, json_object *warnings, struct input **ret)
{
	const struct armsnap_files files = { read_text, job };
	struct snapshot_input *d = snapshot_input_new(job, warnings);
	struct armsnap_problem problem;
	int rc;

	if (!d)
		return -ENOMEM;
	rc = armsnap_read(&files, &d->snapshot, &problem);
	if (rc < 0)
		rc = set_problem(job, rc, &problem);
	else if (!job->info)
		rc = find_streams(d);
	return finish_open(d, rc, ret);
}

/* The input may be a pipe that is still being written. */
static int measure_input(struct snapshot_input *d)
{
	struct stat st;

	d->input.once = fstat(d->fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
	if (!d->input.once)
		return measure_buffer(d, "the input");
	d->piece.size = INT64_MAX;
	return 0;
}

int input_bytes_open(struct decode_job *job, json_object *warnings, struct input **ret)
{
	const struct armsnap_files files = { read_text, job };
	struct snapshot_input *d = snapshot_input_new(job, warnings);
	const struct armsnap_device *device;
	struct armsnap_problem problem;
	struct buf list = { 0 };
	int rc;

	if (!d)
		return -ENOMEM;
	d->fd = job->input;
	rc = job->regs ? armsnap_read_device(&files, job->regs, &d->snapshot, &problem)
		       : reason_set(&job->reason, -EINVAL, "bare trace needs a file of registers");
	if (rc < 0)
		return finish_open(d, set_problem(job, rc, &problem), ret);
	rc = measure_input(d);
	if (rc == 0) {
		device = &d->snapshot->devices[0];
		add_stream(d, &list, device, "bytes", device->formatted);
		rc = set_streams(d, &list);
	}
	if (rc == 0 && !d->input.streams.list[0].supported)
		rc = reason_set(&job->reason, -EINVAL, "%s: %s", job->regs,
				device->type[0] ? "its type is not that of a trace source" : "it names no type");
	return finish_open(d, rc, ret);
}
