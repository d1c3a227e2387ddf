#include "config.h"

#include <string.h>

#include "daemon/daemon.h"
#include "daemon/job.h"
#include "daemon/methods.h"
#include "daemon/workqueue.h"
#include "daemon/snapshot-writer.h"
#include "daemon/request.h"
#include "daemon/spool.h"
#include "lib/base/escape.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"

enum {
	FILL_TRIES = 100, /* times FILL_PAUSE_MS: how long rings may take to hold something */
	FILL_PAUSE_MS = 20,
	REQUESTS_PER_USER = 16,
};

/* A snapshot on its way into the spool. */
struct snapshot_request {
	struct ring_op op;
	struct work copy, write;
	struct daemon *daemon;
	TAILQ_ENTRY(snapshot_request) link;
	struct calls call; /* the call while it is not answered: a list of one, empty once its client has left */
	struct target *target;
	uid_t uid;
	bool no_wait;
	bool alive;
	unsigned tries;
	struct event *timer;
	struct capture_copy *copied;
	struct snapshot *snapshot;
	struct target_file **files;
	struct snapshot_writer record;
	int rc;
};

static void request_free(struct snapshot_request *r)
{
	TAILQ_REMOVE(&r->daemon->requests, r, link);
	if (r->timer)
		event_free(r->timer);
	capture_copy_free(r->copied);
	for (size_t n = 0; n < r->record.n_files; n++)
		target_file_unref(r->files[n]);
	free(r->files);
	snapshot_writer_done(&r->record);
	snapshot_unref(r->snapshot);
	target_unref(r->target);
	free(r);
}

static void tell_phase(struct snapshot_request *r, const char *phase)
{
	struct call *c = TAILQ_FIRST(&r->call);
	json_object *o;

	if (!c)
		return;
	o = json_object_new_object();
	json_add_str(o, "phase", phase);
	call_progress(c, o);
}

static void fail(struct snapshot_request *r, const char *error, const char *reason)
{
	struct call *c = TAILQ_FIRST(&r->call);

	if (reason)
		log_warning("no snapshot of process %d (%s): %s", (int)r->target->pid, esc(r->target->name),
			    esc(reason));
	if (c) {
		json_object *o = json_object_new_object();

		json_add_i64(o, "pid", r->target->pid);
		json_add_str(o, "reason", reason);
		call_error(c, error, o);
	}
	request_free(r);
}

static void run_write(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, write);

	r->rc = snapshot_writer_run(spool_fd(r->daemon->spool), &r->record);
	/* The copy is the largest thing here; nothing needs it from now on. */
	r->copied = capture_copy_free(r->copied);
}

static void write_ran(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, write);
	struct snapshot *s = r->snapshot;
	struct call *c = TAILQ_FIRST(&r->call);

	if (r->rc < 0) {
		spool_drop(r->daemon->spool, s);
		fail(r, "org.csight.SnapshotFailed", r->record.reason);
		return;
	}
	s->size = r->record.size;
	s->missing = json_object_get(r->record.missing);
	s->n_files = r->record.n_images;
	s->files = TAKE_PTR(r->record.image_files);
	for (size_t n = 0; n < s->n_files; n++)
		if (s->files[n])
			target_file_ref(s->files[n]);
	snapshot_move(s, SNAPSHOT_QUEUED);
	tell_phase(r, "queued");
	if (c && r->no_wait) {
		json_object *o = json_object_new_object();

		json_object_object_add(o, "snapshot", methods_snapshot_json(r->daemon, s));
		call_reply(c, o);
	} else if (c) {
		call_wait(c, &s->waiting);
	}
	spool_vacuum(r->daemon->spool, 0, s);
	job_queue_add(r->daemon->jobs, s);
	request_free(r);
}

static void new_id(uint64_t time, char *ret)
{
	time_t seconds = (time_t)(time / 1000000000u);
	struct tm tm;
	char random[7];

	gmtime_r(&seconds, &tm);
	hex_random(random, sizeof(random));
	strftime(ret, SNAPSHOT_ID_SIZE, "%Y%m%dT%H%M%S-", &tm);
	strcat(ret, random);
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
	r->record.n_files = t->n_files;
	new_id(r->copied->time, s->id);
	s->state = SNAPSHOT_COPYING;
	s->pid = t->pid;
	s->uid = t->uid;
	s->gid = t->gid;
	s->name = strdup(t->name);
	s->time = r->copied->time;
	s->blind = r->copied->blind;
	s->threads = r->copied->n_threads;
	s->shared = r->copied->shared;
	r->record = (struct snapshot_writer){ .id = s->id,
					      .copy = r->copied,
					      .target = t,
					      .asked_by = r->uid,
					      .files = r->files,
					      .n_files = t->n_files,
					      .lost_files = t->lost_files,
					      .keep_free = r->daemon->settings.spool_keep_free };
	return s->name ? 0 : -ENOMEM;
}

static void run_copy(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, copy);
	const struct ring *ring = &r->target->ring;

	r->rc = ring->ops->copy(ring->source, r->alive, r->daemon->settings.snapshot_max, &r->copied);
}

static void take_files(struct snapshot_request *r)
{
	struct capture_copy *c = r->copied;

	if (c->files)
		target_keep_files(r->target, c->files, c->n_files);
	for (size_t n = 0; n < c->n_files; n++) {
		struct target_file *f;

		if (c->files[n].fd < 0)
			continue;
		f = target_file_new(r->daemon->opener, c->files[n].id, TAKE_FD(c->files[n].fd));
		if (f)
			target_add_file(r->target, f);
	}
}

static void copy_ran(struct work *w)
{
	struct snapshot_request *r = container_of(w, struct snapshot_request, copy);
	struct target *t = r->target;
	uint64_t bytes = 0;

	if (t->ring.state == RING_FROZEN)
		ring_move(&t->ring, RING_ARMED);
	ring_next(&t->ring);
	if (r->rc == 0) {
		take_files(r);
		/* The files of the newest mappings in the log may still be on their way. */
		if (t->drain)
			t->drain(t->data);
		r->rc = prepare_write(r);
	}
	if (r->rc < 0) {
		fail(r, "org.csight.SnapshotFailed", strerror(-r->rc));
		return;
	}
	for (size_t n = 0; n < r->copied->n_threads; n++)
		bytes += r->copied->threads[n].size;
	for (size_t n = 0; n < r->copied->n_rings; n++)
		bytes += r->copied->rings[n].size;
	log_info("snapshot %s of process %d (%s): %zu threads, %llu bytes, not traced for %llu µs", r->snapshot->id,
		 (int)t->pid, esc(t->name), r->snapshot->threads, (unsigned long long)bytes,
		 (unsigned long long)r->snapshot->blind / 1000);
	spool_vacuum(r->daemon->spool, bytes, NULL);
	if (spool_bytes(r->daemon->spool) + bytes > r->daemon->settings.spool_max) {
		fail(r, "org.csight.SnapshotFailed",
		     "the spool is at its limit (spool-max), and all in it waits for its decode");
		return;
	}
	spool_insert(r->daemon->spool, r->snapshot);
	tell_phase(r, "copying");
	workqueue_submit(r->daemon->disk, &r->write);
}

static void begin_copy(struct ring_op *op)
{
	struct snapshot_request *r = container_of(op, struct snapshot_request, op);
	struct ring *ring = &r->target->ring;

	if (!ring_may(ring->state, RING_FROZEN) && ring->state != RING_GONE) {
		/* It was disarmed in the meantime. */
		ring_next(ring);
		fail(r, "org.csight.NotArmed", NULL);
		return;
	}
	tell_phase(r, "freezing");
	r->alive = ring->state != RING_GONE;
	if (r->alive)
		ring_move(ring, RING_FROZEN);
	workqueue_submit(r->daemon->capture, &r->copy);
}

static void wait_filled(struct snapshot_request *r)
{
	_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };
	struct timeval pause = { 0, FILL_PAUSE_MS * 1000 };
	struct ring *ring = &r->target->ring;

	if (!ring->ops->holds(ring->source)) {
		if (ring->state == RING_ARMED && ++r->tries < FILL_TRIES && !r->daemon->stopping) {
			event_add(r->timer, &pause);
			return;
		}
		target_trouble(r->target, &trouble);
		fail(r, "org.csight.SnapshotFailed",
		     trouble.size                ? (const char *)trouble.data
		     : ring->state == RING_ARMED ? "the process executed nothing since it was armed"
						 : "the process left no trace");
		return;
	}
	if (ring_queue(ring, &r->op) < 0)
		fail(r, "org.csight.SnapshotFailed", "too many ask for the same process");
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
	wait_filled(data);
}

static void armed(struct target *t, int rc, void *data)
{
	struct snapshot_request *r = data;

	_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };

	target_trouble(t, &trouble);
	if (rc < 0 && rc != -ESRCH)
		fail(r, "org.csight.SnapshotFailed", trouble.size ? (const char *)trouble.data : strerror(-rc));
	else
		wait_filled(r);
}

/* Those on their way are in memory, those that wait for their decode cannot make room in the spool. */
static bool over_limit(struct daemon *d, uid_t uid)
{
	const struct snapshot_request *r;
	const struct snapshot *s;
	unsigned on_way = 0, waiting = 0;

	TAILQ_FOREACH (r, &d->requests, link)
		on_way += r->target->uid == uid;
	TAILQ_FOREACH (s, spool_list(d->spool), link)
		waiting += s->uid == uid && s->state < SNAPSHOT_READY;
	return on_way >= REQUESTS_PER_USER || waiting >= d->settings.snapshots_per_user;
}

void request_begin(struct target *t, const struct request_options *options, struct call *c)
{
	struct daemon *d = t->daemon;
	struct snapshot_request *r;
	json_object *o;

	if (t->ring.state == RING_DISARMED && options->no_arm) {
		o = json_object_new_object();
		json_add_i64(o, "pid", t->pid);
		call_error(c, "org.csight.NotArmed", o);
		return;
	}
	if (over_limit(d, t->uid) || !(r = calloc(1, sizeof(*r)))) {
		o = json_object_new_object();
		json_add_str(o, "limit", "snapshots-per-user");
		call_error(c, "org.csight.LimitReached", o);
		return;
	}
	TAILQ_INSERT_TAIL(&d->requests, r, link);
	TAILQ_INIT(&r->call);
	call_wait(c, &r->call);
	r->daemon = d;
	r->target = target_ref(t);
	r->uid = c->uid;
	r->no_wait = options->no_wait;
	r->op.begin = begin_copy;
	r->copy = (struct work){ run_copy, copy_ran };
	r->write = (struct work){ run_write, write_ran };
	r->timer = evtimer_new(d->base, on_timer, r);
	if (!r->timer) {
		fail(r, "org.csight.SnapshotFailed", strerror(ENOMEM));
	} else if (t->ring.state == RING_DISARMED) {
		tell_phase(r, "arming");
		target_arm(t, armed, r);
	} else {
		wait_filled(r);
	}
}

void request_stop(struct daemon *d)
{
	struct snapshot_request *r, *next;

	for (r = TAILQ_FIRST(&d->requests); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (event_pending(r->timer, EV_TIMEOUT, NULL)) {
			event_del(r->timer);
			wait_filled(r);
		}
	}
}
