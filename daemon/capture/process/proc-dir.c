/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/capture/process/credentials.h"
#include "daemon/capture/process/proc-dir.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

enum { MAPS_MAX = 16 << 10, LINES_MAX = 256 << 10, PERF_MAP_MAX = 32 << 20 };

bool proc_dir_alive(const struct proc_dir *p)
{
	struct pollfd poll_fd = { .fd = p->pidfd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) == 0;
}

int proc_dir_open(pid_t pid, int pidfd, struct proc_dir *ret)
{
	struct proc_dir p = { .dir = -1, .root = -1, .pidfd = pidfd, .pid = pid };
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	p.dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p.dir < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	/* The process still exists, so its number was its own when the directory was opened. */
	if (!proc_dir_alive(&p) || credentials_read_files_owner(p.dir, &p.uid, &p.gid) < 0) {
		proc_dir_done(&p);
		return -ESRCH;
	}
	p.root = openat(p.dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	*ret = p;
	return 0;
}

void proc_dir_done(struct proc_dir *p)
{
	closep(&p->dir);
	closep(&p->root);
}

static FILE *open_text(const struct proc_dir *p, const char *name)
{
	int fd = openat(p->dir, name, O_RDONLY | O_CLOEXEC);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;

	if (!f)
		closep(&fd);
	return f;
}

static bool same_owner(const struct proc_dir *p)
{
	uid_t uid;
	gid_t gid;

	return credentials_read_files_owner(p->dir, &uid, &gid) == 0 && uid == p->uid && gid == p->gid;
}

/* True if the first thread, whose number is the process's, exists and has memory. */
static bool leader_alive(const struct proc_dir *p)
{
	struct credentials c;

	return credentials_read_dir(p->dir, &c) == 0 && credentials_leader_alive(&c);
}

int proc_dir_check_owner(const struct proc_dir *p)
{
	if (same_owner(p))
		return 0;
	if (!proc_dir_alive(p))
		return -ESRCH;
	if (!leader_alive(p))
		return -EAGAIN;
	/* An exec by another thread replaces the leader between the two checks: the owner is read once more. */
	if (same_owner(p))
		return 0;
	return leader_alive(p) ? -EPERM : -EAGAIN;
}

/* Returns the number of the process in its own PID namespace. */
static pid_t inner_pid(const struct proc_dir *p)
{
	struct credentials c;

	return credentials_read_dir(p->dir, &c) == 0 && c.inner_pid ? c.inner_pid : p->pid;
}

/* The kernel writes a newline as \012, and escapes nothing else. */
static char *path_of(char *text)
{
	char *to = text;

	text[strcspn(text, "\n")] = 0;
	for (const char *from = text; *from;) {
		if (strncmp(from, "\\012", 4) == 0) {
			*to++ = '\n';
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = 0;
	return strdup(text);
}

static bool parse_map(char *line, struct proc_map *ret)
{
	unsigned long long start, end, offset, inode;
	struct proc_map m = { 0 };
	char prot[5];
	int at = 0;

	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, prot, &offset, &m.major, &m.minor, &inode,
		   &at) < 7 ||
	    !at || start >= end || strlen(prot) < 4 || prot[2] != 'x' || start >> 63)
		return false;
	m.start = start;
	m.end = end;
	m.offset = offset;
	m.inode = inode;
	m.prot = PROT_EXEC | (prot[0] == 'r' ? PROT_READ : 0) | (prot[1] == 'w' ? PROT_WRITE : 0);
	m.shared = prot[3] == 's';
	m.path = path_of(line + at);
	*ret = m;
	return m.path;
}

int proc_maps_read(const struct proc_dir *p, struct proc_maps *ret)
{
	_cleanup_(proc_maps_done) struct proc_maps maps = { 0 };
	_cleanup_fclose_ FILE *f = open_text(p, "maps");
	_cleanup_free_ char *line = NULL;
	size_t room = 0, n_room = 0, lines = 0;
	struct proc_map m;

	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	while (getline(&line, &room, f) > 0) {
		if (++lines > LINES_MAX || maps.n >= MAPS_MAX) {
			maps.crowded = true;
			break;
		}
		if (!parse_map(line, &m))
			continue;
		if (array_reserve(maps.list, maps.n, &n_room) < 0) {
			free(m.path);
			return -ENOMEM;
		}
		maps.list[maps.n++] = m;
	}
	/* While a process exits, it has no memory any more; so has its first thread where that ends first. */
	if (ferror(f) || !lines)
		return -ESRCH;
	*ret = maps;
	maps = (struct proc_maps){ 0 };
	return 0;
}

void proc_maps_done(struct proc_maps *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->list[i].path);
	free(m->list);
	*m = (struct proc_maps){ 0 };
}

const struct proc_map *proc_maps_next(const struct proc_maps *m, uint64_t addr)
{
	size_t low = 0, high = m->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->list[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->n ? &m->list[low] : NULL;
}

const struct proc_map *proc_maps_find(const struct proc_maps *m, uint64_t addr)
{
	const struct proc_map *next = proc_maps_next(m, addr);

	return next && next->start <= addr ? next : NULL;
}

/* Opens the file of an O_PATH descriptor for reading. */
static int open_found(const struct proc_dir *p, int path, const struct file_identity *id, int *ret_fd)
{
	char name[64];

	if (!id->regular)
		return -EINVAL;
	if (!file_kernel_served(path, id, p->pid))
		return -EMEDIUMTYPE;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", path);
	*ret_fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

int proc_dir_open_file(const struct proc_dir *p, const char *path, int *ret_fd, struct file_identity *ret_id)
{
	_cleanup_close_ int at = openat(p->dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct file_identity id;
	int rc;

	if (at < 0 && p->root >= 0 && !proc_dir_alive(p))
		at = fcntl(p->root, F_DUPFD_CLOEXEC, 0);
	if (at < 0 || file_identify(at, &id) < 0)
		return -errno;
	/* Nothing is looked up in a directory whose file system may not answer. */
	for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
		char step[NAME_MAX + 1];
		size_t n = strcspn(path, "/");
		int next;

		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(step, path, n);
		step[n] = 0;
		path += n;
		if (strcmp(step, "..") == 0)
			return -EINVAL;
		if (!id.directory)
			return -ENOTDIR;
		if (!file_kernel_served(at, &id, p->pid))
			return -EMEDIUMTYPE;
		next = openat(at, step, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		closep(&at);
		at = next;
		rc = file_identify(at, &id);
		if (rc < 0)
			return rc;
	}
	rc = open_found(p, at, &id, ret_fd);
	if (rc == 0)
		*ret_id = id;
	return rc;
}

/* Some file systems report other numbers for a file than its mappings show; then the mapping must still exist. */
static bool still_maps(const struct proc_dir *p, const struct proc_map *m)
{
	_cleanup_(proc_maps_done) struct proc_maps now = { 0 };
	const struct proc_map *n = proc_maps_read(p, &now) < 0 ? NULL : proc_maps_find(&now, m->start);

	return n && n->start == m->start && n->end == m->end && n->offset == m->offset && n->inode == m->inode &&
	       n->major == m->major && n->minor == m->minor;
}

static bool is_mapped_there(const struct file_identity *id, const struct proc_map *m)
{
	return id->inode == m->inode && id->major == m->major && id->minor == m->minor;
}

int proc_dir_open_map(const struct proc_dir *p, const struct proc_map *m, int *ret_fd)
{
	_cleanup_close_ int path = -1, fd = -1;
	struct file_identity id;
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)m->start, (unsigned long long)m->end);
	path = openat(p->dir, name, O_PATH | O_CLOEXEC);
	if (path >= 0) {
		rc = file_identify(path, &id);
		/* Another file may have been mapped here since the list was read. */
		if (rc == 0 && !is_mapped_there(&id, m) && !still_maps(p, m))
			return -ENOENT;
		return rc < 0 ? rc : open_found(p, path, &id, ret_fd);
	}
	if (errno != EPERM && errno != EACCES)
		return -errno;
	rc = proc_dir_open_file(p, m->path, &fd, &id);
	if (rc < 0)
		return rc;
	if (!is_mapped_there(&id, m))
		return -ESTALE;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int proc_dir_open_perf_map(pid_t pid, int pidfd, uid_t uid, int *ret_fd, uint64_t *ret_size)
{
	_cleanup_(proc_dir_done) struct proc_dir p = { .dir = -1, .root = -1 };
	_cleanup_close_ int fd = -1;
	struct file_identity id;
	char path[64];
	int rc = proc_dir_open(pid, pidfd, &p);

	if (rc == -ESRCH)
		p = (struct proc_dir){ .dir = -1, .root = open("/", O_PATH | O_CLOEXEC), .pidfd = pidfd, .pid = pid };
	if (rc < 0 && p.root < 0)
		return rc;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)inner_pid(&p));
	rc = proc_dir_open_file(&p, path, &fd, &id);
	if (rc < 0)
		return rc;
	if (id.uid != uid)
		return -EPERM;
	if (id.size > PERF_MAP_MAX)
		return -EFBIG;
	*ret_fd = TAKE_FD(fd);
	*ret_size = id.size;
	return 0;
}

uint64_t proc_page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

int proc_dir_read_pages(const struct proc_dir *p, uint64_t start, uint64_t end, uint8_t *ret)
{
	_cleanup_close_ int fd = openat(p->dir, "pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t size = proc_page_size(), page = start / size, n = (end - start) / size;

	if (fd < 0)
		return -errno;
	while (n) {
		uint64_t entries[512];
		ssize_t got = pread(fd, entries, MIN(n, ELEMENTS(entries)) * 8, (off_t)(page * 8));

		if (got < 8)
			return got < 0 ? -errno : -ESRCH;
		for (ssize_t i = 0; i < got / 8; i++)
			*ret++ =
			    (entries[i] >> 62 ? PROC_PAGE_PRESENT : 0) | (entries[i] >> 61 & 1 ? PROC_PAGE_FILE : 0);
		page += (uint64_t)got / 8;
		n -= (uint64_t)got / 8;
	}
	return 0;
}

int proc_dir_open_memory(const struct proc_dir *p)
{
	int fd = openat(p->dir, "mem", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}
