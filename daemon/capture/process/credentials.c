/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <ctype.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "daemon/capture/process/credentials.h"
#include "lib/base/parse.h"
#include "lib/base/util.h"

enum { HAS_UID = 1, HAS_GID = 2, HAS_PERMITTED = 4, HAS_ALL = 7, TRIES = 3, NAMESPACES_MAX = 32 };

static bool parse_ids(const char *text, uint32_t ret[4])
{
	return sscanf(text, "%u %u %u %u", &ret[0], &ret[1], &ret[2], &ret[3]) == 4;
}

/* One number for each PID namespace that contains the process, the outermost first. */
static void parse_namespaces(const char *at, struct credentials *c)
{
	unsigned n = 0;

	for (at += strspn(at, " \t"); isdigit((unsigned char)*at); at += strspn(at, " \t")) {
		c->inner_pid = (pid_t)strtol(at, NULL, 10);
		at += strcspn(at, " \t\n");
		n++;
	}
	c->contained = n > 1;
}

static bool is_key(const char *line, size_t n, const char *key)
{
	return n == strlen(key) && memcmp(line, key, n) == 0;
}

/* Parses one line. Returns which of the required fields it held, or 0. */
static unsigned parse_line(const char *line, struct credentials *c)
{
	const char *colon = strchr(line, ':'), *value;
	size_t n = colon ? (size_t)(colon - line) : 0;

	if (!colon)
		return 0;
	value = colon + 1 + strspn(colon + 1, " \t");
	if (is_key(line, n, "Uid"))
		return parse_ids(value, c->uid) ? HAS_UID : 0;
	if (is_key(line, n, "Gid"))
		return parse_ids(value, c->gid) ? HAS_GID : 0;
	if (is_key(line, n, "CapPrm") && isxdigit((unsigned char)*value)) {
		c->permitted = strtoull(value, NULL, 16);
		return HAS_PERMITTED;
	}
	if (is_key(line, n, "Name"))
		snprintf(c->name, sizeof(c->name), "%.*s", (int)strcspn(value, "\n"), value);
	else if (is_key(line, n, "State"))
		c->state = *value;
	else if (is_key(line, n, "VmPeak"))
		c->has_memory = true;
	else if (is_key(line, n, "PPid"))
		c->parent = (pid_t)strtol(value, NULL, 10);
	else if (is_key(line, n, "NSpid"))
		parse_namespaces(value, c);
	return 0;
}

int credentials_parse(FILE *status, struct credentials *ret)
{
	struct credentials c = { .files_uid = (uid_t)-1, .files_gid = (gid_t)-1, .maker = (uid_t)-1 };
	_cleanup_free_ char *line = NULL;
	size_t capacity = 0;
	unsigned has = 0;

	/* The length of a line has no bound here: a process may be in 65536 groups. */
	while (getline(&line, &capacity, status) > 0) {
		unsigned found = parse_line(line, &c);

		if (found & has)
			return -EBADMSG;
		has |= found;
	}
	if (ferror(status))
		return -errno;
	if (has != HAS_ALL)
		return -EBADMSG;
	*ret = c;
	return 0;
}

int credentials_read_files_owner(int dir, uid_t *ret_uid, gid_t *ret_gid)
{
	struct stat st;

	/* The owner of the directory itself does not show whether the process is dumpable. */
	if (fstatat(dir, "maps", &st, 0) < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	*ret_uid = st.st_uid;
	*ret_gid = st.st_gid;
	return 0;
}

static bool same_namespace(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/*
 * Returns who made the user namespace that contains the process, of several the outermost; -1: the process is in
 * csightd's own, or that is unknown.
 */
static uid_t namespace_maker(int dir)
{
	_cleanup_close_ int fd = openat(dir, "ns/user", O_RDONLY | O_CLOEXEC),
			    own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	uid_t maker = (uid_t)-1;

	if (fd < 0 || own < 0 || same_namespace(fd, own))
		return maker;
	for (unsigned depth = 0; depth < NAMESPACES_MAX; depth++) {
		int parent = ioctl(fd, NS_GET_PARENT);

		if (parent < 0)
			break;
		if (same_namespace(parent, own)) {
			close(parent);
			return ioctl(fd, NS_GET_OWNER_UID, &maker) == 0 ? maker : (uid_t)-1;
		}
		close(fd);
		fd = parent;
	}
	return (uid_t)-1;
}

int credentials_read_dir(int dir, struct credentials *ret)
{
	int fd = openat(dir, "status", O_RDONLY | O_CLOEXEC), rc;
	_cleanup_fclose_ FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	struct credentials c;

	if (!f) {
		rc = errno == ENOENT ? -ESRCH : -errno;
		closep(&fd);
		return rc;
	}
	rc = credentials_parse(f, &c);
	if (rc == 0)
		rc = credentials_read_files_owner(dir, &c.files_uid, &c.files_gid);
	if (rc == 0 && c.permitted)
		c.maker = namespace_maker(dir);
	if (rc == 0)
		*ret = c;
	return rc;
}

static int open_dir(pid_t pid)
{
	char path[32];
	int dir;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir >= 0 ? dir : errno == ENOENT ? -ESRCH : -errno;
}

/* True if the process of pidfd does not exist any more, so that another process may have its number. */
static bool is_reaped(int pidfd)
{
	return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0 && errno == ESRCH;
}

int credentials_read_pidfd(pid_t pid, int pidfd, struct credentials *ret)
{
	_cleanup_close_ int dir = open_dir(pid);
	struct credentials c;
	int rc = dir < 0 ? dir : credentials_read_dir(dir, &c);

	if (is_reaped(pidfd))
		return -ESRCH;
	if (rc == 0)
		*ret = c;
	return rc;
}

int credentials_read_login_uid(pid_t pid, int pidfd, uid_t *ret)
{
	_cleanup_close_ int fd = -1;
	char path[48], text[16];
	uint64_t uid;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/loginuid", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	if (is_reaped(pidfd))
		return -ESRCH;
	text[n] = 0;
	if (parse_u64(text, UINT32_MAX, &uid) < 0)
		return -EBADMSG;
	if (uid == UINT32_MAX)
		return -ENODATA;
	*ret = (uid_t)uid;
	return 0;
}

int credentials_read(pid_t pid, struct credentials *ret)
{
	_cleanup_close_ int dir = open_dir(pid);
	struct credentials c = { 0 };
	int rc = MIN(dir, 0);

	/* The first thread may end between reading the status and asking for the owner; then a second reading shows it.
	 */
	for (unsigned i = 0; rc == 0 && (i == 0 || c.files_uid == 0) && i < TRIES; i++) {
		rc = credentials_read_dir(dir, &c);
		if (rc == 0 && !credentials_leader_alive(&c))
			rc = -EAGAIN;
	}
	if (rc == 0)
		*ret = c;
	return rc;
}

static bool all_equal(const uint32_t ids[4])
{
	return ids[0] == ids[1] && ids[0] == ids[2] && ids[0] == ids[3];
}

uid_t credentials_uid(const struct credentials *c)
{
	return all_equal(c->uid) ? c->uid[0] : (uid_t)-1;
}

bool credentials_gids_equal(const struct credentials *c)
{
	return all_equal(c->gid);
}

bool credentials_dumpable(const struct credentials *c)
{
	return c->files_uid == c->uid[1];
}

bool credentials_leader_alive(const struct credentials *c)
{
	return c->state && !strchr("ZXx", c->state) && c->has_memory;
}

bool credentials_owned(const struct credentials *c, uid_t owner)
{
	if (owner == 0)
		return true;
	return owner != (uid_t)-1 && credentials_uid(c) == owner && credentials_gids_equal(c) &&
	       (c->permitted == 0 || c->maker == owner) && credentials_dumpable(c);
}
