/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "client/redaction.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/json.h"

enum { DESCRIPTION_MAX = 64 << 20, PIECE = 64 << 10 };

/* The members that a redacted object may have. All others are left out, including those of later versions. */
static const char *const
    in_snapshot[] = { "version", "id",          "pid",    "capture",  "time", "monotonic", "blind",    "unrecorded",
		      "clock",   "clock_shift", "shared", "perf_map", "last", "since",     "filtered", NULL },
    *const in_ending[] = { "signal", "status", "oom", "tid", NULL }, *const in_trigger[] = { "kind", NULL },
    *const in_thread[] = { "tid",     "start",   "end",          "until",        "bytes",
			   "written", "wrapped", "instructions", "acknowledged", NULL },
    *const in_image[] = { "size", "build_id", NULL }, *const in_interval[] = { "tid", "from", "to", NULL },
    *const in_code[] = { "pieces", "bytes", "crc32", "clock_shift", "cut", NULL };

/* Texts in a description are words of csightd; a slash or a blank is in none of them. */
static bool is_word(json_object *v)
{
	return !json_object_is_type(v, json_type_string) || !strpbrk(json_object_get_string(v), "/\\ ");
}

static json_object *redact_object(json_object *from, const char *const *kept)
{
	json_object *to = json_object_new_object(), *v;

	for (; *kept; kept++)
		if (json_object_object_get_ex(from, *kept, &v) && is_word(v) &&
		    !json_object_is_type(v, json_type_object) && !json_object_is_type(v, json_type_array))
			json_add(to, *kept, json_object_get(v));
	return to;
}

/* Adds the redacted member of an object, if there is one of the type. */
static void redact_member(json_object *to, json_object *from, const char *name, const char *const *kept)
{
	json_object *v;

	if (json_get(from, name, json_type_object, &v) == 0)
		json_add(to, name, redact_object(v, kept));
}

static void redact_list(json_object *to, json_object *from, const char *name, const char *const *kept)
{
	json_object *list, *redacted;

	if (json_get(from, name, json_type_array, &list) < 0)
		return;
	redacted = json_object_new_array();
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_object *item = json_object_array_get_idx(list, i), *o;
		const char *path;

		if (!json_object_is_type(item, json_type_object))
			continue;
		o = redact_object(item, kept);
		if (kept == in_image && json_get_str(item, "path", &path) == 0)
			json_add_str(o, "path", strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
		json_array_add(redacted, o);
	}
	json_add(to, name, redacted);
}

/* Reads the rest of a file. */
static int read_all(int fd, struct buf *ret)
{
	ssize_t n;

	ret->limit = DESCRIPTION_MAX;
	do {
		char *to = (char *)buf_reserve(ret, PIECE);

		n = to ? io_read(fd, to, PIECE) : -ENOMEM;
		if (n > 0)
			buf_grew(ret, (size_t)n);
	} while (n > 0);
	return (int)n;
}

int redaction_description(int from, int to)
{
	_cleanup_json_ json_object *o = NULL, *redacted = NULL;
	_cleanup_buf_ struct buf text = { 0 };
	_cleanup_free_ char *out = NULL;
	int rc = read_all(from, &text);

	if (rc == 0)
		rc = json_parse((const char *)text.data, text.size, &o);
	if (rc == 0 && !json_object_is_type(o, json_type_object))
		rc = -EBADMSG;
	if (rc < 0)
		return rc;
	redacted = redact_object(o, in_snapshot);
	redact_member(redacted, o, "ended", in_ending);
	redact_member(redacted, o, "trigger", in_trigger);
	redact_member(redacted, o, "code", in_code);
	redact_member(redacted, o, "jitdump", in_code);
	redact_list(redacted, o, "intervals", in_interval);
	redact_list(redacted, o, "threads", in_thread);
	redact_list(redacted, o, "images", in_image);
	json_add_bool(redacted, "redacted", true);
	out = json_text(redacted, JSON_PRETTY);
	rc = out ? io_write(to, out, strlen(out)) : -ENOMEM;
	return rc == 0 ? io_write(to, "\n", 1) : rc;
}

/* A comment is a build-id or a path; all other lines are numbers. */
static int copy_line(const char *line, FILE *to)
{
	static const char comment[] = "// ", id[] = "// build_id:";
	const char *slash = strrchr(line, '/');

	if (strncmp(line, comment, strlen(comment)) == 0 && strncmp(line, id, strlen(id)) != 0)
		return fprintf(to, "%s%s", comment, slash > line + 1 ? slash + 1 : line + strlen(comment));
	return fputs(line, to);
}

int redaction_autofdo(int from, int to)
{
	int in = dup(from), out = dup(to);
	_cleanup_fclose_ FILE *r = in < 0 ? NULL : fdopen(in, "r"), *w = out < 0 ? NULL : fdopen(out, "w");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	int rc = 0;

	if (!r || !w)
		rc = -errno;
	if (!r && in >= 0)
		close(in);
	if (!w && out >= 0)
		close(out);
	while (rc == 0 && getline(&line, &size, r) >= 0)
		if (copy_line(line, w) < 0)
			rc = -errno;
	return rc == 0 && fflush(w) != 0 ? -errno : rc;
}
