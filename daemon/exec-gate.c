/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/exec-gate.h"
#include "lib/base/io.h"
#include "lib/base/util.h"

enum {
	WAIT_MS = 2000, /* what a process waits at most */
	WAITING_MAX = 64,
	EVENTS_SIZE = 4096,
};

/* To csightd: pid 0 and the result of making the gate, then each process that waits. Back: the numbers alone. */
struct gate_message {
	int32_t pid;
	uint32_t number; /* or negative errno */
};

struct exec_gate {
	int fd;
	struct event *readable;
	struct exec_gate_listener listener;
};

static void on_message(evutil_socket_t fd, short what, void *data)
{
	struct exec_gate *g = data;
	struct gate_message m;
	ssize_t n = recv(fd, &m, sizeof(m), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(m) || (m.pid == 0 && m.number)) {
		event_del(g->readable);
		g->listener.closed(g->listener.data, n == sizeof(m) ? (int)m.number : -EPIPE);
		return;
	}
	if (m.pid > 0)
		g->listener.waits(g->listener.data, m.pid, m.number);
}

int exec_gate_new(struct event_base *base, int opener, const struct exec_gate_listener *listener,
		  struct exec_gate **ret)
{
	struct exec_gate *g = calloc(1, sizeof(*g));

	if (!g) {
		close(opener);
		return -ENOMEM;
	}
	*g = (struct exec_gate){ .fd = opener, .listener = *listener };
	g->readable = event_new(base, opener, EV_READ | EV_PERSIST, on_message, g);
	if (!g->readable || event_add(g->readable, NULL) < 0) {
		exec_gate_free(g);
		return -ENOMEM;
	}
	*ret = g;
	return 0;
}

struct exec_gate *exec_gate_free(struct exec_gate *g)
{
	if (!g)
		return NULL;
	if (g->readable)
		event_free(g->readable);
	closep(&g->fd);
	free(g);
	return NULL;
}

void exec_gate_pass(struct exec_gate *g, uint32_t number)
{
	/* A process whose number cannot be sent continues when its time limit has passed. */
	send(g->fd, &number, sizeof(number), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The opener's side. A process waits while its event has no answer; fd is the event's. */
struct waiting_process {
	int fd;
	uint32_t number;
	uint64_t until_ns; /* CLOCK_MONOTONIC */
};

struct held_gate {
	int group, client;
	uint32_t last;
	struct waiting_process waiting[WAITING_MAX]; /* oldest first */
	size_t n;
};

static void let_go(const struct held_gate *g, int fd)
{
	const struct fanotify_response answer = { .fd = fd, .response = FAN_ALLOW };

	if (write(g->group, &answer, sizeof(answer)) < 0)
		errno = 0; /* it has been killed */
	close(fd);
}

static void let_nth_go(struct held_gate *g, size_t n)
{
	let_go(g, g->waiting[n].fd);
	g->n--;
	memmove(&g->waiting[n], &g->waiting[n + 1], (g->n - n) * sizeof(g->waiting[0]));
}

static void handle_event(struct held_gate *g, const struct fanotify_event_metadata *e)
{
	const struct gate_message m = { e->pid, g->last + 1 };

	if (e->fd < 0)
		return;
	if (!(e->mask & FAN_OPEN_EXEC_PERM) || g->n == WAITING_MAX || e->pid <= 0 ||
	    send(g->client, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		let_go(g, e->fd);
		return;
	}
	g->waiting[g->n++] =
	    (struct waiting_process){ e->fd, ++g->last, now_ns(CLOCK_MONOTONIC) + WAIT_MS * 1000000ull };
}

static void read_events(struct held_gate *g)
{
	union {
		struct fanotify_event_metadata first;
		char bytes[EVENTS_SIZE];
	} events;
	const struct fanotify_event_metadata *e = &events.first;
	ssize_t size = read(g->group, &events, sizeof(events));

	for (; size > 0 && FAN_EVENT_OK(e, size); e = FAN_EVENT_NEXT(e, size))
		handle_event(g, e);
}

/* Reads the number of a process, which continues. Returns false when the client has gone. */
static bool read_answer(struct held_gate *g)
{
	uint32_t number;
	ssize_t n = recv(g->client, &number, sizeof(number), MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	for (size_t i = 0; n == sizeof(number) && i < g->n; i++)
		if (g->waiting[i].number == number) {
			let_nth_go(g, i);
			break;
		}
	return n == sizeof(number);
}

static int time_left(const struct held_gate *g)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (g->n == 0)
		return -1;
	return g->waiting[0].until_ns <= now ? 0 : (int)((g->waiting[0].until_ns - now) / 1000000 + 1);
}

static void hold(struct held_gate *g)
{
	for (;;) {
		struct pollfd p[2] = { { g->client, POLLIN, 0 }, { g->group, POLLIN, 0 } };
		int rc = poll(p, 2, time_left(g));

		if (rc < 0 && errno != EINTR)
			return;
		if (rc > 0 && p[0].revents && !read_answer(g))
			return;
		if (rc > 0 && p[1].revents)
			read_events(g);
		while (g->n && time_left(g) == 0)
			let_nth_go(g, 0);
	}
}

int exec_gate_serve(int client, const char *path)
{
	struct held_gate g = { .client = client };
	struct gate_message made = { 0 };
	int rc = 0;

	g.group = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY | O_CLOEXEC | O_LARGEFILE);
	if (g.group < 0 || fanotify_mark(g.group, FAN_MARK_ADD, FAN_OPEN_EXEC_PERM, AT_FDCWD, path) < 0)
		rc = -errno;
	made.number = (uint32_t)rc;
	if (send(client, &made, sizeof(made), MSG_NOSIGNAL) == sizeof(made) && rc == 0)
		hold(&g);
	/* All waiting processes continue when the group is closed. */
	closep(&g.group);
	return rc;
}

void exec_gate_give_up(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];

	if (syscall(SYS_capget, &head, sets) < 0)
		return;
	sets[0].permitted &= ~(1u << CAP_SYS_ADMIN);
	sets[0].effective &= ~(1u << CAP_SYS_ADMIN);
	sets[0].inheritable &= ~(1u << CAP_SYS_ADMIN);
	syscall(SYS_capset, &head, sets);
}
