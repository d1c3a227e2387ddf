/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/varlink/varlink.h"

enum { READ_SIZE = 64 << 10 };

/* A descriptor arrives with the first byte of its message, for which the sender uses a separate sendmsg(). The kernel
 * ends a read after the bytes that were sent with descriptors, but may return earlier plain bytes before them in the
 * same read. Therefore a descriptor belongs to the last message that begins within its read. No read happens while a
 * complete message is buffered, so that at most two messages have queued descriptors.
 */
struct waiting_fd {
	size_t at; /* offset of its message in the buffer */
	int fd;
};

struct varlink_stream {
	int fd;
	pid_t owner; /* the process that made the stream */
	int broken;  /* the error that ended the stream, or 0 */
	struct buf in;
	size_t start;   /* offset of the next message in the buffer */
	size_t scanned; /* there is no NUL between start and this offset */
	struct waiting_fd waiting[2];
	size_t n_waiting;
};

int varlink_stream_wrap(int fd, struct varlink_stream **ret)
{
	struct varlink_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->fd = fd;
	s->owner = getpid();
	*ret = s;
	return 0;
}

/* The kernel limits a connect() that waits for room in the peer's queue as it limits sends. */
static int limit_sends(int fd, uint64_t us)
{
	const struct timeval limit = { (time_t)(us / 1000000), (suseconds_t)(us % 1000000) };

	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ? -errno : 0;
}

static int connect_within(int fd, const struct sockaddr_un *addr, int timeout_ms)
{
	uint64_t end = timeout_ms < 0 ? UINT64_MAX : now_ns(CLOCK_MONOTONIC) + (uint64_t)timeout_ms * 1000000u;
	int rc;

	do {
		uint64_t now = now_ns(CLOCK_MONOTONIC);

		/* 0 would be no limit. */
		rc = timeout_ms < 0 ? 0 : limit_sends(fd, now < end ? (end - now) / 1000 + 1 : 1);
		if (rc == 0 && connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0)
			rc = -errno;
	} while (rc == -EINTR);
	if (timeout_ms < 0)
		return rc;
	return rc == -EAGAIN ? -ETIMEDOUT : rc == 0 ? limit_sends(fd, 0) : rc;
}

static int connect_stream(const char *path, int flags, int timeout_ms, struct varlink_stream **ret)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;
	int rc;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return -errno;
	rc = connect_within(fd, &addr, timeout_ms);
	if (rc == 0)
		rc = varlink_stream_wrap(fd, ret);
	if (rc == 0)
		TAKE_FD(fd);
	return rc;
}

int varlink_connect(const char *path, int timeout_ms, struct varlink_stream **ret)
{
	return connect_stream(path, 0, timeout_ms, ret);
}

int varlink_connect_now(const char *path, struct varlink_stream **ret)
{
	return connect_stream(path, SOCK_NONBLOCK, -1, ret);
}

struct varlink_stream *varlink_stream_free(struct varlink_stream *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n_waiting; i++)
		close(s->waiting[i].fd);
	/* The peer sees the end although a child of fork() has the socket, too. */
	if (s->owner == getpid())
		shutdown(s->fd, SHUT_RDWR);
	close(s->fd);
	buf_done(&s->in);
	free(s);
	return NULL;
}

int varlink_stream_fd(const struct varlink_stream *s)
{
	return s->fd;
}

int varlink_send_call(struct varlink_stream *s, const char *method, json_object *parameters, bool more)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REQUEST_MAX };

	varlink_put_call(&b, method, parameters, more);
	if (buf_error(&b) < 0)
		return buf_error(&b) == -EFBIG ? -EMSGSIZE : buf_error(&b);
	return io_send_fds(s->fd, b.data, b.size, NULL, 0);
}

/* Parses the message in [start, end) of the buffer and returns its descriptor. */
static int parse_message(struct varlink_stream *s, size_t end, struct varlink_reply *ret, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	int rc;

	if (s->n_waiting && s->waiting[0].at == s->start) {
		fd = s->waiting[0].fd;
		s->waiting[0] = s->waiting[1];
		s->n_waiting--;
	}
	rc = varlink_reply_parse((const char *)s->in.data + s->start, end - s->start, ret);
	s->start = s->scanned = end + 1;
	if (rc == 0 && ret_fd)
		*ret_fd = TAKE_FD(fd);
	return rc;
}

static int queue_fd(struct varlink_stream *s, size_t from, int fd)
{
	/* Finds the last message that begins in the bytes of this read. A final NUL ends a message but begins none. */
	for (size_t at = s->in.size - 1; at + 1 > from; at--) {
		if (at > s->start && s->in.data[at - 1] != 0)
			continue;
		if (s->n_waiting == ELEMENTS(s->waiting))
			break;
		s->waiting[s->n_waiting++] = (struct waiting_fd){ at, fd };
		return 0;
	}
	close(fd);
	return -EBADMSG;
}

static int read_more(struct varlink_stream *s)
{
	size_t n_fds = 1, from;
	uint8_t *space;
	int fd = -1;
	ssize_t n;

	if (s->start) {
		s->in.size -= s->start;
		s->scanned -= s->start;
		memmove(s->in.data, s->in.data + s->start, s->in.size);
		for (size_t i = 0; i < s->n_waiting; i++)
			s->waiting[i].at -= s->start;
		s->start = 0;
	}
	if (s->in.size >= VARLINK_REPLY_MAX)
		return -EMSGSIZE;
	from = s->in.size;
	space = buf_reserve(&s->in, READ_SIZE);
	if (!space)
		return buf_error(&s->in);
	n = io_receive_fds(s->fd, space, READ_SIZE, &fd, &n_fds, MSG_DONTWAIT);
	if (n == 0)
		return -EPIPE;
	if (n < 0)
		return n == -EMSGSIZE ? -EBADMSG : n == -ECONNRESET ? -EPIPE : (int)n;
	buf_grew(&s->in, (size_t)n);
	return n_fds ? queue_fd(s, from, fd) : 0;
}

static int wait_input(struct varlink_stream *s, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	int timeout = -1, n;

	if (deadline_ns != UINT64_MAX) {
		uint64_t now = now_ns(CLOCK_MONOTONIC);

		/* Rounded up, so that the last millisecond is not polled with a timeout of 0. */
		timeout = now >= deadline_ns ? 0 : (int)((deadline_ns - now + 999999) / 1000000);
	}
	n = poll(&p, 1, timeout);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n == 0 ? -ETIMEDOUT : 0;
}

int varlink_receive(struct varlink_stream *s, int timeout_ms, struct varlink_reply *ret, int *ret_fd)
{
	uint64_t deadline_ns = UINT64_MAX;
	int rc;

	if (timeout_ms >= 0)
		deadline_ns = now_ns(CLOCK_MONOTONIC) + (uint64_t)timeout_ms * 1000000u;
	if (ret_fd)
		*ret_fd = -1;
	while (s->broken == 0) {
		size_t fresh = s->in.size - s->scanned;
		const uint8_t *nul = fresh ? memchr(s->in.data + s->scanned, 0, fresh) : NULL;

		if (nul) {
			rc = parse_message(s, (size_t)(nul - s->in.data), ret, ret_fd);
			if (rc == 0)
				return 0;
		} else {
			s->scanned = s->in.size;
			rc = read_more(s);
			if (rc == -EAGAIN) {
				rc = wait_input(s, deadline_ns);
				if (rc == -ETIMEDOUT)
					return rc;
			}
		}
		if (rc < 0)
			s->broken = rc;
	}
	return s->broken;
}
