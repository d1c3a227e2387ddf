/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "daemon/exec-gate.h"
#include "daemon/exit-listener.h"
#include "daemon/opener.h"
#include "lib/base/io.h"
#include "lib/decoder/debug-places.h"

enum {
	OPENER_VERSION = 1,
	FOR_FILE = 1,
	FOR_EXITS,
	FOR_GATE,
	ANSWER_SECONDS = 5,
	STRINGS = 4,
	REQUEST_MAX = 4 * PATH_MAX + 4096
};

/* A request: this, then the strings in their order, each with its NUL. */
struct request {
	uint32_t version, kind, uid, gid, debug;
	struct file_identity want;
	uint64_t skip;
};

/* An answer, with a descriptor if rc is 0. */
struct response {
	int32_t rc;
	char why[64];
};

static bool same_file(const struct file_identity *a, const struct file_identity *b)
{
	return a->inode == b->inode && a->size == b->size && a->mtime == b->mtime && a->major == b->major &&
	       a->minor == b->minor;
}

/*
 * Opens a regular file of a file system of the kernel: the decoder would wait for others without end. Links of /proc
 * such as /proc/PID/exe and /proc/PID/fd/N are not followed: they lead past the directories above the file, and the
 * kernel allows them by the capabilities of csightd, which setfsuid() leaves. Where there is no openat2(), no file is
 * opened.
 */
static int open_path(const char *path)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	_cleanup_close_ int at = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	struct file_identity is;
	char link[32];

	if (at < 0 || file_identify(at, &is) < 0 || !is.regular || !file_kernel_served_for_sure(at, &is, 0))
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
	return open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static int open_image(const struct opener_file *f, struct reason *why)
{
	_cleanup_close_ int fd = open_path(f->path);
	struct file_identity is;

	if (fd < 0)
		return reason_set(why, -ENOENT, "the file cannot be opened");
	if (file_identify(fd, &is) < 0 || !is.regular || !same_file(&is, &f->want))
		return reason_set(why, -ESTALE, "the file has changed since the snapshot");
	return TAKE_FD(fd);
}

/* Finds the cache directory of the owner's debuginfod clients. Returns false if it is unknown. */
static bool find_cache(uid_t uid, char *ret, size_t size)
{
	const char *home = uid == getuid() ? getenv("HOME") : NULL;
	struct passwd entry, *found = NULL;
	char text[4096];

	if (!home && getpwuid_r(uid, &entry, text, sizeof(text), &found) == 0 && found)
		home = entry.pw_dir;
	return home && home[0] == '/' && (size_t)snprintf(ret, size, "%s/.cache/debuginfod_client", home) < size;
}

static int open_debug(const struct opener_file *f, const char *cache, struct reason *why)
{
	const struct debug_wish wish = {
		.path = f->path, .program = f->program, .build_id = f->build_id, .link = f->link, .cache = cache
	};
	_cleanup_(debug_places_done) struct debug_places places = { 0 };
	uint64_t skip = f->skip;

	if (debug_places_list(&wish, &places) < 0)
		return reason_set(why, -ENOMEM, "there is no memory to look for it");
	for (size_t n = 0; n < places.n; n++) {
		_cleanup_close_ int fd = open_path(places.paths[n]);

		if (fd >= 0 && io_is_elf(fd) && skip-- == 0)
			return TAKE_FD(fd);
	}
	return reason_set(why, -ENOENT, "there is no such file");
}

static int open_file(const struct opener_file *f, const char *cache, struct reason *why)
{
	return f->debug ? open_debug(f, cache, why) : open_image(f, why);
}

/* These calls apply to this thread only, and also drop root's rights over files. csightd has no other groups. */
static bool take_rights(uid_t uid, gid_t gid)
{
	setfsgid(gid);
	setfsuid(uid);
	return setfsgid((gid_t)-1) == (int)gid && setfsuid((uid_t)-1) == (int)uid;
}

static int open_here(const struct opener_file *f, struct reason *why)
{
	char cache[PATH_MAX];
	bool cached = f->debug && find_cache(f->uid, cache, sizeof(cache));
	int fd;

	if (take_rights(f->uid, f->gid))
		fd = open_file(f, cached ? cache : NULL, why);
	else
		fd = reason_set(why, -EPERM, "csightd cannot take the rights of its owner");
	take_rights(geteuid(), getegid());
	return fd;
}

static bool add_string(char *message, size_t *size, const char *text)
{
	size_t n = strlen(text ? text : "") + 1;

	if (*size + n > REQUEST_MAX)
		return false;
	memcpy(message + *size, text ? text : "", n);
	*size += n;
	return true;
}

/* Receives the answer to a request. Returns its descriptor, or negative errno with the reason. */
static int receive_answer(int opener, struct reason *why)
{
	struct response answer;
	size_t n_fds = 1;
	int fd = -1;
	ssize_t n = io_receive_fds(opener, &answer, sizeof(answer), &fd, &n_fds, 0);

	if (n == sizeof(answer) && answer.rc == 0 && n_fds == 1)
		return fd;
	if (n >= 0 && n_fds == 1)
		closep(&fd);
	if (n != sizeof(answer) || answer.rc >= 0)
		return n < 0 ? (int)n : -EPROTO;
	return reason_set(why, answer.rc, "%.*s", (int)sizeof(answer.why), answer.why);
}

static int ask(int opener, const struct opener_file *f, struct reason *why)
{
	const struct request r = { OPENER_VERSION, FOR_FILE, f->uid, f->gid, f->debug, f->want, f->skip };
	const char *strings[STRINGS] = { f->path, f->build_id, f->link, f->program };
	_cleanup_free_ char *message = malloc(REQUEST_MAX);
	size_t size = sizeof(r);
	int rc;

	if (!message)
		return -ENOMEM;
	memcpy(message, &r, sizeof(r));
	for (size_t i = 0; i < STRINGS; i++)
		if (!add_string(message, &size, strings[i]))
			return -ENAMETOOLONG;
	rc = io_send_fds(opener, message, size, NULL, 0);
	return rc < 0 ? rc : receive_answer(opener, why);
}

/* Connects to csight-opener. flags: SOCK_NONBLOCK, or 0. Returns the connection, or negative errno. */
static int connect_opener(const char *path, int flags)
{
	return path && *path ? io_connect(path, flags, 0) : -ENOENT;
}

int opener_open_file(const char *socket, const struct opener_file *f, struct reason *why)
{
	_cleanup_close_ int opener = connect_opener(socket, 0);
	int rc = opener < 0 ? opener : ask(opener, f, why);

	if (opener >= 0) {
		if (rc < 0 && !why->text[0])
			reason_set(why, rc, "csight-opener did not answer");
		return rc;
	}
	return open_here(f, why);
}

int opener_open_exits(const char *socket, int *ret_late)
{
	const struct request r = { OPENER_VERSION, FOR_EXITS };
	const struct timeval limit = { ANSWER_SECONDS, 0 };
	_cleanup_close_ int opener = connect_opener(socket, 0);
	int rc;

	if (opener < 0)
		return opener;
	setsockopt(opener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	rc = io_send_fds(opener, &r, sizeof(r), NULL, 0);
	if (rc == 0)
		rc = receive_answer(opener, NULL);
	if (rc == -EAGAIN)
		*ret_late = TAKE_FD(opener);
	return rc;
}

int opener_receive_exits(int late)
{
	return receive_answer(late, NULL);
}

int opener_open_gate(const char *socket, const char *path)
{
	const struct request r = { OPENER_VERSION, FOR_GATE };
	_cleanup_close_ int opener = connect_opener(socket, SOCK_NONBLOCK);
	size_t size = sizeof(r);
	char message[sizeof(r) + PATH_MAX];
	int rc;

	if (opener < 0)
		return opener;
	memcpy(message, &r, sizeof(r));
	if (strlen(path) >= PATH_MAX || !add_string(message, &size, path))
		return -ENAMETOOLONG;
	rc = io_send_fds(opener, message, size, NULL, 0);
	return rc < 0 ? rc : TAKE_FD(opener);
}

/* True if data ends with STRINGS strings. */
static bool take_strings(const char *data, size_t size, const char *ret[STRINGS])
{
	for (size_t i = 0; i < STRINGS; i++) {
		size_t n = strnlen(data, size);

		if (n == size)
			return false;
		ret[i] = data;
		data += n + 1;
		size -= n + 1;
	}
	return size == 0;
}

static int become_user(uid_t uid, gid_t gid)
{
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

static int serve_file(const struct request *r, const char *data, size_t size, struct reason *why)
{
	const char *strings[STRINGS];
	struct opener_file f;
	char cache[PATH_MAX];
	bool cached;
	int rc;

	if (!take_strings(data, size, strings))
		return -EPROTO;
	f = (struct opener_file){ .uid = r->uid,
				  .gid = r->gid,
				  .debug = r->debug,
				  .want = r->want,
				  .skip = r->skip,
				  .path = strings[0],
				  .build_id = strings[1],
				  .link = strings[2],
				  .program = strings[3] };
	cached = f.debug && find_cache(f.uid, cache, sizeof(cache));
	if (geteuid() != f.uid || geteuid() == 0) {
		rc = become_user(f.uid, f.gid);
		if (rc < 0)
			return reason_set(why, rc, "csight-opener cannot become its owner");
	}
	return open_file(&f, cached ? cache : NULL, why);
}

/* True if it asks for a gate before this path. */
static bool is_for_gate(const char *message, size_t size, const char **ret_path)
{
	struct request r;

	if (size <= sizeof(r) || message[size - 1])
		return false;
	memcpy(&r, message, sizeof(r));
	*ret_path = message + sizeof(r);
	return r.version == OPENER_VERSION && r.kind == FOR_GATE;
}

static int serve(const char *message, size_t size, struct reason *why)
{
	struct request r;

	if (size < sizeof(r))
		return -EPROTO;
	memcpy(&r, message, sizeof(r));
	if (r.version != OPENER_VERSION)
		return -EPROTO;
	if (r.kind == FOR_EXITS)
		return exit_listener_socket();
	return r.kind == FOR_FILE ? serve_file(&r, message + sizeof(r), size - sizeof(r), why) : -EPROTO;
}

int opener_serve(int client)
{
	_cleanup_free_ char *message = malloc(REQUEST_MAX);
	struct response answer = { 0 };
	_cleanup_close_ int fd = -1;
	struct reason why = { "" };
	const char *path;
	size_t none = 0;
	ssize_t n;

	if (!message)
		return -ENOMEM;
	n = io_receive_fds(client, message, REQUEST_MAX, NULL, &none, 0);
	if (n <= 0)
		return n < 0 ? (int)n : -EPIPE;
	if (is_for_gate(message, (size_t)n, &path))
		return exec_gate_serve(client, path);
	exec_gate_give_up();
	fd = serve(message, (size_t)n, &why);
	answer.rc = MIN(fd, 0);
	snprintf(answer.why, sizeof(answer.why), "%s", why.text[0] ? why.text : strerror(-answer.rc));
	return io_send_fds(client, &answer, sizeof(answer), &fd, fd >= 0);
}
