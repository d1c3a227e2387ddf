#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/decode/source.h"
#include "lib/code/debug-file.h"

enum { DEBUG_ATTEMPTS_MAX = 256 };

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

uint64_t source_time(const struct source *s, uint64_t stamp)
{
	const struct pd_clock *c = s->clock;

	/* What is added may be negative: sums are modulo 2^64. */
	return c ? c->zero + (uint64_t)((unsigned __int128)stamp * c->mult >> c->shift) : stamp;
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
		int rc = job_image(s->job, file, f->path, in_hex(wanted.id, wanted.id_size, id), 0, wanted.link, attempt, &fd,
				   reason, sizeof(reason));

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
