/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <poll.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "daemon/connection.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/varlink/varlink.h"

enum {
	OUT_MAX = VARLINK_REPLY_MAX,
	READ_SIZE = 16 << 10,
	MESSAGE_SECONDS = 10, /* for the rest of an incomplete message, and for a client to read its replies */
	MESSAGES_A_TURN = 16, /* of one connection, before the loop serves others */
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
	STAILQ_HEAD(, out_message) out;
	size_t out_size;
	bool expecting;                  /* the owner has not finished the exchange */
	void (*client_left)(void *data); /* of connection_expect() */
	void *client_left_data;
	bool ended;   /* the client sends no more */
	bool closing; /* close when the output is sent */
};

static void connection_destroy(struct connection *n)
{
	struct out_message *m;

	while ((m = STAILQ_FIRST(&n->out))) {
		STAILQ_REMOVE_HEAD(&n->out, link);
		closep(&m->fd);
		free(m);
	}
	if (n->read)
		event_free(n->read);
	if (n->write)
		event_free(n->write);
	if (n->timer)
		event_free(n->timer);
	buf_done(&n->in);
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

/* Sends what the socket accepts. Returns false if the client is gone. */
static bool flush_output(struct connection *n)
{
	struct out_message *m;

	while ((m = STAILQ_FIRST(&n->out))) {
		ssize_t sent = m->fd >= 0 && m->sent == 0
				   ? send_with_fd(n->fd, m)
				   : send(n->fd, m->data + m->sent, m->size - m->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			return true;
		if (sent < 0)
			return false;
		closep(&m->fd);
		m->sent += (size_t)sent;
		n->out_size -= (size_t)sent;
		if (m->sent == m->size) {
			STAILQ_REMOVE_HEAD(&n->out, link);
			free(m);
		}
	}
	return true;
}

static void queue_output(struct connection *n, const struct buf *b, int fd)
{
	struct out_message *m;

	if (buf_error(b) < 0 || n->out_size + b->size > OUT_MAX || !(m = malloc(sizeof(*m) + b->size))) {
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
	bool waiting = n->out_size > 0 || (!n->expecting && n->in.size > 0);

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

static void reject_message(struct connection *n)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "parameter", "message");
	varlink_put_error(&b, VARLINK_INVALID_PARAMETER, o);
	queue_output(n, &b, -1);
	n->closing = true;
}

/* Passes on whole messages and sends output. Frees the connection when it is over. */
static void advance(struct connection *n)
{
	int messages = 0;

	while (!n->expecting && !n->closing && n->in.size > 0 && messages++ < MESSAGES_A_TURN) {
		char *nul = memchr(n->in.data + n->scanned, 0, n->in.size - n->scanned);
		size_t size;

		if (!nul) {
			n->scanned = n->in.size;
			if (n->in.size > VARLINK_REQUEST_MAX || n->ended)
				reject_message(n);
			break;
		}
		size = (size_t)(nul - (char *)n->in.data);
		if (size > VARLINK_REQUEST_MAX) {
			reject_message(n);
			break;
		}
		event_del(n->timer);
		if (n->owner.message(n->owner.data, (const char *)n->in.data, size) < 0)
			reject_message(n);
		n->in.size -= size + 1;
		n->scanned = 0;
		memmove(n->in.data, nul + 1, n->in.size);
	}
	if (!flush_output(n) || (n->out_size == 0 && !n->expecting && (n->closing || (n->ended && n->in.size == 0))))
		connection_free(n);
	else
		update_events(n);
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
	if (!space || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		connection_free(n);
		return;
	}
	if (got > 0)
		buf_grew(&n->in, (size_t)got);
	if (got == 0) {
		struct pollfd p = { .fd = fd };

		/* A client that shut down only its sending direction still reads. */
		if (poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) && (n->expecting || n->in.size == 0)) {
			connection_free(n);
			return;
		}
		n->ended = true;
	}
	advance(n);
}

static void on_write(evutil_socket_t fd, short what, void *data)
{
	struct connection *n = data;

	event_del(n->timer);
	advance(n);
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
	STAILQ_INIT(&n->out);
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
	n->client_left = client_left;
	n->client_left_data = data;
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

void connection_progress(struct connection *n, const struct buf *b)
{
	/* For a client with unread output, progress would be out of date. */
	if (n->out_size > 0)
		return;
	queue_output(n, b, -1);
	event_active(n->read, EV_TIMEOUT, 0);
}
