/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "daemon/build-ids.h"
#include "daemon/request.h"
#include "daemon/snapshot-writer.h"
#include "daemon/spool.h"
#include "lib/base/escape.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"

enum {
	FILL_TRIES = 100, /* times FILL_PAUSE_MS: how long a ring may stay empty after it was armed */
	FILL_PAUSE_MS = 20,
	COPIES_PER_USER = 2,      /* copies of one user that may be under way at a time */
	COPY_EXTRA = 1 << 20,     /* estimated bytes of a copy in memory besides trace and log */
	SNAPSHOT_EXTRA = 1 << 20, /* the same in the spool, until the images are known */
	COPY_LEAST = 64 << 10,    /* bytes of trace that a copy may always have */
	FILES_SECONDS = 2,        /* how long the check of a target's files may take */
};

static const char ending[] = "csightd is ending; repeat this when it has been started again";

struct request_list {
	struct request_list_options o;
	TAILQ_HEAD(, snapshot_request) all;
	struct event *room;
	bool stopping, admitting;
};

/* A work on the thread of the target's owner: when it is done, the files that were passed before it are checked. */
struct files_check {
	struct user_work work;
	struct snapshot_request *request; /* NULL: no request waits for this check any more */
};

struct snapshot_request {
	struct ring_op op;
	struct work copy, prepare, write;
	uint64_t cost_ns; /* processor time of the copy */
	struct request_list *list;
	TAILQ_ENTRY(snapshot_request) link;
	struct request_options options;
	struct target *target;
	struct program_notes *notes; /* while the rings are copied; or NULL */
	bool alive;                  /* the process ran when the copy began */
	uint64_t begun_ns;           /* CLOCK_MONOTONIC */
	unsigned tries;              /* how often the ring was found empty after arming */
	struct event *timer;
	struct charge charge, waiting, stored, memory;
	struct spool_claim claim; /* until the snapshot has it */
	bool waits;               /* the request waits for memory and for room in the spool */
	bool reported;            /* that it waits */
	bool blocked;             /* a request of its user has got no room, while requests are admitted */
	bool grows;               /* the request has its copy, and waits for more room */
	bool admitted;
	struct capture_limits limits;
	struct files_check *check; /* or NULL */
	unsigned unchecked;        /* files whose check took too long */
	struct capture_copy *copied;
	struct snapshot *snapshot;
	struct target_file **files;
	struct snapshot_writer writer;
	int rc;
};

static void admit_requests(struct request_list *list);

static void request_free(struct snapshot_request *r)
{
	struct request_list *list = r->list;

	TAILQ_REMOVE(&list->all, r, link);
	if (r->timer)
		event_free(r->timer);
	capture_copy_free(r->copied);
	for (size_t n = 0; n < r->writer.n_files; n++)
		target_file_unref(r->files[n]);
	free(r->files);
	snapshot_writer_done(&r->writer);
	snapshot_unref(r->snapshot);
	annotation_done(&r->options.annotation);
	ledger_return(&r->charge);
	ledger_return(&r->waiting);
	ledger_return(&r->stored);
	ledger_return(&r->memory);
	spool_room_return(&r->claim);
	program_notes_unref(r->notes);
	target_unref(r->target);
	free(r);
	admit_requests(list);
}

/* Returns the user whose turn it is. */
static uid_t request_owner(const struct snapshot_request *r)
{
	return ledger_owner(r->list->o.ledger, r->target->owner);
}

static void report_phase(const struct snapshot_request *r, const char *phase)
{
	r->options.progress(r->options.data, phase);
}

/* That memory, or room in the spool, is in use by other copies and decodes. */
static void report_waiting(struct snapshot_request *r)
{
	if (!r->reported)
		report_phase(r, "waiting");
	r->reported = true;
}

/* Ends a request without a snapshot. */
static void request_fail(struct snapshot_request *r, enum request_result result, const char *reason)
{
	r->list->o.counters->failed += result == REQUEST_FAILED;
	if (reason && ledger_may_log(r->list->o.ledger, r->options.uid))
		log_warning("cannot make a snapshot of process %d (%s): %s", (int)r->target->pid, esc(r->target->name),
			    esc(reason));
	r->options.ended(r->options.data, result, NULL, reason, NULL);
	request_free(r);
}

static void request_refuse(struct snapshot_request *r, const struct ledger_refusal *limit)
{
	r->options.ended(r->options.data, REQUEST_OVER_LIMIT, NULL, NULL, limit);
	request_free(r);
}

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
		spool_drop(list->o.spool, s);
		request_fail(r, REQUEST_FAILED, r->writer.reason.text);
		return;
	}
	list->o.counters->taken++;
	s->size = r->writer.size;
	spool_room_settle(&s->claim, s->size);
	s->missing = json_object_get(r->writer.missing);
	s->n_files = r->writer.n_images;
	s->files = TAKE_PTR(r->writer.image_files);
	for (size_t n = 0; n < s->n_files; n++)
		if (s->files[n])
			target_file_ref(s->files[n]);
	snapshot_move(s, SNAPSHOT_QUEUED);
	report_phase(r, "queued");
	r->options.ended(r->options.data, REQUEST_DONE, s, NULL, NULL);
	job_queue_add(list->o.jobs, s);
	request_free(r);
}

static void on_build_ids(void *data, const char *reason)
{
	struct snapshot_request *r = data;

	snprintf(r->writer.no_build_ids, sizeof(r->writer.no_build_ids), "%s", reason ? reason : "");
	workqueue_submit_for(r->list->o.spool_queue, &r->write, request_owner(r));
}

static void write_when_room(struct snapshot_request *r);

static void run_prepare(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, prepare);

	r->rc = snapshot_writer_prepare(&r->writer);
}

static void prepare_ran(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, prepare);

	if (r->rc < 0) {
		spool_drop(r->list->o.spool, r->snapshot);
		request_fail(r, REQUEST_FAILED, strerror(-r->rc));
		return;
	}
	write_when_room(r);
}

/*
 * Resizes the claim in the spool to the size of the snapshot, whose images are known now, and continues when there is
 * room.
 */
static void write_when_room(struct snapshot_request *r)
{
	struct spool_refusal why = { 0 };
	int rc = spool_room_resize(&r->snapshot->claim, r->writer.need, &why);

	r->grows = rc == -EAGAIN && !r->list->stopping;
	if (r->grows) {
		report_waiting(r);
		return;
	}
	if (rc < 0) {
		spool_drop(r->list->o.spool, r->snapshot);
		request_fail(r, REQUEST_FAILED, rc == -EAGAIN ? ending : why.reason.text);
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

static int prepare_write(struct snapshot_request *r)
{
	struct target *t = r->target;
	struct snapshot *s = r->snapshot = snapshot_new();

	r->files = calloc(t->n_files + 1, sizeof(*r->files));
	if (!s || !r->files)
		return -ENOMEM;
	for (size_t n = 0; n < t->n_files; n++)
		r->files[n] = target_file_ref(t->files[n]);
	r->writer.n_files = t->n_files;
	make_id(r->copied->time, s->id);
	s->state = SNAPSHOT_COPYING;
	s->pid = t->pid;
	s->uid = t->uid;
	s->owner = t->owner;
	s->gid = t->gid;
	s->name = strdup(t->name);
	s->time = r->copied->time;
	s->blind = r->copied->blind;
	s->unrecorded = r->copied->unrecorded;
	s->threads = r->copied->n_threads;
	s->shared = r->copied->shared;
	s->annotation = annotation_take(&r->options.annotation);
	s->claim = r->claim;
	r->claim = (struct spool_claim){ 0 };
	s->stored = ledger_take(&r->stored);
	s->waiting = ledger_take(&r->waiting);
	r->writer = (struct snapshot_writer){ .id = s->id,
					      .copy = r->copied,
					      .target = t,
					      .account = request_owner(r),
					      .asked_by = r->options.uid,
					      .annotation = annotation_copy(&s->annotation),
					      .mark = json_object_get(r->options.mark),
					      .files = r->files,
					      .n_files = t->n_files,
					      .lost_files = t->lost_files + r->unchecked,
					      .keep_free = spool_options(r->list->o.spool)->keep_free,
					      .ended = describe_ending(r) };
	s->ended = json_object_get(r->writer.ended);
	s->mark = json_object_get(r->options.mark);
	return s->name ? 0 : -ENOMEM;
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
	ledger_settle(&r->memory, bytes + r->copied->log_size + COPY_EXTRA);
	spool_insert(r->list->o.spool, r->snapshot);
	report_phase(r, "copying");
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

/* Continues a request without the files whose check takes too long. */
static void abandon_files(struct snapshot_request *r)
{
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

	if (user_queues_waiting(queues, uid) == 0 || r->list->stopping || !(r->check = malloc(sizeof(*r->check)))) {
		files_known(r);
		return;
	}
	*r->check = (struct files_check){ .work = { .run = run_files_check, .done = files_checked }, .request = r };
	event_add(r->timer, &limit);
	user_queues_submit(queues, uid, &r->check->work);
	if (user_queues_stuck(queues, uid))
		abandon_files(r);
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
	r->rc = target_check_user(t);
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

	if (!ring_may(ring->state, RING_FROZEN) && ring->state != RING_GONE) {
		/* The target was disarmed in the meantime. */
		ring_next(ring);
		request_fail(r, REQUEST_NOT_ARMED, NULL);
		return;
	}
	report_phase(r, "freezing");
	counters_add_wait(&r->list->o.counters->copy, r->begun_ns);
	r->alive = ring->state != RING_GONE;
	if (r->alive)
		ring_move(ring, RING_FROZEN);
	r->notes = r->target->notes ? program_notes_ref(r->target->notes) : NULL;
	workqueue_submit_for(r->list->o.capture_queue, &r->copy, request_owner(r));
}

static void wait_for_trace(struct snapshot_request *r)
{
	_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };
	struct timeval pause = { 0, FILL_PAUSE_MS * 1000 };
	struct ring *ring = &r->target->ring;

	if (!ring->source->ops->holds(ring->source)) {
		if (ring->state == RING_ARMED && ++r->tries < FILL_TRIES && !r->list->stopping) {
			event_add(r->timer, &pause);
			return;
		}
		target_trouble(r->target, &trouble);
		request_fail(r, REQUEST_FAILED,
			     trouble.size                ? (const char *)trouble.data
			     : ring->state == RING_ARMED ? "the process has executed nothing since it was armed"
							 : "the process left no trace");
		return;
	}
	if (r->list->stopping) {
		request_fail(r, REQUEST_FAILED, ending);
		return;
	}
	r->waits = true;
	admit_requests(r->list);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
	struct snapshot_request *r = data;

	if (r->check)
		abandon_files(r);
	else
		wait_for_trace(r);
}

static void on_armed(struct target *t, int rc, void *data)
{
	struct snapshot_request *r = data;

	_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };

	target_trouble(t, &trouble);
	if (rc < 0 && rc != -ESRCH)
		request_fail(r, REQUEST_FAILED, trouble.size ? (const char *)trouble.data : strerror(-rc));
	else
		wait_for_trace(r);
}

static unsigned count_copies(const struct request_list *list, uid_t uid)
{
	const struct snapshot_request *r;
	unsigned n = 0;

	TAILQ_FOREACH (r, &list->all, link)
		n += r->admitted && request_owner(r) == uid;
	return n;
}

static uint64_t subtract(uint64_t from, uint64_t what)
{
	return from - MIN(from, what);
}

/*
 * Charges what a copy takes at most. A copy that would exceed what its user can ever have is cut: the newest bytes of
 * trace remain.
 */
static int charge_copy(struct snapshot_request *r, struct spool_refusal *ret)
{
	const struct request_list *list = r->list;
	const struct capture_source *source = r->target->ring.source;
	struct ledger *l = list->o.ledger;
	uid_t uid = r->target->owner;
	uint64_t trace, log, memory, spool;
	int rc;

	source->ops->copy_max(r->target->ring.source, &trace, &log);
	r->limits.log = log;
	r->limits.last = r->options.annotation.last;
	memory = log + COPY_EXTRA;
	spool = log + SNAPSHOT_EXTRA;
	r->limits.trace = MIN(trace, list->o.settings->snapshot_max);
	r->limits.trace = MIN(r->limits.trace, subtract(ledger_largest(l, uid, LEDGER_MEMORY), memory));
	r->limits.trace =
	    MAX(MIN(r->limits.trace, subtract(ledger_largest(l, uid, LEDGER_PENDING), spool)), COPY_LEAST);
	memory += r->limits.trace;
	rc = ledger_charge(l, uid, LEDGER_MEMORY, memory, &r->memory, &ret->limit);
	if (rc < 0)
		return memory > ledger_largest(l, uid, LEDGER_MEMORY) ? rc : -EAGAIN;
	rc = spool_room_claim(list->o.spool, uid, spool + r->limits.trace, &r->claim, ret);
	if (rc < 0)
		ledger_return(&r->memory);
	/* Claims of snapshots that are being written are upper bounds: room may become free. */
	if (rc == -EDQUOT && (count_copies(list, ledger_owner(l, uid)) || spool_room_writing(list->o.spool, uid)))
		return -EAGAIN;
	return rc == -ENOSPC && spool_unwritten(list->o.spool) ? -EAGAIN : rc;
}

/* Begins the copy of a request that waits. Returns false if it must continue to wait. */
static bool admit_request(struct snapshot_request *r)
{
	struct spool_refusal why = { 0 };
	int rc = charge_copy(r, &why);

	if (rc == -EAGAIN) {
		report_waiting(r);
		return false;
	}
	r->waits = false;
	r->admitted = true;
	if (rc == -EDQUOT)
		request_refuse(r, &why.limit);
	else if (rc < 0)
		request_fail(r, REQUEST_FAILED, why.reason.text);
	else if (ring_queue(&r->target->ring, &r->op) < 0)
		request_fail(r, REQUEST_FAILED, "too many operations wait for this process");
	return true;
}

/* Sets for all requests, or those of one user, whether they are blocked. */
static void set_blocked(struct request_list *list, const uid_t *owner, bool blocked)
{
	struct snapshot_request *r;

	TAILQ_FOREACH (r, &list->all, link)
		if (!owner || request_owner(r) == *owner)
			r->blocked = blocked;
}

/*
 * Of users who have equally many copies under way, the one whose request came first is served first. Where it gets no
 * room, the others of this user are not looked at: each look walks all snapshots.
 */
static bool admit_one(struct request_list *list)
{
	struct snapshot_request *r, *next;

	for (unsigned copies = 0; copies < COPIES_PER_USER; copies++)
		for (r = TAILQ_FIRST(&list->all); r; r = next) {
			uid_t owner = request_owner(r);

			next = TAILQ_NEXT(r, link);
			if (!r->waits || count_copies(list, owner) != copies)
				continue;
			if (r->blocked)
				report_waiting(r);
			else if (admit_request(r))
				return true;
			else
				set_blocked(list, &owner, true);
		}
	return false;
}

static void admit_requests(struct request_list *list)
{
	struct snapshot_request *r, *next;

	if (list->admitting || list->stopping)
		return;
	list->admitting = true;
	for (r = TAILQ_FIRST(&list->all); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->grows)
			write_when_room(r);
	}
	set_blocked(list, NULL, false);
	while (admit_one(list))
		;
	list->admitting = false;
}

static void on_room(evutil_socket_t fd, short what, void *data)
{
	struct request_list *list = data;

	admit_requests(list);
	job_queue_retry(list->o.jobs);
}

/* Many removals may end in one turn of the loop: what waits is looked at once. */
static void room_freed(void *data)
{
	struct request_list *list = data;

	event_active(list->room, EV_TIMEOUT, 1);
}

/* Charges a request itself, the snapshot that it makes, and its decode. */
static int charge_request(struct snapshot_request *r, struct ledger_refusal *ret)
{
	struct ledger *l = r->list->o.ledger;
	uid_t uid = r->target->owner;
	int rc = ledger_charge(l, uid, LEDGER_REQUESTS, 1, &r->charge, ret);

	if (rc == 0)
		rc = ledger_charge(l, uid, LEDGER_WAITING, 1, &r->waiting, ret);
	if (rc == 0)
		rc = ledger_charge(l, uid, LEDGER_STORED, 1, &r->stored, ret);
	if (rc == -EDQUOT && ret->kind == LEDGER_STORED && spool_room_drop_oldest(r->list->o.spool, uid)) {
		/* The oldest snapshot is being removed, and the new one takes its place. */
		ledger_record(l, uid, LEDGER_STORED, 1, &r->stored);
		rc = 0;
	}
	if (rc == 0)
		rc = ledger_check(l, uid, LEDGER_DECODER, 0, ret);
	if (rc == 0)
		rc = ledger_spend(l, uid, LEDGER_SNAPSHOTS, 1, ret);
	return rc;
}

void request_begin(struct request_list *list, struct target *t, struct request_options *options)
{
	struct ledger_refusal limit = { 0 };
	struct snapshot_request *r;

	if (t->ring.state == RING_DISARMED && options->no_arm) {
		annotation_done(&options->annotation);
		options->ended(options->data, REQUEST_NOT_ARMED, NULL, NULL, NULL);
		return;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		annotation_done(&options->annotation);
		list->o.counters->failed++;
		options->ended(options->data, REQUEST_FAILED, NULL, strerror(ENOMEM), NULL);
		return;
	}
	TAILQ_INSERT_TAIL(&list->all, r, link);
	r->list = list;
	r->options = *options;
	r->begun_ns = now_ns(CLOCK_MONOTONIC);
	r->target = target_ref(t);
	r->op.begin = begin_copy;
	r->copy = (struct work){ run_copy, copy_ran };
	r->prepare = (struct work){ run_prepare, prepare_ran };
	r->write = (struct work){ run_write, write_ran };
	r->timer = evtimer_new(list->o.base, on_timer, r);
	if (charge_request(r, &limit) < 0) {
		request_refuse(r, &limit);
	} else if (!r->timer) {
		request_fail(r, REQUEST_FAILED, strerror(ENOMEM));
	} else if (t->ring.state == RING_DISARMED) {
		report_phase(r, "arming");
		target_arm(t, on_armed, r);
	} else {
		wait_for_trace(r);
	}
}

int request_list_new(const struct request_list_options *options, struct request_list **ret)
{
	struct request_list *list = calloc(1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	list->o = *options;
	TAILQ_INIT(&list->all);
	list->room = evtimer_new(options->base, on_room, list);
	if (!list->room) {
		free(list);
		return -ENOMEM;
	}
	spool_watch(options->spool, room_freed, list);
	*ret = list;
	return 0;
}

void request_list_stop(struct request_list *list)
{
	struct snapshot_request *r, *next;

	list->stopping = true;
	for (r = TAILQ_FIRST(&list->all); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (event_pending(r->timer, EV_TIMEOUT, NULL)) {
			event_del(r->timer);
			on_timer(-1, EV_TIMEOUT, r);
		} else if (r->grows) {
			spool_drop(list->o.spool, r->snapshot);
			request_fail(r, REQUEST_FAILED, ending);
		} else if (r->waits) {
			request_fail(r, REQUEST_FAILED, ending);
		}
	}
}

struct request_list *request_list_free(struct request_list *list)
{
	if (list) {
		assert(TAILQ_EMPTY(&list->all));
		spool_watch(list->o.spool, NULL, NULL);
		event_free(list->room);
	}
	free(list);
	return NULL;
}
