#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/daemon.h"
#include "daemon/methods.h"
#include "daemon/service.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

enum {
	CONNECTIONS_MAX = 512,
	CONNECTIONS_PER_USER = 16,
	CONNECTIONS_OF_ROOT = 128,
	OUT_MAX = VARLINK_REPLY_MAX,
	READ_SIZE = 16 << 10,
	MESSAGE_SECONDS = 10, /* for the rest of a message that has begun, and for a client that does not read */
	CALLS_A_TURN = 16,    /* of one connection, before others get theirs */
};

/* A message on its way out. Its descriptor goes with its first byte, so each is begun with a sendmsg of its own. */
struct out_message {
	STAILQ_ENTRY(out_message) link;
	size_t size, sent;
	int fd;
	uint8_t data[];
};

struct connection {
	TAILQ_ENTRY(connection) link;
	struct service *service;
	int fd;
	uid_t uid;
	struct event *read, *write, *timer;
	struct buf in;
	size_t scanned; /* no NUL before here */
	STAILQ_HEAD(, out_message) out;
	size_t out_size;
	struct call *call; /* the one being answered; the next is read afterwards */
	bool ended;        /* the client sends no more */
	bool last;         /* close when all is sent */
};

struct service {
	struct daemon *daemon;
	int fd;
	struct event *accept, *retry;
	TAILQ_HEAD(, connection) connections;
	unsigned n_connections;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static void connection_free(struct connection *n)
{
	struct out_message *k;

	if (n->call) {
		struct call *c = n->call;

		c->connection = NULL;
		if (c->list) {
			call_unwait(c);
			json_object_put(c->root);
			free(c);
		}
	}
	while ((k = STAILQ_FIRST(&n->out))) {
		STAILQ_REMOVE_HEAD(&n->out, link);
		closep(&k->fd);
		free(k);
	}
	TAILQ_REMOVE(&n->service->connections, n, link);
	n->service->n_connections--;
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

/* false: the client is gone. */
static bool flush(struct connection *n)
{
	struct out_message *k;

	while ((k = STAILQ_FIRST(&n->out))) {
		ssize_t sent;

		if (k->fd >= 0 && k->sent == 0) {
			union {
				struct cmsghdr header;
				char space[CMSG_SPACE(sizeof(int))];
			} control = { 0 };
			struct iovec iov = { k->data, k->size };
			struct msghdr msg = { .msg_iov = &iov,
					      .msg_iovlen = 1,
					      .msg_control = &control,
					      .msg_controllen = sizeof(control) };
			struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(c), &k->fd, sizeof(int));
			sent = sendmsg(n->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		} else {
			sent = send(n->fd, k->data + k->sent, k->size - k->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		}
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			return true;
		if (sent < 0)
			return false;
		closep(&k->fd);
		k->sent += (size_t)sent;
		n->out_size -= (size_t)sent;
		if (k->sent == k->size) {
			STAILQ_REMOVE_HEAD(&n->out, link);
			free(k);
		}
	}
	return true;
}

static void queue_out(struct connection *n, const struct buf *b, int fd)
{
	struct out_message *k;

	if (buf_error(b) < 0 || n->out_size + b->size > OUT_MAX || !(k = malloc(sizeof(*k) + b->size))) {
		/* Nobody reads, or nothing can be said: the connection is worth no more memory. */
		n->last = true;
		closep(&fd);
		return;
	}
	*k = (struct out_message){ .size = b->size, .fd = fd };
	memcpy(k->data, b->data, b->size);
	STAILQ_INSERT_TAIL(&n->out, k, link);
	n->out_size += b->size;
}

/* A message without its end, or output that nobody reads, may stand for a while only. */
static void watch(struct connection *n)
{
	struct timeval limit = { MESSAGE_SECONDS, 0 };
	bool waiting = n->out_size > 0 || (!n->call && n->in.size > 0);

	if (!waiting)
		event_del(n->timer);
	else if (!event_pending(n->timer, EV_TIMEOUT, NULL))
		event_add(n->timer, &limit);
	if (n->out_size > 0)
		event_add(n->write, NULL);
	else
		event_del(n->write);
	if (n->ended || n->last || n->in.size > VARLINK_REQUEST_MAX)
		event_del(n->read);
	else
		event_add(n->read, NULL);
}

static void garbled(struct connection *n)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "parameter", "message");
	varlink_put_error(&b, VARLINK_INVALID_PARAMETER, o);
	queue_out(n, &b, -1);
	n->last = true;
}

static void take_message(struct connection *n, const char *text, size_t size)
{
	struct varlink_call v = { 0 };
	struct call *c = NULL;

	if (varlink_call_parse(text, size, &v) < 0 || !(c = calloc(1, sizeof(*c)))) {
		varlink_call_done(&v);
		garbled(n);
		return;
	}
	*c = (struct call){ .connection = n,
			    .root = v.root,
			    .parameters = v.parameters,
			    .uid = n->uid,
			    .more = v.more,
			    .oneway = v.oneway };
	n->call = c;
	if (v.upgrade) {
		_cleanup_json_ json_object *o = json_object_new_object();

		json_add_str(o, "method", v.method);
		call_error(c, VARLINK_METHOD_NOT_IMPLEMENTED, json_object_get(o));
	} else {
		methods_dispatch(n->service->daemon, c, v.method);
	}
}

/* false: the connection is no more. */
static bool advance(struct connection *n)
{
	int calls = 0;

	while (!n->call && !n->last && n->in.size > 0 && calls++ < CALLS_A_TURN) {
		char *nul = memchr(n->in.data + n->scanned, 0, n->in.size - n->scanned);
		size_t size;

		if (!nul) {
			n->scanned = n->in.size;
			if (n->in.size > VARLINK_REQUEST_MAX || n->ended)
				garbled(n);
			break;
		}
		size = (size_t)(nul - (char *)n->in.data);
		if (size > VARLINK_REQUEST_MAX) {
			garbled(n);
			break;
		}
		event_del(n->timer);
		take_message(n, (const char *)n->in.data, size);
		n->in.size -= size + 1;
		n->scanned = 0;
		memmove(n->in.data, nul + 1, n->in.size);
	}
	if (!flush(n) || (n->out_size == 0 && !n->call && (n->last || (n->ended && n->in.size == 0)))) {
		connection_free(n);
		return false;
	}
	watch(n);
	return true;
}

static void on_read(evutil_socket_t fd, short what, void *data)
{
	struct connection *n = data;
	uint8_t *room = what & EV_READ ? buf_reserve(&n->in, READ_SIZE) : NULL;
	ssize_t got = room ? recv(fd, room, READ_SIZE, MSG_DONTWAIT) : -1;

	if (!(what & EV_READ)) {
		advance(n);
		return;
	}
	if (!room || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		connection_free(n);
		return;
	}
	if (got > 0)
		buf_grew(&n->in, (size_t)got);
	if (got == 0) {
		struct pollfd p = { .fd = fd };

		/* A client that only ended its own direction still reads. */
		if (poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) && (n->call || n->in.size == 0)) {
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

static void on_timer(evutil_socket_t fd, short what, void *data)
{
	struct connection *n = data;

	log_debug("a client of uid %u is cut off: %s", n->uid, n->out_size ? "it does not read" : "half a message");
	connection_free(n);
}

static bool over_limit(const struct service *s, uid_t uid)
{
	unsigned limit = uid == 0 ? CONNECTIONS_OF_ROOT : CONNECTIONS_PER_USER, count = 0;
	const struct connection *n;

	TAILQ_FOREACH (n, &s->connections, link)
		count += n->uid == uid;
	return count >= limit || s->n_connections >= CONNECTIONS_MAX;
}

static void accepted(struct service *s, int fd)
{
	struct connection *n;
	socklen_t size = sizeof(struct ucred);
	struct ucred peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || over_limit(s, peer.uid)) {
		log_debug("a connection of uid %u is refused: too many", peer.uid);
		close(fd);
		return;
	}
	n = calloc(1, sizeof(*n));
	if (!n) {
		close(fd);
		return;
	}
	n->service = s;
	n->fd = fd;
	n->uid = peer.uid;
	n->in.limit = VARLINK_REQUEST_MAX + 2 * READ_SIZE;
	STAILQ_INIT(&n->out);
	TAILQ_INSERT_TAIL(&s->connections, n, link);
	s->n_connections++;
	n->read = event_new(s->daemon->base, fd, EV_READ | EV_PERSIST, on_read, n);
	n->write = event_new(s->daemon->base, fd, EV_WRITE, on_write, n);
	n->timer = evtimer_new(s->daemon->base, on_timer, n);
	if (!n->read || !n->write || !n->timer || event_add(n->read, NULL) < 0)
		connection_free(n);
}

static void on_accept(evutil_socket_t fd, short what, void *data)
{
	struct service *s = data;
	struct timeval pause = { 0, 200000 };
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (client >= 0) {
		accepted(s, client);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		/* The connection stays in the backlog, so that trying at once would only spin. */
		log_warning("no connection can be accepted for a while: %s", strerror(errno));
		event_del(s->accept);
		event_add(s->retry, &pause);
	}
}

static void on_retry(evutil_socket_t fd, short what, void *data)
{
	struct service *s = data;

	event_add(s->accept, NULL);
}

static int live_peer(const struct sockaddr_un *addr, int type, pid_t *ret_pid)
{
	_cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(struct ucred);
	struct ucred peer = { 0 };

	if (fd < 0)
		return -errno;
	/* EAGAIN is a full backlog: somebody listens. */
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 && errno != EAGAIN)
		return 0;
	if (ret_pid && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
		*ret_pid = peer.pid;
	return -EADDRINUSE;
}

int service_listen(const char *path, int type, unsigned mode, pid_t *ret_pid)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;
	struct stat st;
	int rc;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return -ENOTSOCK;
		rc = live_peer(&addr, type, ret_pid);
		if (rc < 0)
			return rc;
		unlink(path);
	}
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, mode) < 0 ||
	    listen(fd, 64) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int service_new(struct daemon *d, const char *path, unsigned mode, pid_t *ret_pid, struct service **ret)
{
	struct service *s;
	int fd = service_listen(path, SOCK_STREAM, mode, ret_pid);

	if (fd < 0)
		return fd;
	s = calloc(1, sizeof(*s));
	if (!s) {
		close(fd);
		return -ENOMEM;
	}
	s->daemon = d;
	s->fd = fd;
	snprintf(s->path, sizeof(s->path), "%s", path);
	TAILQ_INIT(&s->connections);
	s->accept = event_new(d->base, fd, EV_READ | EV_PERSIST, on_accept, s);
	s->retry = evtimer_new(d->base, on_retry, s);
	if (!s->accept || !s->retry || event_add(s->accept, NULL) < 0) {
		service_free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

struct service *service_free(struct service *s)
{
	struct connection *n;

	if (!s)
		return NULL;
	while ((n = TAILQ_FIRST(&s->connections)))
		connection_free(n);
	if (s->accept)
		event_free(s->accept);
	if (s->retry)
		event_free(s->retry);
	unlink(s->path);
	close(s->fd);
	free(s);
	return NULL;
}

/* Sending, and the next call that waits in the buffer, are left to the event: a handler's caller may hold the
 * connection. */
static void finish(struct call *c, const struct buf *b, int fd)
{
	struct connection *n = c->connection;

	call_unwait(c);
	if (n && !c->oneway)
		queue_out(n, b, TAKE_FD(fd));
	closep(&fd);
	if (n) {
		n->call = NULL;
		event_active(n->read, EV_TIMEOUT, 0);
	}
	json_object_put(c->root);
	free(c);
}

void call_reply_fd(struct call *c, json_object *parameters, int fd)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };

	varlink_put_reply(&b, parameters, false);
	json_object_put(parameters);
	finish(c, &b, fd);
}

void call_reply(struct call *c, json_object *parameters)
{
	call_reply_fd(c, parameters, -1);
}

void call_error(struct call *c, const char *error, json_object *parameters)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };

	varlink_put_error(&b, error, parameters);
	json_object_put(parameters);
	finish(c, &b, -1);
}

void call_invalid(struct call *c, const char *parameter)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "parameter", parameter);
	call_error(c, VARLINK_INVALID_PARAMETER, o);
}

void call_progress(struct call *c, json_object *parameters)
{
	struct connection *n = c->connection;

	/* To a client that is behind, old progress is of no use. */
	if (c->more && n && n->out_size == 0) {
		_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };

		varlink_put_reply(&b, parameters, true);
		queue_out(n, &b, -1);
		event_active(n->read, EV_TIMEOUT, 0);
	}
	json_object_put(parameters);
}

void call_wait(struct call *c, struct calls *list)
{
	call_unwait(c);
	c->list = list;
	TAILQ_INSERT_TAIL(list, c, link);
}

void call_unwait(struct call *c)
{
	if (c->list)
		TAILQ_REMOVE(c->list, c, link);
	c->list = NULL;
}
