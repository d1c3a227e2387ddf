/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/served-files.h"
#include "client/trace-identity.h"
#include "lib/base/array.h"
#include "lib/base/io.h"

enum { FILES_MAX = 20000, DEPTH_MAX = 8, PIECE = 256 << 10 };

/* File systems keep times of at least this resolution. */
#define TIME_STEP_NS 2000000000u

/* The regular files below a directory, by their paths relative to it. */
struct file_list {
	char **names;
	size_t n, capacity;
	const struct local_decode *decode;
	struct digest digest;
	uint64_t done, total; /* bytes */
	bool settled;
};

static void file_list_done(struct file_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->names[i]);
	free(l->names);
}

static bool is_made_by_daemon(const struct file_list *l, const char *name)
{
	return l->decode->file.finder.snapshot &&
	       (strcmp(name, "store") == 0 || strcmp(name, "state.json") == 0 || strcmp(name, "trace.pftrace") == 0);
}

static int add_name(struct file_list *l, const char *name)
{
	char *copy;

	if (is_made_by_daemon(l, name))
		return 0;
	if (l->n == FILES_MAX)
		return -E2BIG;
	if (array_reserve(l->names, l->n, &l->capacity) < 0 || !(copy = strdup(name)))
		return -ENOMEM;
	l->names[l->n++] = copy;
	return 0;
}

/* Adds the files of a directory; takes its descriptor. Symbolic links are left out: a decode opens none. */
static int list_directory(struct file_list *l, int fd, const char *prefix, unsigned depth)
{
	_cleanup_closedir_ DIR *dir = fdopendir(fd);
	const struct dirent *e;
	int rc = 0;

	if (!dir) {
		rc = -errno;
		close(fd);
		return rc;
	}
	while (rc == 0 && (e = readdir(dir))) {
		_cleanup_free_ char *name = NULL;
		struct stat st;
		int below;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (asprintf(&name, "%s%s%s", prefix, *prefix ? "/" : "", e->d_name) < 0)
			return -ENOMEM;
		if (S_ISREG(st.st_mode))
			rc = add_name(l, name);
		if (!S_ISDIR(st.st_mode))
			continue;
		below = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below >= 0)
			rc = depth == DEPTH_MAX ? (close(below), -E2BIG) : list_directory(l, below, name, depth + 1);
	}
	return rc;
}

static int compare_names(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Calls add() for each file of the input. */
static int for_each_file(struct file_list *l, int (*add)(struct file_list *l, const char *name, int fd))
{
	const struct local_decode *d = l->decode;
	int fd, rc = 0;

	if (d->file.finder.dir < 0 || d->file.regs)
		return add(l, "", d->file.input);
	if (!l->n) {
		fd = openat(d->file.finder.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = fd < 0 ? -errno : list_directory(l, fd, "", 0);
		if (l->n)
			qsort(l->names, l->n, sizeof(*l->names), compare_names);
	}
	for (size_t i = 0; rc == 0 && i < l->n; i++) {
		rc = io_open_beneath(d->file.finder.dir, l->names[i], &fd);
		if (rc < 0)
			break;
		rc = add(l, l->names[i], fd);
		close(fd);
	}
	return rc;
}

static uint64_t time_ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int add_identity(struct file_list *l, const char *name, int fd)
{
	char identity[SERVED_FILES_IDENTITY];
	uint64_t now = now_ns(CLOCK_REALTIME);
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	l->total += (uint64_t)st.st_size;
	if (MAX(time_ns(st.st_mtim), time_ns(st.st_ctim)) + TIME_STEP_NS > now)
		l->settled = false;
	served_files_identity(&st, identity);
	digest_add_text(&l->digest, name);
	digest_add_text(&l->digest, identity);
	return 0;
}

int trace_identity_files(const struct local_decode *d, char ret[DIGEST_TEXT], bool *ret_settled)
{
	_cleanup_(file_list_done) struct file_list l = { .decode = d, .settled = true };
	int rc;

	digest_begin(&l.digest);
	rc = for_each_file(&l, add_identity);
	if (rc < 0)
		return rc;
	digest_end(&l.digest, ret);
	*ret_settled = l.settled;
	return 0;
}

static int add_size(struct file_list *l, const char *name, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	l->total += (uint64_t)st.st_size;
	return 0;
}

static int add_contents(struct file_list *l, const char *name, int fd)
{
	_cleanup_free_ char *bytes = malloc(PIECE);
	uint64_t at = 0, size;
	struct stat st;
	ssize_t n;

	if (!bytes || fstat(fd, &st) < 0)
		return bytes ? -errno : -ENOMEM;
	/* The size separates the contents from the next name. */
	size = htole64((uint64_t)st.st_size);
	digest_add_text(&l->digest, name);
	digest_add(&l->digest, &size, sizeof(size));
	do {
		n = io_pread(fd, bytes, PIECE, at);
		if (n <= 0)
			break;
		digest_add(&l->digest, bytes, (size_t)n);
		at += (uint64_t)n;
		l->done += (uint64_t)n;
		client_progress(l->decode->client, "reading", l->done, l->total);
	} while (n == PIECE);
	if (n < 0)
		return (int)n;
	return at == (uint64_t)st.st_size ? 0 : -EBUSY;
}

int trace_identity_contents(const struct local_decode *d, char ret[DIGEST_TEXT])
{
	_cleanup_(file_list_done) struct file_list l = { .decode = d };
	int rc;

	digest_begin(&l.digest);
	rc = for_each_file(&l, add_size);
	if (rc == 0)
		rc = for_each_file(&l, add_contents);
	client_progress_end(d->client);
	if (rc == 0)
		digest_end(&l.digest, ret);
	return rc;
}
