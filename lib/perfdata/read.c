#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/reader.h"
#include "lib/perfdata/format.h"
#include "lib/perfdata/pieces.h"
#include "lib/perfdata/read.h"

enum {
	WINDOW_SIZE = 1 << 20,
	EVENTS_MAX = 4096,
	IDS_MAX = 1 << 20,
	LIST_MAX = 512 << 20, /* bytes of one kind of records that are kept */
	INFO_MAX = 4096,      /* CPUs */
};

struct event {
	uint32_t type;
	uint64_t sample_type;
	bool sample_id_all;
};

struct id {
	uint64_t id;
	uint32_t event;
};

/* What is kept of the file. Names are text with its NUL, told of by offset until all are read. */
enum list { IDS, CPUS, COMMS, TASKS, MAPS, HW_IDS, RECORDS, BUFFERS, NAMES, LISTS };

struct pd_file {
	int fd;
	uint64_t size;
	struct pd_contents contents;
	bool has_metadata;
	uint8_t features[PD_FEAT_MAX / 8];
	uint64_t data, data_end;
	struct event *events;
	size_t n_events;
	struct buf lists[LISTS];
	struct pd_pieces pieces;
	/* A stretch of the file, read ahead. */
	uint8_t *window;
	uint64_t window_at;
	size_t window_size;
};

static int problem(struct pd_problem *p, uint64_t offset, const char *cause)
{
	p->offset = offset;
	p->cause = cause;
	return -EBADMSG;
}

/* The first damage is the one that is told. */
static void damage(struct pd_file *f, uint64_t offset, const char *cause)
{
	if (!f->contents.damage.cause)
		problem(&f->contents.damage, offset, cause);
}

static ssize_t read_at(int fd, void *ret, size_t size, uint64_t offset)
{
	size_t have = 0;

	if (offset > INT64_MAX - size)
		return 0;
	while (have < size) {
		ssize_t n = pread(fd, (uint8_t *)ret + have, size - have, (off_t)(offset + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* A view of at most WINDOW_SIZE bytes of the file, good until the next call; shorter at the end of the file. */
static int view(struct pd_file *f, uint64_t offset, size_t size, struct reader *ret)
{
	bool inside = offset >= f->window_at && offset - f->window_at <= f->window_size;
	uint64_t from;

	if (!inside || f->window_size - (offset - f->window_at) < size) {
		ssize_t n = read_at(f->fd, f->window, WINDOW_SIZE, offset);

		if (n < 0)
			return (int)n;
		f->window_at = offset;
		f->window_size = (size_t)n;
	}
	from = offset - f->window_at;
	*ret = reader_of(f->window + from, MIN(size, f->window_size - from));
	return 0;
}

static int read_header(struct pd_file *f, uint64_t *ret_attrs, uint64_t *ret_attrs_size, uint64_t *ret_attr_size,
		       struct pd_problem *p)
{
	uint64_t magic = 0, size = 0, data_size = 0, skip;
	struct reader r;
	int rc = view(f, 0, PD_HEADER_SIZE, &r);

	if (rc < 0)
		return rc;
	if (rd_u64(&r, &magic) < 0 || rd_u64(&r, &size) < 0)
		return problem(p, 0, "the file is too short for a perf.data");
	if (magic == __builtin_bswap64(PD_MAGIC))
		return problem(p, 0, "a big-endian perf.data is not read");
	if (magic != PD_MAGIC)
		return problem(p, 0, "not a perf.data");
	if (size == 16)
		return problem(p, 8, "a perf.data from a pipe is not read");
	if (size < PD_HEADER_SIZE)
		return problem(p, 8, "the header's size is too small");
	if (rd_u64(&r, ret_attr_size) < 0 || rd_u64(&r, ret_attrs) < 0 || rd_u64(&r, ret_attrs_size) < 0 ||
	    rd_u64(&r, &f->data) < 0 || rd_u64(&r, &data_size) < 0 || rd_u64(&r, &skip) < 0 || rd_u64(&r, &skip) < 0 ||
	    rd_copy(&r, f->features, sizeof(f->features)) < 0)
		return problem(p, 0, "the file is too short for a perf.data");
	if (*ret_attr_size < PD_ATTR_SIZE_MIN + 16 || *ret_attr_size > 65536)
		return problem(p, 16, "the size of an event's attributes is out of range");
	if (f->data > f->size)
		return problem(p, 40, "the data begin behind the end of the file");
	f->data_end = f->data + data_size;
	if (data_size == 0) {
		damage(f, 48, "the recording was not finished");
		f->data_end = f->size;
	} else if (data_size > f->size - f->data) {
		damage(f, f->size, "the file is cut short");
		f->data_end = f->size;
	}
	return 0;
}

static int compare_ids(const void *left, const void *right)
{
	const struct id *a = left, *b = right;

	return (a->id > b->id) - (a->id < b->id);
}

static int read_ids(struct pd_file *f, uint32_t event, uint64_t offset, uint64_t size, struct pd_problem *p)
{
	uint64_t n = size / 8;

	if (n > IDS_MAX || f->lists[IDS].size / sizeof(struct id) + n > IDS_MAX)
		return problem(p, offset, "too many event identifiers");
	for (uint64_t i = 0; i < n; i++) {
		struct id id = { .event = event };
		struct reader r;
		int rc = view(f, offset + i * 8, 8, &r);

		if (rc < 0)
			return rc;
		if (rd_u64(&r, &id.id) < 0)
			return problem(p, offset + i * 8, "event identifiers lie behind the end of the file");
		buf_add(&f->lists[IDS], &id, sizeof(id));
	}
	return 0;
}

static int read_events(struct pd_file *f, uint64_t at, uint64_t size, uint64_t attr_size, struct pd_problem *p)
{
	uint64_t n = size / attr_size;

	if (n == 0 || n > EVENTS_MAX)
		return problem(p, at, "no events, or too many");
	f->events = calloc(n, sizeof(*f->events));
	if (!f->events)
		return -ENOMEM;
	for (; f->n_events < n; f->n_events++, at += attr_size) {
		struct event *e = &f->events[f->n_events];
		uint64_t ids = 0, ids_size = 0, flags = 0;
		struct reader r;
		int rc = view(f, at, attr_size, &r);

		if (rc < 0)
			return rc;
		/* type, size, config, sample_period, sample_type, read_format, flags */
		if (rd_u32(&r, &e->type) < 0 || rd_skip(&r, 20) < 0 || rd_u64(&r, &e->sample_type) < 0 ||
		    rd_skip(&r, 8) < 0 || rd_u64(&r, &flags) < 0 || rd_skip(&r, attr_size - 64) < 0 ||
		    rd_u64(&r, &ids) < 0 || rd_u64(&r, &ids_size) < 0)
			return problem(p, at, "the events lie behind the end of the file");
		e->sample_id_all = flags & PD_ATTR_SAMPLE_ID_ALL;
		rc = read_ids(f, (uint32_t)f->n_events, ids, ids_size, p);
		if (rc < 0)
			return rc;
	}
	if (buf_error(&f->lists[IDS]))
		return buf_error(&f->lists[IDS]);
	if (f->lists[IDS].size)
		qsort(f->lists[IDS].data, f->lists[IDS].size / sizeof(struct id), sizeof(struct id), compare_ids);
	return 0;
}

static const struct event *event_of(const struct pd_file *f, uint64_t id)
{
	struct id key = { .id = id }, *found = NULL;

	if (f->lists[IDS].size)
		found = bsearch(&key, f->lists[IDS].data, f->lists[IDS].size / sizeof(key), sizeof(key), compare_ids);
	return found ? &f->events[found->event] : &f->events[0];
}

/* The sample_id at the end of a record of the kernel; r loses it. */
static struct pd_origin take_origin(const struct pd_file *f, struct reader *r)
{
	struct pd_origin o = { UINT32_MAX, UINT32_MAX, UINT32_MAX, 0 };
	const struct event *e = &f->events[0];
	struct reader tail;
	uint64_t skip;
	size_t size;

	if (e->sample_type & PD_SAMPLE_IDENTIFIER && rd_left(r) >= 8) {
		tail = *r;
		if (rd_skip(&tail, rd_left(r) - 8) == 0 && rd_u64(&tail, &skip) == 0)
			e = event_of(f, skip);
	}
	if (!e->sample_id_all)
		return o;
	size = 8 * (size_t)__builtin_popcountll(e->sample_type &
						(PD_SAMPLE_TID | PD_SAMPLE_TIME | PD_SAMPLE_ID | PD_SAMPLE_STREAM_ID |
						 PD_SAMPLE_CPU | PD_SAMPLE_IDENTIFIER));
	if (size > rd_left(r))
		return o;
	tail = *r;
	rd_sub(&tail, rd_left(r) - size, r);
	if (e->sample_type & PD_SAMPLE_TID && (rd_u32(&tail, &o.pid) < 0 || rd_u32(&tail, &o.tid) < 0))
		return o;
	if (e->sample_type & PD_SAMPLE_TIME)
		rd_u64(&tail, &o.time);
	if (e->sample_type & PD_SAMPLE_ID)
		rd_u64(&tail, &skip);
	if (e->sample_type & PD_SAMPLE_STREAM_ID)
		rd_u64(&tail, &skip);
	if (e->sample_type & PD_SAMPLE_CPU)
		rd_u32(&tail, &o.cpu);
	return o;
}

/* Text from a record, kept by its offset until all are known; it may lack its NUL where it fills the record. */
static const char *keep_name(struct pd_file *f, struct reader *r)
{
	size_t size = strnlen((const char *)r->at, rd_left(r)), at = f->lists[NAMES].size;

	buf_add(&f->lists[NAMES], r->at, size);
	buf_u8(&f->lists[NAMES], 0);
	return (const char *)(uintptr_t)at;
}

static int on_comm(struct pd_file *f, uint16_t misc, struct reader *r, const struct pd_origin *o)
{
	struct pd_comm c = { .exec = misc & PD_MISC_COMM_EXEC, .time = o->time };

	if (rd_u32(r, &c.pid) < 0 || rd_u32(r, &c.tid) < 0)
		return -EBADMSG;
	c.name = keep_name(f, r);
	buf_add(&f->lists[COMMS], &c, sizeof(c));
	return 0;
}

static int on_task(struct pd_file *f, uint32_t type, struct reader *r)
{
	struct pd_task t = { .exit = type == PD_REC_EXIT };

	if (rd_u32(r, &t.pid) < 0 || rd_u32(r, &t.ppid) < 0 || rd_u32(r, &t.tid) < 0 || rd_u32(r, &t.ptid) < 0 ||
	    rd_u64(r, &t.time) < 0)
		return -EBADMSG;
	buf_add(&f->lists[TASKS], &t, sizeof(t));
	return 0;
}

static int on_map(struct pd_file *f, uint32_t type, uint16_t misc, struct reader *r, const struct pd_origin *o)
{
	struct pd_map m = { .time = o->time };
	uint64_t generation;

	if (rd_u32(r, &m.pid) < 0 || rd_u32(r, &m.tid) < 0 || rd_u64(r, &m.addr) < 0 || rd_u64(r, &m.len) < 0 ||
	    rd_u64(r, &m.offset) < 0)
		return -EBADMSG;
	if (type == PD_REC_MMAP2) {
		if (misc & PD_MISC_BUILD_ID) {
			if (rd_u8(r, &m.build_id_size) < 0 || rd_skip(r, 3) < 0 ||
			    rd_copy(r, m.build_id, PD_BUILD_ID_MAX) < 0 || m.build_id_size > PD_BUILD_ID_MAX)
				return -EBADMSG;
		} else if (rd_u32(r, &m.major) < 0 || rd_u32(r, &m.minor) < 0 || rd_u64(r, &m.inode) < 0 ||
			   rd_u64(r, &generation) < 0)
			return -EBADMSG;
		if (rd_u32(r, &m.prot) < 0 || rd_u32(r, &m.flags) < 0)
			return -EBADMSG;
	}
	/* The older record is of code unless it says otherwise, and has no protection. */
	if (type == PD_REC_MMAP && !(misc & PD_MISC_MMAP_DATA))
		m.prot = PROT_READ | PROT_EXEC;
	m.path = keep_name(f, r);
	buf_add(&f->lists[MAPS], &m, sizeof(m));
	return 0;
}

static int on_aux(struct pd_file *f, struct reader *r, const struct pd_origin *o)
{
	struct pd_aux_record a = { .origin = *o, .order = f->lists[RECORDS].size / sizeof(a) };

	if (rd_u64(r, &a.offset) < 0 || rd_u64(r, &a.size) < 0 || rd_u64(r, &a.flags) < 0)
		return -EBADMSG;
	buf_add(&f->lists[RECORDS], &a, sizeof(a));
	return 0;
}

static int on_hw_id(struct pd_file *f, struct reader *r, const struct pd_origin *o)
{
	struct pd_hw_id h = { .origin = *o };

	if (rd_u64(r, &h.value) < 0)
		return -EBADMSG;
	buf_add(&f->lists[HW_IDS], &h, sizeof(h));
	return 0;
}

static uint32_t default_params(uint64_t magic)
{
	return magic == PD_MAGIC_ETMV3 ? 4 : magic == PD_MAGIC_ETMV4 ? 7 : magic == PD_MAGIC_ETE ? 8 : 0;
}

static int on_auxtrace_info(struct pd_file *f, struct reader *r)
{
	uint64_t version, pmu, snapshot;
	uint32_t type, reserved;

	if (rd_u32(r, &type) < 0 || rd_u32(r, &reserved) < 0)
		return -EBADMSG;
	if (type != PD_AUXTRACE_CS_ETM)
		return -EOPNOTSUPP;
	if (rd_u64(r, &version) < 0 || rd_u64(r, &pmu) < 0 || rd_u64(r, &snapshot) < 0)
		return -EBADMSG;
	f->contents.metadata_version = version;
	f->contents.pmu_type = (uint32_t)(pmu >> 32);
	f->contents.snapshot = snapshot;
	f->has_metadata = true;
	for (uint64_t i = 0, n = MIN(pmu & UINT32_MAX, (uint64_t)INFO_MAX); i < n; i++) {
		struct pd_cpu cpu = { 0 };
		uint64_t params;

		if (rd_u64(r, &cpu.magic) < 0 || rd_u64(r, &cpu.cpu) < 0)
			return -EBADMSG;
		params = default_params(cpu.magic);
		if (!params || (version > 0 && rd_u64(r, &params) < 0))
			return -EBADMSG;
		for (uint64_t p = 0; p < params; p++) {
			uint64_t value;

			if (rd_u64(r, &value) < 0)
				return -EBADMSG;
			if (p < PD_PARAMS_MAX)
				cpu.params[cpu.n_params++] = value;
		}
		buf_add(&f->lists[CPUS], &cpu, sizeof(cpu));
	}
	return 0;
}

/* *ret_size: the bytes of trace that follow the record. */
static int on_auxtrace(struct pd_file *f, struct reader *r, uint64_t file_offset, uint64_t *ret_size)
{
	struct pd_aux_buffer b = { .file_offset = file_offset, .order = f->lists[BUFFERS].size / sizeof(b) };
	uint64_t reference;

	if (rd_u64(r, &b.size) < 0 || rd_u64(r, &b.offset) < 0 || rd_u64(r, &reference) < 0 ||
	    rd_u32(r, &b.index) < 0 || rd_u32(r, &b.tid) < 0 || rd_u32(r, &b.cpu) < 0)
		return -EBADMSG;
	buf_add(&f->lists[BUFFERS], &b, sizeof(b));
	*ret_size = b.size;
	return 0;
}

static int on_record(struct pd_file *f, uint32_t type, uint16_t misc, struct reader *r)
{
	struct pd_origin o = { UINT32_MAX, UINT32_MAX, UINT32_MAX, 0 };

	if (type < PD_REC_USER && type != PD_REC_SAMPLE)
		o = take_origin(f, r);
	switch (type) {
	case PD_REC_COMM:
		return on_comm(f, misc, r, &o);
	case PD_REC_FORK:
	case PD_REC_EXIT:
		return on_task(f, type, r);
	case PD_REC_MMAP:
	case PD_REC_MMAP2:
		return on_map(f, type, misc, r, &o);
	case PD_REC_AUX:
		return on_aux(f, r, &o);
	case PD_REC_AUX_OUTPUT_HW_ID:
		return on_hw_id(f, r, &o);
	case PD_REC_AUXTRACE_INFO:
		return on_auxtrace_info(f, r);
	default:
		return 0;
	}
}

static int list_error(const struct pd_file *f)
{
	for (size_t i = 0; i < LISTS; i++)
		if (buf_error(&f->lists[i]))
			return buf_error(&f->lists[i]);
	return 0;
}

/* Every record of the data section; damage ends it and is no failure. */
static int read_records(struct pd_file *f, struct pd_problem *p)
{
	uint64_t at = f->data;

	while (at < f->data_end) {
		uint64_t trace = 0;
		struct reader r, body;
		uint16_t misc, size;
		uint32_t type;
		int rc = view(f, at, (size_t)MIN(f->data_end - at, (uint64_t)UINT16_MAX), &r);

		if (rc < 0)
			return rc;
		if (rd_u32(&r, &type) < 0 || rd_u16(&r, &misc) < 0 || rd_u16(&r, &size) < 0) {
			damage(f, at, "a record is cut short");
			break;
		}
		if (size < 8) {
			damage(f, at, "a record has an impossible size");
			break;
		}
		if (rd_sub(&r, size - 8, &body) < 0) {
			damage(f, at, "a record is cut short");
			break;
		}
		if (type == PD_REC_COMPRESSED || type == PD_REC_COMPRESSED2)
			damage(f, at, "compressed records are not read");
		rc = type == PD_REC_AUXTRACE ? on_auxtrace(f, &body, at + size, &trace)
					     : on_record(f, type, misc, &body);
		if (rc == -EOPNOTSUPP)
			return problem(p, at, "its trace is not of CoreSight");
		if (rc < 0)
			damage(f, at, "a record is too short for its type");
		if (list_error(f) == -EFBIG) {
			damage(f, at, "more records than can be kept");
			break;
		}
		if (trace > f->data_end - at - size) {
			damage(f, at, "a trace buffer is cut short");
			break;
		}
		at += size + trace;
	}
	return list_error(f) == -EFBIG ? 0 : list_error(f);
}

/* The one feature section of interest says who wrote the file. Absent or broken: nothing is said. */
static int read_version(struct pd_file *f)
{
	uint64_t at = f->data_end, offset = 0, size = 0;
	uint32_t length;
	struct reader r;
	int rc;

	if (f->contents.damage.cause || !(f->features[PD_FEAT_VERSION / 8] & 1 << PD_FEAT_VERSION % 8))
		return 0;
	for (int i = 0; i < PD_FEAT_VERSION; i++)
		if (f->features[i / 8] & 1 << i % 8)
			at += 16;
	rc = view(f, at, 16, &r);
	if (rc < 0 || rd_u64(&r, &offset) < 0 || rd_u64(&r, &size) < 0)
		return rc;
	rc = view(f, offset, (size_t)MIN(size, (uint64_t)4096), &r);
	if (rc < 0 || rd_u32(&r, &length) < 0 || rd_sub(&r, length, &r) < 0)
		return rc;
	f->contents.version = keep_name(f, &r);
	return buf_error(&f->lists[NAMES]);
}

/* Offsets become pointers, now that the names stay where they are. */
static void settle(struct pd_file *f)
{
	struct pd_contents *c = &f->contents;
	struct pd_comm *comms = (struct pd_comm *)f->lists[COMMS].data;
	struct pd_map *maps = (struct pd_map *)f->lists[MAPS].data;
	const char *names = (const char *)f->lists[NAMES].data;

	c->n_comms = f->lists[COMMS].size / sizeof(*comms);
	for (size_t i = 0; i < c->n_comms; i++)
		comms[i].name = names + (uintptr_t)comms[i].name;
	c->n_maps = f->lists[MAPS].size / sizeof(*maps);
	for (size_t i = 0; i < c->n_maps; i++)
		maps[i].path = names + (uintptr_t)maps[i].path;
	c->comms = comms;
	c->maps = maps;
	c->cpus = (struct pd_cpu *)f->lists[CPUS].data;
	c->n_cpus = f->lists[CPUS].size / sizeof(*c->cpus);
	c->tasks = (struct pd_task *)f->lists[TASKS].data;
	c->n_tasks = f->lists[TASKS].size / sizeof(*c->tasks);
	c->hw_ids = (struct pd_hw_id *)f->lists[HW_IDS].data;
	c->n_hw_ids = f->lists[HW_IDS].size / sizeof(*c->hw_ids);
	c->pieces = (struct pd_piece *)f->pieces.pieces.data;
	c->n_pieces = f->pieces.pieces.size / sizeof(*c->pieces);
	c->aux_records = f->lists[RECORDS].size / sizeof(struct pd_aux_record);
	c->aux_repeated = f->pieces.repeated;
	c->aux_unplaced = f->pieces.unplaced;
}

static int read_all(struct pd_file *f, struct pd_problem *p)
{
	uint64_t attrs = 0, attrs_size = 0, attr_size = 0, has_version;
	int rc = read_header(f, &attrs, &attrs_size, &attr_size, p);

	if (rc == 0)
		rc = read_events(f, attrs, attrs_size, attr_size, p);
	if (rc == 0)
		rc = read_records(f, p);
	if (rc == 0 && !f->has_metadata)
		rc = problem(p, f->data, "it has no CoreSight trace (no AUXTRACE_INFO)");
	if (rc < 0)
		return rc;
	has_version = f->lists[NAMES].size;
	rc = read_version(f);
	if (rc < 0)
		return rc;
	rc = pd_make_pieces((struct pd_aux_record *)f->lists[RECORDS].data,
			    f->lists[RECORDS].size / sizeof(struct pd_aux_record),
			    (struct pd_aux_buffer *)f->lists[BUFFERS].data,
			    f->lists[BUFFERS].size / sizeof(struct pd_aux_buffer), f->data_end, &f->pieces);
	if (rc < 0)
		return rc;
	settle(f);
	if (f->lists[NAMES].size > has_version)
		f->contents.version = (const char *)f->lists[NAMES].data + has_version;
	return 0;
}

int pd_open(int fd, struct pd_file **ret, const struct pd_contents **ret_contents, struct pd_problem *ret_problem)
{
	_cleanup_(pd_closep) struct pd_file *f = calloc(1, sizeof(*f));
	struct stat st;
	int rc;

	*ret_problem = (struct pd_problem){ 0 };
	if (!f)
		return -ENOMEM;
	f->fd = fd;
	f->window = malloc(WINDOW_SIZE);
	if (!f->window)
		return -ENOMEM;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return problem(ret_problem, 0, "not a regular file");
	f->size = (uint64_t)st.st_size;
	for (size_t i = 0; i < LISTS; i++)
		f->lists[i].limit = LIST_MAX;
	rc = read_all(f, ret_problem);
	free(f->window);
	f->window = NULL;
	if (rc < 0)
		return rc;
	*ret_contents = &f->contents;
	*ret = TAKE_PTR(f);
	return 0;
}

struct pd_file *pd_close(struct pd_file *f)
{
	if (!f)
		return NULL;
	free(f->events);
	free(f->window);
	for (size_t i = 0; i < LISTS; i++)
		buf_done(&f->lists[i]);
	buf_done(&f->pieces.pieces);
	free(f);
	return NULL;
}

ssize_t pd_read(struct pd_file *f, const struct pd_piece *piece, uint64_t at, void *ret, size_t size)
{
	if (at >= piece->size)
		return 0;
	return read_at(f->fd, ret, (size_t)MIN((uint64_t)size, piece->size - at), piece->file_offset + at);
}
