/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/base/util.h"
#include "lib/decoder/decoder.h"

enum { SERVER_FD = 3, SERVER_MESSAGE_MAX = 4096 };

/*
 * Runs in the child between fork and exec: only async-signal-safe calls are allowed. The program is executed by
 * descriptor, since the other user may have no access to its path.
 */
static int exec_server(int program, int sock, int report, uid_t uid, gid_t gid, pid_t parent)
{
	static const char *const argv[] = { "csight-decode", "--server", NULL };
	static const char *const envp[] = { "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", NULL };
	int null;

	/* Away from the descriptor numbers that the program gets. */
	program = fcntl(program, F_DUPFD_CLOEXEC, 10);
	report = fcntl(report, F_DUPFD_CLOEXEC, 10);
	sock = fcntl(sock, F_DUPFD_CLOEXEC, 10);
	if (program < 0 || report < 0 || sock < 0)
		return -errno;
	null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(sock, SERVER_FD) < 0)
		return -errno;
	/* The program inherits no other descriptors; those still in use here are closed by exec. */
	if (syscall(SYS_close_range, SERVER_FD + 1, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		return -errno;
	/* System calls, since the C library's wrappers would signal the other threads of the parent, which do not exist
	 * here. */
	if (uid != (uid_t)-1 && (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
				 syscall(SYS_setresuid, uid, uid, uid) < 0))
		return -errno;
	/* After the change of user, which clears the parent-death signal. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (getppid() != parent)
		return -ESRCH;
	syscall(SYS_execveat, program, "", argv, envp, AT_EMPTY_PATH);
	return -errno;
}

static void exec_decoder(int program, int sock, int report, uid_t uid, gid_t gid, pid_t parent)
{
	sigset_t none;
	int rc;

	sigemptyset(&none);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	rc = exec_server(program, sock, report, uid, gid, parent);
	/* exec_server() used a duplicate of this descriptor. */
	if (write(report, &rc, sizeof(rc)) < 0)
		_exit(126);
	_exit(127);
}

int decoder_spawn(const char *path, uid_t uid, gid_t gid, pid_t *ret_pid, int *ret_fd)
{
	_cleanup_close_ int program = -1, mine = -1, theirs = -1, result = -1, report = -1;
	int pair[2], rc = 0;
	pid_t pid, parent = getpid();
	char found[4096];
	ssize_t n;

	if (!path) {
		rc = path_helper("csight-decode", PKGLIBEXECDIR, found, sizeof(found));
		if (rc < 0)
			return rc;
		path = found;
	}
	program = open(path, O_PATH | O_CLOEXEC);
	if (program < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	mine = pair[0];
	theirs = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	result = pair[0];
	report = pair[1];
	if (uid == getuid() && uid == geteuid())
		uid = (uid_t)-1;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		exec_decoder(program, theirs, report, uid, gid, parent);
	closep(&report);
	/* A successful exec closes the pipe; otherwise the child writes an error to it. */
	do
		n = read(result, &rc, sizeof(rc));
	while (n < 0 && errno == EINTR);
	if (n != 0) {
		/* If the pipe could not be read, it is unknown whether the program runs. */
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return n == sizeof(rc) && rc < 0 ? rc : -EIO;
	}
	*ret_pid = pid;
	*ret_fd = TAKE_FD(mine);
	return 0;
}

int decoder_connect(const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = io_connect(path, SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(struct ucred);
	struct ucred peer;

	if (fd < 0)
		return fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	/* It gets the traces of all users. */
	if (peer.uid != 0 && peer.uid != geteuid())
		return -EPERM;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Messages may be larger than the default buffer of a socket. */
static void enlarge_send_buffer(int fd)
{
	int size = 2 * DECODER_MESSAGE_MAX;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static int send_json(int fd, json_object *o, const int *fds, size_t n_fds)
{
	_cleanup_free_ char *text = json_text(o, JSON_PLAIN);
	size_t size;

	if (!text)
		return -ENOMEM;
	size = strlen(text);
	if (size > DECODER_MESSAGE_MAX)
		return -EMSGSIZE;
	return io_send_fds(fd, text, size, fds, n_fds);
}

int decoder_submit(int server, uint64_t job, int *ret_fd)
{
	return decoder_submit_limited(server, job, 0, ret_fd);
}

int decoder_submit_limited(int server, uint64_t job, uint64_t limit, int *ret_fd)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	_cleanup_close_ int mine = -1, theirs = -1;
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	mine = pair[0];
	theirs = pair[1];
	enlarge_send_buffer(mine);
	enlarge_send_buffer(theirs);
	json_add_u64(o, "job", job);
	if (limit)
		json_add_u64(o, "limit", limit);
	rc = send_json(server, o, &theirs, 1);
	if (rc < 0)
		return rc;
	*ret_fd = TAKE_FD(mine);
	return 0;
}

int decoder_give_log(int server, uint64_t job, int fd)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_u64(o, "log", job);
	return send_json(server, o, &fd, 1);
}

int decoder_extend(int server, uint64_t job, uint64_t limit)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_u64(o, "extend", job);
	json_add_u64(o, "limit", limit);
	return send_json(server, o, NULL, 0);
}

int decoder_kill(int server, uint64_t job)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_u64(o, "kill", job);
	return send_json(server, o, NULL, 0);
}

int decoder_receive_end(int server, int flags, uint64_t *ret_job, int *ret_status)
{
	_cleanup_json_ json_object *o = NULL;
	char text[SERVER_MESSAGE_MAX];
	ssize_t n = io_receive_fds(server, text, sizeof(text), NULL, NULL, flags);
	int64_t status = 0;
	uint64_t job;
	int rc;

	if (n == 0 || n == -ECONNRESET)
		return -EPIPE;
	if (n < 0)
		return n == -EMSGSIZE ? -EBADMSG : (int)n;
	rc = json_parse(text, (size_t)n, &o);
	if (rc == 0)
		rc = json_get_u64(o, "job", &job);
	if (rc == 0)
		rc = json_get_i64(o, "status", &status);
	if (rc < 0 || status < 0 || status > 0xffff)
		return rc == -ENOMEM ? rc : -EBADMSG;
	*ret_job = job;
	*ret_status = (int)status;
	return 0;
}

void decoder_death(int status, char *ret, size_t size)
{
	const char *name = WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : NULL;

	if (name)
		snprintf(ret, size, "killed by SIG%s%s", name,
			 WTERMSIG(status) == SIGSYS ? ": system call outside its cage" : "");
	else
		snprintf(ret, size, "ended with status %d and without a result", WEXITSTATUS(status));
}

/* Copies the members that the decoder uses; it does not use the list of images, which may be long. */
static json_object *used_members(json_object *from)
{
	static const char *const keys[] = { "id",        "pid",         "name",      "exe",   "capture", "time",
					    "monotonic", "clock",       "shared",    "ended", "trigger", "labels",
					    "threads",   "perf_map",    "intervals", "code",  "jitdump", "last",
					    "since",     "clock_shift", "filtered" };
	json_object *o = json_object_new_object(), *value;

	for (size_t i = 0; i < ELEMENTS(keys); i++)
		if (json_object_object_get_ex(from, keys[i], &value))
			json_add(o, keys[i], json_object_get(value));
	return o;
}

static json_object *build_start_message(const struct decoder_start *start)
{
	json_object *o = json_object_new_object(), *outputs = json_object_new_array();

	json_add_str(o, "type", "start");
	json_add_str(o, "input", start->input);
	for (size_t i = 0; i < start->n_outputs; i++)
		json_array_add(outputs, json_object_new_string(start->outputs[i]));
	json_add(o, "outputs", outputs);
	if (start->tables)
		json_add_bool(o, "tables", true);
	if (start->options)
		json_add(o, "options", json_object_get(start->options));
	if (start->code_fd >= 0)
		json_add_bool(o, "code", true);
	if (start->jitdump_fd >= 0)
		json_add_bool(o, "jitdump", true);
	return o;
}

static int write_snapshot_file(json_object *snapshot, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create("csight-snapshot", MFD_CLOEXEC);
	_cleanup_free_ char *text = json_text(snapshot, JSON_PLAIN);
	size_t size = text ? strlen(text) : 0;
	int rc;

	if (fd < 0)
		return -errno;
	if (!text)
		return -ENOMEM;
	if (size > DECODER_SNAPSHOT_MAX)
		return -EMSGSIZE;
	rc = io_pwrite(fd, text, size, 0);
	if (rc == 0)
		*ret_fd = TAKE_FD(fd);
	return rc;
}

int decoder_write_description(json_object *snapshot, int *ret_fd)
{
	_cleanup_json_ json_object *used = used_members(snapshot);

	return write_snapshot_file(used, ret_fd);
}

/* Sends the start message with its descriptors. file: the description of the snapshot; -1: it is in the message. */
static int send_start(int job, const struct decoder_start *start, json_object *message, int file)
{
	int fds[DECODER_OUTPUTS_MAX + 4];
	size_t n = 0;

	fds[n++] = start->input_fd;
	if (start->code_fd >= 0)
		fds[n++] = start->code_fd;
	if (start->jitdump_fd >= 0)
		fds[n++] = start->jitdump_fd;
	if (file >= 0)
		fds[n++] = file;
	for (size_t i = 0; i < start->n_outputs; i++)
		fds[n++] = start->output_fds[i];
	return send_json(job, message, fds, n);
}

int decoder_start(int job, const struct decoder_start *start)
{
	_cleanup_json_ json_object *message = NULL;
	_cleanup_close_ int file = -1;
	json_object *snapshot = NULL;
	int rc;

	if (start->n_outputs > DECODER_OUTPUTS_MAX)
		return -EINVAL;
	message = build_start_message(start);
	if (start->description) {
		json_add_bool(message, "snapshot", true);
		return send_start(job, start, message, *start->description);
	}
	if (start->snapshot) {
		snapshot = used_members(start->snapshot);
		json_add(message, "snapshot", snapshot);
	}
	rc = send_start(job, start, message, -1);
	if (rc != -EMSGSIZE || !snapshot)
		return rc;
	rc = write_snapshot_file(snapshot, &file);
	if (rc < 0)
		return rc;
	json_add_bool(message, "snapshot", true);
	return send_start(job, start, message, file);
}

int decoder_start_build_ids(int job, const int *fds, size_t n_fds)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	if (!n_fds || n_fds > DECODER_FILES_MAX)
		return -EINVAL;
	json_add_str(o, "type", "start");
	json_add_str(o, "input", DECODER_BUILD_IDS);
	return send_json(job, o, fds, n_fds);
}

void decoder_event_done(struct decoder_event *e)
{
	json_object_put(e->body);
	if (e->has_fd)
		closep(&e->fd);
	*e = (struct decoder_event){ 0 };
}

static int parse_event(json_object *o, struct decoder_event *e)
{
	const char *type;
	uint64_t index;

	if (json_get_str(o, "type", &type) < 0)
		return -EBADMSG;
	if (strcmp(type, "image") == 0) {
		e->type = DECODER_IMAGE;
		if (json_get_u64(o, "index", &index) < 0 || index > UINT32_MAX || json_get_str(o, "path", &e->path) < 0)
			return -EBADMSG;
		e->index = (uint32_t)index;
		if (json_get_str(o, "build_id", &e->build_id) == -EINVAL ||
		    json_get_u64(o, "inode", &e->inode) == -EINVAL ||
		    json_get_u64(o, "attempt", &e->attempt) == -EINVAL ||
		    json_get_str(o, "debug", &e->debug) == -EINVAL || (e->debug && strchr(e->debug, '/')))
			return -EBADMSG;
		return 0;
	}
	if (strcmp(type, "file") == 0) {
		e->type = DECODER_FILE;
		return json_get_str(o, "name", &e->path) < 0 ? -EBADMSG : 0;
	}
	if (strcmp(type, "table") == 0 || strcmp(type, "keep") == 0) {
		e->type = type[0] == 't' ? DECODER_TABLE : DECODER_KEEP;
		return json_get_str(o, "key", &e->path) < 0 || (e->type == DECODER_KEEP && !e->has_fd) ? -EBADMSG : 0;
	}
	if (strcmp(type, "progress") == 0) {
		e->type = DECODER_PROGRESS;
		return json_get_u64(o, "done", &e->done) < 0 || json_get_u64(o, "total", &e->total) < 0 ? -EBADMSG : 0;
	}
	if (strcmp(type, "result") == 0) {
		e->type = DECODER_RESULT;
		return 0;
	}
	if (strcmp(type, "failed") == 0) {
		e->type = DECODER_FAILED;
		return json_get_str(o, "reason", &e->reason) < 0 ? -EBADMSG : 0;
	}
	return -EBADMSG;
}

int decoder_receive(int job, int flags, struct decoder_event *ret)
{
	_cleanup_free_ char *text = malloc(DECODER_MESSAGE_MAX);
	_cleanup_(decoder_event_done) struct decoder_event e = { 0 };
	size_t n_fds = 1;
	ssize_t n;
	int rc;

	if (!text)
		return -ENOMEM;
	n = io_receive_fds(job, text, DECODER_MESSAGE_MAX, &e.fd, &n_fds, flags);
	if (n == 0 || n == -ECONNRESET)
		return -EPIPE;
	if (n < 0)
		return n == -EMSGSIZE ? -EBADMSG : (int)n;
	e.has_fd = n_fds;
	rc = json_parse(text, (size_t)n, &e.body);
	if (rc == 0 && !json_object_is_type(e.body, json_type_object))
		rc = -EBADMSG;
	if (rc == 0)
		rc = parse_event(e.body, &e);
	if (rc == 0 && n > DECODER_REQUEST_MAX && e.type != DECODER_RESULT)
		rc = -EBADMSG;
	if (rc < 0)
		return rc;
	*ret = e;
	e = (struct decoder_event){ 0 };
	return 0;
}

static int send_reply(int job, json_object *o, int fd, const char *reason)
{
	if (fd < 0)
		json_add_bytes(o, "reason", reason ? reason : "not there");
	return send_json(job, o, &fd, fd >= 0);
}

json_object *decoder_find_image(json_object *snapshot, const struct decoder_event *e, size_t *ret_number)
{
	json_object *list, *found = NULL;

	if (!e->path || json_get(snapshot, "images", json_type_array, &list) < 0)
		return NULL;
	for (size_t n = json_array_size(list); n-- > 0;) {
		json_object *image = json_object_array_get_idx(list, n);
		const char *path, *id = NULL;
		uint64_t inode;
		bool exact;

		if (!json_object_is_type(image, json_type_object) || json_get_str(image, "path", &path) < 0 ||
		    strcmp(path, e->path) != 0)
			continue;
		if (json_get_str(image, "build_id", &id) == 0 && e->build_id && strcmp(id, e->build_id) != 0)
			continue;
		exact =
		    e->inode && json_get_u64(image, "inode", &inode) == 0 && inode == e->inode && !id == !e->build_id;
		if (found && !exact)
			continue;
		found = image;
		*ret_number = n;
		if (exact)
			break;
	}
	return found;
}

int decoder_reply_image(int job, uint32_t index, int fd, const char *reason)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "type", "image");
	json_add_u64(o, "index", index);
	return send_reply(job, o, fd, reason);
}

int decoder_reply_file(int job, int fd, const char *reason)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "type", "file");
	return send_reply(job, o, fd, reason);
}

int decoder_reply_table(int job, int fd)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "type", "table");
	return send_reply(job, o, fd, NULL);
}
