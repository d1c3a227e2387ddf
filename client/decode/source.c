#include <stdarg.h>
#include <stdlib.h>

#include "client/decode/source.h"

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

const char *source_build_id(const struct image_file *f, char ret[2 * IMAGE_BUILD_ID_MAX + 1])
{
	static const char digits[] = "0123456789abcdef";
	char *at = ret;

	for (size_t i = 0; i < f->build_id_size; i++) {
		*at++ = digits[f->build_id[i] >> 4];
		*at++ = digits[f->build_id[i] & 15];
	}
	*at = 0;
	return f->build_id_size ? ret : NULL;
}
