/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/capture/process/proc-file.h"
#include "daemon/kernel/protocol.h"
#include "daemon/oom-listener.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/util.h"

enum { RECORD_SIZE = 8192, RECORDS_A_TURN = 10000, VMSTAT_SIZE = 64 << 10, ANSWER_SECONDS = 5 };

/* The inode of the initial PID namespace. */
#define INITIAL_PIDS 0xeffffffcu

struct oom_listener {
	int fd;
	struct event *event;
	void (*killed)(void *data, pid_t tid);
	void *data;
	uint64_t named; /* kills since the boot, as far as they are known here */
};

static int ask_for_log(const char *socket)
{
	const struct kernel_request request = { KERNEL_VERSION, KERNEL_FOR_LOG };
	_cleanup_close_ int server = io_connect(socket, 0, ANSWER_SECONDS), fd = -1;
	struct kernel_response answer;
	size_t n_fds = 1;
	ssize_t n;
	int rc = server < 0 ? server : io_send_fds(server, &request, sizeof(request), NULL, 0);

	if (rc < 0)
		return rc;
	n = io_receive_fds(server, &answer, sizeof(answer), &fd, &n_fds, 0);
	if (n != sizeof(answer) || answer.version != KERNEL_VERSION)
		return n < 0 ? (int)n : -EPROTO;
	return answer.rc < 0 ? answer.rc : fd < 0 ? -EPROTO : TAKE_FD(fd);
}

int oom_listener_open(const char *socket)
{
	struct stat st;
	int fd;

	if (stat("/proc/self/ns/pid", &st) < 0)
		return -errno;
	if (st.st_ino != INITIAL_PIDS)
		return -EXDEV;
	fd = open(KERNEL_LOG, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 || !*socket)
		return fd < 0 ? -errno : fd;
	return ask_for_log(socket);
}

/* Returns how many processes the kernel has killed since the boot; 0: it does not count them. */
static uint64_t count_kills(void)
{
	static const char name[] = "\noom_kill ";
	_cleanup_free_ char *text = malloc(VMSTAT_SIZE);
	const char *at = NULL;

	if (text && proc_file_read(AT_FDCWD, "/proc/vmstat", text, VMSTAT_SIZE) == 0)
		at = strstr(text, name);
	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/*
 * Parses a record of the log: "PRIORITY,...;TEXT". Of the kernel's own, not of what programs write there, the text
 * begins with the cause, and is "CAUSE: Killed process TID (NAME) ...".
 */
static bool parse_record(const char *record, pid_t *ret)
{
	static const char *const causes[] = { "Out of memory", "Memory cgroup out of memory" };
	static const char killed[] = ": Killed process ";
	enum { LEVELS = 8 };
	const char *text = strchr(record, ';'), *at;
	bool known = false;

	if (!text || strtoul(record, NULL, 10) >= LEVELS)
		return false;
	for (size_t i = 0; i < ELEMENTS(causes); i++)
		known |= strncmp(text + 1, causes[i], strlen(causes[i])) == 0;
	at = known ? strstr(text, killed) : NULL;
	*ret = at ? (pid_t)strtol(at + strlen(killed), NULL, 10) : 0;
	return *ret > 0;
}

/* Counts the kills whose messages the log has dropped as named. */
static void take_loss(struct oom_listener *l)
{
	uint64_t kills = count_kills();

	if (l->named < kills)
		log_warning(
		    "the kernel's log has dropped messages: which processes ended for lack of memory is unknown");
	l->named = MAX(l->named, kills);
}

static void read_messages(struct oom_listener *l)
{
	char record[RECORD_SIZE];
	pid_t tid;

	for (int i = 0; i < RECORDS_A_TURN; i++) {
		ssize_t n = read(l->fd, record, sizeof(record) - 1);

		if (n < 0 && errno == EPIPE)
			take_loss(l);
		else if (n == 0 || (n < 0 && errno != EINTR))
			return;
		if (n <= 0)
			continue;
		record[n] = '\0';
		if (parse_record(record, &tid)) {
			l->named++;
			l->killed(l->data, tid);
		}
	}
}

bool oom_listener_read(struct oom_listener *l)
{
	/* A kill that is counted later is not that of a process that has ended already. */
	uint64_t kills = count_kills();

	read_messages(l);
	return l->named >= kills;
}

void oom_listener_forget(struct oom_listener *l)
{
	l->named = MAX(l->named, count_kills());
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
	read_messages(data);
}

int oom_listener_new(struct event_base *base, int fd, void (*killed)(void *data, pid_t tid), void *data,
		     struct oom_listener **ret)
{
	struct oom_listener *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	*l = (struct oom_listener){ .fd = fd, .killed = killed, .data = data };
	lseek(fd, 0, SEEK_END);
	l->named = count_kills();
	l->event = event_new(base, l->fd, EV_READ | EV_PERSIST, on_readable, l);
	if (!l->event || event_add(l->event, NULL) < 0) {
		oom_listener_free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

struct oom_listener *oom_listener_free(struct oom_listener *l)
{
	if (!l)
		return NULL;
	if (l->event)
		event_free(l->event);
	closep(&l->fd);
	free(l);
	return NULL;
}
