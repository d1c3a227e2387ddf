/* SPDX-License-Identifier: MIT */
#include "lib/csight/async.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

enum {
	LANES = 4,
	SLOTS = 64,
	POST_BUFFER = 16 << 10, /* of the socket: what the daemon has not read is bounded by it */
};

static const uint64_t retry_ns = 1000000000; /* between two attempts to connect */

struct async_slot {
	enum { SLOT_FREE, SLOT_QUEUED, SLOT_SENT, SLOT_ENDED } state;
	struct async_request request;
	enum async_end end; /* of SLOT_ENDED */
	int error;
	uid_t uid;
};

struct async_lane {
	struct varlink_stream *stream;
	struct async_slot *slot; /* NULL: idle */
};

struct async {
	struct csight *handle;
	struct request_queue queue; /* of threads that did not get the lock */
	pthread_mutex_t lock;       /* guards what follows */
	struct async_lane post, lanes[LANES];
	struct async_slot slots[SLOTS];
	size_t n_slots; /* in use */
	int epoll, timer;
	/* These belong to all threads. */
	atomic_uint_least64_t order, ticket, rate_ns, retry_at_ns;
	atomic_uint reserved; /* slots for requests that were accepted: each of them has one, also in the queue */
	atomic_uint_least64_t sent, full, limited, failed;
};

static void count(atomic_uint_least64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

struct async *csight_async_new(struct csight *c)
{
	struct async *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->handle = c;
	a->epoll = a->timer = -1;
	request_queue_init(&a->queue);
	pthread_mutex_init(&a->lock, NULL);
	return a;
}

/* In another process than that of the handle a thread may seem to have the lock: it is not taken. */
struct async *csight_async_free(struct async *a)
{
	struct async_request request;

	if (!a)
		return NULL;
	while (request_queue_pop(&a->queue, &request))
		free(request.heap);
	for (size_t i = 0; i < SLOTS; i++)
		if (a->slots[i].state != SLOT_FREE)
			free(a->slots[i].request.heap);
	varlink_stream_free(a->post.stream);
	for (size_t i = 0; i < LANES; i++)
		varlink_stream_free(a->lanes[i].stream);
	closep(&a->epoll);
	closep(&a->timer);
	free(a);
	return NULL;
}

static bool is_connected(const struct async *a)
{
	bool connected = a->post.stream;

	for (size_t i = 0; i < LANES; i++)
		connected |= a->lanes[i].stream != NULL;
	return connected;
}

/* Connects a lane without waiting. Without any, requests are refused for a while. */
static int open_lane(struct async *a, struct async_lane *lane, uid_t *ret_uid)
{
	int rc;

	*ret_uid = (uid_t)-1;
	rc = varlink_connect_now(a->handle->socket, &lane->stream);
	if (rc == 0)
		rc = csight_check_peer(a->handle, varlink_stream_fd(lane->stream), ret_uid);
	if (rc < 0) {
		lane->stream = varlink_stream_free(lane->stream);
		if (!is_connected(a))
			atomic_store(&a->retry_at_ns, now_ns(CLOCK_MONOTONIC) + retry_ns);
		return rc;
	}
	atomic_store(&a->retry_at_ns, 0);
	if (lane == &a->post) {
		const int size = POST_BUFFER;

		setsockopt(varlink_stream_fd(lane->stream), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	} else if (a->epoll >= 0) {
		struct epoll_event e = { .events = EPOLLIN };

		epoll_ctl(a->epoll, EPOLL_CTL_ADD, varlink_stream_fd(lane->stream), &e);
	}
	return 0;
}

static int send_message(const struct async_lane *lane, const struct async_request *q)
{
	ssize_t n =
	    send(varlink_stream_fd(lane->stream), q->heap ? q->heap : q->text, q->size, MSG_DONTWAIT | MSG_NOSIGNAL);

	/* A message is smaller than the socket's buffer: it is sent as a whole. */
	return n == (ssize_t)q->size ? 0 : n < 0 ? -errno : -EPIPE;
}

/* Sends a request without a result. */
static int post_request(struct async *a, const struct async_request *q)
{
	uid_t uid;
	int rc = a->post.stream ? send_message(&a->post, q) : -EPIPE;

	if (rc < 0 && rc != -EAGAIN) {
		a->post.stream = varlink_stream_free(a->post.stream);
		rc = open_lane(a, &a->post, &uid);
		if (rc == 0)
			rc = send_message(&a->post, q);
		else if (rc != -EACCES)
			rc = -ENOTCONN;
	}
	count(rc == 0 ? &a->sent : rc == -EAGAIN ? &a->full : &a->failed);
	return rc;
}

/* Makes the timer's descriptor ready at a time: CLOCK_MONOTONIC ns; 1: at once, 0: never. */
static void set_timer(const struct async *a, uint64_t at_ns)
{
	struct itimerspec when = {
		.it_value = { (time_t)(at_ns / 1000000000u), (long)(at_ns % 1000000000u) },
	};

	if (a->timer >= 0)
		timerfd_settime(a->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void end_slot(struct async_slot *slot, enum async_end end, int error)
{
	slot->state = SLOT_ENDED;
	slot->end = end;
	slot->error = error;
	slot->uid = (uid_t)-1;
}

static void close_lane(struct async *a, struct async_lane *lane)
{
	/* close() leaves the socket in the set while a child of fork() has it, too. */
	if (a->epoll >= 0)
		epoll_ctl(a->epoll, EPOLL_CTL_DEL, varlink_stream_fd(lane->stream), NULL);
	lane->stream = varlink_stream_free(lane->stream);
	lane->slot = NULL;
}

static struct async_lane *find_lane(struct async *a, const struct async_slot *slot, bool connected)
{
	for (size_t i = 0; i < LANES; i++)
		if (a->lanes[i].slot == slot && !a->lanes[i].stream != connected)
			return &a->lanes[i];
	return NULL;
}

static struct async_slot *next_queued(struct async *a)
{
	struct async_slot *first = NULL;

	for (size_t i = 0; i < SLOTS; i++)
		if (a->slots[i].state == SLOT_QUEUED && (!first || a->slots[i].request.ticket < first->request.ticket))
			first = &a->slots[i];
	return first;
}

/* Sends a request over a lane that is connected and idle. */
static void send_slot(struct async *a, struct async_lane *lane, struct async_slot *slot)
{
	int rc = send_message(lane, &slot->request);

	if (rc < 0) {
		close_lane(a, lane);
		end_slot(slot, ASYNC_BROKEN, -EPIPE);
		count(&a->failed);
		return;
	}
	lane->slot = slot;
	slot->state = SLOT_SENT;
	count(&a->sent);
}

/* Between calls the daemon sends nothing, so that input means the end of the connection. */
static bool has_ended(const struct async_lane *lane)
{
	char byte;

	return recv(varlink_stream_fd(lane->stream), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* Sends requests that wait, over lanes that are idle; connect: also over new ones. */
static void send_queued(struct async *a, bool connect)
{
	struct async_slot *slot;

	while ((slot = next_queued(a))) {
		struct async_lane *lane = find_lane(a, NULL, true);

		if (lane && has_ended(lane)) {
			close_lane(a, lane);
			continue;
		}
		if (!lane && connect && (lane = find_lane(a, NULL, false))) {
			uid_t uid;
			int rc = open_lane(a, lane, &uid);

			if (rc < 0) {
				end_slot(slot, ASYNC_NO_CONNECTION, rc);
				slot->uid = uid;
				count(&a->failed);
				continue;
			}
		}
		if (!lane)
			return;
		send_slot(a, lane, slot);
	}
}

/* Accepts a request, with the lock. */
static int accept_request(struct async *a, const struct async_request *q)
{
	struct async_slot *slot = a->slots;
	int rc;

	if (!q->o.done) {
		rc = post_request(a, q);
		free(q->heap);
		return rc;
	}
	while (slot->state != SLOT_FREE)
		slot++;
	slot->request = *q;
	slot->state = SLOT_QUEUED;
	a->n_slots++;
	send_queued(a, false);
	/* The timer makes the program call async_next(), which connects, ends requests and sets deadlines. */
	if (slot->state != SLOT_SENT || q->deadline_ns)
		set_timer(a, 1);
	return 0;
}

static void accept_queued(struct async *a)
{
	struct async_request q;

	while (request_queue_pop(&a->queue, &q))
		accept_request(a, &q);
}

/*
 * Unlocks, and accepts what others queue meanwhile. The exchange of order puts this unlocking and another thread's
 * attempt to lock in an order: either this thread sees the other's request, or the other one gets the lock.
 */
static void unlock(struct async *a)
{
	pthread_mutex_unlock(&a->lock);
	atomic_fetch_add(&a->order, 1);
	while (!request_queue_empty(&a->queue) && pthread_mutex_trylock(&a->lock) == 0) {
		accept_queued(a);
		pthread_mutex_unlock(&a->lock);
		atomic_fetch_add(&a->order, 1);
	}
}

static void lock(struct async *a)
{
	pthread_mutex_lock(&a->lock);
	accept_queued(a);
}

static int queue_request(struct async *a, const struct async_request *q)
{
	if (!request_queue_push(&a->queue, q)) {
		if (q->o.done)
			atomic_fetch_sub(&a->reserved, 1);
		free(q->heap);
		count(&a->full);
		return -EAGAIN;
	}
	atomic_fetch_add(&a->order, 1);
	if (pthread_mutex_trylock(&a->lock) == 0) {
		accept_queued(a);
		unlock(a);
	}
	return 0;
}

int async_submit(struct csight *c, struct async_request *q, uint64_t *ret)
{
	struct async *a = c->async;
	int rc = 0;

	if (c->owner != getpid())
		rc = -ECHILD;
	else if (atomic_load(&a->retry_at_ns) && now_ns(CLOCK_MONOTONIC) < atomic_load(&a->retry_at_ns))
		rc = -ENOTCONN;
	if (rc < 0) {
		free(q->heap);
		count(&a->failed);
		return rc;
	}
	if (q->o.done && atomic_fetch_add(&a->reserved, 1) >= SLOTS) {
		atomic_fetch_sub(&a->reserved, 1);
		free(q->heap);
		count(&a->full);
		return -EAGAIN;
	}
	q->ticket = atomic_fetch_add_explicit(&a->ticket, 1, memory_order_relaxed) + 1;
	if (pthread_mutex_trylock(&a->lock) == 0) {
		rc = accept_request(a, q);
		unlock(a);
	} else {
		rc = queue_request(a, q);
	}
	if (rc == 0 && ret)
		*ret = q->ticket;
	return rc;
}

static void free_slot(struct async *a, struct async_slot *slot)
{
	free(slot->request.heap);
	slot->state = SLOT_FREE;
	a->n_slots--;
	atomic_fetch_sub(&a->reserved, 1);
}

/* Ends requests whose time is over, and returns the earliest deadline of the others, or 0. */
static uint64_t expire(struct async *a)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC), next = 0;

	for (size_t i = 0; a->n_slots && i < SLOTS; i++) {
		struct async_slot *slot = &a->slots[i];
		uint64_t at = slot->request.deadline_ns;

		if ((slot->state != SLOT_QUEUED && slot->state != SLOT_SENT) || !at)
			continue;
		if (at > now) {
			next = next && next < at ? next : at;
			continue;
		}
		if (slot->state == SLOT_SENT)
			close_lane(a, find_lane(a, slot, true));
		end_slot(slot, ASYNC_BROKEN, -ETIMEDOUT);
	}
	return next;
}

static bool take_ended(struct async *a, struct async_event *ret)
{
	for (size_t i = 0; a->n_slots && i < SLOTS; i++) {
		struct async_slot *slot = &a->slots[i];

		if (slot->state != SLOT_ENDED)
			continue;
		*ret = (struct async_event){ .request = slot->request,
					     .end = slot->end,
					     .error = slot->error,
					     .uid = slot->uid,
					     .fd = -1,
					     .last = true };
		free_slot(a, slot);
		return true;
	}
	return false;
}

/* Takes a reply from a lane, or ends its request. An idle lane with input has been closed by the daemon. */
static bool take_reply(struct async *a, struct async_lane *lane, struct async_event *ret)
{
	struct async_event e = { .end = ASYNC_REPLY, .fd = -1 };
	struct async_slot *slot = lane->slot;
	int rc = varlink_receive(lane->stream, 0, &e.reply, &e.fd);

	if (rc == -ETIMEDOUT)
		return false;
	if (rc < 0 || !slot) {
		varlink_reply_done(&e.reply);
		closep(&e.fd);
		close_lane(a, lane);
		if (slot)
			end_slot(slot, ASYNC_BROKEN, rc);
		return false;
	}
	e.request = slot->request;
	e.last = !e.reply.continues;
	if (e.last) {
		lane->slot = NULL;
		free_slot(a, slot);
	}
	*ret = e;
	return true;
}

bool async_next(struct async *a, struct async_event *ret)
{
	bool found = false;
	uint64_t next;

	lock(a);
	next = expire(a);
	send_queued(a, true);
	for (size_t i = 0; i < LANES && !found; i++)
		if (a->lanes[i].stream)
			found = take_reply(a, &a->lanes[i], ret);
	if (!found)
		found = take_ended(a, ret);
	send_queued(a, true);
	/* After an event there may be another one: the caller asks again. */
	set_timer(a, found ? 1 : next);
	unlock(a);
	return found;
}

int async_connect(struct async *a, uid_t *ret_uid)
{
	int rc = 0;

	lock(a);
	if (a->post.stream && has_ended(&a->post))
		close_lane(a, &a->post);
	if (!a->post.stream)
		rc = open_lane(a, &a->post, ret_uid);
	unlock(a);
	return rc;
}

int async_cancel(struct async *a, uint64_t ticket)
{
	int rc = -ENOENT;

	lock(a);
	for (size_t i = 0; i < SLOTS; i++) {
		struct async_slot *slot = &a->slots[i];

		if (slot->request.ticket != ticket || (slot->state != SLOT_QUEUED && slot->state != SLOT_SENT))
			continue;
		/* Closing the connection abandons the call. */
		if (slot->state == SLOT_SENT)
			close_lane(a, find_lane(a, slot, true));
		end_slot(slot, ASYNC_CANCELLED, -ECANCELED);
		set_timer(a, 1);
		rc = 0;
	}
	unlock(a);
	return rc;
}

static int open_poll(struct async *a)
{
	struct epoll_event e = { .events = EPOLLIN };

	a->epoll = epoll_create1(EPOLL_CLOEXEC);
	a->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (a->epoll < 0 || a->timer < 0 || epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->timer, &e) < 0) {
		int rc = -errno;

		closep(&a->epoll);
		closep(&a->timer);
		return rc;
	}
	for (size_t i = 0; i < LANES; i++)
		if (a->lanes[i].stream)
			epoll_ctl(a->epoll, EPOLL_CTL_ADD, varlink_stream_fd(a->lanes[i].stream), &e);
	if (a->n_slots)
		set_timer(a, 1);
	return 0;
}

int async_fd(struct async *a)
{
	int rc = 0;

	lock(a);
	if (a->epoll < 0)
		rc = open_poll(a);
	rc = rc < 0 ? rc : a->epoll;
	unlock(a);
	return rc;
}

int async_timeout(struct async *a)
{
	uint64_t now, next;
	bool ready = false;

	lock(a);
	next = expire(a);
	for (size_t i = 0; a->n_slots && i < SLOTS; i++)
		ready = ready || a->slots[i].state == SLOT_ENDED ||
			(a->slots[i].state == SLOT_QUEUED && find_lane(a, NULL, false));
	unlock(a);
	now = now_ns(CLOCK_MONOTONIC);
	return ready         ? 0
	       : !next       ? -1
	       : next <= now ? 0
			     : (int)MIN((next - now + 999999) / 1000000, (uint64_t)INT32_MAX);
}

struct csight_counts async_counts(struct async *a)
{
	return (struct csight_counts){ sizeof(struct csight_counts), atomic_load(&a->sent), atomic_load(&a->full),
				       atomic_load(&a->limited), atomic_load(&a->failed) };
}

bool async_rate(struct async *a, uint64_t ns, uint64_t *ret_before)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC), before = atomic_load(&a->rate_ns);

	*ret_before = before;
	if ((!before || now - MIN(before, now) >= ns) && atomic_compare_exchange_strong(&a->rate_ns, &before, now))
		return true;
	count(&a->limited);
	return false;
}

void async_rate_undo(struct async *a, uint64_t before)
{
	atomic_store(&a->rate_ns, before);
}
