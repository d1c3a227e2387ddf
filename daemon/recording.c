/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/directory-tree.h"
#include "daemon/drain-pace.h"
#include "daemon/recording.h"
#include "daemon/spool.h"
#include "daemon/workqueue.h"
#include "lib/base/log.h"

enum {
	PROGRESS_MS = 300,
	FLUSH_MS = 1000,        /* after this time, also a little is drained */
	CLAIM_MOST = 16 << 20,  /* bytes that are claimed at once */
	CLAIM_LEAST = 64 << 10, /* below this, there is no room */
	CLAIM_PAUSE_MS = 50,    /* between claims while snapshots are removed for room */
	DECODE_TIMES = 6,       /* bytes that a decode may claim for one of trace: two outputs of three times as much */
	FRAGMENT = 64 << 10,    /* bytes that are drained at least, with a limit of the rate */
};

struct recording {
	struct recording_options o;
	struct work drain, write;
	char *exe; /* of the target, when the recording began: the target's own changes on the loop */
	struct event *timer;
	bool working;
	struct capture_positions positions;
	struct capture_drain size; /* of the step */
	struct capture_copy *copy; /* between drain and write */
	struct trace_file *file;
	struct trace_file_counts counts;
	int rc;
	uint64_t cost_ns; /* processor time of the step */
	uint64_t begun_ns, ended_ns, flushed_ns, reported_ns;
	uint64_t log;     /* bytes of the log at the last step */
	uint64_t reserve; /* bytes of the claim for what is written in the end */
	int refused;      /* why the last claim was refused, or 0 */
	uint64_t refused_ns;
	struct drain_pace pace;
	enum recording_end end;
	struct reason why;
	bool begun;
	bool made; /* the directory exists, and is not the caller's yet */
};

/* A directory that a recording leaves. */
struct removal_work {
	struct work work;
	int spool_fd;
	char name[sizeof(SNAPSHOT_TMP) + SNAPSHOT_ID_SIZE];
};

static const char *const ends[] = {
	[RECORDING_TIME] = "time",     [RECORDING_BYTES] = "bytes",       [RECORDING_REQUEST] = "request",
	[RECORDING_TARGET] = "target", [RECORDING_DISARMED] = "disarmed", [RECORDING_USER] = "user",
	[RECORDING_SPOOL] = "spool",   [RECORDING_DAEMON] = "daemon",     [RECORDING_PARTS] = "parts",
	[RECORDING_FAILED] = "failed",
};

static uid_t owner_of(const struct recording *r)
{
	return ledger_owner(r->o.ledger, r->o.target->owner);
}

static struct capture_source *source_of(const struct recording *r)
{
	return r->o.target->ring.source;
}

static void run_drain(struct work *w)
{
	struct recording *r = container_of(w, struct recording, drain);
	uint64_t began = now_ns(CLOCK_THREAD_CPUTIME_ID);

	r->rc = source_of(r)->ops->drain(source_of(r), &r->positions, &r->size, &r->copy);
	r->cost_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

/* Makes the directory and the file with the first step. */
static int begin_file(struct recording *r)
{
	_cleanup_close_ int dir = -1;
	char tmp[sizeof(SNAPSHOT_TMP) + SNAPSHOT_ID_SIZE];

	snprintf(tmp, sizeof(tmp), SNAPSHOT_TMP "%s", r->o.snapshot->id);
	if (mkdirat(spool_fd(r->o.spool), tmp, 0700) < 0)
		return -errno;
	r->made = true;
	dir = openat(spool_fd(r->o.spool), tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir < 0 ? -errno : trace_file_begin(dir, r->o.target, r->exe, r->copy, true, &r->file);
}

static void run_write(struct work *w)
{
	struct recording *r = container_of(w, struct recording, write);
	uint64_t began = now_ns(CLOCK_THREAD_CPUTIME_ID);

	r->rc = r->file ? 0 : begin_file(r);
	if (r->rc == 0)
		r->rc = trace_file_append(r->file, r->copy);
	r->copy = capture_copy_free(r->copy);
	r->cost_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

json_object *recording_json(const struct recording *r)
{
	json_object *o = json_object_new_object();

	json_add_u64(o, "bytes", r->counts.bytes);
	json_add_u64(o, "lost", r->counts.lost);
	json_add_u64(o, "gaps", r->counts.gaps);
	json_add_u64(o, "duration", (r->ended_ns ? r->ended_ns : now_ns(CLOCK_MONOTONIC)) - r->begun_ns);
	if (r->end)
		json_add_str(o, "ended", ends[r->end]);
	if (r->why.text[0])
		json_add_bytes(o, "reason", r->why.text);
	return o;
}

static void report(struct recording *r, uint64_t now)
{
	struct snapshot *s = r->o.snapshot;

	if (now - r->reported_ns < PROGRESS_MS * 1000000ull)
		return;
	r->reported_ns = now;
	s->size = r->counts.size;
	json_object_put(s->recording);
	s->recording = recording_json(r);
	r->o.progress(r->o.data);
}

static void finish(struct recording *r)
{
	struct snapshot *s = r->o.snapshot;

	event_del(r->timer);
	r->ended_ns = now_ns(CLOCK_MONOTONIC);
	json_object_put(s->recording);
	s->recording = recording_json(r);
	log_info("recording %s ended: %s%s%s", s->id, ends[r->end], r->why.text[0] ? ": " : "", r->why.text);
	r->o.ended(r->o.data);
}

/* Returns what must remain of the claim: for the end of the recording, and for its decode, which would fail without. */
static uint64_t reserve_of(const struct recording *r)
{
	return r->reserve + DECODE_TIMES * r->counts.size;
}

/* Returns how many bytes of trace the claim has room for. */
static uint64_t claim_left(const struct recording *r)
{
	const struct spool_claim *c = &r->o.snapshot->claim;

	return (c->unwritten - MIN(c->unwritten, reserve_of(r))) / (1 + DECODE_TIMES);
}

/* Claims bytes more, or a part of them. */
static int claim(struct recording *r, uint64_t bytes, struct spool_refusal *ret)
{
	struct spool_claim *c = &r->o.snapshot->claim;
	int rc = -EDQUOT;

	for (uint64_t more = bytes; rc < 0 && rc != -EAGAIN && more >= CLAIM_LEAST; more /= 2) {
		rc = ledger_check(r->o.ledger, r->o.target->owner, LEDGER_PENDING, more, &ret->limit);
		if (rc < 0)
			ledger_explain(&ret->limit, &ret->reason);
		else
			rc = spool_room_resize(c, c->unwritten + more, ret);
	}
	return rc;
}

/*
 * Claims room for the next step. Returns how many bytes it may have, of those wanted; 0: none now. The recording ends
 * if there is no room. Each claim that is refused has walked all snapshots: what is left is used up before the next.
 */
static uint64_t claim_step(struct recording *r, uint64_t wanted, uint64_t now)
{
	uint64_t unwritten = r->o.snapshot->claim.unwritten, need = reserve_of(r) + (1 + DECODE_TIMES) * wanted;
	bool waits =
	    r->refused == -EAGAIN ? now - r->refused_ns < CLAIM_PAUSE_MS * 1000000ull : r->refused < 0 && claim_left(r);
	struct spool_refusal why = { 0 };

	if (unwritten >= need)
		return wanted;
	if (waits)
		return MIN(wanted, claim_left(r));
	r->refused = claim(r, MAX((uint64_t)CLAIM_MOST, need - unwritten), &why);
	r->refused_ns = now;
	if (r->refused < 0 && r->refused != -EAGAIN && !claim_left(r)) {
		r->why = why.reason;
		r->end = RECORDING_SPOOL;
	}
	return MIN(wanted, claim_left(r));
}

/* Returns how many bytes the next step may have; 0: none now. */
static uint64_t step_size(const struct recording *r, uint64_t now)
{
	const struct recording_limits *l = &r->o.limits;
	uint64_t size = RECORDING_STEP, allowed;

	if (l->bytes)
		size = MIN(size, l->bytes - MIN(l->bytes, r->counts.bytes));
	if (!l->rate)
		return size;
	/* That of one second may come at once. */
	allowed = (uint64_t)MIN((double)l->rate * (1 + (double)(now - r->begun_ns) / 1e9), 1e18);
	allowed -= MIN(allowed, r->counts.bytes);
	return allowed < MIN((uint64_t)FRAGMENT, l->rate) ? 0 : MIN(size, MIN(allowed, l->rate));
}

/* What follows may be the trace of another user. */
static void end_with_user(struct recording *r)
{
	r->why = (struct reason){ "the process has changed its user" };
	r->end = RECORDING_USER;
}

static enum recording_end find_end(struct recording *r, uint64_t now)
{
	enum ring_state state = r->o.target->ring.state;

	if (state == RING_GONE)
		return RECORDING_TARGET;
	if (target_leaves(r->o.target) || (state != RING_ARMED && state != RING_FROZEN))
		return RECORDING_DISARMED;
	if (r->o.limits.time && now - r->begun_ns >= r->o.limits.time)
		return RECORDING_TIME;
	if (r->o.limits.bytes && r->counts.bytes >= r->o.limits.bytes)
		return RECORDING_BYTES;
	if (r->counts.full)
		return RECORDING_PARTS;
	return RECORDING_GOES_ON;
}

/* Begins the next step, or sets the timer for it. */
static void go_on(struct recording *r, bool now_due)
{
	const struct timeval pause = drain_pace_pause(&r->pace);
	uint64_t now = now_ns(CLOCK_MONOTONIC), size;
	bool flush = now - r->flushed_ns >= FLUSH_MS * 1000000ull;

	if (!r->end && r->o.target->foreign)
		end_with_user(r);
	if (!r->end)
		r->end = find_end(r, now);
	if (r->end) {
		finish(r);
		return;
	}
	report(r, now);
	size = now_due ? step_size(r, now) : 0;
	if (size)
		size = claim_step(r, size, now);
	if (r->end) {
		finish(r);
		return;
	}
	if (!size) {
		event_add(r->timer, &pause);
		return;
	}
	r->size = (struct capture_drain){ .most = (size_t)size, .least = flush || r->size.more ? 0 : DRAIN_PACE_AT };
	r->working = true;
	workqueue_submit_for(source_of(r)->ops->drains_rings ? r->o.capture_queue : r->o.queue, &r->drain, owner_of(r));
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
	go_on(data, true);
}

/* The positions have moved beyond what could not be written. */
static void fail(struct recording *r)
{
	r->end = RECORDING_FAILED;
	reason_set(&r->why, r->rc, "cannot write to the spool: %s", strerror(-r->rc));
}

static void stop_recording(struct recording *r)
{
	r->end = RECORDING_FAILED;
	r->why = (struct reason){ "the process is traced no longer" };
}

static bool has_trace(const struct capture_copy *c)
{
	return c->n_threads || c->n_rings;
}

static void drain_ran(struct work *w)
{
	struct recording *r = container_of(w, struct recording, drain);
	int rc;

	r->working = false;
	r->o.target->cost_ns += r->cost_ns;
	drain_pace_set(&r->pace, r->size.fullest);
	if (r->rc == 0 && r->size.flushed)
		r->flushed_ns = now_ns(CLOCK_MONOTONIC);
	if (r->rc == -ENODATA && !r->end && r->o.target->ring.state == RING_ARMED)
		stop_recording(r);
	/* Memory is short: what is in the rings is drained later, and if it is overwritten, a gap. */
	if (r->rc < 0) {
		go_on(r, false);
		return;
	}
	/* What was drained may be the trace of another user. */
	rc = has_trace(r->copy) ? target_check_user(r->o.target) : 0;
	if (rc < 0) {
		r->copy = capture_copy_free(r->copy);
		end_with_user(r);
	}
	if (rc < 0 || !has_trace(r->copy)) {
		r->copy = capture_copy_free(r->copy);
		go_on(r, false);
		return;
	}
	r->flushed_ns = now_ns(CLOCK_MONOTONIC);
	r->log = r->copy->log_size;
	r->working = true;
	workqueue_submit_for(r->o.queue, &r->write, owner_of(r));
}

static void write_ran(struct work *w)
{
	struct recording *r = container_of(w, struct recording, write);
	uint64_t before = r->counts.size;

	r->working = false;
	r->o.target->cost_ns += r->cost_ns;
	if (r->file)
		r->counts = trace_file_counts(r->file);
	spool_room_wrote(&r->o.snapshot->claim, r->counts.size - before);
	if (r->rc < 0)
		fail(r);
	go_on(r, r->size.more);
}

int recording_begin(const struct recording_options *options, struct recording **ret)
{
	struct recording *r = calloc(1, sizeof(*r));
	const struct timeval soon = { 0, 0 };

	if (!r)
		return -ENOMEM;
	r->o = *options;
	r->drain = (struct work){ run_drain, drain_ran };
	r->write = (struct work){ run_write, write_ran };
	r->exe = strdup(options->target->exe);
	r->timer = evtimer_new(options->base, on_timer, r);
	drain_pace_begin(&r->pace);
	r->reserve = options->snapshot->claim.unwritten;
	r->begun_ns = now_ns(CLOCK_MONOTONIC);
	r->log = UINT64_MAX;
	if (!r->exe || !r->timer || event_add(r->timer, &soon) < 0) {
		recording_free(r);
		return -ENOMEM;
	}
	options->snapshot->recording = recording_json(r);
	if (source_of(r)->ops->recorded)
		source_of(r)->ops->recorded(source_of(r), true);
	target_recorded(r->o.target, true);
	r->begun = true;
	*ret = r;
	return 0;
}

void recording_end(struct recording *r, enum recording_end why)
{
	if (r->end)
		return;
	r->end = why;
	if (!r->working)
		finish(r);
}

const struct capture_positions *recording_positions(const struct recording *r)
{
	return &r->positions;
}

bool recording_closed(const struct recording *r)
{
	return r->end == RECORDING_BYTES || r->end == RECORDING_USER || r->end == RECORDING_SPOOL ||
	       r->end == RECORDING_FAILED;
}

uint64_t recording_memory(const struct recording *r)
{
	return RECORDING_STEP + r->counts.memory;
}

uint64_t recording_log(const struct recording *r)
{
	return r->log;
}

bool recording_lost_user(const struct recording *r)
{
	return r->end == RECORDING_USER;
}

const char *recording_failure(const struct recording *r)
{
	return r->end == RECORDING_FAILED ? r->why.text : NULL;
}

struct trace_file *recording_take_file(struct recording *r)
{
	return TAKE_PTR(r->file);
}

void recording_count(struct recording *r, const struct trace_file *f)
{
	struct snapshot *s = r->o.snapshot;

	r->counts = trace_file_counts(f);
	json_object_put(s->recording);
	s->recording = recording_json(r);
}

void recording_saved(struct recording *r)
{
	r->made = false;
}

static void run_removal(struct work *w)
{
	struct removal_work *removal = container_of(w, struct removal_work, work);

	directory_tree_remove(removal->spool_fd, removal->name);
}

static void removal_ran(struct work *w)
{
	free(container_of(w, struct removal_work, work));
}

/* Without memory, the next start removes the directory. */
static void remove_directory(const struct recording *r)
{
	struct removal_work *removal = malloc(sizeof(*removal));

	if (!removal)
		return;
	removal->work = (struct work){ run_removal, removal_ran };
	removal->spool_fd = spool_fd(r->o.spool);
	snprintf(removal->name, sizeof(removal->name), SNAPSHOT_TMP "%s", r->o.snapshot->id);
	workqueue_submit(r->o.queue, &removal->work);
}

struct recording *recording_free(struct recording *r)
{
	if (!r)
		return NULL;
	if (r->begun && source_of(r)->ops->recorded)
		source_of(r)->ops->recorded(source_of(r), false);
	if (r->begun)
		target_recorded(r->o.target, false);
	if (r->made)
		remove_directory(r);
	trace_file_free(r->file);
	capture_copy_free(r->copy);
	free(r->positions.list);
	free(r->exe);
	if (r->timer)
		event_free(r->timer);
	free(r);
	return NULL;
}
