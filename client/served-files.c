/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <string.h>

#include "client/served-files.h"
#include "lib/base/io.h"

void served_files_identity(const struct stat *st, char ret[SERVED_FILES_IDENTITY])
{
	snprintf(ret, SERVED_FILES_IDENTITY, "%jx %jx %jx %jx.%lx %jx.%lx", (uintmax_t)st->st_dev,
		 (uintmax_t)st->st_ino, (uintmax_t)st->st_size, (uintmax_t)st->st_mtim.tv_sec,
		 (unsigned long)st->st_mtim.tv_nsec, (uintmax_t)st->st_ctim.tv_sec, (unsigned long)st->st_ctim.tv_nsec);
}

/* Adds the identity of an open file, if there is one. */
static void add_identity(json_object *o, int fd)
{
	char identity[SERVED_FILES_IDENTITY];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	served_files_identity(&st, identity);
	json_add_str(o, "identity", identity);
}

void served_files_add(json_object *array, const struct finder *f, const struct decoder_event *request, int fd)
{
	bool beneath = request->type == DECODER_FILE;
	json_object *o;

	/* An image from a copy in the snapshot is a part of the input. */
	if (!beneath && fd >= 0 && !f->opened)
		return;
	o = json_object_new_object();
	json_add_str(o, "path", request->path);
	json_add_bool(o, "beneath", beneath);
	if (!beneath) {
		json_add_u64(o, "index", request->index);
		json_add_u64(o, "inode", request->inode);
		json_add_u64(o, "attempt", request->attempt);
		json_add_str(o, "build_id", request->build_id);
		json_add_str(o, "debug", request->debug);
		if (f->opened)
			json_add_bytes(o, "file", f->opened);
	}
	add_identity(o, fd);
	json_array_add(array, o);
}

static bool has_identity(int fd, const char *identity)
{
	char now[SERVED_FILES_IDENTITY];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 && !identity;
	served_files_identity(&st, now);
	return identity && strcmp(now, identity) == 0;
}

static bool file_unchanged(json_object *o, struct finder *f)
{
	struct decoder_event q = { .type = DECODER_IMAGE };
	const char *identity = NULL, *file = NULL;
	char reason[256];
	_cleanup_close_ int fd = -1;
	bool beneath = false;
	uint64_t index = 0;

	json_get_bool(o, "beneath", &beneath);
	json_get_str(o, "identity", &identity);
	if (json_get_str(o, "path", &q.path) < 0)
		return false;
	if (beneath) {
		if (f->dir < 0 || io_open_beneath(f->dir, q.path, &fd) < 0)
			fd = -1;
		return has_identity(fd, identity);
	}
	json_get_u64(o, "index", &index);
	json_get_u64(o, "inode", &q.inode);
	json_get_u64(o, "attempt", &q.attempt);
	json_get_str(o, "build_id", &q.build_id);
	json_get_str(o, "debug", &q.debug);
	json_get_str(o, "file", &file);
	q.index = (uint32_t)index;
	fd = finder_open(f, &q, reason, sizeof(reason));
	/* A file that debuginfod fetched is in its cache. */
	if (fd < 0 && file)
		fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return has_identity(fd, identity);
}

bool served_files_unchanged(json_object *array, struct finder *f)
{
	bool (*fetch)(const char *build_id, bool debug, char *ret, size_t size) = f->fetch;
	bool unchanged = true;

	f->fetch = NULL;
	for (size_t i = 0; unchanged && i < json_array_size(array); i++)
		unchanged = file_unchanged(json_object_array_get_idx(array, i), f);
	f->fetch = fetch;
	/* The decode, if there is one, begins with its own requests. */
	f->index = 0;
	return unchanged;
}

bool served_files_any_missing(json_object *array)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		const char *identity;

		if (json_get_str(json_object_array_get_idx(array, i), "identity", &identity) < 0)
			return true;
	}
	return false;
}
