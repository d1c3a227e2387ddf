/* SPDX-License-Identifier: MIT */
/* From the copy of the rings to the snapshot in the spool. */
#include "config.h"

#include <string.h>

#include "daemon/build-ids.h"
#include "daemon/request-internal.h"
#include "lib/base/escape.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"

enum { FILES_SECONDS = 2 /* how long the check of a target's files may take */ };

static void run_write(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, write);

	r->rc = snapshot_writer_run(spool_fd(r->list->o.spool), &r->writer);
	/* The copy is large, and is not needed any more. */
	r->copied = capture_copy_free(r->copied);
}

static void write_ran(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, write);
	struct request_list *list = r->list;
	struct snapshot *s = r->snapshot;

	ledger_return(&r->memory);
	if (r->rc < 0) {
		request_fail(r, REQUEST_FAILED, r->writer.reason.text);
		return;
	}
	list->o.counters->taken++;
	if (r->recorded)
		recording_saved(r->recording);
	s->size = r->writer.size;
	spool_room_settle(&s->claim, s->size);
	s->missing = json_object_get(r->writer.missing);
	s->n_files = r->writer.n_images;
	s->files = TAKE_PTR(r->writer.image_files);
	for (size_t n = 0; n < s->n_files; n++)
		if (s->files[n])
			target_file_ref(s->files[n]);
	snapshot_move(s, SNAPSHOT_QUEUED);
	request_report_phase(r, "queued");
	r->options.ended(r->options.data, REQUEST_DONE, s, NULL, NULL);
	job_queue_add(list->o.jobs, s);
	request_end(r);
}

static void on_build_ids(void *data, const char *reason)
{
	struct snapshot_request *r = data;

	snprintf(r->writer.no_build_ids, sizeof(r->writer.no_build_ids), "%s", reason ? reason : "");
	workqueue_submit_for(r->list->o.spool_queue, &r->write, request_owner(r));
}

static void run_prepare(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, prepare);

	r->rc = snapshot_writer_prepare(&r->writer);
}

static void prepare_ran(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, prepare);

	if (r->rc < 0) {
		request_fail(r, REQUEST_FAILED, strerror(-r->rc));
		return;
	}
	r->snapshot->threads = r->copied->n_threads;
	if (r->writer.trace)
		recording_count(r->recording, r->writer.trace);
	if (r->recorded && r->snapshot->recording &&
	    json_object_deep_copy(r->snapshot->recording, &r->writer.recording, NULL) < 0) {
		request_fail(r, REQUEST_FAILED, strerror(ENOMEM));
		return;
	}
	request_write_when_room(r);
}

/* Resizes the claim in the spool to the size of the snapshot. */
void request_write_when_room(struct snapshot_request *r)
{
	struct spool_refusal why = { 0 };
	int rc = spool_room_resize(&r->snapshot->claim, r->writer.need, &why);

	r->grows = rc == -EAGAIN && !r->list->stopping;
	if (r->grows) {
		request_report_waiting(r);
		return;
	}
	/* What has been recorded is not given up for the little that is missing: the rest has been claimed. */
	if (rc < 0 && !(r->recorded && r->writer.need <= r->snapshot->claim.unwritten + REQUEST_SPOOL_EXTRA)) {
		if (rc == -EAGAIN)
			request_cut_short(r);
		else
			request_fail(r, REQUEST_FAILED, why.reason.text);
		return;
	}
	build_ids_read(job_queue_build_ids(r->list->o.jobs), &(struct build_ids_query){ .uid = r->target->uid,
											.files = r->writer.unidentified,
											.n = r->writer.n_unidentified,
											.ended = on_build_ids,
											.data = r });
}

static void make_id(uint64_t time, char *ret)
{
	time_t seconds = (time_t)(time / 1000000000u);
	struct tm tm;
	char random[7];

	gmtime_r(&seconds, &tm);
	hex_random(random, sizeof(random));
	strftime(ret, SNAPSHOT_ID_SIZE, "%Y%m%dT%H%M%S-", &tm);
	strcat(ret, random);
}

/* Returns a new object; NULL: the process runs. */
static json_object *describe_ending(struct snapshot_request *r)
{
	const struct ending *e = target_ending(r->target);
	json_object *o;

	if (e->known)
		return ending_json(e);
	if (r->alive)
		return NULL;
	o = json_object_new_object();
	json_add_str(o, "text", "ended");
	return o;
}

/* A request that was begun at the limit replaces the user's oldest snapshot, unless there is room for both by now. */
static int charge_stored(struct snapshot_request *r)
{
	const struct request_list *list = r->list;
	uid_t uid = r->target->owner;

	if (r->stored.user || ledger_charge(list->o.ledger, uid, LEDGER_STORED, 1, &r->stored, NULL) == 0)
		return 0;
	if (!spool_room_drop_oldest(list->o.spool, uid))
		return -EDQUOT;
	ledger_record(list->o.ledger, uid, LEDGER_STORED, 1, &r->stored);
	return 0;
}

int request_make_snapshot(struct snapshot_request *r, uint64_t time, enum snapshot_state state)
{
	struct target *t = r->target;
	struct snapshot *s;
	int rc = charge_stored(r);

	if (rc < 0)
		return rc;
	s = r->snapshot = snapshot_new();
	if (!s)
		return -ENOMEM;
	make_id(time, s->id);
	s->state = state;
	s->time = time;
	s->pid = t->pid;
	s->uid = t->uid;
	s->owner = t->owner;
	s->gid = t->gid;
	s->name = strdup(t->name);
	s->annotation = annotation_take(&r->options.annotation);
	s->claim = r->claim;
	r->claim = (struct spool_claim){ 0 };
	s->stored = ledger_take(&r->stored);
	s->waiting = ledger_take(&r->waiting);
	s->mark = json_object_get(r->options.mark);
	if (!s->name)
		return -ENOMEM;
	spool_insert(r->list->o.spool, s);
	r->listed = true;
	return 0;
}

static int prepare_write(struct snapshot_request *r)
{
	struct target *t = r->target;
	struct snapshot *s;
	int rc = r->snapshot ? 0 : request_make_snapshot(r, r->copied->time, SNAPSHOT_COPYING);

	r->files = calloc(t->n_files + 1, sizeof(*r->files));
	if (rc < 0 || !r->files)
		return rc < 0 ? rc : -ENOMEM;
	for (size_t n = 0; n < t->n_files; n++)
		r->files[n] = target_file_ref(t->files[n]);
	s = r->snapshot;
	s->time = r->copied->time;
	s->blind = r->copied->blind;
	s->unrecorded = r->copied->unrecorded;
	s->threads = r->copied->n_threads;
	s->shared = r->copied->shared;
	r->writer = (struct snapshot_writer){ .id = s->id,
					      .copy = r->copied,
					      .target = t,
					      .name = strdup(t->name),
					      .exe = strdup(t->exe),
					      .account = request_owner(r),
					      .asked_by = r->options.uid,
					      .annotation = annotation_copy(&s->annotation),
					      .mark = json_object_get(r->options.mark),
					      .files = r->files,
					      .n_files = t->n_files,
					      .lost_files = t->lost_files + r->unchecked,
					      .keep_free = spool_options(r->list->o.spool)->keep_free,
					      .ended = describe_ending(r) };
	/* Of its own: the spool thread has the other, and reference counts of json-c are not atomic. */
	s->ended = describe_ending(r);
	if (r->recorded) {
		r->writer.trace = recording_take_file(r->recording);
		r->writer.closed = r->limits.closed;
	}
	return r->writer.name && r->writer.exe ? 0 : -ENOMEM;
}

static void run_copy(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, copy);
	const struct ring *ring = &r->target->ring;
	_cleanup_buf_ struct buf unused = { 0 };
	uint64_t began = now_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc;

	program_notes_freeze(r->notes);
	r->rc = ring->source->ops->copy(ring->source, r->alive, &r->limits, &r->copied);
	rc = program_notes_copy(r->notes, r->rc == 0 ? &r->copied->notes : &unused);
	if (r->rc == 0 && rc < 0)
		capture_note_missing(r->copied, "cannot copy the notes of the program: %s", strerror(-rc));
	r->cost_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

static void add_files(struct snapshot_request *r)
{
	struct capture_copy *c = r->copied;

	if (c->files)
		target_keep_files(r->target, c->files, c->n_files);
	for (size_t n = 0; n < c->n_files; n++) {
		struct target_file *f;

		if (c->files[n].fd < 0)
			continue;
		f = target_file_new(r->list->o.user_queues, r->target->uid, c->files[n].id, TAKE_FD(c->files[n].fd));
		if (f)
			target_add_file(r->target, f);
	}
}

static void files_known(struct snapshot_request *r)
{
	struct target *t = r->target;
	uint64_t bytes = 0;

	r->rc = prepare_write(r);
	if (r->rc < 0) {
		request_fail(r, REQUEST_FAILED, strerror(-r->rc));
		return;
	}
	for (size_t n = 0; n < r->copied->n_threads; n++)
		bytes += r->copied->threads[n].size;
	for (size_t n = 0; n < r->copied->n_rings; n++)
		bytes += r->copied->rings[n].size;
	log_info("snapshot %s of process %d (%s): %zu thread%s, %llu bytes, tracing was off for %llu us",
		 r->snapshot->id, (int)t->pid, esc(t->name), r->snapshot->threads, r->snapshot->threads == 1 ? "" : "s",
		 (unsigned long long)bytes, (unsigned long long)r->snapshot->blind / 1000);
	ledger_settle(&r->memory, bytes + r->copied->log_size + REQUEST_COPY_EXTRA);
	request_report_phase(r, "copying");
	workqueue_submit_for(r->list->o.spool_queue, &r->prepare, request_owner(r));
}

static void run_files_check(struct user_work *w)
{
}

static void files_checked(struct user_work *w)
{
	struct files_check *check = container_of(w, struct files_check, work);
	struct snapshot_request *r = check->request;

	free(check);
	if (!r)
		return;
	r->check = NULL;
	event_del(r->timer);
	files_known(r);
}

void request_abandon_files(struct snapshot_request *r)
{
	event_del(r->timer);
	r->check->request = NULL;
	r->check = NULL;
	r->unchecked = user_queues_waiting(r->list->o.user_queues, r->target->uid);
	files_known(r);
}

static void wait_for_files(struct snapshot_request *r)
{
	const struct timeval limit = { FILES_SECONDS, 0 };
	struct user_queues *queues = r->list->o.user_queues;
	uid_t uid = r->target->uid;

	if (user_queues_waiting(queues, uid) > 0 && !r->list->stopping && event_add(r->timer, &limit) == 0)
		r->check = malloc(sizeof(*r->check));
	if (!r->check) {
		event_del(r->timer);
		files_known(r);
		return;
	}
	*r->check = (struct files_check){ .work = { .run = run_files_check, .done = files_checked }, .request = r };
	user_queues_submit(queues, uid, &r->check->work);
	if (user_queues_stuck(queues, uid))
		request_abandon_files(r);
}

/* Of a recording, what was recorded before the process changed its user remains. */
static int check_user(struct snapshot_request *r)
{
	int rc = r->recorded && recording_lost_user(r->recording) ? -EACCES : target_check_user(r->target);

	if (rc != -EACCES || !r->recorded || recording_log(r->recording) == UINT64_MAX)
		return rc;
	r->limits.closed = true;
	if (r->target->ring.source->ops->drains_rings) {
		capture_copy_cut(r->copied, recording_positions(r->recording)->records.time);
		r->target->ring.source->ops->missing(r->target->ring.source, &r->copied->missing);
	} else
		r->copied->log_size = MIN(r->copied->log_size, recording_log(r->recording));
	buf_clear(&r->copied->notes);
	return 0;
}

static void copy_ran(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, copy);
	struct target *t = r->target;

	if (t->ring.state == RING_FROZEN)
		ring_move(&t->ring, RING_ARMED);
	ring_next(&t->ring);
	t->cost_ns += r->cost_ns;
	if (r->rc < 0) {
		request_fail(r, REQUEST_FAILED, strerror(-r->rc));
		return;
	}
	r->list->o.counters->blind_ns += r->copied->blind;
	r->rc = check_user(r);
	if (r->rc < 0) {
		request_fail(r, REQUEST_FAILED,
			     r->rc == -EACCES ? "the process has changed its user since it was armed"
					      : strerror(-r->rc));
		return;
	}
	add_files(r);
	/* The files of the newest mappings may still be unread in the connection. */
	if (t->drain)
		t->drain(t->data);
	wait_for_files(r);
}

static void begin_copy(struct ring_op *op)
{
	struct snapshot_request *r = container_of(op, struct snapshot_request, op);
	struct ring *ring = &r->target->ring;

	if (!ring_may(ring->state, RING_FROZEN) && ring->state != RING_GONE && !r->recorded) {
		/* The target was disarmed in the meantime. */
		ring_next(ring);
		request_fail(r, REQUEST_NOT_ARMED, NULL);
		return;
	}
	request_report_phase(r, "freezing");
	if (!r->recorded)
		counters_add_wait(&r->list->o.counters->copy, r->begun_ns);
	r->alive = ring->state != RING_GONE;
	r->limits.gone = r->alive ? 0 : r->target->gone_ns;
	if (ring_may(ring->state, RING_FROZEN))
		ring_move(ring, RING_FROZEN);
	r->notes = r->target->notes ? program_notes_ref(r->target->notes) : NULL;
	workqueue_submit_for(r->list->o.capture_queue, &r->copy, request_owner(r));
}

int request_copy(struct snapshot_request *r)
{
	int rc;

	if (r->recorded) {
		r->limits.since = recording_positions(r->recording);
		r->limits.closed = recording_closed(r->recording);
	}
	r->admitted = true;
	rc = ring_queue(&r->target->ring, &r->op);
	if (rc < 0)
		r->admitted = false;
	return rc;
}

void request_init_copy(struct snapshot_request *r)
{
	r->op.begin = begin_copy;
	r->copy = (struct work){ run_copy, copy_ran };
	r->prepare = (struct work){ run_prepare, prepare_ran };
	r->write = (struct work){ run_write, write_ran };
}
