/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/decoder/debug-places.h"
#include "lib/local/bundle.h"
#include "lib/local/finder.h"

enum { PATHS_MAX = 4096, DEPTH_MAX = 8 };

static void forget_candidates(struct finder *f)
{
	f->opened = NULL;
	for (size_t i = 0; i < f->n_paths; i++)
		free(f->paths[i]);
	f->n_paths = f->next = 0;
	f->asked = false;
}

void finder_done(struct finder *f)
{
	forget_candidates(f);
	free(f->paths);
	f->paths = NULL;
}

static void add_candidate(struct finder *f, const char *fmt, ...) _printf_(2, 3);
static void add_candidate(struct finder *f, const char *fmt, ...)
{
	va_list args;
	char *path;
	int n;

	if (!f->paths)
		f->paths = calloc(PATHS_MAX, sizeof(*f->paths));
	if (!f->paths || f->n_paths == PATHS_MAX)
		return;
	va_start(args, fmt);
	n = vasprintf(&path, fmt, args);
	va_end(args);
	if (n >= 0)
		f->paths[f->n_paths++] = path;
}

/* Returns the build-id of a request, or "" if it is invalid: it comes from a trace and becomes part of a path. */
static const char *checked_build_id(const struct decoder_event *q)
{
	return debug_places_id_valid(q->build_id) ? q->build_id : "";
}

static void add_by_build_id(struct finder *f, const char *dir, const char *id)
{
	if (!*id)
		return;
	add_candidate(f, "%s/.build-id/%.2s/%s", dir, id, id + 2);
	add_candidate(f, "%s/.build-id/%.2s/%s.debug", dir, id, id + 2);
	/* The layout of perf's build-id cache. */
	add_candidate(f, "%s/.build-id/%.2s/%s/elf", dir, id, id + 2);
	add_candidate(f, "%s/.build-id/%.2s/%s/vdso", dir, id, id + 2);
}

static bool is_wanted(const FTSENT *e, const char *name)
{
	size_t size = e->fts_namelen;

	return !name || strcmp(e->fts_name, name) == 0 || (size > 6 && strcmp(e->fts_name + size - 6, ".debug") == 0);
}

/*
 * Adds the regular files below dir, since a file of any name may have the build-id. name: only files of this name and
 * files whose names end in ".debug"; NULL: all.
 */
static void add_tree(struct finder *f, const char *dir, const char *name)
{
	char *const roots[] = { (char *)dir, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	FTSENT *e;

	while (tree && f->n_paths < PATHS_MAX && (e = fts_read(tree))) {
		if (e->fts_level > DEPTH_MAX)
			fts_set(tree, e, FTS_SKIP);
		else if (e->fts_info == FTS_F && e->fts_statp->st_size && is_wanted(e, name))
			add_candidate(f, "%s", e->fts_path);
	}
	if (tree)
		fts_close(tree);
}

static void add_kernel_images(struct finder *f, const char *dir)
{
	add_candidate(f, "%s/kcore", dir);
	add_candidate(f, "%s/vmlinux", dir);
}

/* Adds the list of the kernel's symbols beside the first kcore, which is a candidate for its image. */
static void add_kernel_names(struct finder *f)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < f->n_dirs; i++)
		if (snprintf(path, sizeof(path), "%s/kcore", f->dirs[i]) < (int)sizeof(path) &&
		    access(path, F_OK) == 0) {
			add_candidate(f, "%s/kallsyms", f->dirs[i]);
			return;
		}
}

static bool is_kernel(const struct decoder_event *q)
{
	return strncmp(q->path, "[kernel", 7) == 0;
}

static bool is_kallsyms(const struct decoder_event *q)
{
	return is_kernel(q) && q->debug && strcmp(q->debug, "kallsyms") == 0;
}

static void ask_servers(struct finder *f, const char *id)
{
	char path[PATH_MAX];

	if (f->fetch(id, f->debug, path, sizeof(path)))
		add_candidate(f, "%s", path);
}

static void gather_image_candidates(struct finder *f, const struct decoder_event *q)
{
	const char *id = checked_build_id(q), *path = q->path, *name = strrchr(path, '/');

	forget_candidates(f);
	for (size_t i = 0; i < f->n_dirs; i++) {
		const char *dir = f->dirs[i];

		add_by_build_id(f, dir, id);
		if (is_kernel(q))
			add_kernel_images(f, dir);
		if (path[0] == '/') {
			add_candidate(f, "%s%s", dir, path);
			add_candidate(f, "%s%s", dir, name);
		}
	}
	if (path[0] == '/')
		add_candidate(f, "%s", path);
	if (*id) {
		add_by_build_id(f, "/usr/lib/debug", id);
		for (size_t i = 0; i < f->n_dirs; i++)
			add_tree(f, f->dirs[i], NULL);
	}
}

/* Searches in the order of debuggers: by build-id, then by the name in the image's .gnu_debuglink, beside the image, in
 * its subdirectory .debug, and below /usr/lib/debug.
 */
static void gather_debug_candidates(struct finder *f, const struct decoder_event *q)
{
	const char *id = checked_build_id(q), *path = q->path, *slash = path[0] == '/' ? strrchr(path, '/') : NULL,
		   *link = q->debug, *program = NULL;
	_cleanup_(debug_places_done) struct debug_places places = { 0 };
	char cache[PATH_MAX];
	int dir = slash ? (int)(slash - path) : 0;

	forget_candidates(f);
	if (is_kallsyms(q)) {
		add_kernel_names(f);
		return;
	}
	for (size_t i = 0; i < f->n_dirs; i++) {
		if (*id)
			add_candidate(f, "%s/.build-id/%.2s/%s.debug", f->dirs[i], id, id + 2);
		if (*link) {
			add_candidate(f, "%s%.*s/%s", f->dirs[i], dir, path, link);
			add_candidate(f, "%s/%s", f->dirs[i], link);
		}
		add_tree(f, f->dirs[i], *link ? link : ".debug");
	}
	if (f->snapshot)
		json_get_str(f->snapshot, "exe", &program);
	debug_places_list(&(struct debug_wish){ .path = path,
						.program = program,
						.build_id = id,
						.link = link,
						.cache = debug_places_cache(cache, sizeof(cache)) ? cache : NULL },
			  &places);
	for (size_t i = 0; i < places.n; i++)
		add_candidate(f, "%s", places.paths[i]);
}

/*
 * Returns 0 or an errno. A decoder that a hostile trace has taken over could copy what it gets into its output, so it
 * gets private files only if they are ELF files, or kallsyms, a text. An image that all users may read need not be ELF:
 * code without that header may be mapped, too.
 */
static int check_candidate(int fd, const struct decoder_event *q)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return EINVAL;
	if (is_kallsyms(q) || (!q->debug && st.st_mode & S_IROTH))
		return 0;
	return io_is_elf(fd) ? 0 : ENOEXEC;
}

/* Opens the next candidate that may be it. O_NONBLOCK, since a recorded path may name a FIFO or device. */
static int open_next_candidate(struct finder *f, const struct decoder_event *q, int *ret_error)
{
	int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (is_kallsyms(q) ? O_NOFOLLOW : 0);

	while (f->next < f->n_paths) {
		const char *path = f->paths[f->next++];
		int fd = open(path, flags);

		*ret_error = fd < 0 ? errno : check_candidate(fd, q);
		if (*ret_error == 0) {
			f->opened = path;
			return fd;
		}
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

static const char *reason_of(int error)
{
	return error == EINVAL    ? "not a regular file"
	       : error == ENOEXEC ? "neither an ELF file nor readable by all users"
				  : strerror(error);
}

static int set_reason(char *ret_reason, size_t size, const char *why)
{
	snprintf(ret_reason, size, "%s", why);
	return -1;
}

/* Opens a captured copy. The name must not lead out of the snapshot's directory. */
static int open_captured(const struct finder *f, const char *name)
{
	int fd, rc = f->bundle ? bundle_open(f->bundle_fd, name) : io_open_beneath(f->dir, name, &fd);

	return rc < 0 || f->bundle ? rc : fd;
}

int finder_open(struct finder *f, const struct decoder_event *q, char *ret_reason, size_t size)
{
	size_t number;
	json_object *known = q->debug || !f->snapshot ? NULL : decoder_find_image(f->snapshot, q, &number);
	const char *file, *missing;
	int fd, error = ENOENT;
	uint64_t recorded;
	struct stat st;

	f->opened = NULL;
	if (known && json_get_str(known, "file", &file) == 0) {
		fd = q->attempt ? -ENOENT : open_captured(f, file);
		return fd < 0 ? set_reason(ret_reason, size, strerror(-fd)) : fd;
	}
	if (known && json_get_str(known, "missing", &missing) == 0 && !*checked_build_id(q))
		return set_reason(ret_reason, size, missing);
	if (f->bundle) {
		fd = bundle_find(f->bundle, f->bundle_fd, q);
		return fd < 0 ? set_reason(ret_reason, size, "the bundle does not have it") : fd;
	}
	if (f->index != (int64_t)q->index + 1 || f->debug != !!q->debug || !q->attempt)
		(q->debug ? gather_debug_candidates : gather_image_candidates)(f, q);
	f->index = (int64_t)q->index + 1;
	f->debug = q->debug;
	fd = open_next_candidate(f, q, &error);
	if (fd < 0 && *checked_build_id(q)) {
		/* The servers are asked once for each image. */
		if (!f->asked && f->fetch)
			ask_servers(f, q->build_id);
		f->asked = true;
		fd = open_next_candidate(f, q, &error);
	}
	if (fd < 0)
		return set_reason(ret_reason, size, reason_of(error));
	/* Without a build-id only the recorded size can identify the file. */
	if (known && !*checked_build_id(q) && json_get_u64(known, "size", &recorded) == 0 && fstat(fd, &st) == 0 &&
	    (uint64_t)st.st_size != recorded) {
		close(fd);
		return set_reason(ret_reason, size, "the file has changed since it was traced");
	}
	return fd;
}
