/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "daemon/request-internal.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

enum {
	FILL_TRIES = 100, /* times FILL_PAUSE_MS: how long a ring may stay empty after it was armed */
	FILL_PAUSE_MS = 20,
	ROOM_SECONDS = 1,      /* until what waits for room or memory is looked at again */
	COPIES_PER_USER = 2,   /* copies of one user that may be under way at a time */
	COPY_LEAST = 64 << 10, /* bytes of trace that a copy may always have */
};

void request_end(struct snapshot_request *r)
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
	recording_free(r->recording);
	snapshot_unref(r->snapshot);
	annotation_done(&r->options.annotation);
	ledger_return(&r->charge);
	ledger_return(&r->waiting);
	ledger_return(&r->stored);
	ledger_return(&r->memory);
	spool_room_return(&r->claim);
	program_notes_unref(r->notes);
	target_remove_unarmed(r->target);
	target_unref(r->target);
	free(r);
	request_admit_all(list);
}

uid_t request_owner(const struct snapshot_request *r)
{
	return ledger_owner(r->list->o.ledger, r->target->owner);
}

void request_report_phase(const struct snapshot_request *r, const char *phase)
{
	r->options.progress(r->options.data, phase);
}

void request_report_waiting(struct snapshot_request *r)
{
	if (!r->reported)
		request_report_phase(r, "waiting");
	r->reported = true;
}

void request_fail(struct snapshot_request *r, enum request_result result, const char *reason)
{
	r->list->o.counters->failed += result == REQUEST_FAILED;
	if (r->listed)
		spool_drop(r->list->o.spool, r->snapshot);
	if (reason && ledger_may_log(r->list->o.ledger, r->options.uid))
		log_warning("cannot make a snapshot of process %d (%s): %s", (int)r->target->pid, esc(r->target->name),
			    esc(reason));
	r->options.ended(r->options.data, result, NULL, reason, NULL);
	request_end(r);
}

void request_cut_short(struct snapshot_request *r)
{
	request_fail(r, REQUEST_CUT_SHORT, "csightd ends");
}

static void refuse(struct snapshot_request *r, const struct ledger_refusal *limit)
{
	r->options.ended(r->options.data, REQUEST_OVER_LIMIT, NULL, NULL, limit);
	request_end(r);
}

static void wait_for_trace(struct snapshot_request *r)
{
	_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };
	struct timeval pause = { 0, FILL_PAUSE_MS * 1000 };
	struct ring *ring = &r->target->ring;
	bool goes_on = r->options.records && ring->state == RING_ARMED;

	if (!goes_on && !ring->source->ops->holds(ring->source)) {
		if (ring->state == RING_ARMED && r->list->stopping) {
			request_cut_short(r);
			return;
		}
		if (ring->state == RING_ARMED && ++r->tries < FILL_TRIES) {
			if (event_add(r->timer, &pause) < 0)
				request_fail(r, REQUEST_FAILED, strerror(ENOMEM));
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
		request_cut_short(r);
		return;
	}
	r->waits = true;
	request_admit_all(r->list);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
	struct snapshot_request *r = data;

	if (r->check)
		request_abandon_files(r);
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
 * Sets what a copy may take at most. A copy that would exceed what its user can ever have is cut: the newest bytes of
 * trace remain. Returns the bytes in memory.
 */
static uint64_t limit_copy(struct snapshot_request *r)
{
	const struct request_list *list = r->list;
	const struct capture_source *source = r->target->ring.source;
	struct ledger *l = list->o.ledger;
	uid_t uid = r->target->owner;
	uint64_t trace, log;

	source->ops->copy_max(r->target->ring.source, &trace, &log);
	r->limits.log = log;
	r->limits.last = r->options.annotation.last;
	r->limits.trace = MIN(trace, list->o.settings->snapshot_max);
	r->limits.trace =
	    MIN(r->limits.trace, subtract(ledger_largest(l, uid, LEDGER_MEMORY), log + REQUEST_COPY_EXTRA));
	r->limits.trace =
	    MAX(MIN(r->limits.trace, subtract(ledger_largest(l, uid, LEDGER_PENDING), log + REQUEST_SPOOL_EXTRA)),
		COPY_LEAST);
	return log + r->limits.trace + REQUEST_COPY_EXTRA;
}

/* Charges what a copy takes at most, or a recording with its last copy in the spool and each step in memory. */
static int charge_copy(struct snapshot_request *r, struct spool_refusal *ret)
{
	const struct request_list *list = r->list;
	struct ledger *l = list->o.ledger;
	uid_t uid = r->target->owner;
	uint64_t memory = limit_copy(r);
	int rc;

	if (r->options.records && !r->recorded)
		memory = RECORDING_STEP + REQUEST_COPY_EXTRA;
	if (r->recorded && request_claim_last(r) < 0)
		return -EAGAIN;
	if (r->recorded)
		memory = r->limits.log + r->limits.trace + REQUEST_COPY_EXTRA;
	rc = ledger_charge(l, uid, LEDGER_MEMORY, memory, &r->memory, &ret->limit);
	if (rc < 0 && memory <= ledger_largest(l, uid, LEDGER_MEMORY))
		return -EAGAIN;
	/* What has been recorded must come to its end, and has its room in the spool. */
	if (rc < 0 && r->recorded)
		ledger_record(l, uid, LEDGER_MEMORY, memory, &r->memory);
	if (rc < 0 || r->recorded)
		return r->recorded ? 0 : rc;
	rc =
	    spool_room_claim(list->o.spool, uid, r->limits.log + REQUEST_SPOOL_EXTRA + r->limits.trace, &r->claim, ret);
	if (rc < 0)
		ledger_return(&r->memory);
	/* Claims of snapshots that are being written are upper bounds: room may become free. */
	if (rc == -EDQUOT && (count_copies(list, ledger_owner(l, uid)) || spool_room_writing(list->o.spool, uid)))
		return -EAGAIN;
	return rc == -ENOSPC && spool_unwritten(list->o.spool) ? -EAGAIN : rc;
}

void request_copy_at_end(struct snapshot_request *r)
{
	limit_copy(r);
	request_claim_last(r);
	r->waits = false;
	if (request_copy(r) < 0)
		request_cut_short(r);
}

/* The copy may fail at once, which ends the request. Returns false if it must continue to wait. */
static bool begin_admitted(struct snapshot_request *r)
{
	if (request_copy(r) == 0)
		return true;
	if (!r->recorded) {
		request_fail(r, REQUEST_FAILED, "too many operations wait for this process");
		return true;
	}
	r->waits = true;
	ledger_return(&r->memory);
	return false;
}

/* Begins the copy, or the recording, of a request that waits. Returns false if it must continue to wait. */
static bool admit_request(struct snapshot_request *r)
{
	struct spool_refusal why = { 0 };
	int rc = charge_copy(r, &why);

	if (rc == -EAGAIN) {
		request_report_waiting(r);
		return false;
	}
	r->waits = false;
	if (rc == -EDQUOT) {
		refuse(r, &why.limit);
	} else if (rc < 0) {
		request_fail(r, REQUEST_FAILED, why.reason.text);
	} else if (r->options.records && !r->recorded) {
		request_record(r);
	} else {
		return begin_admitted(r);
	}
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
				request_report_waiting(r);
			else if (admit_request(r))
				return true;
			else
				set_blocked(list, &owner, true);
		}
	return false;
}

/* Looks again after a while: memory that others had becomes free without notice. */
static void look_later(struct request_list *list)
{
	const struct timeval pause = { ROOM_SECONDS, 0 };
	const struct snapshot_request *r;

	TAILQ_FOREACH (r, &list->all, link)
		if (r->waits || r->grows) {
			if (!event_pending(list->room, EV_TIMEOUT, NULL))
				event_add(list->room, &pause);
			return;
		}
}

void request_admit_all(struct request_list *list)
{
	struct snapshot_request *r, *next;

	if (list->admitting || list->stopping)
		return;
	list->admitting = true;
	for (r = TAILQ_FIRST(&list->all); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->grows)
			request_write_when_room(r);
	}
	set_blocked(list, NULL, false);
	while (admit_one(list))
		;
	list->admitting = false;
	look_later(list);
}

static void on_room(evutil_socket_t fd, short what, void *data)
{
	struct request_list *list = data;

	request_admit_all(list);
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
	/* The new snapshot will take the place of the oldest. */
	if (rc == -EDQUOT && ret->kind == LEDGER_STORED && spool_room_may_drop(r->list->o.spool, uid))
		rc = 0;
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
	request_init_copy(r);
	r->timer = evtimer_new(list->o.base, on_timer, r);
	if (charge_request(r, &limit) < 0) {
		refuse(r, &limit);
	} else if (!r->timer) {
		request_fail(r, REQUEST_FAILED, strerror(ENOMEM));
	} else if (t->ring.state == RING_DISARMED || t->ring.state == RING_ARMING) {
		/* One that is being armed is waited for. */
		request_report_phase(r, "arming");
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

void request_list_end_recordings(struct request_list *list)
{
	struct snapshot_request *r, *next;

	/* No other request is admitted meanwhile: that could end the next one. */
	list->admitting = true;
	for (r = TAILQ_FIRST(&list->all); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->recording)
			recording_end(r->recording, RECORDING_DAEMON);
	}
	list->admitting = false;
	request_admit_all(list);
}

bool request_list_end_recording(struct request_list *list, const struct snapshot *s)
{
	struct snapshot_request *r;

	TAILQ_FOREACH (r, &list->all, link)
		if (r->recording && r->snapshot == s) {
			recording_end(r->recording, RECORDING_REQUEST);
			return true;
		}
	return false;
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
		} else if (r->recording && !r->recorded) {
			recording_end(r->recording, RECORDING_DAEMON);
		} else if (r->recorded && r->waits) {
			request_copy_at_end(r);
		} else if (r->recorded && r->grows) {
			request_write_when_room(r);
		} else if (r->grows || r->waits) {
			request_cut_short(r);
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
