/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/drain-pace.h"
#include "daemon/tail.h"
#include "daemon/trace-file.h"
#include "daemon/workqueue.h"
#include "lib/base/log.h"

enum {
	STEP = 512 << 10,      /* bytes of trace that are drained at once, at most */
	FLUSH_MS = 500,        /* after this time, also a little is drained of rings */
	SOCKET_SIZE = 1 << 20, /* wanted; the kernel may give less */
	MEMORY = 4 << 20,      /* a step, its records, which may take twice as much, the socket, and the threads */
	LOOK_MS = 100,         /* how often the target is looked at while the socket is full */
	LINGER_MS = 10 * 1000, /* how long the reader of a tail that has ended may leave the socket full */
};

struct tail_list {
	struct tail_list_options o;
	TAILQ_HEAD(, tail) all;
	bool stopping;
};

struct tail {
	struct tail_list *list;
	TAILQ_ENTRY(tail) link;
	struct target *target;
	uid_t reader;
	gid_t *groups; /* of the reader */
	size_t n_groups;
	struct charge request, memory;
	uint64_t max_time, begun_ns, ended_ns, flushed_ns;
	struct work drain, write;
	struct event *timer, *writable, *closed;
	bool begun, working;
	bool of_rings; /* whose trace units are stopped for each step */
	bool in_round; /* a part of a round has been written */
	int fd;        /* csightd's end of the socket */
	struct drain_pace pace;
	struct capture_positions positions;
	struct capture_drain size; /* of the step */
	struct capture_copy *copy; /* between drain and write */
	struct trace_file *file;
	struct buf out; /* records, of which the first bytes have been sent */
	size_t sent;
	uint64_t bytes; /* sent, of all steps */
	bool drained;   /* the process has ended, and its trace has been drained */
	int rc;
	uint64_t cost_ns; /* processor time of the work */
	enum tail_end end;
};

static const char *const ends[] = {
	[TAIL_TIME] = "its time is over",
	[TAIL_READER] = "the reader has left",
	[TAIL_TARGET] = "the process has ended",
	[TAIL_DISARMED] = "the process was disarmed",
	[TAIL_USER] = "the process has changed its user",
	[TAIL_DENIED] = "its user may not connect any more",
	[TAIL_DAEMON] = "csightd ends",
	[TAIL_FAILED] = "it failed",
};

static uid_t owner_of(const struct tail *t)
{
	return ledger_owner(t->list->o.ledger, t->target->owner);
}

static struct capture_source *source_of(const struct tail *t)
{
	return t->target->ring.source;
}

static void run_drain(struct work *w)
{
	struct tail *t = container_of(w, struct tail, drain);
	uint64_t began = now_ns(CLOCK_THREAD_CPUTIME_ID);

	t->rc = source_of(t)->ops->drain(source_of(t), &t->positions, &t->size, &t->copy);
	t->cost_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

/* Sends as much as the socket has room for. */
static int send_out(struct tail *t)
{
	while (t->sent < t->out.size) {
		ssize_t n = send(t->fd, t->out.data + t->sent, t->out.size - t->sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		t->sent += (size_t)n;
		t->bytes += (uint64_t)n;
	}
	buf_clear(&t->out);
	t->sent = 0;
	return 0;
}

static void run_write(struct work *w)
{
	struct tail *t = container_of(w, struct tail, write);
	uint64_t began = now_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc = t->file || !t->copy ? 0 : trace_file_begin_live(t->target, t->copy, &t->file);

	if (rc == 0 && t->copy)
		rc = trace_file_append(t->file, t->copy);
	t->in_round = t->of_rings && !t->size.round;
	if (rc == 0 && t->size.round)
		trace_file_end_round(t->file, t->size.round);
	if (rc == 0 && t->copy)
		rc = trace_file_take(t->file, &t->out);
	t->copy = capture_copy_free(t->copy);
	t->rc = rc < 0 ? rc : send_out(t);
	t->cost_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

static void set_end(struct tail *t, enum tail_end end)
{
	if (t->end)
		return;
	t->end = end;
	t->ended_ns = now_ns(CLOCK_MONOTONIC);
}

static enum tail_end find_end(const struct tail *t, uint64_t now)
{
	if (t->target->foreign)
		return TAIL_USER;
	switch (t->target->ring.state) {
	case RING_GONE:
		return TAIL_TARGET;
	case RING_DRAINING:
	case RING_DISARMED:
		return TAIL_DISARMED;
	default:
		return t->max_time && now - t->begun_ns >= t->max_time ? TAIL_TIME : TAIL_GOES_ON;
	}
}

static void finish(struct tail *t)
{
	if (source_of(t)->ops->recorded)
		source_of(t)->ops->recorded(source_of(t), false);
	log_info("the tail of process %d ended after %llu bytes: %s", (int)t->target->pid, (unsigned long long)t->bytes,
		 t->end == TAIL_FAILED && t->rc < 0 ? strerror(-t->rc) : ends[t->end]);
	t->begun = false;
	tail_free(t);
}

/* True if nothing more is written, also if something is left. */
static bool ends_at_once(const struct tail *t, uint64_t now)
{
	return t->end == TAIL_READER || t->end == TAIL_FAILED || t->end == TAIL_DENIED || t->end == TAIL_DAEMON ||
	       (t->end && now >= t->ended_ns + LINGER_MS * 1000000ull);
}

static void begin_drain(struct tail *t)
{
	bool due = t->size.more || t->end || now_ns(CLOCK_MONOTONIC) - t->flushed_ns >= FLUSH_MS * 1000000ull;

	t->size = (struct capture_drain){ .most = STEP,
					  .least = t->of_rings && !due ? DRAIN_PACE_AT : 0,
					  .live = true,
					  .ended = t->end == TAIL_TARGET };
	t->working = true;
	workqueue_submit_for(t->of_rings ? t->list->o.capture_queue : t->list->o.queue, &t->drain, owner_of(t));
}

/* Begins the next step, or waits for it or for the socket. Perhaps frees the tail. */
static void go_on(struct tail *t, bool now_due)
{
	const struct timeval look = { 0, LOOK_MS * 1000 }, pause = drain_pace_pause(&t->pace);
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	bool left = t->sent < t->out.size;

	if (!t->end)
		set_end(t, find_end(t, now));
	if (ends_at_once(t, now) || (t->end && !left && (t->end != TAIL_TARGET || t->drained)))
		finish(t);
	else if (left)
		event_add(t->writable, &look);
	else if (now_due || t->end)
		begin_drain(t);
	else
		event_add(t->timer, &pause);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
	go_on(data, true);
}

static void begin_write(struct tail *t)
{
	t->working = true;
	workqueue_submit_for(t->list->o.queue, &t->write, owner_of(t));
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
	struct tail *t = data;

	if (what & EV_WRITE)
		begin_write(t);
	else
		go_on(t, false);
}

/* The reader has closed its end, or shut it down; it has nothing to send. */
static void on_closed(evutil_socket_t fd, short what, void *data)
{
	struct tail *t = data;

	set_end(t, TAIL_READER);
	t->end = TAIL_READER;
	if (!t->working)
		finish(t);
}

static void drain_ran(struct work *w)
{
	struct tail *t = container_of(w, struct tail, drain);

	t->working = false;
	t->target->cost_ns += t->cost_ns;
	drain_pace_set(&t->pace, t->size.fullest);
	/* Memory is short: what is in the rings is drained later, and if it is overwritten, a gap. */
	if (t->rc < 0) {
		if (t->end)
			t->end = TAIL_FAILED;
		else if (t->rc == -ENODATA)
			set_end(t, TAIL_DISARMED);
		go_on(t, false);
		return;
	}
	t->drained = t->size.ended && !t->size.more;
	if (t->size.flushed)
		t->flushed_ns = now_ns(CLOCK_MONOTONIC);
	/* What was drained may be the trace of another user. */
	if (target_check_user(t->target) < 0) {
		set_end(t, TAIL_USER);
		t->end = TAIL_USER;
	} else if (t->of_rings ? t->copy->n_rings || (t->in_round && t->size.round)
			       : !t->file || t->copy->n_threads || t->copy->log) {
		begin_write(t);
		return;
	}
	t->copy = capture_copy_free(t->copy);
	go_on(t, t->size.more);
}

static void write_ran(struct work *w)
{
	struct tail *t = container_of(w, struct tail, write);

	t->working = false;
	t->target->cost_ns += t->cost_ns;
	if (t->rc < 0) {
		set_end(t, TAIL_FAILED);
		t->end = t->rc == -EPIPE ? TAIL_READER : TAIL_FAILED;
	}
	go_on(t, t->size.more);
}

/*
 * A socket in place of a pipe: a reader that has passed its end on, as csight to csight-decode, can end the tail by
 * shutdown(), and what was sent before is read nevertheless.
 */
static int open_socket(struct tail *t, int *ret_fd)
{
	const int size = SOCKET_SIZE;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	t->fd = fds[0];
	/* A smaller one works as well, with more gaps where the reader is slow. */
	if (setsockopt(fds[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0) {
		close(fds[1]);
		return -errno;
	}
	*ret_fd = fds[1];
	return 0;
}

static int make_events(struct tail *t)
{
	struct event_base *base = t->list->o.base;

	t->timer = evtimer_new(base, on_timer, t);
	t->writable = event_new(base, t->fd, EV_WRITE, on_writable, t);
	t->closed = event_new(base, t->fd, EV_READ, on_closed, t);
	return t->timer && t->writable && t->closed ? 0 : -ENOMEM;
}

int tail_new(struct tail_list *list, struct target *target, uint64_t max_time, struct tail **ret, int *ret_fd,
	     struct ledger_refusal *ret_refusal)
{
	struct tail *t = calloc(1, sizeof(*t));
	int rc, fd = -1;

	if (!t)
		return -ENOMEM;
	TAILQ_INSERT_TAIL(&list->all, t, link);
	t->list = list;
	t->fd = -1;
	t->target = target_ref(target);
	t->max_time = max_time;
	t->drain = (struct work){ run_drain, drain_ran };
	t->write = (struct work){ run_write, write_ran };
	drain_pace_begin(&t->pace);
	rc = ledger_charge(list->o.ledger, target->owner, LEDGER_REQUESTS, 1, &t->request, ret_refusal);
	if (rc == 0)
		rc = ledger_charge(list->o.ledger, target->owner, LEDGER_MEMORY, MEMORY, &t->memory, ret_refusal);
	if (rc == 0)
		rc = open_socket(t, &fd);
	if (rc == 0)
		rc = make_events(t);
	if (rc < 0) {
		closep(&fd);
		tail_free(t);
		return rc;
	}
	*ret_fd = fd;
	*ret = t;
	return 0;
}

void tail_begin(struct tail *t, uid_t reader, const gid_t *groups, size_t n_groups)
{
	t->reader = reader;
	t->groups = calloc(n_groups + 1, sizeof(*groups));
	t->n_groups = t->groups ? n_groups : 0;
	if (t->n_groups)
		memcpy(t->groups, groups, n_groups * sizeof(*groups));
	t->begun = true;
	t->begun_ns = now_ns(CLOCK_MONOTONIC);
	t->of_rings = source_of(t)->ops->drains_rings;
	if (source_of(t)->ops->recorded)
		source_of(t)->ops->recorded(source_of(t), true);
	if (t->list->stopping)
		set_end(t, TAIL_DAEMON);
	else if (event_add(t->closed, NULL) < 0)
		set_end(t, TAIL_FAILED);
	go_on(t, true);
}

struct tail *tail_free(struct tail *t)
{
	if (!t)
		return NULL;
	assert(!t->begun);
	TAILQ_REMOVE(&t->list->all, t, link);
	if (t->timer)
		event_free(t->timer);
	if (t->writable)
		event_free(t->writable);
	if (t->closed)
		event_free(t->closed);
	closep(&t->fd);
	trace_file_free(t->file);
	capture_copy_free(t->copy);
	free(t->positions.list);
	free(t->groups);
	buf_done(&t->out);
	ledger_return(&t->request);
	ledger_return(&t->memory);
	target_unref(t->target);
	free(t);
	return NULL;
}

int tail_list_new(const struct tail_list_options *options, struct tail_list **ret)
{
	struct tail_list *list = calloc(1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	list->o = *options;
	TAILQ_INIT(&list->all);
	*ret = list;
	return 0;
}

/* Ends a tail at once, or after the step that is under way. */
static void stop(struct tail *t, enum tail_end end)
{
	set_end(t, end);
	t->end = end;
	if (t->begun && !t->working)
		finish(t);
}

void tail_list_update(struct tail_list *list, const struct settings *settings)
{
	struct tail *t, *next;

	for (t = TAILQ_FIRST(&list->all); t; t = next) {
		uid_t account = ledger_owner(list->o.ledger, t->reader);

		next = TAILQ_NEXT(t, link);
		if (t->begun && !settings_permit(settings, account, t->groups, t->n_groups))
			stop(t, TAIL_DENIED);
	}
}

void tail_list_stop(struct tail_list *list)
{
	struct tail *t, *next;

	list->stopping = true;
	for (t = TAILQ_FIRST(&list->all); t; t = next) {
		next = TAILQ_NEXT(t, link);
		stop(t, TAIL_DAEMON);
	}
}

struct tail_list *tail_list_free(struct tail_list *list)
{
	if (list)
		assert(TAILQ_EMPTY(&list->all));
	free(list);
	return NULL;
}
