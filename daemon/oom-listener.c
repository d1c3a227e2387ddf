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

enum { RECORD_SIZE = 8192, RECORDS_A_TURN = 10000, VMSTAT_SIZE = 64 << 10, ANSWER_SECONDS = 5, LATE_SECONDS = 10 };

/* The inode of the initial PID namespace. */
#define INITIAL_PIDS 0xeffffffcu

struct oom_listener {
	int fd;
	struct event *event;
	struct oom_listener_calls calls;
	void *data;
	/* Kills since the boot: those that have been passed, and those whose messages are no longer waited for. */
	uint64_t named, waived;
	uint64_t waived_ns; /* CLOCK_MONOTONIC of the last of these */
	bool reading;
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
 * Parses a record of the log: "PRIORITY,...;TEXT". Of the kernel's own, not of what programs write there, the text is
 * "CAUSE: Killed process TID (NAME) ...". Other texts of the kernel begin with the name of a process, and have that of
 * a file, which its user chooses: "NAME[TID]: segfault at ... in FILE[...]".
 */
static bool parse_record(const char *record, pid_t *ret)
{
	static const char *const begins[] = { "Out of memory: Killed process ",
					      "Out of memory (oom_kill_allocating_task): Killed process ",
					      "Memory cgroup out of memory: Killed process " };
	enum { LEVELS = 8 };
	const char *text = strchr(record, ';');

	if (!text || strtoul(record, NULL, 10) >= LEVELS)
		return false;
	*ret = 0;
	for (size_t i = 0; i < ELEMENTS(begins); i++)
		if (strncmp(text + 1, begins[i], strlen(begins[i])) == 0)
			*ret = (pid_t)strtol(text + 1 + strlen(begins[i]), NULL, 10);
	return *ret > 0;
}

static bool waive(struct oom_listener *l)
{
	uint64_t kills = count_kills(), known = l->named + l->waived;

	l->waived += kills - MIN(kills, known);
	if (known < kills)
		l->waived_ns = now_ns(CLOCK_MONOTONIC);
	return known < kills;
}

/*
 * Counts a kill after killed() was called for it: until then oom_listener_read() returns false for all other endings.
 * For LATE_SECONDS, a message may be one that is no longer waited for; later it counts as that of another kill.
 */
static void count_named(struct oom_listener *l)
{
	bool late = l->waived && now_ns(CLOCK_MONOTONIC) - l->waived_ns < LATE_SECONDS * 1000000000ull;

	l->named++;
	l->waived -= late;
}

static void read_messages(struct oom_listener *l)
{
	char record[RECORD_SIZE];
	bool any = false;
	pid_t tid;

	/* The one who receives a kill may ask whether all have been passed. */
	if (l->reading)
		return;
	l->reading = true;
	for (int i = 0; i < RECORDS_A_TURN; i++) {
		ssize_t n = read(l->fd, record, sizeof(record) - 1);
		int error = n < 0 ? errno : 0;

		if (error == EPIPE && waive(l))
			log_warning("the kernel's log has dropped messages: which processes ended for lack of memory "
				    "is unknown");
		if (n == 0 || (error && error != EINTR && error != EPIPE))
			break;
		if (error)
			continue;
		record[n] = '\0';
		if (parse_record(record, &tid)) {
			l->calls.killed(l->data, tid);
			count_named(l);
			any = true;
		}
	}
	l->reading = false;
	if (any)
		l->calls.passed(l->data);
}

bool oom_listener_read(struct oom_listener *l)
{
	/* A kill that is counted later is not that of a process that has ended already. */
	uint64_t kills = count_kills();

	read_messages(l);
	return l->named + l->waived >= kills;
}

void oom_listener_forget(struct oom_listener *l)
{
	waive(l);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
	read_messages(data);
}

int oom_listener_new(struct event_base *base, int fd, const struct oom_listener_calls *calls, void *data,
		     struct oom_listener **ret)
{
	struct oom_listener *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	*l = (struct oom_listener){ .fd = fd, .calls = *calls, .data = data, .named = count_kills() };
	lseek(fd, 0, SEEK_END);
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
