/* SPDX-License-Identifier: MIT */
/*
 * daemon/decode/cage.c: a hostile decoder (tests/decode/planted.c) makes each attempt to escape twice: without the
 * cage, where it must succeed, since the attempt would prove nothing otherwise, and inside the cage, where it must
 * fail.
 */
#include "config.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/decode/cage.h"
#include "lib/base/io.h"
#include "lib/decoder/decoder.h"
#include "tests/unit.h"

enum { UNPRIVILEGED_UID = 65534, EXECUTED = 77 };

#define SECRET "secret of another job"

struct server {
	pid_t pid;
	int fd;
};

struct outcome {
	bool achieved;
	int status;       /* wait status of the child */
	uint64_t seccomp; /* the result lists "seccomp" */
};

static char dir[] = "/tmp/csight-cage-XXXXXX", file_path[64], new_path[64], socket_path[64];
static uid_t user = (uid_t)-1;
static int unix_listener, tcp_listener;
static uint16_t port;
static uint64_t last_job;

static void listen_both(void)
{
	struct sockaddr_un u = { .sun_family = AF_UNIX };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(in);

	strncpy(u.sun_path, socket_path, sizeof(u.sun_path) - 1);
	unix_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	tcp_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(unix_listener, (struct sockaddr *)&u, sizeof(u)) == 0 && listen(unix_listener, 8) == 0 &&
	      chmod(socket_path, 0666) == 0);
	CHECK(bind(tcp_listener, (struct sockaddr *)&in, sizeof(in)) == 0 && listen(tcp_listener, 8) == 0 &&
	      getsockname(tcp_listener, (struct sockaddr *)&in, &size) == 0);
	port = ntohs(in.sin_port);
}

/* True if a connection is pending. */
static bool connection_pending(int listener)
{
	struct pollfd p = { listener, POLLIN, 0 };
	int fd = poll(&p, 1, 0) == 1 ? accept(listener, NULL, NULL) : -1;

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* Starts a process of the decoder's user, the target of signals. */
static pid_t make_victim(void)
{
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(ready[0]);
		if (user != (uid_t)-1 && (setgid(user) < 0 || setuid(user) < 0))
			_exit(1);
		close(ready[1]);
		/* In case the test exits without killing this process. */
		alarm(60);
		for (;;)
			pause();
	}
	close(ready[1]);
	/* End of file: the process is ready. */
	if (read(ready[0], &byte, 1) != 0)
		pid = -1;
	close(ready[0]);
	return pid;
}

static bool victim_hit(pid_t pid)
{
	int status = 0;

	kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1;
}

static json_object *options_for(const char *name, const char *path, pid_t pid)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "try", name);
	json_add_str(o, "path", path);
	json_add_str(o, "secret", SECRET);
	json_add_u64(o, "pid", (uint64_t)pid);
	json_add_u64(o, "port", port);
	return o;
}

static int submit(const struct server *s, const char *name, const char *path, pid_t pid, int output)
{
	_cleanup_json_ json_object *options = options_for(name, path, pid);
	const char *format = "none";
	struct decoder_start start = { "perf.data", output, -1, -1, &format, &output, 1, options, NULL };
	int job = -1;

	if (decoder_submit(s->fd, ++last_job, &job) < 0 || decoder_start(job, &start) < 0)
		return -1;
	return job;
}

static struct outcome attempt(const struct server *s, const char *name, const char *path, pid_t pid)
{
	_cleanup_close_ int output = memfd_create("output", MFD_CLOEXEC), job = submit(s, name, path, pid, output);
	struct outcome result = { false, -1, 0 };
	struct decoder_event e = { 0 };
	json_object *cage;
	struct stat st;
	uint64_t id;

	if (job >= 0 && decoder_receive(job, 0, &e) == 0 && e.type == DECODER_RESULT) {
		json_get_bool(e.body, "achieved", &result.achieved);
		if (json_get(e.body, "cage", json_type_array, &cage) == 0)
			for (size_t i = 0; i < json_object_array_length(cage); i++)
				result.seccomp |=
				    strcmp(json_object_get_string(json_object_array_get_idx(cage, i)), "seccomp") == 0;
	}
	decoder_event_done(&e);
	if (job >= 0)
		decoder_receive_end(s->fd, 0, &id, &result.status);
	/* A forked child that continues writes to the output. */
	if (fstat(output, &st) == 0 && st.st_size > 0)
		result.achieved = true;
	if (WIFEXITED(result.status) && WEXITSTATUS(result.status) == EXECUTED)
		result.achieved = true;
	return result;
}

struct servers {
	struct server loose, caged;
};

/* Makes one attempt, and checks its effects on the targets as well as the reported outcome. */
static struct outcome attempt_and_check(const struct server *s, const char *name, const char *path)
{
	pid_t victim = make_victim();
	struct outcome o = attempt(s, name, path, victim);

	if (victim_hit(victim))
		o.achieved = true;
	if (connection_pending(unix_listener) || connection_pending(tcp_listener))
		o.achieved = true;
	if (access(new_path, F_OK) == 0) {
		o.achieved = true;
		unlink(new_path);
	}
	return o;
}

static bool killed_for_it(const struct outcome *o)
{
	return WIFSIGNALED(o->status) && WTERMSIG(o->status) == SIGSYS;
}

static void compare(const char *what, const char *name, const struct outcome *loose, const struct outcome *caged)
{
	char text[128];

	/* Some systems refuse these to all processes. */
	if (!loose->achieved && strstr("open32 openat2 clone3 namespace vm-read proc-mem ptrace descriptor", name)) {
		snprintf(text, sizeof(text), "%s: succeeds without the cage", what);
		unit_skip(text, "this system refuses it to all processes");
	} else {
		unit_check(loose->achieved, __FILE__, __LINE__, "%s: succeeds without the cage", what);
	}
	unit_check(!caged->achieved, __FILE__, __LINE__, "%s: fails inside the cage", what);
	/* The filter cannot check the arguments of clone3(), which therefore fails with ENOSYS. */
	if (strcmp(name, "clone3") == 0)
		return;
	if (WIFSIGNALED(loose->status) && WTERMSIG(loose->status) == SIGSEGV) {
		snprintf(text, sizeof(text), "%s: the decoder is killed", what);
		unit_skip(text, "this kernel has no such system call, in the cage or without it");
		return;
	}
	if (!unit_check(killed_for_it(caged), __FILE__, __LINE__, "%s: the decoder is killed", what))
		printf("# wait status 0x%x\n", (unsigned)caged->status);
}

static void test_escapes(const struct servers *s)
{
	const struct {
		const char *name, *what, *path;
	} list[] = {
		{ "open", "opening a file", file_path },
		{ "openat2", "opening a file with openat2", file_path },
#ifdef __x86_64__
		{ "open32", "opening a file by the 32-bit system call", file_path },
#endif
		{ "create", "making a file", new_path },
		{ "list", "listing a directory", NULL },
		{ "unix", "connecting to a socket of this machine", socket_path },
		{ "tcp", "connecting to a port", NULL },
		{ "kill", "signalling a process", NULL },
		{ "tgkill", "signalling a thread of another process", NULL },
		{ "sigqueue", "queueing a signal", NULL },
		{ "fork", "forking", NULL },
		{ "clone", "cloning a process", NULL },
		{ "clone3", "cloning a process with clone3", NULL },
		{ "execve", "executing a program", NULL },
		{ "code", "executing code that it wrote", NULL },
		{ "executable", "mapping executable memory", NULL },
		{ "memory-file", "making a file in memory", NULL },
		{ "namespace", "making a user namespace", NULL },
		{ "owner", "sending SIGIO to a process", NULL },
		{ "priority", "changing a priority", NULL },
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		struct outcome loose = attempt_and_check(&s->loose, list[i].name, list[i].path);
		struct outcome caged = attempt_and_check(&s->caged, list[i].name, list[i].path);

		compare(list[i].what, list[i].name, &loose, &caged);
	}
}

/* The only child of the server. */
static pid_t child_of(pid_t server)
{
	char path[64], text[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)server, (int)server);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	closep(&fd);
	return (pid_t)atoi(text);
}

struct held {
	int job, output;
	pid_t pid;
};

/* Starts a job that has a secret in memory and waits for an image. */
static struct held hold(const struct server *s)
{
	struct held h = { .output = memfd_create("output", MFD_CLOEXEC) };
	struct decoder_event e = { 0 };

	h.job = submit(s, "hold", NULL, 0, h.output);
	CHECK(h.job >= 0 && decoder_receive(h.job, 0, &e) == 0 && e.type == DECODER_IMAGE);
	decoder_event_done(&e);
	h.pid = child_of(s->pid);
	CHECK(h.pid > 1);
	return h;
}

static void release(const struct server *s, struct held *h)
{
	uint64_t id;
	int status;

	closep(&h->job);
	closep(&h->output);
	CHECK_EQ(decoder_receive_end(s->fd, 0, &id, &status), 0);
}

static void test_other_job(const struct servers *s)
{
	static const struct {
		const char *name, *what;
	} list[] = {
		{ "vm-read", "reading another job's memory" },
		{ "proc-mem", "reading another job's memory through /proc" },
		{ "ptrace", "tracing another job" },
		{ "descriptor", "taking another job's descriptor" },
	};
	struct held loose_job = hold(&s->loose), caged_job = hold(&s->caged);

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		struct outcome loose = attempt(&s->loose, list[i].name, NULL, loose_job.pid);
		struct outcome caged = attempt(&s->caged, list[i].name, NULL, caged_job.pid);

		compare(list[i].what, list[i].name, &loose, &caged);
	}
	release(&s->loose, &loose_job);
	release(&s->caged, &caged_job);
}

static void test_allowed(const struct servers *s)
{
	struct outcome o = attempt(&s->caged, "threads", NULL, 0);

	unit_check(o.achieved && o.status == 0, __FILE__, __LINE__, "threads run inside");
	CHECK(o.seccomp);
	o = attempt(&s->caged, "memory", NULL, 0);
	unit_check(o.achieved && o.status == 0, __FILE__, __LINE__,
		   "memory can be allocated and outputs written inside");
	o = attempt(&s->caged, "abort", NULL, 0);
	unit_check(WIFSIGNALED(o.status) && WTERMSIG(o.status) == SIGABRT, __FILE__, __LINE__,
		   "abort() is SIGABRT inside");
}

static bool status_has(pid_t pid, const char *line)
{
	char path[64], text[4096] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	closep(&fd);
	return strstr(text, line) != NULL;
}

/* Checks a child inside the cage through /proc. */
static void test_process_state(const struct server *caged)
{
	static const char *const names[] = { "user", "mnt", "net", "ipc" };
	struct held job = hold(caged);
	char path[64], own[64], theirs[64];
	ssize_t size;

	/* Its standard error is not the log. */
	snprintf(path, sizeof(path), "/proc/%d/fd/2", (int)job.pid);
	size = readlink(path, theirs, sizeof(theirs) - 1);
	theirs[MAX(size, 0)] = 0;
	if (UNDER_SANITIZER)
		unit_skip("the standard error of a job is not the log", "sanitizers report there");
	else
		CHECK_STR(theirs, "/dev/null");
	CHECK(status_has(job.pid, "NoNewPrivs:\t1\n"));
	CHECK(status_has(job.pid, "Seccomp:\t2\n"));
	CHECK(status_has(job.pid, "CapEff:\t0000000000000000\n"));
	CHECK(status_has(job.pid, "CapPrm:\t0000000000000000\n"));
	CHECK(status_has(job.pid, "CapInh:\t0000000000000000\n"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ssize_t n, m;

		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		n = readlink(path, own, sizeof(own));
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)job.pid, names[i]);
		m = readlink(path, theirs, sizeof(theirs));
		snprintf(path, sizeof(path), "a %s namespace of its own", names[i]);
		if (m < 0)
			unit_skip(path, "only root can read it");
		else if (i == 0 && n == m && memcmp(own, theirs, (size_t)n) == 0) {
			unit_skip(path, "user namespaces are refused here (a chroot?)");
			break;
		} else
			unit_check(n != m || memcmp(own, theirs, (size_t)n) != 0, __FILE__, __LINE__, "%s", path);
		if (i == 0 && m >= 0) {
			CHECK(status_has(job.pid, "CapBnd:\t0000000000000000\n"));
			snprintf(path, sizeof(path), "/proc/%d/root/tmp", (int)job.pid);
			CHECK(access(path, F_OK) < 0 && errno == ENOENT);
		}
	}
	release(caged, &job);
}

static bool spawn(const char *name, struct server *ret)
{
	char relative[64];

	snprintf(relative, sizeof(relative), "tests/decode/%s", name);
	return CHECK_EQ(decoder_spawn(unit_built(relative), user, user, &ret->pid, &ret->fd), 0);
}

static void stop(struct server *s)
{
	int status = -1;

	close(s->fd);
	CHECK(waitpid(s->pid, &status, 0) == s->pid && status == 0);
}

int main(void)
{
	struct servers s;
	char text[128];
	int fd;

	if (UNDER_SANITIZER) {
		unit_skip("the cage", "built with a sanitizer, which needs what the cage forbids");
		return unit_end();
	}
	decoder_death(SIGSYS, text, sizeof(text));
	CHECK_STR(text, "killed by SIGSYS: system call outside its cage");
	decoder_death(SIGSEGV, text, sizeof(text));
	CHECK_STR(text, "killed by SIGSEGV");
	decoder_death(W_EXITCODE(3, 0), text, sizeof(text));
	CHECK_STR(text, "ended with status 3 and without a result");
	if (geteuid() == 0)
		user = UNPRIVILEGED_UID;
	umask(022);
	if (!mkdtemp(dir) || chmod(dir, 0777) < 0)
		return 1;
	snprintf(file_path, sizeof(file_path), "%s/secret", dir);
	snprintf(new_path, sizeof(new_path), "%s/new", dir);
	snprintf(socket_path, sizeof(socket_path), "%s/socket", dir);
	fd = open(file_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && io_write(fd, SECRET, strlen(SECRET)) == 0);
	closep(&fd);
	listen_both();
	if (spawn("planted-loose", &s.loose) && spawn("planted", &s.caged)) {
		test_escapes(&s);
		test_other_job(&s);
		test_allowed(&s);
		test_process_state(&s.caged);
		stop(&s.loose);
		stop(&s.caged);
	}
	unlink(file_path);
	unlink(socket_path);
	rmdir(dir);
	return unit_end();
}
