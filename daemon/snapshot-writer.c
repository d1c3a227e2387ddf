/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "daemon/capture/emu/emu.h"
#include "daemon/capture/process/code-log.h"
#include "daemon/directory-tree.h"
#include "daemon/perf-map.h"
#include "daemon/snapshot-space.h"
#include "daemon/snapshot-writer.h"
#include "daemon/snapshot.h"
#include "daemon/trace-file.h"
#include "lib/base/hex.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "lib/perfdata/sums.h"
#include "lib/perfdata/write.h"

static void add_missing(struct snapshot_writer *sw, const char *fmt, ...) _printf_(2, 3);

static void add_missing(struct snapshot_writer *sw, const char *fmt, ...)
{
	char text[EMU_PATH_SIZE + 256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	/* Names in it come from the target and may be any bytes. */
	if (json_array_size(sw->missing) < SNAPSHOT_MISSING_MAX &&
	    sw->missing_bytes + strlen(text) <= SNAPSHOT_MISSING_BYTES) {
		json_array_add_bytes(sw->missing, text);
		sw->missing_bytes += strlen(text);
	} else {
		sw->unlisted++;
	}
}

/* The program chooses how many losses there are: the rest is a number. */
static void end_missing(struct snapshot_writer *sw)
{
	char text[64];

	if (!sw->unlisted)
		return;
	snprintf(text, sizeof(text), "%zu further losses are not listed", sw->unlisted);
	json_array_add_bytes(sw->missing, text);
}

struct target_file *snapshot_writer_file(const struct snapshot_writer *sw, uint32_t id)
{
	for (size_t n = sw->n_files; id && n-- > 0;)
		if (sw->files[n]->id == id)
			return sw->files[n];
	return NULL;
}

enum { SLOW_NS = 100000000, SLOW_MAX = 10 };

/* Reads a part of a file. A program that keeps the file locked can let it go for a moment, again and again. */
static ssize_t read_part(struct snapshot_writer *sw, int fd, void *ret, size_t size, uint64_t at)
{
	uint64_t before = now_ns(CLOCK_MONOTONIC);
	ssize_t n = io_pread_bounded(fd, ret, size, (off_t)at);

	sw->slow += now_ns(CLOCK_MONOTONIC) - before > SLOW_NS;
	return n >= 0 && sw->slow > SLOW_MAX ? -EBUSY : n;
}

/* Copies a file to path, which is code/NAME in dir. -EBUSY: a program keeps its lock. */
static int copy_file(struct snapshot_writer *sw, int dir, const char *path, int from, uint64_t size)
{
	_cleanup_close_ int to = -1;
	uint64_t at = 0;

	if (mkdirat(dir, "code", 0700) < 0 && errno != EEXIST)
		return -errno;
	to = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	while (at < size) {
		char buffer[64 << 10];
		ssize_t got = read_part(sw, from, buffer, MIN(sizeof(buffer), size - at), at);
		int rc;

		if (got < 0) {
			unlinkat(dir, path, 0);
			return (int)got;
		}
		if (got == 0)
			break;
		rc = io_write(to, buffer, (size_t)got);
		if (rc < 0)
			return rc;
		at += (uint64_t)got;
	}
	return fsync(to) < 0 ? -errno : 0;
}

/* As copy_file(). After a locked file no other one is waited for. */
static int copy_user_file(struct snapshot_writer *sw, int dir, const char *path, int from, uint64_t size)
{
	int rc = sw->locked ? -EBUSY : copy_file(sw, dir, path, from, size);

	sw->locked |= rc == -EBUSY;
	return rc;
}

static void add_build_id(json_object *o, const uint8_t *id, size_t size)
{
	char hex[2 * EMU_BUILD_ID_MAX + 1];

	hex_encode(id, size, hex);
	if (size)
		json_add_str(o, "build_id", hex);
}

static int add_image(struct snapshot_writer *sw, int dir, const struct code_image *image, uint64_t *copied,
		     json_object *images)
{
	json_object *o = json_object_new_object();
	struct target_file *file = snapshot_writer_file(sw, image->file);
	struct file_identity id = { .major = image->major, .minor = image->minor, .inode = image->inode };
	size_t n = sw->n_images;
	char text[64];
	int rc = 0;

	if (file && file_identify(file->fd, &id) < 0)
		file = NULL;
	json_add_bytes(o, "path", image->path);
	snprintf(text, sizeof(text), "%u:%u", id.major, id.minor);
	json_add_str(o, "device", text);
	json_add_u64(o, "inode", id.inode);
	json_add_u64(o, "size", id.size);
	json_add_u64(o, "mtime", id.mtime);
	add_build_id(o, image->build_id, image->build_id_size);
	if (!file) {
		json_add_str(o, "missing", "the traced program did not pass a descriptor of it");
		/* Sources that open files themselves report the reason in the copy. */
		if (sw->target->ring.source->ops == &emu_capture)
			add_missing(sw, "%s: the traced program did not pass a descriptor of this file", image->path);
	} else if (id.links == 0) {
		if (!file_kernel_served(file->fd, &id, sw->target->pid) || id.size > SNAPSHOT_COPY_FILE_MAX ||
		    *copied + id.size > SNAPSHOT_COPY_ALL_MAX) {
			json_add_str(o, "missing", "deleted, and not copied");
			add_missing(sw, "%s: deleted, and too large or too slow to be copied", image->path);
		} else {
			snprintf(text, sizeof(text), "code/%zu", n);
			rc = copy_user_file(sw, dir, text, file->fd, id.size);
			*copied += id.size;
			json_add_str(o, rc == -EBUSY ? "missing" : "file", rc == -EBUSY ? "deleted, and locked" : text);
			if (rc == -EBUSY)
				add_missing(sw, "%s: deleted, and locked by a program", image->path);
		}
	}
	sw->image_files[sw->n_images++] = file;
	json_array_add(images, o);
	return rc == -EBUSY ? 0 : rc;
}

/* Copies the perf map, which names generated code, as an image, so that the decoder requests it like one. */
static int add_perf_map(struct snapshot_writer *sw, int dir, json_object *spec, json_object *images)
{
	static const char copy[] = "code/perf.map";
	_cleanup_close_ int fd = -1;
	json_object *o;
	uint64_t size;
	int rc = perf_map_open(sw->target, sw->account, &fd, &size);

	if (rc == 0) {
		rc = copy_user_file(sw, dir, copy, fd, size);
		if (rc < 0 && rc != -EBUSY)
			return rc;
	}
	if (rc < 0) {
		if (rc == -EPERM || rc == -EFBIG || rc == -ETIMEDOUT || rc == -EBUSY)
			add_missing(sw, "cannot copy its perf map: %s",
				    rc == -EFBIG   ? "it is too large"
				    : rc == -EPERM ? "it belongs to another user"
						   : "its user held the lock of a file, directory or address space");
		return 0;
	}
	o = json_object_new_object();
	json_add_str(o, "path", "//perf-map");
	json_add_str(o, "file", copy);
	json_array_add(images, o);
	json_add_bool(spec, "perf_map", true);
	return 0;
}

/* Copies the kernel's code as an image, so that the decoder requests it like one. */
static int add_kernel(struct snapshot_writer *sw, int dir, json_object *images)
{
	static const char copy[] = "code/kernel";
	json_object *o;
	int rc;

	if (!snapshot_space_has_kernel(sw))
		return 0;
	rc = copy_file(sw, dir, copy, sw->copy->kernel.fd, sw->copy->kernel.size);
	if (rc < 0)
		return rc;
	o = json_object_new_object();
	json_add_str(o, "path", TRACE_FILE_KERNEL);
	json_add_str(o, "file", copy);
	json_array_add(images, o);
	return 0;
}

static json_object *threads_json(const struct capture_copy *c, bool recorded)
{
	json_object *list = json_object_new_array();

	for (size_t n = 0; n < c->n_threads; n++) {
		const struct capture_thread *t = &c->threads[n];
		json_object *o = json_object_new_object();

		json_add_u64(o, "tid", t->tid);
		json_add_bytes(o, "name", t->name);
		json_add_u64(o, "start", t->start_ns);
		json_add_u64(o, "end", t->end_ns);
		if (t->until_ns)
			json_add_u64(o, "until", t->until_ns);
		json_add_u64(o, "bytes", t->size + t->end_size);
		json_add_u64(o, "written", t->written);
		json_add_bool(o, "wrapped", t->wrapped);
		if (recorded) {
			json_add_u64(o, "from", t->from);
			json_add_u64(o, "lost", t->lost.own);
		}
		json_add_u64(o, "truth", t->truth);
		json_add_u64(o, "instructions", t->instructions);
		json_add_bool(o, "acknowledged", t->acknowledged);
		json_array_add(list, o);
	}
	return list;
}

static json_object *intervals_json(const struct capture_copy *c)
{
	json_object *list = json_object_new_array();

	for (size_t n = 0; n < c->n_intervals; n++) {
		json_object *o = json_object_new_object();

		json_add_u64(o, "tid", c->intervals[n].tid);
		json_add_u64(o, "from", c->intervals[n].from);
		json_add_u64(o, "to", c->intervals[n].to);
		json_array_add(list, o);
	}
	return list;
}

static int write_json(int dir, const char *name, json_object *o)
{
	_cleanup_free_ char *text = json_text(o, JSON_PRETTY);

	return text ? io_write_file(dir, name, text, strlen(text), 0600) : -ENOMEM;
}

/* Returns what requested the snapshot: a call, or the hit of a trigger. */
static json_object *mark_json(const struct snapshot_writer *sw)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "kind", sw->mark ? "trigger" : "request");
	json_add_i64(o, "uid", sw->asked_by);
	if (!sw->mark)
		return o;
	json_object_object_foreach (sw->mark, key, value)
		json_add(o, key, json_object_get(value));
	return o;
}

static int write_snapshot_json(struct snapshot_writer *sw, int dir, const struct code_log *log)
{
	_cleanup_json_ json_object *o = json_object_new_object(), *images = json_object_new_array();
	json_object *trigger = mark_json(sw), *code;
	const struct target *t = sw->target;
	uint64_t copied = 0;
	int rc;

	json_add_i64(o, "version", 1);
	json_add_str(o, "id", sw->id);
	json_add_i64(o, "pid", t->pid);
	json_add_i64(o, "uid", t->uid);
	if (t->owner != t->uid)
		json_add_i64(o, "owner", t->owner);
	json_add_i64(o, "gid", t->gid);
	json_add_bytes(o, "name", sw->name);
	json_add_bytes(o, "exe", sw->exe);
	json_add(o, "arguments", json_array_of_texts(t->arguments, t->arguments_size));
	json_add_str(o, "capture", t->ring.source->ops->name);
	json_add_u64(o, "time", sw->copy->time);
	json_add_u64(o, "monotonic", sw->copy->monotonic);
	json_add_u64(o, "blind", sw->copy->blind);
	if (sw->copy->unrecorded)
		json_add_u64(o, "unrecorded", sw->copy->unrecorded);
	json_add_str(o, "clock", sw->copy->clock.known ? "perf" : sw->copy->virtual_clock ? "virtual" : "monotonic");
	if (sw->copy->clock.known && sw->copy->shift)
		json_add_i64(o, "clock_shift", sw->copy->shift);
	json_add_bool(o, "shared", sw->copy->shared);
	if (sw->copy->shared)
		json_add(o, "intervals", intervals_json(sw->copy));
	if (sw->copy->filtered)
		json_add_bool(o, "filtered", true);
	json_add(o, "trigger", trigger);
	annotation_add(&sw->annotation, o);
	if (sw->copy->since)
		json_add_u64(o, "since", sw->copy->since);
	if (sw->recording)
		json_add(o, "recording", json_object_get(sw->recording));
	if (sw->ended)
		json_add(o, "ended", json_object_get(sw->ended));
	json_add(o, "threads", threads_json(sw->copy, sw->trace));
	sw->image_files = calloc(log->n_images + 1, sizeof(*sw->image_files));
	if (!sw->image_files)
		return -ENOMEM;
	for (size_t n = 0; n < log->n_images; n++) {
		rc = add_image(sw, dir, &log->images[n], &copied, images);
		if (rc < 0)
			return rc;
	}
	if (snapshot_space_has_generated(sw)) {
		rc = add_perf_map(sw, dir, o, images);
		if (rc < 0)
			return rc;
	}
	rc = add_kernel(sw, dir, images);
	if (rc < 0)
		return rc;
	json_add(o, "images", TAKE_PTR(images));
	if (log->pieces) {
		code = json_object_new_object();
		json_add_u64(code, "pieces", log->pieces);
		json_add_u64(code, "bytes", log->bytes);
		json_add_u64(code, "crc32", sw->code_crc);
		json_add(o, "code", code);
	}
	if (sw->jitdump)
		json_add(o, "jitdump", json_object_get(sw->jitdump));
	end_missing(sw);
	json_add(o, "missing", json_object_get(sw->missing));
	return write_json(dir, "snapshot.json", o);
}

static int write_state_json(int dir)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "state", "queued");
	json_add_i64(o, "attempts", 0);
	return write_json(dir, "state.json", o);
}

static int write_code(struct snapshot_writer *sw, int dir)
{
	_cleanup_close_ int fd = -1;
	int rc;

	if (mkdirat(dir, "code", 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir, "code/bytes", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = code_log_write_bytes(sw->copy->log, sw->copy->log_size, fd);
	if (rc == 0)
		rc = sums_file(fd, UINT64_MAX, &sw->code_crc);
	return rc < 0 ? rc : fsync(fd) < 0 ? -errno : 0;
}

/* Copies the jitdump as it is: the decoder parses it. */
static int write_jitdump(struct snapshot_writer *sw, int dir)
{
	static const char copy[] = "code/jitdump";
	const struct capture_jitdump *j = &sw->copy->jitdump;
	_cleanup_close_ int fd = -1;
	uint32_t crc = 0;
	struct stat st;
	int rc;

	if (j->fd < 0)
		return 0;
	rc = copy_user_file(sw, dir, copy, j->fd, MIN(j->size, (uint64_t)SNAPSHOT_JITDUMP_MAX));
	if (rc == -EBUSY)
		add_missing(sw, "cannot copy the program's jitdump: a program keeps its lock");
	if (rc < 0)
		return rc == -EBUSY ? 0 : rc;
	fd = openat(dir, copy, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	rc = sums_file(fd, UINT64_MAX, &crc);
	if (rc < 0)
		return rc;
	sw->jitdump = json_object_new_object();
	json_add_u64(sw->jitdump, "bytes", (uint64_t)st.st_size);
	json_add_i64(sw->jitdump, "clock_shift", j->shift);
	json_add_u64(sw->jitdump, "crc32", crc);
	if (j->size > (uint64_t)st.st_size) {
		json_add_bool(sw->jitdump, "cut", true);
		add_missing(sw,
			    "only the first %llu KiB of the program's jitdump were copied: code it describes later "
			    "is unknown",
			    (unsigned long long)st.st_size >> 10);
	}
	return 0;
}

/* Lists the images that need a build-id. */
static int list_unidentified(struct snapshot_writer *sw)
{
	sw->unidentified = calloc(sw->log.n_images + 1, sizeof(*sw->unidentified));
	sw->unidentified_images = calloc(sw->log.n_images + 1, sizeof(*sw->unidentified_images));
	if (!sw->unidentified || !sw->unidentified_images)
		return -ENOMEM;
	for (size_t n = 0; n < sw->log.n_images; n++) {
		const struct code_image *image = &sw->log.images[n];
		struct target_file *file = image->build_id_size ? NULL : snapshot_writer_file(sw, image->file);
		struct build_id_file f = { .fd = file ? file->fd : -1 };

		/* The decoder would wait as long as a file system in user space wants. */
		if (!file || file_identify(file->fd, &f.identity) < 0 || !f.identity.regular ||
		    !file_kernel_served(file->fd, &f.identity, sw->target->pid))
			continue;
		sw->unidentified_images[sw->n_unidentified] = (uint32_t)n;
		sw->unidentified[sw->n_unidentified++] = f;
	}
	return 0;
}

int snapshot_writer_prepare(struct snapshot_writer *sw)
{
	int rc = code_log_read(sw->copy->log, sw->copy->log_size, &sw->log);

	if (rc == 0 && sw->trace)
		rc = trace_file_append_last(sw->trace, sw->copy, sw->closed);

	if (rc < 0)
		return rc;
	sw->need = snapshot_space_need(sw);
	return list_unidentified(sw);
}

/* Adds the build-ids that csight-decode read to the images and mappings of the log. */
static void add_build_ids(struct snapshot_writer *sw)
{
	size_t unknown = 0;

	for (size_t i = 0; i < sw->n_unidentified; i++) {
		struct code_image *image = &sw->log.images[sw->unidentified_images[i]];

		unknown += !sw->unidentified[i].known;
		image->build_id_size = sw->unidentified[i].size;
		memcpy(image->build_id, sw->unidentified[i].id, sizeof(image->build_id));
	}
	for (size_t i = 0; i < sw->log.n_maps; i++) {
		struct code_map *m = &sw->log.maps[i];

		if (m->image == UINT32_MAX || m->record.build_id_size)
			continue;
		m->record.build_id_size = sw->log.images[m->image].build_id_size;
		memcpy(m->record.build_id, sw->log.images[m->image].build_id, sizeof(m->record.build_id));
	}
	if (unknown)
		add_missing(sw, "the build-ids of %zu mapped files are unknown: %s", unknown, sw->no_build_ids);
}

static void list_missing(struct snapshot_writer *sw, const struct code_log *log)
{
	struct reader texts = reader_of(sw->copy->missing.data, sw->copy->missing.size);
	const char *text;
	struct trace_file_counts counts = sw->trace ? trace_file_counts(sw->trace) : (struct trace_file_counts){ 0 };

	while (rd_str(&texts, &text) == 0)
		add_missing(sw, "%s", text);
	if (counts.lost)
		add_missing(
		    sw,
		    "%llu bytes of trace in %llu gaps: the rings had overwritten them before they were drained, or no "
		    "record of the kernel describes them",
		    (unsigned long long)counts.lost, (unsigned long long)counts.gaps);
	if (sw->lost_files)
		add_missing(sw, "%u mapped files are not available", sw->lost_files);
	if (log->broken)
		add_missing(sw, "the log of mappings and code is damaged");
	if (log->crowded)
		add_missing(sw, "there were more mappings than the limit");
}

/* The trace of a recording has been written up to the last copy. */
static int write_trace(struct snapshot_writer *sw, int dir)
{
	int rc = sw->trace ? 0 : trace_file_begin(dir, sw->target, sw->exe, sw->copy, false, &sw->trace);

	return rc < 0 ? rc : trace_file_end(sw->trace, sw);
}

static int write_all(struct snapshot_writer *sw, int dir)
{
	int rc;

	list_missing(sw, &sw->log);
	add_build_ids(sw);
	rc = write_trace(sw, dir);
	if (rc == 0 && sw->log.pieces)
		rc = write_code(sw, dir);
	if (rc == 0)
		rc = write_jitdump(sw, dir);
	if (rc == 0)
		rc = write_snapshot_json(sw, dir, &sw->log);
	if (rc == 0)
		rc = write_state_json(dir);
	return rc;
}

int snapshot_writer_run(int spool_fd, struct snapshot_writer *sw)
{
	_cleanup_close_ int dir = -1;
	char tmp[64];
	int rc;

	sw->missing = json_object_new_array();
	snprintf(tmp, sizeof(tmp), SNAPSHOT_TMP "%s", sw->id);
	rc = sw->trace ? 0 : snapshot_space_check(sw, spool_fd);
	if (rc < 0)
		return rc;
	if (!sw->trace && mkdirat(spool_fd, tmp, 0700) < 0)
		rc = -errno;
	else if ((dir = openat(spool_fd, tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		rc = -errno;
	if (rc == 0)
		rc = write_all(sw, dir);
	if (rc == 0)
		rc = directory_tree_size(dir, &sw->size);
	if (rc == 0 && (fsync(dir) < 0 || renameat(spool_fd, tmp, spool_fd, sw->id) < 0))
		rc = -errno;
	if (rc == 0 && fsync(spool_fd) < 0) {
		rc = -errno;
		directory_tree_remove(spool_fd, sw->id);
	}
	if (rc < 0) {
		directory_tree_remove(spool_fd, tmp);
		reason_set(&sw->reason, rc, "%s: %s",
			   rc == -ENOSPC || rc == -EDQUOT ? "the spool is full" : "cannot write to the spool",
			   strerror(-rc));
	}
	return rc;
}

void snapshot_writer_done(struct snapshot_writer *sw)
{
	free(sw->name);
	free(sw->exe);
	json_object_put(sw->missing);
	json_object_put(sw->jitdump);
	json_object_put(sw->ended);
	json_object_put(sw->recording);
	annotation_done(&sw->annotation);
	json_object_put(sw->mark);
	trace_file_free(sw->trace);
	free(sw->image_files);
	free(sw->unidentified);
	free(sw->unidentified_images);
	code_log_done(&sw->log);
	*sw = (struct snapshot_writer){ 0 };
}
