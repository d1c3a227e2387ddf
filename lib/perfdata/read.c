/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/perfdata/file.h"
#include "lib/perfdata/sums.h"

enum {
	WINDOW_SIZE = 1 << 20,
	EVENTS_MAX = 4096,
	IDS_MAX = 1 << 20,
	LIST_MAX = 512 << 20, /* bytes of one kind of records that are kept */
	DAMAGED_MAX = 1 << 20,
};

static int set_problem(struct pd_problem *p, uint64_t offset, const char *cause)
{
	p->offset = offset;
	p->cause = cause;
	return -EBADMSG;
}

void pd_damage(struct pd_file *f, uint64_t offset, const char *cause)
{
	if (!f->contents.damage.cause)
		set_problem(&f->contents.damage, offset, cause);
}

int pd_view(struct pd_file *f, uint64_t offset, size_t size, struct reader *ret)
{
	bool inside = offset >= f->window_at && offset - f->window_at <= f->window_size;
	uint64_t from;

	/* Without a descriptor (live.c) there is only the window: *ret is empty outside of it. */
	if (f->fd < 0 && !inside) {
		*ret = reader_of(NULL, 0);
		return 0;
	}
	if (f->fd >= 0 && (!inside || f->window_size - (offset - f->window_at) < size)) {
		ssize_t n = io_pread(f->fd, f->window, WINDOW_SIZE, offset);

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
	int rc = pd_view(f, 0, PD_HEADER_SIZE, &r);

	if (rc < 0)
		return rc;
	if (rd_u64(&r, &magic) < 0 || rd_u64(&r, &size) < 0)
		return set_problem(p, 0, "the file is too short for a perf.data");
	if (magic == __builtin_bswap64(PD_MAGIC))
		return set_problem(p, 0, "big-endian perf.data is not supported");
	if (magic != PD_MAGIC)
		return set_problem(p, 0, "not a perf.data");
	if (size == 16)
		return set_problem(p, 8, "perf.data written to a pipe is not supported");
	if (size < PD_HEADER_SIZE)
		return set_problem(p, 8, "the header's size is too small");
	if (rd_u64(&r, ret_attr_size) < 0 || rd_u64(&r, ret_attrs) < 0 || rd_u64(&r, ret_attrs_size) < 0 ||
	    rd_u64(&r, &f->data) < 0 || rd_u64(&r, &data_size) < 0 || rd_u64(&r, &skip) < 0 || rd_u64(&r, &skip) < 0 ||
	    rd_copy(&r, f->features, sizeof(f->features)) < 0)
		return set_problem(p, 0, "the file is too short for a perf.data");
	if (*ret_attr_size < PD_ATTR_SIZE_MIN + 16 || *ret_attr_size > 65536)
		return set_problem(p, 16, "the size of an event's attributes is out of range");
	if (f->data > f->size)
		return set_problem(p, 40, "the data section begins after the end of the file");
	f->data_end = f->data + data_size;
	if (data_size == 0) {
		pd_damage(f, 48, "the recording was not finished");
		f->data_cut = true;
		f->data_end = f->size;
	} else if (data_size > f->size - f->data) {
		pd_damage(f, f->size, "the file is cut short");
		f->data_cut = true;
		f->data_end = f->size;
	}
	return 0;
}

int pd_compare_ids(const void *left, const void *right)
{
	const struct event_id *a = left, *b = right;

	return (a->id > b->id) - (a->id < b->id);
}

static int read_ids(struct pd_file *f, uint32_t event, uint64_t offset, uint64_t size, struct pd_problem *p)
{
	uint64_t n = size / 8;

	if (n > IDS_MAX || f->lists[IDS].size / sizeof(struct event_id) + n > IDS_MAX)
		return set_problem(p, offset, "too many event identifiers");
	for (uint64_t i = 0; i < n; i++) {
		struct event_id id = { .event = event };
		struct reader r;
		int rc = pd_view(f, offset + i * 8, 8, &r);

		if (rc < 0)
			return rc;
		if (rd_u64(&r, &id.id) < 0)
			return set_problem(p, offset + i * 8, "event identifiers lie after the end of the file");
		buf_add(&f->lists[IDS], &id, sizeof(id));
	}
	return 0;
}

static int read_events(struct pd_file *f, uint64_t at, uint64_t size, uint64_t attr_size, struct pd_problem *p)
{
	uint64_t n = size / attr_size;

	if (n == 0 || n > EVENTS_MAX)
		return set_problem(p, at, "no events or too many events");
	f->events = calloc(n, sizeof(*f->events));
	if (!f->events)
		return -ENOMEM;
	for (; f->n_events < n; f->n_events++, at += attr_size) {
		struct event *e = &f->events[f->n_events];
		uint64_t ids = 0, ids_size = 0, flags = 0;
		struct reader r;
		int rc = pd_view(f, at, attr_size, &r);

		if (rc < 0)
			return rc;
		/* type, size, config, sample_period, sample_type, read_format, flags */
		if (rd_u32(&r, &e->type) < 0 || rd_skip(&r, 4) < 0 || rd_u64(&r, &e->config) < 0 ||
		    rd_u64(&r, &e->period) < 0 || rd_u64(&r, &e->sample_type) < 0 || rd_u64(&r, &e->read_format) < 0 ||
		    rd_u64(&r, &flags) < 0 || rd_skip(&r, attr_size - 64) < 0 || rd_u64(&r, &ids) < 0 ||
		    rd_u64(&r, &ids_size) < 0)
			return set_problem(p, at, "the events lie after the end of the file");
		if (flags & PD_ATTR_FREQUENCY)
			e->period = 0;
		e->sample_id_all = flags & PD_ATTR_SAMPLE_ID_ALL;
		f->contents.names_clock = f->contents.names_clock || flags & PD_ATTR_USE_CLOCKID;
		rc = read_ids(f, (uint32_t)f->n_events, ids, ids_size, p);
		if (rc < 0)
			return rc;
	}
	if (buf_error(&f->lists[IDS]))
		return buf_error(&f->lists[IDS]);
	if (f->lists[IDS].size)
		qsort(f->lists[IDS].data, f->lists[IDS].size / sizeof(struct event_id), sizeof(struct event_id),
		      pd_compare_ids);
	return 0;
}

int pd_read_events(struct pd_file *f, struct pd_problem *p)
{
	uint64_t attrs = 0, attrs_size = 0, attr_size = 0;
	int rc = read_header(f, &attrs, &attrs_size, &attr_size, p);

	return rc < 0 ? rc : read_events(f, attrs, attrs_size, attr_size, p);
}

static int first_list_error(const struct pd_file *f)
{
	for (size_t i = 0; i < LISTS; i++)
		if (buf_error(&f->lists[i]))
			return buf_error(&f->lists[i]);
	return 0;
}

/* An invalid compressed record ends the compressed stream; records outside the stream are still read. */
static int on_compressed(struct pd_file *f, uint32_t type, uint64_t at, struct reader *r)
{
	uint64_t size;
	int rc;

	if (type == PD_REC_COMPRESSED2 && (rd_u64(r, &size) < 0 || rd_sub(r, MIN(size, rd_left(r)), r) < 0))
		return -EBADMSG;
	if (f->inflate_broken)
		return 0;
	rc = pd_inflate(f, r, pd_on_record);
	if (rc == -ENOMEM)
		return rc;
	if (rc < 0) {
		f->inflate_broken = true;
		pd_damage(f, at, rc == -EFBIG ? "too many compressed records" : "invalid compressed records");
	}
	return 0;
}

/* Reads all records of the data section. Damage ends the reading without an error. */
static int read_records(struct pd_file *f, struct pd_problem *p)
{
	uint64_t at = f->data;

	while (at < f->data_end) {
		uint64_t trace = 0;
		struct reader r, body;
		uint16_t misc, size;
		uint32_t type;
		int rc = pd_view(f, at, (size_t)MIN(f->data_end - at, (uint64_t)UINT16_MAX), &r);

		if (rc < 0)
			return rc;
		if (rd_u32(&r, &type) < 0 || rd_u16(&r, &misc) < 0 || rd_u16(&r, &size) < 0) {
			pd_damage(f, at, "a record is cut short");
			break;
		}
		if (size < 8) {
			pd_damage(f, at, "a record has an impossible size");
			break;
		}
		if (rd_sub(&r, size - 8, &body) < 0) {
			pd_damage(f, at, "a record is cut short");
			break;
		}
		if (type == PD_REC_COMPRESSED || type == PD_REC_COMPRESSED2)
			rc = on_compressed(f, type, at, &body);
		else if (type == PD_REC_AUXTRACE)
			rc = pd_on_auxtrace(f, &body, at + size, &trace);
		else
			rc = pd_on_record(f, type, misc, &body);
		f->last_record = type == PD_REC_AUX ? f->lists[RECORDS].size / sizeof(struct pd_aux_record) : 0;
		if (rc == -EOPNOTSUPP)
			return set_problem(p, at, "the trace is not CoreSight trace");
		if (rc == -ENOMEM)
			return rc;
		if (rc < 0)
			pd_damage(f, at, "a record is too short for its type");
		if (first_list_error(f) == -EFBIG) {
			pd_damage(f, at, "too many records");
			break;
		}
		if (trace > f->data_end - at - size) {
			pd_damage(f, at, "a trace buffer is cut short");
			break;
		}
		at += size + trace;
	}
	if (!pd_inflate_whole(f->inflate))
		pd_damage(f, at, "the compressed records end within a record");
	return first_list_error(f) == -EFBIG ? 0 : first_list_error(f);
}

/* Fills in the contents from the lists, and turns offsets of names into pointers, as the lists no longer move. */
static enum pd_slices slices_of(const struct pd_file *f)
{
	enum pd_slices slices = PD_SLICES_UNKNOWN;

	for (size_t i = 0; i < f->n_events; i++)
		if (f->events[i].type == f->contents.pmu_type && (f->events[i].of_cpus || f->events[i].of_threads))
			slices = f->events[i].of_cpus ? PD_SLICES_OF_CPUS : PD_SLICES_OF_THREADS;
	return slices;
}

static int compare_hw_ids(const void *left, const void *right)
{
	const struct pd_hw_id *a = left, *b = right;
	uint64_t x = a->value >> PD_HW_ID_MAJOR_SHIFT, y = b->value >> PD_HW_ID_MAJOR_SHIFT;

	if (a->origin.cpu != b->origin.cpu)
		return a->origin.cpu < b->origin.cpu ? -1 : 1;
	return (x > y) - (x < y);
}

const struct pd_hw_id *pd_find_hw_id(const struct pd_contents *c, uint32_t cpu)
{
	const struct pd_hw_id key = { .origin.cpu = cpu };

	return c->n_hw_ids ? bsearch(&key, c->hw_ids, c->n_hw_ids, sizeof(key), compare_hw_ids) : NULL;
}

/* Of the records of a CPU, the last one counts. */
static int keep_last_hw_ids(struct pd_file *f)
{
	struct pd_hw_id *list = (struct pd_hw_id *)f->lists[HW_IDS].data;
	size_t n = f->lists[HW_IDS].size / sizeof(*list), kept = 0;
	struct hash numbers = { 0 };
	int rc = 0;

	for (size_t i = 0; i < n && rc >= 0; i++) {
		uint32_t *number;

		rc = hash_find(&numbers, list[i].origin.cpu, list[i].value >> PD_HW_ID_MAJOR_SHIFT, &number);
		if (rc == 1)
			*number = (uint32_t)kept++;
		if (rc >= 0)
			list[*number] = list[i];
	}
	hash_done(&numbers);
	if (rc < 0)
		return rc;
	f->lists[HW_IDS].size = kept * sizeof(*list);
	if (kept)
		qsort(list, kept, sizeof(*list), compare_hw_ids);
	return 0;
}

static void fill_contents(struct pd_file *f)
{
	struct pd_contents *c = &f->contents;
	struct pd_comm *comms = (struct pd_comm *)f->lists[COMMS].data;
	struct pd_map *maps = (struct pd_map *)f->lists[MAPS].data;
	struct pd_counter *counters = (struct pd_counter *)f->lists[COUNTERS].data;
	const char *names = (const char *)f->lists[NAMES].data, **texts[] = { &c->version, &c->release, &c->arch };

	for (size_t i = 0; i < ELEMENTS(texts); i++)
		*texts[i] = *texts[i] ? names + (uintptr_t)*texts[i] : NULL;
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
	c->runs = (struct pd_run *)f->lists[RUNS].data;
	c->n_runs = f->lists[RUNS].size / sizeof(*c->runs);
	c->n_counters = f->lists[COUNTERS].size / sizeof(*counters);
	for (size_t i = 0; i < c->n_counters; i++)
		counters[i].name = names + (uintptr_t)counters[i].name;
	c->counters = counters;
	c->samples = (struct pd_sample *)f->lists[SAMPLES].data;
	c->n_samples = f->lists[SAMPLES].size / sizeof(*c->samples);
	c->pieces = (struct pd_piece *)f->pieces.pieces.data;
	c->n_pieces = f->pieces.pieces.size / sizeof(*c->pieces);
	c->aux_records = f->lists[RECORDS].size / sizeof(struct pd_aux_record);
	c->aux_repeated = f->pieces.repeated;
	c->aux_unplaced = f->pieces.unplaced;
	c->aux_empty = f->pieces.empty;
	c->aux_empty_lost = f->pieces.empty_lost;
	c->losses = (const struct pd_loss *)f->pieces.losses.by_thread.data;
	c->losses_by_time = (const struct pd_loss *)f->pieces.losses.by_time.data;
	c->n_losses = f->pieces.losses.by_thread.size / sizeof(*c->losses);
}

/* Checks the checksums of a file that has them. Damaged trace is left out; damaged records make the file invalid. */
static int check_sums(struct pd_file *f, struct buf *damaged, struct pd_problem *p)
{
	const struct stretch *s;
	int rc = sums_check(f->fd, f->size, damaged);

	if (rc == -EBADMSG)
		pd_damage(f, f->size, "the checksums are damaged and are not used");
	else if (rc < 0)
		return rc;
	f->has_sums = rc != 0;
	s = (const struct stretch *)damaged->data;
	for (size_t i = 0; i < damaged->size / sizeof(*s); i++) {
		if (!s[i].trace)
			return set_problem(p, s[i].from, "records are damaged: wrong checksum");
		pd_damage(f, s[i].from, "trace is damaged: wrong checksum");
	}
	return 0;
}

static bool is_own(const struct pd_file *f)
{
	const char *names = (const char *)f->lists[NAMES].data;

	return f->contents.version && strcmp(names + (uintptr_t)f->contents.version, PACKAGE_STRING) == 0;
}

static int read_all(struct pd_file *f, struct pd_problem *p)
{
	_cleanup_buf_ struct buf damaged = { .limit = DAMAGED_MAX };
	int rc = check_sums(f, &damaged, p);

	if (rc == 0)
		rc = pd_read_events(f, p);
	if (rc == 0)
		rc = pd_read_event_names(f);
	if (rc == 0)
		rc = read_records(f, p);
	if (rc == 0 && !f->has_metadata)
		rc = set_problem(p, f->data,
				 "no CoreSight trace (no AUXTRACE_INFO record); record with perf record -e cs_etm//u");
	if (rc < 0)
		return rc;
	rc = pd_read_features(f);
	if (rc < 0)
		return rc;
	if (!f->has_sums && is_own(f))
		pd_damage(f, f->size, "the checksums are missing: the file is cut short or its end is damaged");
	rc = pd_make_pieces((struct pd_aux_record *)f->lists[RECORDS].data,
			    f->lists[RECORDS].size / sizeof(struct pd_aux_record),
			    (struct pd_aux_buffer *)f->lists[BUFFERS].data,
			    f->lists[BUFFERS].size / sizeof(struct pd_aux_buffer), f->data_end, &f->pieces);
	if (rc == 0 && damaged.size)
		rc = pd_cut_pieces(&f->pieces, (const struct stretch *)damaged.data,
				   damaged.size / sizeof(struct stretch));
	if (rc == 0)
		rc = pd_join_pieces(&f->pieces);
	f->contents.slices = slices_of(f);
	if (rc == 0)
		rc = pd_make_losses(
		    &f->pieces.losses, (struct pd_piece *)f->pieces.pieces.data,
		    f->pieces.pieces.size / sizeof(struct pd_piece), (const struct pd_run *)f->lists[RUNS].data,
		    f->lists[RUNS].size / sizeof(struct pd_run), f->contents.slices == PD_SLICES_OF_CPUS);
	if (rc == 0)
		rc = keep_last_hw_ids(f);
	if (rc == 0)
		rc = pd_inherit_maps(f);
	if (rc < 0)
		return rc;
	fill_contents(f);
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
		return set_problem(ret_problem, 0, "not a regular file");
	f->size = (uint64_t)st.st_size;
	for (size_t i = 0; i < LISTS; i++)
		f->lists[i].limit = LIST_MAX;
	/* Offset 0 is the empty name, for names that do not fit in the list. */
	buf_u8(&f->lists[NAMES], 0);
	rc = read_all(f, ret_problem);
	free(f->window);
	f->window = NULL;
	f->inflate = pd_inflate_free(f->inflate);
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
	pd_inflate_free(f->inflate);
	for (size_t i = 0; i < LISTS; i++)
		buf_done(&f->lists[i]);
	buf_done(&f->pieces.pieces);
	buf_done(&f->pieces.extents);
	pd_losses_done(&f->pieces.losses);
	free(f);
	return NULL;
}

/* Returns where byte `at` of a piece is in the file, and how many bytes from there on are in one stretch. */
static uint64_t locate(const struct pd_file *f, const struct pd_piece *piece, uint64_t at, uint64_t *ret_left)
{
	const struct pd_extent *e = (const struct pd_extent *)f->pieces.extents.data;
	size_t low = 1, high = piece->n_extents;

	*ret_left = piece->size - at;
	if (!piece->n_extents)
		return piece->file_offset + at;
	e += piece->extents;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (e[middle].at <= at)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < piece->n_extents)
		*ret_left = e[low].at - at;
	return e[low - 1].file_offset + (at - e[low - 1].at);
}

ssize_t pd_read(struct pd_file *f, const struct pd_piece *piece, uint64_t at, void *ret, size_t size)
{
	size_t have = 0;

	while (have < size && at < piece->size) {
		uint64_t left, from = locate(f, piece, at, &left);
		size_t wanted = (size_t)MIN((uint64_t)(size - have), left);
		ssize_t n = io_pread(f->fd, (uint8_t *)ret + have, wanted, from);

		if (n < 0)
			return n;
		have += (size_t)n;
		at += (uint64_t)n;
		if ((size_t)n < wanted)
			break;
	}
	return (ssize_t)have;
}
