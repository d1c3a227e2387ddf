/* SPDX-License-Identifier: MIT */
/*
 * csight-keeper maps perf events for csightd, opens those that are of no process, and keeps all of them when csightd
 * ends: the kernel frees a ring with its last mapping. While no csightd is connected it reads the rings of records,
 * which would overflow, into memory. It parses nothing that it keeps, and has one client at a time, of its own user.
 */
#include "config.h"

#include <getopt.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "daemon/activation.h"
#include "daemon/capture/perf/perf-event.h"
#include "daemon/capture/process/proc-file.h"
#include "daemon/keeper/protocol.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/util.h"

enum {
	CHECK_MS = 5,           /* between two checks of the rings while no csightd is connected */
	SEND_SECONDS = 10,      /* a csightd that reads no answer for this time is disconnected */
	KEEP_SECONDS = 30,      /* default of --keep-for */
	BACKLOG_MAX = 64 << 20, /* bytes of all rings together */
	RING_MAX = 1 << 30,
};

struct thing {
	uint64_t group;
	uint32_t kind, number;
	int fd;
	struct perf_ring ring; /* page NULL: not mapped */
	int backlog;           /* the memory file with the records read from the ring; -1: none */
	uint64_t position, backlog_size;
	TAILQ_ENTRY(thing) link;
};

static TAILQ_HEAD(thing_list, thing) things = TAILQ_HEAD_INITIALIZER(things);
static uint64_t backlog_total;
static bool unclaimed; /* a client has listed things, and has not sent KEEPER_CLAIMED */

static void close_thing(struct thing *t)
{
	perf_ring_unmap(&t->ring);
	backlog_total -= t->backlog_size;
	closep(&t->backlog);
	closep(&t->fd);
	TAILQ_REMOVE(&things, t, link);
	free(t);
}

static void close_things(const struct keeper_message *which)
{
	struct thing *t, *next;

	/*
	 * The list is in the order of creation: from its end on, events are closed before the ring that they write to.
	 */
	for (t = TAILQ_LAST(&things, thing_list); t; t = next) {
		next = TAILQ_PREV(t, thing_list, link);
		if (!which || (t->group == which->group &&
			       (which->kind == KEEPER_ALL || (t->kind == which->kind && t->number == which->number))))
			close_thing(t);
	}
}

static struct thing *find_thing(const struct keeper_message *m)
{
	struct thing *t;

	TAILQ_FOREACH (t, &things, link)
		if (t->group == m->group && t->kind == m->kind && t->number == m->number)
			return t;
	return NULL;
}

static int add_thing(const struct keeper_message *m, int *fd)
{
	struct thing *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	*t = (struct thing){ .group = m->group, .kind = m->kind, .number = m->number, .backlog = -1 };
	t->fd = TAKE_FD(*fd);
	TAILQ_INSERT_TAIL(&things, t, link);
	return 0;
}

static int open_event(const struct keeper_message *m, int *ret_fd)
{
	const struct perf_event_attr *attr = (const void *)m->attr;
	_cleanup_close_ int fd = -1;
	int rc;

	if (attr->size > sizeof(m->attr))
		return -E2BIG;
	rc = perf_event_open(attr, m->pid, m->cpu, &fd);
	if (rc < 0)
		return rc;
	*ret_fd = fd;
	return add_thing(m, &fd);
}

static int map_ring(const struct keeper_message *m)
{
	struct thing *t = find_thing(m);

	if (!t || t->ring.page || m->data_size > RING_MAX || m->aux_size > RING_MAX)
		return -EINVAL;
	return m->more ? perf_ring_map_fill(t->fd, m->data_size, m->aux_size, &t->ring)
		       : perf_ring_map(t->fd, m->data_size, m->aux_size, &t->ring);
}

static int answer(int client, const struct keeper_message *m, int fd)
{
	return io_send_fds(client, m, sizeof(*m), &fd, fd >= 0);
}

/*
 * Sends the things of a group, each with its backlog. The keeper drops a backlog that it has sent, or failed to send:
 * it is the client's.
 */
static int list_group(int client, uint64_t group)
{
	struct thing *t;
	int rc = 0;

	TAILQ_FOREACH (t, &things, link) {
		struct keeper_message m = { .version = KEEPER_VERSION,
					    .group = group,
					    .kind = t->kind,
					    .number = t->number,
					    .data_size = t->ring.data_size,
					    .aux_size = t->ring.aux_size,
					    .more = 1 };

		if (t->group != group)
			continue;
		rc = answer(client, &m, t->fd);
		if (rc == 0 && t->backlog >= 0) {
			m.kind = KEEPER_BACKLOG;
			m.position = t->position;
			m.data_size = t->backlog_size;
			rc = answer(client, &m, t->backlog);
			backlog_total -= t->backlog_size;
			t->backlog_size = 0;
			closep(&t->backlog);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int list_groups(int client)
{
	const struct thing *t, *other;
	int rc = 0;

	TAILQ_FOREACH (t, &things, link) {
		const struct keeper_message m = { .version = KEEPER_VERSION, .group = t->group, .more = 1 };

		for (other = TAILQ_FIRST(&things); other != t && other->group != t->group;)
			other = TAILQ_NEXT(other, link);
		if (other == t)
			rc = answer(client, &m, -1);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int serve_request(int client, const struct keeper_message *m, int *fd)
{
	struct keeper_message reply = { .version = KEEPER_VERSION };
	int opened = -1, rc = 0;

	switch (m->version == KEEPER_VERSION ? m->op : 0) {
	case KEEPER_OPEN:
		reply.rc = open_event(m, &opened);
		break;
	case KEEPER_MAP:
		reply.rc = map_ring(m);
		break;
	case KEEPER_HOLD:
		if (!m->more)
			close_things(m);
		reply.rc = *fd < 0 ? -EBADF : add_thing(m, fd);
		break;
	case KEEPER_CLOSE:
		close_things(m);
		break;
	case KEEPER_LIST:
		unclaimed = true;
		rc = list_group(client, m->group);
		break;
	case KEEPER_GROUPS:
		rc = list_groups(client);
		break;
	case KEEPER_CLAIMED:
		unclaimed = false;
		break;
	default:
		reply.rc = -EPROTONOSUPPORT;
		break;
	}
	return rc < 0 ? rc : answer(client, &reply, reply.rc < 0 ? -1 : opened);
}

/* Serves one request. Returns false if the client has closed the connection, or must be disconnected. */
static bool serve(int client)
{
	struct keeper_message m;
	_cleanup_close_ int fd = -1;
	size_t n_fds = 1;
	ssize_t n = io_receive_fds(client, &m, sizeof(m), &fd, &n_fds, 0);

	if (n_fds == 0 || n == -EMSGSIZE)
		fd = -1;
	return n == sizeof(m) && serve_request(client, &m, &fd) == 0;
}

/*
 * Moves the records of a ring that is at least half full to its backlog. If all backlogs would exceed BACKLOG_MAX, the
 * records stay in the ring, and the kernel counts those that it then drops.
 */
static void read_ring(struct thing *t)
{
	_cleanup_buf_ struct buf records = { 0 };
	uint64_t filled = perf_ring_filled(&t->ring), position = t->ring.position = t->ring.page->data_tail;

	if (filled < t->ring.data_size / 2 || backlog_total + filled > BACKLOG_MAX)
		return;
	if (t->backlog < 0) {
		t->backlog = memfd_create("csight-backlog", MFD_CLOEXEC);
		t->position = position;
	}
	if (t->backlog < 0 || perf_ring_read(&t->ring, &records) < 0 ||
	    io_pwrite(t->backlog, records.data, records.size, (off_t)t->backlog_size) < 0)
		return;
	t->backlog_size += records.size;
	backlog_total += records.size;
	perf_ring_release(&t->ring);
}

static bool is_permitted(int client)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static bool has_ended(int client)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return client >= 0 && getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       proc_file_is_zombie(peer.pid);
}

/*
 * Accepts a connection, which becomes the client unless there is one: a second one is refused with -EBUSY. Returns the
 * client, or -1.
 */
static int accept_client(int listener, int client)
{
	const struct timeval limit = { SEND_SECONDS, 0 };
	const struct keeper_message greeting = { .version = KEEPER_VERSION,
						 .rc = client >= 0 ? -EBUSY : 0,
						 .more = unclaimed && !TAILQ_EMPTY(&things) };
	_cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0 || !is_permitted(fd) || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0)
		return client;
	return answer(fd, &greeting, -1) < 0 || client >= 0 ? client : TAKE_FD(fd);
}

static void run(int listener, uint64_t keep_ns)
{
	uint64_t left = now_ns(CLOCK_MONOTONIC);
	int client = -1;

	for (;;) {
		struct pollfd fds[2] = { { listener, POLLIN, 0 }, { client, POLLIN, 0 } };
		bool waits = client < 0 && !TAILQ_EMPTY(&things);
		struct thing *t;

		poll(fds, 2, waits ? CHECK_MS : -1);
		if (fds[1].revents && !serve(client)) {
			closep(&client);
			left = now_ns(CLOCK_MONOTONIC);
		}
		if (fds[0].revents && has_ended(client))
			closep(&client);
		if (fds[0].revents)
			client = accept_client(listener, client);
		if (client >= 0 || !waits)
			continue;
		TAILQ_FOREACH (t, &things, link)
			if (t->ring.page)
				read_ring(t);
		if (now_ns(CLOCK_MONOTONIC) - left > keep_ns) {
			log_notice("no csightd for %llu s: the rings are closed",
				   (unsigned long long)(keep_ns / 1000000000));
			close_things(NULL);
		}
	}
}

static void usage(void)
{
	puts("usage: csight-keeper [--socket PATH] [--keep-for SECONDS]\n"
	     "\n"
	     "Keeps the trace rings of csightd while csightd is restarted. Without --socket, systemd passes the "
	     "socket.\n"
	     "\n"
	     "  --socket PATH       listen there\n"
	     "  --keep-for SECONDS  close all rings if no csightd is connected for so long (default: 30)\n"
	     "  --help, --version");
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "socket", required_argument, NULL, 's' },
						 { "keep-for", required_argument, NULL, 'k' },
						 { "help", no_argument, NULL, 'h' },
						 { "version", no_argument, NULL, 'v' },
						 { 0 } };
	struct rlimit files;
	const char *path = NULL;
	uint64_t keep = KEEP_SECONDS;
	int c, listener;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		char *end = NULL;

		switch (c) {
		case 's':
			path = optarg;
			break;
		case 'k':
			keep = strtoull(optarg, &end, 10);
			if (*end || end == optarg || keep > 1000000) {
				fprintf(stderr, "csight-keeper: --keep-for needs a number of seconds, not '%s'\n",
					optarg);
				return 2;
			}
			break;
		case 'h':
			usage();
			return 0;
		case 'v':
			puts("csight-keeper " PACKAGE_VERSION);
			return 0;
		default:
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "csight-keeper: unexpected argument '%s'\n", argv[optind]);
		return 2;
	}
	log_never_wait();
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	listener = activation_listen(path);
	if (listener < 0) {
		fprintf(stderr, "csight-keeper: cannot listen on %s: %s\n", path ? path : "a socket of systemd",
			path ? strerror(-listener) : "none was passed; use --socket");
		return 1;
	}
	run(listener, keep * 1000000000);
}
