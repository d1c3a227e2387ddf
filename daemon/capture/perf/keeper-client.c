/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "daemon/capture/perf/keeper-client.h"
#include "lib/base/io.h"
#include "lib/base/util.h"

/* A keeper that does not answer for so long has ended for us. */
enum { ANSWER_SECONDS = 10, GREETING_SECONDS = 1 };

struct keeper_client {
	int fd;
	bool misses_records;
};

void keeper_client_leave(struct keeper_client *k)
{
	if (k)
		closep(&k->fd);
}

bool keeper_client_is_connected(const struct keeper_client *k)
{
	return k && k->fd >= 0;
}

void keeper_client_check(struct keeper_client *k)
{
	struct pollfd is = { .events = POLLRDHUP };

	if (!keeper_client_is_connected(k))
		return;
	is.fd = k->fd;
	if (poll(&is, 1, 0) > 0)
		keeper_client_leave(k);
}

static int receive(struct keeper_client *k, struct keeper_message *ret, int *ret_fd)
{
	size_t n_fds = 1;
	ssize_t n = io_receive_fds(k->fd, ret, sizeof(*ret), ret_fd, &n_fds, 0);

	if (n < 0 || n_fds == 0)
		*ret_fd = -1;
	if (n < 0)
		return (int)n;
	if (n == 0)
		return -EPIPE;
	return n == sizeof(*ret) && ret->version == KEEPER_VERSION ? 0 : -EPROTO;
}

static struct keeper_message message_of(enum keeper_op op, const struct kept_name *name)
{
	return (struct keeper_message){
		.version = KEEPER_VERSION, .op = op, .group = name->group, .kind = name->kind, .number = name->number
	};
}

/* The descriptor of the answer, if there is one, belongs to the caller. */
static int call(struct keeper_client *k, const struct keeper_message *m, int fd, int *ret_fd)
{
	struct keeper_message reply;
	_cleanup_close_ int received = -1;
	int rc = io_send_fds(k->fd, m, sizeof(*m), &fd, fd >= 0);

	if (rc == 0)
		rc = receive(k, &reply, &received);
	/* A later answer would be taken for that of another message. */
	if (rc < 0)
		keeper_client_leave(k);
	if (rc == 0)
		rc = reply.rc;
	if (rc == 0 && ret_fd) {
		if (received < 0)
			return -EPROTO;
		*ret_fd = TAKE_FD(received);
	}
	return MIN(rc, 0);
}

static int call_each(struct keeper_client *k, const struct keeper_message *m, kept_thing_fn fn, void *data)
{
	int rc = io_send_fds(k->fd, m, sizeof(*m), NULL, 0), failed = 0;

	while (rc == 0) {
		struct keeper_message reply;
		int fd;

		rc = receive(k, &reply, &fd);
		if (rc < 0)
			break;
		if (!reply.more)
			return failed ? failed : MIN(reply.rc, 0);
		if (failed)
			closep(&fd);
		else
			failed = fn(data, &reply, fd);
	}
	keeper_client_leave(k);
	return rc;
}

static int connect_within(struct keeper_client *k, const char *path, time_t seconds)
{
	const struct timeval limit = { ANSWER_SECONDS, 0 }, first = { seconds, 0 };
	struct keeper_message greeting;
	_cleanup_close_ int none = -1;
	int rc;

	keeper_client_leave(k);
	rc = io_connect(path, 0, 0);
	if (rc < 0)
		return rc;
	k->fd = rc;
	if (setsockopt(k->fd, SOL_SOCKET, SO_RCVTIMEO, &first, sizeof(first)) < 0)
		rc = -errno;
	else
		rc = receive(k, &greeting, &none);
	if (rc == 0)
		rc = greeting.rc;
	if (rc == 0 && setsockopt(k->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0)
		rc = -errno;
	if (rc < 0)
		keeper_client_leave(k);
	else
		k->misses_records = greeting.more;
	return rc;
}

int keeper_client_connect(struct keeper_client *k, const char *path)
{
	return connect_within(k, path, GREETING_SECONDS);
}

int keeper_client_new(const char *path, struct keeper_client **ret)
{
	struct keeper_client *k = malloc(sizeof(*k));
	int rc;

	if (!k)
		return -ENOMEM;
	k->fd = -1;
	rc = connect_within(k, path, ANSWER_SECONDS);
	if (rc < 0)
		keeper_client_free(k);
	else
		*ret = k;
	return rc;
}

struct keeper_client *keeper_client_free(struct keeper_client *k)
{
	keeper_client_leave(k);
	free(k);
	return NULL;
}

int keeper_client_open(struct keeper_client *k, const struct kept_name *name, const struct perf_event_attr *attr,
		       pid_t pid, int cpu, int *ret_fd)
{
	struct keeper_message m = message_of(KEEPER_OPEN, name);
	int rc = -ENOTCONN;

	_Static_assert(sizeof(*attr) <= sizeof(m.attr), "the message has space for the attributes");
	m.pid = pid;
	m.cpu = cpu;
	memcpy(m.attr, attr, sizeof(*attr));
	if (keeper_client_is_connected(k))
		rc = call(k, &m, -1, ret_fd);
	/* Also where the keeper has ended meanwhile: then the event is not kept. */
	return rc < 0 && !keeper_client_is_connected(k) ? perf_event_open(attr, pid, cpu, ret_fd) : rc;
}

int keeper_client_map(struct keeper_client *k, const struct kept_name *name, size_t data_size, size_t aux_size,
		      bool fill)
{
	struct keeper_message m = message_of(KEEPER_MAP, name);

	m.data_size = data_size;
	m.aux_size = aux_size;
	m.more = fill;
	return keeper_client_is_connected(k) ? call(k, &m, -1, NULL) : 0;
}

int keeper_client_hold(struct keeper_client *k, const struct kept_name *name, int fd)
{
	const struct keeper_message m = message_of(KEEPER_HOLD, name);

	return call(k, &m, fd, NULL);
}

int keeper_client_hold_new(struct keeper_client *k, const struct kept_name *name, int fd)
{
	struct keeper_message m = message_of(KEEPER_HOLD, name);

	m.more = 1;
	return call(k, &m, fd, NULL);
}

int keeper_client_hold_ring(struct keeper_client *k, const struct kept_name *name, int fd, const struct perf_ring *ring)
{
	int rc = keeper_client_hold(k, name, fd);

	return rc < 0 ? rc : keeper_client_map(k, name, ring->data_size, ring->aux_size, false);
}

void keeper_client_close(struct keeper_client *k, const struct kept_name *name)
{
	const struct keeper_message m = message_of(KEEPER_CLOSE, name);

	if (keeper_client_is_connected(k))
		call(k, &m, -1, NULL);
}

int keeper_client_list(struct keeper_client *k, uint64_t group, kept_thing_fn fn, void *data)
{
	const struct keeper_message m = message_of(KEEPER_LIST, &(struct kept_name){ .group = group });

	return call_each(k, &m, fn, data);
}

bool keeper_client_misses_records(const struct keeper_client *k)
{
	return k->misses_records;
}

void keeper_client_claimed(struct keeper_client *k)
{
	const struct keeper_message m = message_of(KEEPER_CLAIMED, &(struct kept_name){ 0 });

	if (keeper_client_is_connected(k))
		call(k, &m, -1, NULL);
}

int keeper_client_groups(struct keeper_client *k, kept_thing_fn fn, void *data)
{
	const struct keeper_message m = message_of(KEEPER_GROUPS, &(struct kept_name){ 0 });

	return call_each(k, &m, fn, data);
}
