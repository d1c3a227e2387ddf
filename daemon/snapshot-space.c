/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <sys/statvfs.h>

#include "daemon/capture/process/file-identity.h"
#include "daemon/directory-tree.h"
#include "daemon/perf-map.h"
#include "daemon/snapshot-space.h"
#include "lib/base/util.h"
#include "lib/code/memory-path.h"

enum {
	BESIDE_TRACE = 256 << 10, /* estimated bytes of a snapshot besides trace and code */
	JSON_ESCAPED = 6,         /* bytes of JSON for one of a text */
};

/* Returns the most bytes that one image takes: in snapshot.json, in its list of losses, and its copy. */
static uint64_t image_need(const struct snapshot_writer *sw, const struct code_image *image, uint64_t *copied)
{
	const struct target_file *file = snapshot_writer_file(sw, image->file);
	uint64_t need = 1024 + 2 * JSON_ESCAPED * strlen(image->path);
	struct file_identity id;

	if (file && file_identify(file->fd, &id) == 0 && id.links == 0 && id.size <= SNAPSHOT_COPY_FILE_MAX &&
	    *copied + id.size <= SNAPSHOT_COPY_ALL_MAX) {
		*copied += id.size;
		need += directory_tree_room(id.size);
	}
	return need;
}

bool snapshot_space_has_generated(const struct snapshot_writer *sw)
{
	for (size_t n = 0; n < sw->log.n_images; n++)
		if (is_memory_path(sw->log.images[n].path))
			return true;
	return sw->log.pieces || sw->copy->jitdump.fd >= 0;
}

/* Returns the size of the perf map, if it is going to be copied. */
static uint64_t perf_map_size(const struct snapshot_writer *sw)
{
	_cleanup_close_ int fd = -1;
	uint64_t size = 0;

	if (snapshot_space_has_generated(sw) && perf_map_open(sw->target, sw->account, &fd, &size) < 0)
		return 0;
	return size;
}

bool snapshot_space_has_kernel(const struct snapshot_writer *sw)
{
	return sw->copy->kernel.size != 0;
}

uint64_t snapshot_space_need(const struct snapshot_writer *sw)
{
	const struct capture_copy *c = sw->copy;
	uint64_t copied = 0, need = BESIDE_TRACE + perf_map_size(sw) + c->records.size + 2 * c->samples.size +
				    c->notes.size + c->missing.size * JSON_ESCAPED;

	/* The log holds the bytes of code, and becomes records of mappings and names. */
	need += 2 * c->log_size + c->n_intervals * 128 + c->n_threads * 512;
	for (size_t n = 0; n < c->n_threads; n++)
		need += c->threads[n].size + c->threads[n].end_size;
	for (size_t n = 0; n < c->n_rings; n++)
		need += c->rings[n].size + c->rings[n].n_slices * 128;
	if (c->jitdump.fd >= 0)
		need += MIN(c->jitdump.size, (uint64_t)SNAPSHOT_JITDUMP_MAX);
	if (snapshot_space_has_kernel(sw))
		need += c->kernel.size;
	for (size_t n = 0; n < sw->log.n_images; n++)
		need += image_need(sw, &sw->log.images[n], &copied);
	return need;
}

int snapshot_space_check(struct snapshot_writer *sw, int spool_fd)
{
	uint64_t free_bytes;
	struct statvfs fs;

	if (fstatvfs(spool_fd, &fs) < 0)
		return -errno;
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (free_bytes >= sw->need + sw->keep_free)
		return 0;
	return reason_set(&sw->reason, -ENOSPC,
			  "not enough space for the spool: the snapshot needs up to %llu KiB, %llu KiB must stay free "
			  "(spool-keep-free), and %llu KiB are available",
			  (unsigned long long)sw->need >> 10, (unsigned long long)sw->keep_free >> 10,
			  (unsigned long long)free_bytes >> 10);
}
