/* SPDX-License-Identifier: MIT */
#include <malloc.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/decode/input.h"
#include "lib/code/debug-file.h"
#include "lib/code/symbols.h"
#include "lib/etm/pool.h"

enum {
	ATTEMPTS_MAX = 8192,
	DEBUG_ATTEMPTS_MAX = 256,
	WORKERS_MAX = 16,               /* unless the job requests a number */
	PARALLEL_BYTES_MIN = 256 << 10, /* shorter trace is decoded by one thread */
};

/* csightd's path for code that changed at an unknown time. */
static const char unknown_name[] = "//unknown";

struct input *input_close(struct input *in)
{
	if (!in)
		return NULL;
	in->ops->close(in);
	image_set_free(in->images);
	symbols_free(in->described);
	stream_list_done(&in->streams);
	free(in->map_files);
	buf_done(&in->kernel);
	schedule_free(in->schedule);
	intervals_free(in->shown);
	free(in);
	return NULL;
}

static unsigned cpu_count(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : MIN((unsigned)CPU_COUNT(&set), (unsigned)WORKERS_MAX);
}

void input_start_workers(struct input *in)
{
	unsigned workers = in->job->workers ? in->job->workers : cpu_count();
	uint64_t bytes = 0;

	for (size_t i = 0; i < in->streams.n; i++)
		if (in->streams.list[i].config.protocol == PROTOCOL_ETMV4 ||
		    in->streams.list[i].config.protocol == PROTOCOL_ETE)
			bytes += in->streams.list[i].bytes;
	pthread_mutex_init(&in->code_lock, NULL);
	/* With more arenas, malloc() would open files, which the cage forbids. */
	mallopt(M_ARENA_MAX, 1);
	in->parallel = MAX(workers, cpu_count()) > 1 && (bytes >= PARALLEL_BYTES_MIN || in->job->workers);
	/* The calling thread is one of the workers. */
	if (workers > 1 && in->parallel && pool_new(MIN(workers - 1, (unsigned)POOL_THREADS_MAX), &in->pool) < 0)
		in->pool = NULL;
}

void input_stop_workers(struct input *in)
{
	if (in)
		in->pool = pool_free(in->pool);
}

unsigned input_workers(const struct input *in)
{
	return in->pool ? pool_threads(in->pool) : 0;
}

size_t input_code(struct input *in, const struct stream *stream, const struct engine_context *context, uint64_t address,
		  void *ret, size_t size)
{
	size_t n;

	pthread_mutex_lock(&in->code_lock);
	n = in->ops->code(in, stream, context, address, ret, size);
	pthread_mutex_unlock(&in->code_lock);
	return n;
}

uint64_t input_code_version(struct input *in, const struct stream *stream, const struct engine_context *context)
{
	uint64_t version;

	pthread_mutex_lock(&in->code_lock);
	version = in->ops->version(in, stream, context);
	pthread_mutex_unlock(&in->code_lock);
	return version;
}

bool input_where(struct input *in, const struct stream *stream, const struct engine_context *context, uint64_t address,
		 uint32_t *ret_file, uint64_t *ret_offset)
{
	bool there;

	pthread_mutex_lock(&in->code_lock);
	there = in->ops->where(in, stream, context, address, ret_file, ret_offset);
	pthread_mutex_unlock(&in->code_lock);
	return there;
}

uint64_t input_time(const struct input *in, uint64_t stamp)
{
	const struct pd_clock *c = in->clock;

	return c ? pd_clock_time(c, stamp) : stamp;
}

void input_warn(struct input *in, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	json_array_add(in->warnings, json_object_new_string(text));
}

static const char *in_hex(const uint8_t *id, size_t size, char ret[2 * IMAGE_BUILD_ID_MAX + 1])
{
	static const char digits[] = "0123456789abcdef";
	char *at = ret;

	for (size_t i = 0; i < size; i++) {
		*at++ = digits[id[i] >> 4];
		*at++ = digits[id[i] & 15];
	}
	*at = 0;
	return size ? ret : NULL;
}

const char *input_build_id(const struct image_file *f, char ret[2 * IMAGE_BUILD_ID_MAX + 1])
{
	return in_hex(f->build_id, f->build_id_size, ret);
}

int input_map(struct input *in, const struct pd_map *m, uint64_t time, uint32_t *ret_file)
{
	bool has_file =
	    (m->path[0] == '/' && m->path[1] != '/') || (strcmp(m->path, "[vdso]") == 0 && m->build_id_size);
	struct image_mapping mapping = { m->addr, m->len, m->offset, time, IMAGE_NONE };
	int rc = 0;

	/* A mapping that is not executable still replaces an earlier one of code. */
	if (strcmp(m->path, unknown_name) == 0)
		mapping.file = IMAGE_UNKNOWN;
	else if (m->prot & PROT_EXEC && m->pid != UINT32_MAX && has_file)
		rc = image_file_add(in->images, m->path, m->build_id, m->build_id_size, m->inode, &mapping.file);
	*ret_file = mapping.file == IMAGE_UNKNOWN ? IMAGE_NONE : mapping.file;
	return rc < 0 ? rc : image_map(in->images, m->pid, &mapping);
}

int input_request_image(struct input *in, uint32_t i)
{
	const struct image_file *f = image_file(in->images, i);
	char id[2 * IMAGE_BUILD_ID_MAX + 1];
	struct job_image_request request = {
		.index = i, .path = f->path, .build_id = input_build_id(f, id), .inode = f->inode
	};
	struct reason reason;

	for (; f->fd < 0 && request.attempt < ATTEMPTS_MAX; request.attempt++) {
		int fd = -1;
		int rc = job_image(in->job, &request, &fd, &reason);

		if (rc < 0)
			return reason_set(&in->job->reason, rc, "requesting an image from the owner: %s",
					  strerror(-rc));
		/* The reason for refusing the previous file is more useful than the absence of another one. */
		if (fd >= 0 || !f->reason)
			image_file_attach(in->images, i, fd, reason.text);
		if (fd < 0)
			break;
	}
	return 0;
}

int input_request_images(struct input *in)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < image_file_count(in->images); i++)
		rc = input_request_image(in, i);
	return rc;
}

json_object *input_images_json(const struct input *in)
{
	json_object *list = json_object_new_array();

	/* An input that was only described has no images. */
	for (uint32_t i = 0; list && in->images && i < image_file_count(in->images); i++) {
		const struct image_file *f = image_file(in->images, i);
		json_object *o;
		char id[2 * IMAGE_BUILD_ID_MAX + 1];

		if (i == in->names)
			continue;
		o = json_object_new_object();

		json_add_bytes(o, "path", f->path);
		json_add_str(o, "build_id", input_build_id(f, id));
		json_add_bool(o, "found", f->fd >= 0);
		json_add_str(o, "reason", f->reason);
		json_array_add(list, o);
	}
	return list;
}

static void warn_of_sums(struct input *in)
{
	if (!in->sums_refused)
		input_warn(in,
			   "debug files are missing: those without a build-id are compared by checksums, of at most "
			   "%ju GiB in all",
			   (uintmax_t)(DEBUG_SUMS_MAX >> 30));
	in->sums_refused = true;
}

int input_request_debug_file(struct input *in, uint32_t file, int *ret_fd)
{
	const struct image_file *f = image_file(in->images, file);
	struct job_image_request request = { .index = file, .path = f->path };
	char id[2 * IMAGE_BUILD_ID_MAX + 1];
	struct debug_wanted wanted;

	*ret_fd = -1;
	if (f->fd < 0 || !debug_file_wanted(f->fd, &wanted))
		return 0;
	request.build_id = in_hex(wanted.id, wanted.id_size, id);
	request.debug = wanted.link;
	for (; request.attempt < DEBUG_ATTEMPTS_MAX; request.attempt++) {
		_cleanup_close_ int fd = -1;
		int rc = job_image(in->job, &request, &fd, NULL);

		if (rc < 0)
			return reason_set(&in->job->reason, rc, "requesting a debug file from the owner: %s",
					  strerror(-rc));
		if (fd < 0)
			break;
		rc = debug_file_is(fd, &wanted, &in->sums_used);
		if (rc == -EFBIG) {
			warn_of_sums(in);
			break;
		}
		if (rc == 1) {
			*ret_fd = TAKE_FD(fd);
			break;
		}
	}
	return 0;
}
