#include <malloc.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/source.h"
#include "lib/code/debug-file.h"
#include "lib/etm/pool.h"

enum {
	ATTEMPTS_MAX = 8192,
	DEBUG_ATTEMPTS_MAX = 256,
	WORKERS_MAX = 16 /* where nobody says how many */,
	BYTES_MIN = 256 << 10
};

struct source *source_close(struct source *s)
{
	if (!s)
		return NULL;
	s->ops->close(s);
	image_set_free(s->images);
	streams_done(&s->streams);
	free(s->map_files);
	runs_free(s->runs);
	intervals_free(s->shown);
	free(s);
	return NULL;
}

static unsigned cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : MIN((unsigned)CPU_COUNT(&set), (unsigned)WORKERS_MAX);
}

void source_begin_threads(struct source *s)
{
	unsigned workers = s->job->workers ? s->job->workers : cpus();
	uint64_t bytes = 0;

	for (size_t i = 0; i < s->streams.n; i++)
		if (s->streams.list[i].config.protocol == PROTOCOL_ETMV4 ||
		    s->streams.list[i].config.protocol == PROTOCOL_ETE)
			bytes += s->streams.list[i].bytes;
	pthread_mutex_init(&s->asking, NULL);
	/* An arena for each thread would be more, but malloc() opens files then, which the cage does not allow. */
	mallopt(M_ARENA_MAX, 1);
	/* One is this thread. */
	if (workers > 1 && (bytes >= BYTES_MIN || s->job->workers) &&
	    pool_new(MIN(workers - 1, (unsigned)POOL_THREADS_MAX), &s->pool) < 0)
		s->pool = NULL;
}

void source_end_threads(struct source *s)
{
	if (s)
		s->pool = pool_free(s->pool);
}

size_t source_code(struct source *s, const struct stream *stream, const struct engine_context *context,
		   uint64_t address, void *ret, size_t size)
{
	size_t n;

	pthread_mutex_lock(&s->asking);
	n = s->ops->code(s, stream, context, address, ret, size);
	pthread_mutex_unlock(&s->asking);
	return n;
}

uint64_t source_version(struct source *s, const struct stream *stream, const struct engine_context *context)
{
	uint64_t version;

	pthread_mutex_lock(&s->asking);
	version = s->ops->version(s, stream, context);
	pthread_mutex_unlock(&s->asking);
	return version;
}

bool source_where(struct source *s, const struct stream *stream, const struct engine_context *context, uint64_t address,
		  uint32_t *ret_file, uint64_t *ret_offset)
{
	bool there;

	pthread_mutex_lock(&s->asking);
	there = s->ops->where(s, stream, context, address, ret_file, ret_offset);
	pthread_mutex_unlock(&s->asking);
	return there;
}

uint64_t source_time(const struct source *s, uint64_t stamp)
{
	const struct pd_clock *c = s->clock;

	return c ? pd_clock_time(c, stamp) : stamp;
}

void source_warn(struct source *s, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	json_object_array_add(s->warnings, json_object_new_string(text));
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

const char *source_build_id(const struct image_file *f, char ret[2 * IMAGE_BUILD_ID_MAX + 1])
{
	return in_hex(f->build_id, f->build_id_size, ret);
}

static int ask_image(struct source *s, uint32_t i)
{
	const struct image_file *f = image_file(s->images, i);
	char id[2 * IMAGE_BUILD_ID_MAX + 1], reason[256];

	for (uint64_t attempt = 0; f->fd < 0 && attempt < ATTEMPTS_MAX; attempt++) {
		int fd = -1;
		int rc = job_image(s->job, i, f->path, source_build_id(f, id), f->inode, NULL, attempt, &fd, reason,
				   sizeof(reason));

		if (rc < 0)
			return job_why(s->job, rc, "no answer to a question for an image: %s", strerror(-rc));
		/* Why the last one was refused says more than that there is no other. */
		if (fd >= 0 || !f->reason)
			image_file_give(s->images, i, fd, reason);
		if (fd < 0)
			break;
	}
	return 0;
}

int source_ask_images(struct source *s)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < image_files(s->images); i++)
		rc = ask_image(s, i);
	return rc;
}

int source_debug_file(const struct source *s, uint32_t file, int *ret_fd)
{
	const struct image_file *f = image_file(s->images, file);
	char id[2 * IMAGE_BUILD_ID_MAX + 1], reason[256];
	struct debug_wanted wanted;

	*ret_fd = -1;
	if (f->fd < 0 || !debug_file_wanted(f->fd, &wanted))
		return 0;
	for (uint64_t attempt = 0; attempt < DEBUG_ATTEMPTS_MAX; attempt++) {
		_cleanup_close_ int fd = -1;
		int rc = job_image(s->job, file, f->path, in_hex(wanted.id, wanted.id_size, id), 0, wanted.link,
				   attempt, &fd, reason, sizeof(reason));

		if (rc < 0)
			return job_why(s->job, rc, "no answer to a question for a debug file: %s", strerror(-rc));
		if (fd < 0)
			break;
		if (debug_file_is(fd, &wanted)) {
			*ret_fd = TAKE_FD(fd);
			break;
		}
	}
	return 0;
}
