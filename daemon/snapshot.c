/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/snapshot.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

static const char *const names[] = {
	[SNAPSHOT_RECORDING] = "recording", [SNAPSHOT_COPYING] = "copying", [SNAPSHOT_QUEUED] = "queued",
	[SNAPSHOT_DECODING] = "decoding",   [SNAPSHOT_READY] = "ready",     [SNAPSHOT_RAW] = "raw",
};

enum { REASON_MAX = 2048 };

#define BIT(state) (1u << (state))

static const unsigned allowed[] = {
	[SNAPSHOT_RECORDING] = BIT(SNAPSHOT_COPYING),
	[SNAPSHOT_COPYING] = BIT(SNAPSHOT_QUEUED),
	[SNAPSHOT_QUEUED] = BIT(SNAPSHOT_DECODING) | BIT(SNAPSHOT_RAW),
	[SNAPSHOT_DECODING] = BIT(SNAPSHOT_QUEUED) | BIT(SNAPSHOT_READY) | BIT(SNAPSHOT_RAW),
	[SNAPSHOT_READY] = 0,
	[SNAPSHOT_RAW] = BIT(SNAPSHOT_QUEUED),
};

const char *snapshot_state_str(enum snapshot_state state)
{
	return names[state];
}

struct snapshot *snapshot_new(void)
{
	struct snapshot *s = calloc(1, sizeof(*s));

	if (s)
		s->refs = 1;
	return s;
}

struct snapshot *snapshot_ref(struct snapshot *s)
{
	s->refs++;
	return s;
}

struct snapshot *snapshot_unref(struct snapshot *s)
{
	if (!s || --s->refs > 0)
		return NULL;
	snapshot_drop_files(s);
	spool_room_return(&s->claim);
	ledger_return(&s->stored);
	ledger_return(&s->waiting);
	free(s->files);
	free(s->name);
	free(s->reason);
	free(s->decode);
	json_object_put(s->missing);
	json_object_put(s->ended);
	json_object_put(s->recording);
	annotation_done(&s->annotation);
	json_object_put(s->mark);
	free(s);
	return NULL;
}

void snapshot_move(struct snapshot *s, enum snapshot_state to)
{
	assert(allowed[s->state] & BIT(to));
	log_info("snapshot %s: %s → %s%s%s", s->id, names[s->state], names[to],
		 to == SNAPSHOT_RAW && s->reason ? ": " : "", to == SNAPSHOT_RAW && s->reason ? esc(s->reason) : "");
	s->state = to;
}

void snapshot_set_reason(struct snapshot *s, const char *fmt, ...)
{
	va_list args;
	char *text = NULL;
	size_t at = 0, written = 0;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	/*
	 * The decoder is not trusted, and lists have the reason. It ends between two characters, and is as short as it
	 * is when it is read from where it was written: json_add_bytes() writes three bytes for one that is no
	 * character.
	 */
	while (text && text[at]) {
		uint32_t c;
		size_t n = escape_utf8((const unsigned char *)text + at, &c);

		written += n ? n : 3;
		if (written > REASON_MAX)
			text[at] = 0;
		else
			at += n ? n : 1;
	}
	free(s->reason);
	s->reason = text;
}

void snapshot_set_decode(struct snapshot *s, json_object *decode)
{
	json_object *ended;

	free(s->decode);
	s->decode = json_text(decode, JSON_PLAIN);
	if (json_get(decode, "ended", json_type_object, &ended) == 0) {
		json_object_put(s->ended);
		s->ended = json_object_get(ended);
	}
}

json_object *snapshot_decode(const struct snapshot *s)
{
	json_object *o = NULL;

	if (s->decode && json_parse(s->decode, strlen(s->decode), &o) < 0)
		return NULL;
	return o;
}

void snapshot_drop_files(struct snapshot *s)
{
	for (size_t n = 0; n < s->n_files; n++)
		target_file_unref(s->files[n]);
	s->n_files = 0;
}

void snapshot_set_missing(struct snapshot *s, json_object *texts)
{
	size_t bytes = 0;

	json_object_put(s->missing);
	s->missing = json_object_new_array();
	for (size_t n = 0; n < json_array_size(texts); n++) {
		json_object *text = json_object_array_get_idx(texts, n);

		bytes += json_object_is_type(text, json_type_string) ? (size_t)json_object_get_string_len(text) : 0;
		/* The text after the last one within the limits gives the number of those that are not listed. */
		if (n > SNAPSHOT_MISSING_MAX || bytes > SNAPSHOT_MISSING_BYTES + 64)
			break;
		json_array_add(s->missing, json_object_get(text));
	}
}

char *snapshot_state_text(const struct snapshot *s, enum snapshot_state state)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "state", names[state]);
	json_add_i64(o, "attempts", s->attempts);
	if (s->reason)
		json_add_bytes(o, "reason", s->reason);
	if (s->decode)
		json_add(o, "decode", snapshot_decode(s));
	return json_text(o, JSON_PRETTY);
}

int snapshot_write_state(int spool_fd, const char *id, const char *text)
{
	_cleanup_close_ int dir = openat(spool_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return -errno;
	return text ? io_write_file(dir, "state.json", text, strlen(text), 0600) : -ENOMEM;
}
