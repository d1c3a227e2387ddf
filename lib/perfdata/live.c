/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "lib/perfdata/file.h"
#include "lib/perfdata/live.h"

enum { HEAD_MAX = 1 << 20, RECORD_HEAD = 8, LIST_MAX = 1 << 20, DATA_OFFSET_AT = 40 };

struct pd_live {
	struct pd_file file;
	struct pd_live_sink sink;
	struct pd_problem problem;
	struct buf item; /* the header with the events, or a record, as far as it is there */
	uint64_t at;     /* of the item, in the recording */
	bool begun;      /* the header and the events are read */
	struct pd_aux_record aux;
	bool has_aux; /* the last record was aux */
	bool in_slice;
	bool of_cpu; /* the slice; it includes its padding */
	uint64_t trace_left, padding_left;
};

static int set_problem(struct pd_live *l, const char *cause)
{
	l->problem = (struct pd_problem){ l->at, cause };
	return -EBADMSG;
}

int pd_live_new(const struct pd_live_sink *sink, struct pd_live **ret)
{
	struct pd_live *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->sink = *sink;
	l->file.fd = -1;
	for (size_t i = 0; i < LISTS; i++)
		l->file.lists[i].limit = LIST_MAX;
	*ret = l;
	return 0;
}

struct pd_live *pd_live_free(struct pd_live *l)
{
	if (!l)
		return NULL;
	free(l->file.events);
	for (size_t i = 0; i < LISTS; i++)
		buf_done(&l->file.lists[i]);
	buf_done(&l->item);
	free(l);
	return NULL;
}

const struct pd_contents *pd_live_contents(const struct pd_live *l)
{
	return &l->file.contents;
}

struct pd_problem pd_live_problem(const struct pd_live *l)
{
	return l->problem;
}

bool pd_live_whole(const struct pd_live *l)
{
	return !l->item.size && !l->in_slice;
}

static int list_error(const struct pd_file *f)
{
	int rc = 0;

	for (size_t i = 0; i < LISTS && rc == 0; i++)
		rc = buf_error(&f->lists[i]);
	return rc;
}

/* Empties the lists that pd_on_record() adds to, but for the metadata; offset 0 is the empty name. */
static void clear_lists(struct pd_file *f)
{
	static const enum list all[] = { COMMS, TASKS, MAPS, TASKS_BEFORE, HW_IDS, RUNS, RECORDS, BUFFERS, NAMES };

	for (size_t i = 0; i < ELEMENTS(all); i++)
		buf_clear(&f->lists[all[i]]);
	buf_u8(&f->lists[NAMES], 0);
}

/* Passes on the bytes of the item. */
static int pass_raw(struct pd_live *l, enum pd_live_part part)
{
	const struct pd_file *f = &l->file;
	const struct pd_aux_record *aux =
	    f->lists[RECORDS].size ? (const struct pd_aux_record *)f->lists[RECORDS].data : NULL;
	const struct pd_live_raw raw = { part, l->item.data, l->item.size,
					 f->lists[RUNS].size ? (const struct pd_run *)f->lists[RUNS].data : NULL,
					 aux && !aux->size ? &aux->origin : NULL };

	return l->sink.raw(l->sink.user, &raw);
}

/* Reads the header and the events, all of which are there. */
static int read_head(struct pd_live *l)
{
	struct pd_file *f = &l->file;
	int rc;

	f->window = l->item.data;
	f->window_size = l->item.size;
	f->size = l->item.size;
	rc = pd_read_events(f, &l->problem);
	f->window = NULL;
	f->window_size = 0;
	clear_lists(f);
	l->begun = true;
	if (rc == 0)
		rc = list_error(f);
	return rc < 0 ? rc : pass_raw(l, PD_LIVE_HEAD);
}

static struct pd_piece piece_of(const struct pd_aux_record *a, uint32_t index)
{
	return (struct pd_piece){ .tid = a->origin.tid,
				  .cpu = a->origin.cpu,
				  .index = index,
				  .flags = a->flags,
				  .offset = a->offset,
				  .size = a->size,
				  .origin = a->origin };
}

static int on_aux_record(struct pd_live *l, const struct pd_aux_record *a)
{
	struct pd_piece gap;

	if (a->flags & PD_AUX_GAP && a->origin.cpu == UINT32_MAX) {
		gap = piece_of(a, (uint32_t)(a->flags >> PD_AUX_INDEX_SHIFT) & PD_AUX_INDEX_MASK);
		gap.size = 0;
		gap.lost = a->size;
		return l->sink.slice(l->sink.user, &gap);
	}
	l->aux = *a;
	l->has_aux = true;
	return 0;
}

/* Passes on what a record has added to the lists. */
static int pass_on(struct pd_live *l)
{
	const struct pd_live_sink *to = &l->sink;
	struct pd_file *f = &l->file;
	const char *names = (const char *)f->lists[NAMES].data;
	struct pd_map *map = (struct pd_map *)f->lists[MAPS].data;
	const struct pd_task *task = (const struct pd_task *)f->lists[TASKS].data;

	/* A record adds one item at most; a fork copies no mappings, since none are kept. */
	if (f->lists[MAPS].size) {
		map->path = names + (uintptr_t)map->path;
		return to->map(to->user, map);
	}
	if (f->lists[TASKS].size && task->exit)
		return to->exit(to->user, task);
	if (f->lists[RECORDS].size)
		return on_aux_record(l, (const struct pd_aux_record *)f->lists[RECORDS].data);
	return 0;
}

static int begin_slice(struct pd_live *l, struct reader *body)
{
	const struct pd_aux_record *a = &l->aux;
	const struct pd_aux_buffer *b;
	struct pd_piece piece;
	uint64_t size;
	int rc = pd_on_auxtrace(&l->file, body, 0, &size);

	if (rc == 0)
		rc = list_error(&l->file);
	if (rc < 0)
		return rc == -EBADMSG ? set_problem(l, "a record is too short for its type") : rc;
	b = (const struct pd_aux_buffer *)l->file.lists[BUFFERS].data;
	l->of_cpu = b->cpu != UINT32_MAX;
	if (l->of_cpu) {
		l->in_slice = true;
		l->trace_left = size;
		return pass_raw(l, PD_LIVE_RECORD);
	}
	if (!l->has_aux || a->flags & PD_AUX_OVERWRITE || a->offset != b->offset || a->origin.tid != b->tid ||
	    a->origin.cpu != b->cpu || size < a->size || size - a->size >= 8)
		return set_problem(l, "trace does not follow its AUX record");
	piece = piece_of(a, b->index);
	l->in_slice = true;
	l->trace_left = a->size;
	l->padding_left = size - a->size;
	return l->sink.slice(l->sink.user, &piece);
}

/* The record has the time as its body. */
static int end_round(struct pd_live *l)
{
	struct reader r = reader_of(l->item.data, l->item.size);
	uint64_t time = 0;

	if (rd_skip(&r, RECORD_HEAD) < 0 || rd_u64(&r, &time) < 0)
		return set_problem(l, "a round has no time");
	return l->sink.round(l->sink.user, time);
}

static int read_record(struct pd_live *l)
{
	struct reader all = reader_of(l->item.data, l->item.size);
	uint16_t misc = 0, size = 0;
	uint32_t type = 0;
	int rc;

	rd_u32(&all, &type);
	rd_u16(&all, &misc);
	rd_u16(&all, &size);
	if (type == PD_REC_AUXTRACE) {
		rc = begin_slice(l, &all);
	} else {
		l->has_aux = false;
		if (type == PD_REC_AUXTRACE_INFO && l->file.has_metadata)
			return set_problem(l, "the metadata is repeated");
		if (type != PD_REC_AUXTRACE_INFO && !l->file.has_metadata)
			return set_problem(l, "the recording does not begin with metadata of CoreSight trace");
		rc = pd_on_record(&l->file, type, misc, &all);
		if (rc == 0)
			rc = list_error(&l->file);
		if (rc == -EBADMSG || rc == -EOPNOTSUPP)
			return set_problem(l, rc == -EBADMSG ? "a record is too short for its type"
							     : "the trace is not CoreSight trace");
		l->file.contents.cpus = (const struct pd_cpu *)l->file.lists[CPUS].data;
		l->file.contents.n_cpus = l->file.lists[CPUS].size / sizeof(struct pd_cpu);
		if (rc == 0)
			rc = pass_raw(l, type == PD_REC_AUXTRACE_INFO || type == PD_REC_TIME_CONV ? PD_LIVE_HEAD
												  : PD_LIVE_RECORD);
		if (rc == 0)
			rc = type == PD_REC_FINISHED_ROUND ? end_round(l) : pass_on(l);
	}
	clear_lists(&l->file);
	return rc;
}

/* Returns the size of the item in bytes, or of its head until that is complete; 0: the item is invalid. */
static size_t item_size(struct pd_live *l)
{
	struct reader r = reader_of(l->item.data, l->item.size);
	uint64_t data = 0;
	uint16_t size = 0;

	if (!l->begun) {
		if (l->item.size < PD_HEADER_SIZE)
			return PD_HEADER_SIZE;
		rd_skip(&r, DATA_OFFSET_AT);
		rd_u64(&r, &data);
		if (data < PD_HEADER_SIZE || data > HEAD_MAX)
			set_problem(l, "not a perf.data that is being recorded");
		return l->problem.cause ? 0 : (size_t)data;
	}
	if (l->item.size < RECORD_HEAD)
		return RECORD_HEAD;
	rd_skip(&r, RECORD_HEAD - sizeof(size));
	rd_u16(&r, &size);
	if (size < RECORD_HEAD)
		set_problem(l, "a record has an impossible size");
	return l->problem.cause ? 0 : size;
}

/* Adds bytes to the item, and reads it once it is complete. Returns how many were used, or a negative errno. */
static ssize_t push_item(struct pd_live *l, const uint8_t *data, size_t size)
{
	size_t whole = item_size(l), used = whole ? MIN(size, whole - l->item.size) : 0;
	int rc = 0;

	buf_add(&l->item, data, used);
	if (buf_error(&l->item))
		return buf_error(&l->item);
	whole = item_size(l);
	if (!whole)
		return -EBADMSG;
	if (l->item.size < whole)
		return (ssize_t)used;
	rc = l->begun ? read_record(l) : read_head(l);
	l->at += whole;
	buf_clear(&l->item);
	return rc < 0 ? rc : (ssize_t)used;
}

static ssize_t push_slice(struct pd_live *l, const uint8_t *data, size_t size)
{
	size_t used = (size_t)MIN((uint64_t)size, l->trace_left);
	int rc = !used       ? 0
		 : l->of_cpu ? l->sink.raw(l->sink.user, &(struct pd_live_raw){ PD_LIVE_TRACE, data, used, NULL, NULL })
			     : l->sink.bytes(l->sink.user, data, used);

	l->trace_left -= used;
	l->at += used;
	if (rc >= 0 && !l->trace_left) {
		l->in_slice = false;
		rc = l->of_cpu ? 0 : l->sink.end(l->sink.user);
	}
	return rc < 0 ? rc : (ssize_t)used;
}

/* Skips the padding behind a slice, which may arrive with what follows it. Returns how many bytes were skipped. */
static size_t skip_padding(struct pd_live *l, size_t size)
{
	size_t used = (size_t)MIN((uint64_t)size, l->padding_left);

	l->padding_left -= used;
	l->at += used;
	return used;
}

int pd_live_push(struct pd_live *l, const void *data, size_t size)
{
	const uint8_t *at = data;

	if (l->problem.cause)
		return -EBADMSG;
	while (size || (l->in_slice && !l->trace_left)) {
		ssize_t n = l->in_slice       ? push_slice(l, at, size)
			    : l->padding_left ? (ssize_t)skip_padding(l, size)
					      : push_item(l, at, size);

		if (n < 0)
			return (int)n;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}
