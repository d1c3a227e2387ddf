/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <arpa/inet.h>
#include <linux/capability.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "daemon/exit-listener.h"
#include "lib/base/util.h"

/* With more processes than half of this all events are received. */
enum { PIDS_MAX = 1000, FILTER_REST = 8, EVENTS_A_TURN = 1000 };

struct exit_listener {
	int fd;
	struct event *event;
	void (*ended)(void *data, const struct exit_event *e);
	void *data;
};

struct exit_message {
	struct nlmsghdr head;
	struct cn_msg connector;
	struct proc_event event;
} __attribute__((packed, aligned(4)));

/* Offsets for the filter, which loads words in network order. */
enum {
	AT_WHAT = NLMSG_HDRLEN + sizeof(struct cn_msg),
	AT_PID = AT_WHAT + offsetof(struct proc_event, event_data.exit.process_tgid),
};

/* Drops CAP_NET_ADMIN of this thread, before any other is started. */
static void drop_capability(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];

	if (syscall(SYS_capget, &head, sets) < 0)
		return;
	sets[0].permitted &= ~(1u << CAP_NET_ADMIN);
	sets[0].effective &= ~(1u << CAP_NET_ADMIN);
	sets[0].inheritable &= ~(1u << CAP_NET_ADMIN);
	syscall(SYS_capset, &head, sets);
}

/* -ENOMEM: the kernel has no room for it beside the one before, by net.core.optmem_max. */
static int set_filter(int fd, const pid_t *pids, size_t n)
{
	struct sock_filter code[PIDS_MAX + FILTER_REST];
	struct sock_fprog program = { .filter = code };
	unsigned short at = 0;

	code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_WHAT);
	code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_EXIT), 3, 0);
	code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_COREDUMP), 2, 0);
	code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_UID), 1, 0);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_PID);
	/* Jumps reach only 255 instructions: each process has its own return. */
	for (size_t i = 0; i < n && n <= PIDS_MAX / 2; i++) {
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl((uint32_t)pids[i]), 0, 1);
		code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
	}
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, n <= PIDS_MAX / 2 ? 0 : UINT32_MAX);
	program.len = at;
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0 ? -errno : 0;
}

static int subscribe(int fd)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC };
	struct {
		struct nlmsghdr head;
		struct cn_msg connector;
		enum proc_cn_mcast_op op;
	} __attribute__((packed, aligned(4))) request = {
		.head = { .nlmsg_len = sizeof(request), .nlmsg_type = NLMSG_DONE },
		.connector = { .id = { CN_IDX_PROC, CN_VAL_PROC }, .len = sizeof(request.op) },
		.op = PROC_CN_MCAST_LISTEN,
	};

	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    send(fd, &request, sizeof(request), 0) < 0)
		return -errno;
	return 0;
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
	exit_listener_read(data);
}

int exit_listener_socket(void)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR);
	int rc = fd < 0 ? -errno : 0;

	if (rc == 0)
		rc = set_filter(fd, NULL, 0);
	if (rc == 0)
		rc = subscribe(fd);
	drop_capability();
	return rc < 0 ? rc : TAKE_FD(fd);
}

int exit_listener_new(struct event_base *base, int fd, void (*ended)(void *data, const struct exit_event *e),
		      void *data, struct exit_listener **ret)
{
	struct exit_listener *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	*l = (struct exit_listener){ .fd = fd, .ended = ended, .data = data };
	l->event = event_new(base, l->fd, EV_READ | EV_PERSIST, on_readable, l);
	if (!l->event || event_add(l->event, NULL) < 0) {
		exit_listener_free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

struct exit_listener *exit_listener_free(struct exit_listener *l)
{
	if (!l)
		return NULL;
	if (l->event)
		event_free(l->event);
	closep(&l->fd);
	free(l);
	return NULL;
}

int exit_listener_set(struct exit_listener *l, const pid_t *pids, size_t n)
{
	int rc = set_filter(l->fd, pids, n);

	/* The filter before this one lacks new processes. */
	return rc < 0 ? set_filter(l->fd, NULL, PIDS_MAX) : rc;
}

void exit_listener_read(struct exit_listener *l)
{
	for (int i = 0; i < EVENTS_A_TURN; i++) {
		struct exit_message m;
		struct sockaddr_nl from;
		socklen_t size = sizeof(from);
		ssize_t n = recvfrom(l->fd, &m, sizeof(m), 0, (struct sockaddr *)&from, &size);
		struct exit_event e = { 0 };

		/* ENOBUFS: events were lost; later ones follow. */
		if (n < 0 && errno != EINTR && errno != ENOBUFS)
			return;
		if (n < (ssize_t)(offsetof(struct exit_message, event.event_data) + sizeof(m.event.event_data.exit)) ||
		    from.nl_pid != 0 || m.connector.id.idx != CN_IDX_PROC)
			continue;
		if (m.event.what == PROC_EVENT_EXIT) {
			e.pid = m.event.event_data.exit.process_tgid;
			e.tid = m.event.event_data.exit.process_pid;
			e.code = (int)m.event.event_data.exit.exit_code;
		} else if (m.event.what == PROC_EVENT_COREDUMP) {
			e.pid = m.event.event_data.coredump.process_tgid;
			e.tid = m.event.event_data.coredump.process_pid;
			e.dumps = true;
		} else if (m.event.what == PROC_EVENT_UID) {
			e.pid = m.event.event_data.id.process_tgid;
			e.tid = m.event.event_data.id.process_pid;
			e.changes_uid = true;
			e.ruid = m.event.event_data.id.r.ruid;
			e.euid = m.event.event_data.id.e.euid;
		} else {
			continue;
		}
		l->ended(l->data, &e);
	}
}
