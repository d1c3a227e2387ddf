/* SPDX-License-Identifier: MIT */
#include "daemon/decode/live-rounds.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/decode/demux.h"
#include "daemon/decode/memory-files.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"

enum {
	HEAD_MAX = 1 << 20,
	ROUND_MAX = 1 << 30,
	WRITE_AT = 256 << 10,
};

/* A record that the next round may need: about the thread that runs on a CPU, or about lost trace. */
struct live_record {
	struct pd_run run;
	bool is_run;
	bool kept;
	size_t at, size; /* its bytes */
};

struct live_records {
	struct buf bytes, list;
};

struct live_rounds {
	struct live_rounds_options o;
	struct demux *demux;
	struct buf head;
	struct live_records records; /* of this round; those of the rounds before that it needs are first */
	struct buf exits;            /* of struct pd_task */
	struct hash gone;            /* the IDs of threads that have ended in the round */
	uint64_t since;              /* end of the round before; 0: there is none */
	int fd;                      /* the file of the round */
	uint64_t size;
	struct buf out; /* what has not been written to it */
};

int live_rounds_new(const struct live_rounds_options *options, struct live_rounds **ret)
{
	struct live_rounds *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	r->o = *options;
	r->fd = memory_files_take_store();
	rc = r->fd < 0 ? -ENOMEM : demux_new(options->outputs, options->stats, &r->demux);
	if (rc < 0)
		live_rounds_free(r);
	else
		*ret = r;
	return rc;
}

static int write_out(struct live_rounds *r)
{
	int rc = buf_error(&r->out);

	if (rc == 0)
		rc = io_pwrite(r->fd, r->out.data, r->out.size, (off_t)r->size);
	r->size += r->out.size;
	buf_clear(&r->out);
	return rc;
}

/* A round begins with what all of them need, and what is known of the threads. */
static void begin_round(struct live_rounds *r)
{
	buf_add(&r->out, r->head.data, r->head.size);
	buf_add(&r->out, r->records.bytes.data, r->records.bytes.size);
}

static void add_record(struct live_records *to, const struct live_record *record, const void *data)
{
	struct live_record added = *record;

	added.at = to->bytes.size;
	buf_add(&to->bytes, data, record->size);
	buf_add(&to->list, &added, sizeof(added));
}

int live_rounds_add(struct live_rounds *r, const struct pd_live_raw *raw)
{
	struct live_record record = { .is_run = raw->run, .size = raw->size };

	if (raw->part == PD_LIVE_HEAD) {
		buf_add(&r->head, raw->data, raw->size);
		return r->head.size > HEAD_MAX ? -EFBIG : buf_error(&r->head);
	}
	if (!r->size && !r->out.size)
		begin_round(r);
	if (raw->run)
		record.run = *raw->run;
	else if (raw->empty)
		record.run.time = raw->empty->time;
	if (raw->run || raw->empty)
		add_record(&r->records, &record, raw->data);
	buf_add(&r->out, raw->data, raw->size);
	if (r->size + r->out.size > ROUND_MAX)
		return reason_set(&r->o.live->job->reason, -EFBIG, "a round of the recording has more than %d MiB",
				  ROUND_MAX >> 20);
	return r->out.size < WRITE_AT ? buf_error(&r->out) : write_out(r);
}

int live_rounds_add_exit(struct live_rounds *r, const struct pd_task *task)
{
	buf_add(&r->exits, task, sizeof(*task));
	return buf_error(&r->exits);
}

static int compare_records(const void *left, const void *right)
{
	const struct live_record *a = left, *b = right;

	if (a->run.time != b->run.time)
		return a->run.time < b->run.time ? -1 : 1;
	return (a->at > b->at) - (a->at < b->at);
}

/*
 * Chooses what the next round needs, of a sorted list: all that is later than this one, and the last record of each CPU
 * and the last switch of each CPU and thread before, for a start of tracing shows neither how long a thread has run nor
 * that switches were lost; not what is older than lost records, as it may no longer be so, nor of threads that are
 * gone.
 */
static int choose_records(struct live_record *list, size_t n, uint64_t until, const struct hash *gone)
{
	enum { THREAD, CPU, CPU_BEFORE_START };
	struct hash seen = { 0 };
	bool lost = false;
	int rc = 0;

	while (n-- > 0 && rc >= 0) {
		const struct pd_run *run = &list[n].run;
		int of_thread = 0, of_cpu = 0, before = 0;
		uint32_t *unused;

		list[n].kept = run->time > until;
		if (list[n].kept || !list[n].is_run || lost)
			continue;
		if (run->kind <= PD_RUN_PREEMPTED && !hash_get(gone, run->tid, 0))
			of_thread = hash_find(&seen, run->tid, THREAD, &unused);
		of_cpu = hash_find(&seen, run->cpu, CPU, &unused);
		if (run->kind != PD_RUN_START)
			before = hash_find(&seen, run->cpu, CPU_BEFORE_START, &unused);
		rc = MIN(before, MIN(of_thread, of_cpu));
		list[n].kept = of_thread || of_cpu || before;
		lost = run->kind == PD_RUN_LOST;
	}
	hash_done(&seen);
	return rc < 0 ? rc : 0;
}

static void records_done(struct live_records *records)
{
	buf_done(&records->bytes);
	buf_done(&records->list);
}

/* The next round needs to know which thread ran on each CPU, and since when each thread has not run. */
static int keep_records(struct live_rounds *r, uint64_t until)
{
	struct live_records *all = &r->records, kept = { 0 };
	struct live_record *list = (struct live_record *)all->list.data;
	size_t n = all->list.size / sizeof(*list);
	int rc;

	/* They come in the order of each CPU. */
	if (n)
		qsort(list, n, sizeof(*list), compare_records);
	rc = choose_records(list, n, until, &r->gone);
	hash_clear(&r->gone);
	for (size_t i = 0; i < n; i++)
		if (list[i].kept)
			add_record(&kept, &list[i], all->bytes.data + list[i].at);
	records_done(all);
	*all = kept;
	if (rc == 0)
		rc = buf_error(&all->bytes);
	return rc < 0 ? rc : buf_error(&all->list);
}

/* Ends the threads that have ended up to a time. Another one may have got the number of one of them since. */
static int end_threads(struct live_rounds *r, uint64_t until)
{
	struct pd_task *list = (struct pd_task *)r->exits.data;
	size_t n = r->exits.size / sizeof(*list), later = 0;
	uint32_t *unused;
	int rc = 0;

	for (size_t i = 0; rc >= 0 && i < n; i++) {
		if (list[i].time > until) {
			list[later++] = list[i];
			continue;
		}
		rc = hash_find(&r->gone, list[i].tid, 0, &unused);
		if (rc >= 0)
			rc = demux_end_thread(r->demux, list[i].tid, list[i].time);
	}
	r->exits.size = later * sizeof(*list);
	return rc < 0 ? rc : 0;
}

static int decode_round(struct live_rounds *r, uint64_t until, uint32_t pid)
{
	const struct input_part part = { r->fd, r->o.live->images, pid, r->since };
	struct input *input = NULL;
	int rc = input_part_open(r->o.live->job, &part, r->o.live->warnings, &input);

	if (rc < 0)
		return rc;
	input->regions = r->o.regions;
	input_start_workers(input);
	if (r->o.opened)
		r->o.opened(r->o.user, input);
	rc = demux_round(r->demux, input, until);
	if (rc == 0 && r->o.decoded)
		rc = r->o.decoded(r->o.user, until);
	if (rc == 0)
		rc = end_threads(r, until);
	if (r->o.opened)
		r->o.opened(r->o.user, NULL);
	input_stop_workers(input);
	input_close(input);
	return rc;
}

int live_rounds_end(struct live_rounds *r, uint64_t until, uint32_t pid)
{
	int rc;

	if (!r->size && !r->out.size)
		return 0;
	rc = write_out(r);
	if (rc == 0 && ftruncate(r->fd, (off_t)r->size) < 0)
		rc = -errno;
	if (rc == 0)
		rc = decode_round(r, until, pid);
	r->size = 0;
	r->since = until;
	return rc < 0 ? rc : keep_records(r, until);
}

int live_rounds_finish(struct live_rounds *r)
{
	demux_warn(r->demux, r->o.live);
	return demux_end_thread(r->demux, UINT32_MAX, UINT64_MAX);
}

struct live_rounds *live_rounds_free(struct live_rounds *r)
{
	if (!r)
		return NULL;
	demux_free(r->demux);
	records_done(&r->records);
	buf_done(&r->head);
	buf_done(&r->exits);
	hash_done(&r->gone);
	buf_done(&r->out);
	closep(&r->fd);
	free(r);
	return NULL;
}
