/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ending.h"
#include "client/output-files.h"
#include "lib/base/escape.h"

static int report_too_many(struct client *c)
{
	return client_usage(c, "at most %d output files are accepted", DECODER_OUTPUTS_MAX);
}

int output_files_add_format(struct client *c, struct output_files *a, const char *format)
{
	if (a->n_formats == DECODER_OUTPUTS_MAX)
		return report_too_many(c);
	a->files[a->n_formats++].format = format;
	return 0;
}

int output_files_add_path(struct client *c, struct output_files *a, const char *path)
{
	if (a->n_paths == DECODER_OUTPUTS_MAX)
		return report_too_many(c);
	a->files[a->n_paths++].path = strcmp(path, "-") == 0 ? NULL : path;
	return 0;
}

int output_files_finish(struct client *c, struct output_files *a, const char *format)
{
	size_t printed = 0;

	if (!a->n_formats)
		a->files[a->n_formats++].format = format;
	a->n = a->n_formats;
	if (a->n_paths > a->n)
		return client_usage(c, "%zu output files for %zu formats: each -o requires a --to", a->n_paths, a->n);
	if (a->n > 1 && a->n_paths < a->n)
		return client_usage(c,
				    "no output file for %s: with several --to each requires an -o, in the same order",
				    esc(a->files[a->n_paths].format));
	for (size_t i = 0; i < a->n; i++) {
		printed += !a->files[i].path;
		for (size_t k = 0; k < i; k++) {
			if (strcmp(a->files[i].format, a->files[k].format) == 0)
				return client_usage(c, "format %s is given twice", esc(a->files[i].format));
			if (a->files[i].path && a->files[k].path && strcmp(a->files[i].path, a->files[k].path) == 0)
				return client_usage(c, "output file %s is given twice", esc(a->files[i].path));
		}
	}
	return printed > 1 ? client_usage(c, "only one format can be written to standard output") : 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Further inputs, and outputs that have been opened. */
static struct stat taken[DECODER_OUTPUTS_MAX + OUTPUT_FILES_INPUTS_MAX];
static size_t n_taken;

void output_files_protect(const char *input)
{
	if (n_taken < ELEMENTS(taken) && stat(input, &taken[n_taken]) == 0)
		n_taken++;
}

static bool is_taken(const char *path)
{
	struct stat output;

	if (stat(path, &output) < 0)
		return false;
	for (size_t i = 0; i < n_taken; i++)
		if (is_same(&taken[i], &output))
			return true;
	return false;
}

/* What a snapshot of csightd or of Arm's tools consists of, unlike outputs that were put there. */
static bool is_of_snapshot(const char *name)
{
	static const char *const names[] = { "trace.perf.data", "snapshot.json", "state.json" };
	const char *suffix = strrchr(name, '.');

	for (size_t i = 0; i < ELEMENTS(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return suffix && (strcmp(suffix, ".ini") == 0 || strcmp(suffix, ".bin") == 0);
}

/* True if the file is a part of the snapshot in this directory. */
static bool is_part(const char *path, const struct stat *directory)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	struct stat st;
	bool part = slash && is_of_snapshot(slash + 1);

	if (!slash || slash == real)
		return false;
	*slash = 0;
	slash = strrchr(real, '/');
	if (slash > real && strcmp(slash, "/code") == 0) {
		*slash = 0;
		part = true;
	}
	return part && stat(real, &st) == 0 && is_same(&st, directory);
}

/* The descriptor may be of a copy of what name has, or name may be the directory of a snapshot. */
static bool is_input(const char *path, const char *name, int fd)
{
	struct stat output, input;

	if (stat(path, &output) < 0 || !S_ISREG(output.st_mode))
		return false;
	if (stat(name, &input) == 0 && (S_ISDIR(input.st_mode) ? is_part(path, &input) : is_same(&input, &output)))
		return true;
	return fstat(fd, &input) == 0 && is_same(&input, &output);
}

static struct unfinished {
	const char *path; /* NULL: none */
	int fd;
} unfinished[DECODER_OUTPUTS_MAX];

/* Async-signal-safe. */
static void remove_output(void *output)
{
	const struct unfinished *u = output;
	struct stat opened, named;

	if (fstat(u->fd, &opened) < 0 || !S_ISREG(opened.st_mode))
		return;
	if (lstat(u->path, &named) == 0 && is_same(&opened, &named))
		unlink(u->path);
	else if (ftruncate(u->fd, 0) < 0)
		return;
}

static void add_unfinished(const char *path, int fd)
{
	struct unfinished *u = unfinished;

	while (u->path)
		u++;
	*u = (struct unfinished){ path, fd };
	ending_add(remove_output, u);
}

int output_files_open(const char *path, int mode, const char *input, int input_fd, int *ret)
{
	int flags = O_CREAT | O_TRUNC | O_CLOEXEC, fd;

	if (is_input(path, input, input_fd)) {
		client_error("%s is the input: name another output file", esc(path));
		return STATUS_FAILED;
	}
	if (is_taken(path)) {
		client_error("%s is another input or output: name another output file", esc(path));
		return STATUS_FAILED;
	}
	fd = open(path, mode | flags, 0666);
	if (fd < 0 && mode == O_RDWR && errno != ENOENT)
		fd = open(path, O_WRONLY | flags, 0666);
	if (fd < 0) {
		client_error("cannot write %s: %s%s", esc(path), strerror(errno), client_write_advice(errno));
		return STATUS_FAILED;
	}
	add_unfinished(path, fd);
	if (n_taken < ELEMENTS(taken) && fstat(fd, &taken[n_taken]) == 0 && S_ISREG(taken[n_taken].st_mode))
		n_taken++;
	*ret = fd;
	return STATUS_OK;
}

/* Some file systems report at a close that they could not write; that of any descriptor of the file will do. */
static int written(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 || close(copy) < 0 ? -errno : 0;
}

int output_files_end(int fd, int rc)
{
	rc = rc == 0 ? written(fd) : rc;
	for (size_t i = 0; i < ELEMENTS(unfinished); i++) {
		struct unfinished *u = &unfinished[i];

		if (!u->path || u->fd != fd)
			continue;
		if (rc < 0)
			remove_output(u);
		ending_drop(u);
		u->path = NULL;
	}
	return rc;
}
