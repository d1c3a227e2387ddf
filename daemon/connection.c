/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <poll.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "daemon/connection.h"
#include "daemon/ledger.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/varlink/varlink.h"

enum {
	OUT_MAX = VARLINK_REPLY_MAX,
	READ_SIZE = 16 << 10,
	MESSAGE_SECONDS = 10, /* for the rest of an incomplete message, and for a client to read its replies */
	OUT_FREE = 64 << 10,  /* unread output that is not charged */
};

/* A queued message. Its descriptor goes with its first byte, so each message begins with a sendmsg() of its own. */
struct out_message {
	STAILQ_ENTRY(out_message) link;
	size_t size, sent;
	int fd;
	uint8_t data[];
};

struct connection {
	struct connection_owner owner;
	int fd;
	uid_t uid;
	struct event *read, *write, *timer;
	struct buf in;
	size_t scanned; /* the first bytes of in, which hold no NUL */
	size_t whole;   /* the first bytes of in, which are a message with its NUL; 0: none yet */
	uint64_t active_ns;
	struct charge output;
	STAILQ_HEAD(, out_message) out;
	size_t out_size;
	bool expecting;                  /* the owner has not finished the exchange */
	bool only_reply;                 /* what is left of the exchange is to reply */
	void (*client_left)(void *data); /* of connection_expect() */
	void *client_left_data;
	bool ended;   /* the client sends no more */
	bool hung_up; /* the client reads no more: output is dropped */
	bool closing; /* close when the output is sent */
};

static void drop_output(struct connection *n)
{
	struct out_message *m;

	while ((m = STAILQ_FIRST(&n->out))) {
		STAILQ_REMOVE_HEAD(&n->out, link);
		closep(&m->fd);
		free(m);
	}
	n->out_size = 0;
}

static void connection_destroy(struct connection *n)
{
	drop_output(n);
	if (n->read)
		event_free(n->read);
	if (n->write)
		event_free(n->write);
	if (n->timer)
		event_free(n->timer);
	buf_done(&n->in);
	ledger_return(&n->output);
	close(n->fd);
	free(n);
}

struct connection *connection_free(struct connection *n)
{
	if (!n)
		return NULL;
	if (n->expecting)
		n->client_left(n->client_left_data);
	n->owner.closed(n->owner.data);
	connection_destroy(n);
	return NULL;
}

/* Sends m's first bytes together with its descriptor. */
static ssize_t send_with_fd(int socket, struct out_message *m)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { m->data, m->size };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &m->fd, sizeof(int));
	return sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Charges the output that waits, and size bytes more. */
static int charge_output(struct connection *n, size_t size)
{
	size += n->out_size;
	return ledger_resize(&n->output, size > OUT_FREE ? size : 0, NULL);
}

/* Sends what the socket accepts. -EPIPE: the client reads no more. */
static int flush_output(struct connection *n)
{
	struct out_message *m;

	while ((m = STAILQ_FIRST(&n->out))) {
		ssize_t sent = m->fd >= 0 && m->sent == 0
				   ? send_with_fd(n->fd, m)
				   : send(n->fd, m->data + m->sent, m->size - m->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			break;
		if (sent < 0)
			return errno == ECONNRESET ? -EPIPE : -errno;
		closep(&m->fd);
		m->sent += (size_t)sent;
		n->out_size -= (size_t)sent;
		n->active_ns = now_ns(CLOCK_MONOTONIC);
		if (m->sent == m->size) {
			/* The deadline is for a whole message, so that a client cannot read it byte by byte for ever.
			 */
			event_del(n->timer);
			STAILQ_REMOVE_HEAD(&n->out, link);
			free(m);
		}
	}
	charge_output(n, 0);
	return 0;
}

/*
 * The client has closed the connection, or died. Its messages are executed all the same: it cannot have expected to
 * read the replies, and its right to them was established when it connected.
 */
static void hang_up(struct connection *n)
{
	n->hung_up = true;
	drop_output(n);
	charge_output(n, 0);
	if (!n->expecting || !n->only_reply)
		return;
	n->expecting = false;
	n->client_left(n->client_left_data);
}

/* Queues the error reply for a lack of memory. Its text is constant, since no memory would be left to compose it. */
static void queue_no_memory(struct connection *n)
{
	static const char text[] = "{\"error\":\"org.csight.LimitReached\",\"parameters\":{\"limit\":\"memory\","
				   "\"reason\":\"csightd is out of "
				   "memory; try again\"}}";
	struct out_message *m = malloc(sizeof(*m) + sizeof(text));

	log_warning("out of memory for the reply to a client of uid %u", n->uid);
	if (!m || n->out_size + sizeof(text) > OUT_MAX) {
		free(m);
		n->closing = true;
		return;
	}
	*m = (struct out_message){ .size = sizeof(text), .fd = -1 };
	memcpy(m->data, text, sizeof(text));
	STAILQ_INSERT_TAIL(&n->out, m, link);
	n->out_size += sizeof(text);
}

static void queue_output(struct connection *n, const struct buf *b, int fd)
{
	struct out_message *m;

	if (n->hung_up) {
		closep(&fd);
		return;
	}
	if (buf_error(b) == -ENOMEM) {
		queue_no_memory(n);
		closep(&fd);
		return;
	}
	if (buf_error(b) < 0 || n->out_size + b->size > OUT_MAX || charge_output(n, b->size) < 0 ||
	    !(m = malloc(sizeof(*m) + b->size))) {
		/* The client does not read, or memory is short: close the connection after the queued output. */
		n->closing = true;
		closep(&fd);
		return;
	}
	*m = (struct out_message){ .size = b->size, .fd = fd };
	memcpy(m->data, b->data, b->size);
	STAILQ_INSERT_TAIL(&n->out, m, link);
	n->out_size += b->size;
}

/* Sets events and the deadline for what the connection waits for now. */
static void update_events(struct connection *n)
{
	struct timeval limit = { MESSAGE_SECONDS, 0 };
	bool waiting = n->out_size > 0 || (!n->expecting && n->in.size > 0 && !n->whole);

	if (!waiting)
		event_del(n->timer);
	else if (!event_pending(n->timer, EV_TIMEOUT, NULL))
		event_add(n->timer, &limit);
	if (n->out_size > 0)
		event_add(n->write, NULL);
	else
		event_del(n->write);
	if (n->ended || n->closing || n->in.size > VARLINK_REQUEST_MAX)
		event_del(n->read);
	else
		event_add(n->read, NULL);
}

static void reject_message(struct connection *n, int why)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "parameter", "message");
	if (why != -ENOMEM)
		varlink_put_error(&b, VARLINK_INVALID_PARAMETER, o);
	else
		b.error = why;
	queue_output(n, &b, -1);
	n->closing = true;
}

/* Looks for a message in what was read. */
static void find_message(struct connection *n)
{
	char *nul = memchr(n->in.data + n->scanned, 0, n->in.size - n->scanned);

	n->scanned = n->in.size;
	if (nul)
		n->whole = (size_t)(nul - (char *)n->in.data) + 1;
	if (nul ? n->whole > VARLINK_REQUEST_MAX + 1 : n->in.size > VARLINK_REQUEST_MAX || n->ended)
		reject_message(n, -EBADMSG);
}

/* Announces a message and sends output. Frees the connection when it is over. */
static void advance(struct connection *n)
{
	int rc;

	if (!n->expecting && !n->closing && n->in.size > 0) {
		if (!n->whole)
			find_message(n);
		if (n->whole && !n->closing)
			n->owner.ready(n->owner.data);
	}
	rc = flush_output(n);
	if (rc == -EPIPE)
		hang_up(n);
	/* After another error a client that lives must see the end of the connection, since it gets no reply. */
	if ((rc < 0 && rc != -EPIPE) ||
	    (n->out_size == 0 && !n->expecting && (n->closing || (n->ended && n->in.size == 0))))
		connection_free(n);
	else
		update_events(n);
}

void connection_turn(struct connection *n)
{
	size_t size = n->whole;
	int rc;

	if (!size || n->expecting || n->closing)
		return;
	event_del(n->timer);
	n->active_ns = now_ns(CLOCK_MONOTONIC);
	n->whole = n->scanned = 0;
	rc = n->owner.message(n->owner.data, (const char *)n->in.data, size - 1);
	if (rc < 0)
		reject_message(n, rc);
	n->in.size -= size;
	memmove(n->in.data, n->in.data + size, n->in.size);
	advance(n);
}

uint64_t connection_idle_since(const struct connection *n)
{
	return n->expecting || n->out_size > 0 || n->in.size > 0 ? 0 : n->active_ns;
}

bool connection_busy(const struct connection *n)
{
	return n->expecting || n->out_size > 0;
}

bool connection_flush(struct connection *n)
{
	return flush_output(n) == 0 && n->out_size > 0;
}

/* Also activated with EV_TIMEOUT, after output was queued or an exchange finished. */
static void on_read(evutil_socket_t fd, short what, void *data)
{
	struct connection *n = data;
	uint8_t *space = what & EV_READ ? buf_reserve(&n->in, READ_SIZE) : NULL;
	ssize_t got = space ? recv(fd, space, READ_SIZE, MSG_DONTWAIT) : -1;

	if (!(what & EV_READ)) {
		advance(n);
		return;
	}
	if (!space) {
		connection_free(n);
		return;
	}
	/* A socket reports an error when all that was sent before has been read. */
	if (got < 0 && errno != EAGAIN && errno != EINTR) {
		n->ended = true;
		hang_up(n);
	}
	if (got > 0) {
		buf_grew(&n->in, (size_t)got);
		n->active_ns = now_ns(CLOCK_MONOTONIC);
	}
	if (got == 0) {
		struct pollfd p = { .fd = fd };

		/* A client that shut down only its sending direction still reads. */
		if (poll(&p, 1, 0) == 1 && (p.revents & POLLHUP))
			hang_up(n);
		n->ended = true;
	}
	advance(n);
}

static void on_write(evutil_socket_t fd, short what, void *data)
{
	advance(data);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
	struct connection *n = data;

	log_debug("closed the connection of a client of uid %u after %d s: %s", n->uid, MESSAGE_SECONDS,
		  n->out_size ? "it does not read" : "it sent an incomplete message");
	connection_free(n);
}

int connection_new(struct event_base *base, int fd, uid_t uid, const struct connection_owner *owner,
		   struct connection **ret)
{
	struct connection *n = calloc(1, sizeof(*n));

	if (!n) {
		close(fd);
		return -ENOMEM;
	}
	n->owner = *owner;
	n->fd = fd;
	n->uid = uid;
	n->in.limit = VARLINK_REQUEST_MAX + 2 * READ_SIZE;
	n->active_ns = now_ns(CLOCK_MONOTONIC);
	STAILQ_INIT(&n->out);
	ledger_record(owner->ledger, uid, LEDGER_MEMORY, 0, &n->output);
	n->read = event_new(base, fd, EV_READ | EV_PERSIST, on_read, n);
	n->write = event_new(base, fd, EV_WRITE, on_write, n);
	n->timer = evtimer_new(base, on_deadline, n);
	if (!n->read || !n->write || !n->timer || event_add(n->read, NULL) < 0) {
		connection_destroy(n);
		return -ENOMEM;
	}
	*ret = n;
	return 0;
}

void connection_expect(struct connection *n, void (*client_left)(void *data), void *data)
{
	n->expecting = true;
	n->only_reply = false;
	n->client_left = client_left;
	n->client_left_data = data;
}

bool connection_wait(struct connection *n)
{
	n->only_reply = !n->hung_up;
	return n->only_reply;
}

/* Sending, and the next message in the buffer, wait for the event: the caller may be inside advance(). */
void connection_finish(struct connection *n, const struct buf *b, int fd)
{
	if (b)
		queue_output(n, b, TAKE_FD(fd));
	closep(&fd);
	n->expecting = false;
	event_active(n->read, EV_TIMEOUT, 0);
}

int connection_event(struct connection *n, const struct buf *b)
{
	if (n->out_size > 0 && n->out_size + b->size > OUT_FREE)
		return -ENOBUFS;
	queue_output(n, b, -1);
	event_active(n->read, EV_TIMEOUT, 0);
	return 0;
}

void connection_progress(struct connection *n, const struct buf *b)
{
	/* A client with unread output would get progress that is out of date. */
	if (n->out_size > 0 || buf_error(b) < 0)
		return;
	queue_output(n, b, -1);
	event_active(n->read, EV_TIMEOUT, 0);
}
