/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/decode/input.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/coresight/deframe.h"
#include "lib/local/finder.h"
#include "tests/etm/trace.h"

enum { SNAPSHOT_JSON_MAX = 64 << 20, CHUNK = 1 << 20 };

struct trace_source {
	struct input *source;
	struct stream stream;
	const struct pd_piece *piece;
	struct decode_job job;
	json_object *warnings;
	struct finder finder;
	int owner; /* the owner's end of the job's socket */
	pthread_t thread;
};

/* Answers requests for files as csight does for its decoder. */
static void *answer(void *user)
{
	struct trace_source *s = user;
	struct decoder_event e = { 0 };
	char reason[256];
	int fd;

	while (decoder_receive(s->owner, 0, &e) == 0) {
		fd = -1;
		if (e.type == DECODER_IMAGE) {
			fd = finder_open(&s->finder, &e, reason, sizeof(reason));
			decoder_reply_image(s->owner, e.index, fd, reason);
		} else if (e.type == DECODER_FILE) {
			io_open_beneath(s->finder.dir, e.path, &fd);
			decoder_reply_file(s->owner, fd, "not there");
		}
		closep(&fd);
		decoder_event_done(&e);
	}
	return NULL;
}

static int open_own(struct trace_source *s)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc = io_read_file(s->finder.dir, "snapshot.json", SNAPSHOT_JSON_MAX, &text, &size);

	if (rc == 0)
		rc = json_parse(text, size, &s->finder.snapshot);
	if (rc < 0)
		return rc;
	s->job.snapshot = s->finder.snapshot;
	s->job.code = openat(s->finder.dir, "code/bytes", O_RDONLY | O_CLOEXEC);
	s->job.jitdump = openat(s->finder.dir, "code/jitdump", O_RDONLY | O_CLOEXEC);
	s->job.input = openat(s->finder.dir, "trace.perf.data", O_RDONLY | O_CLOEXEC);
	return s->job.input < 0 ? -errno : 0;
}

static int open_input(struct trace_source *s, const char *input)
{
	struct stat st;
	int rc = 0;

	s->job.type = "perf.data";
	s->job.input = open(input, O_RDONLY | O_CLOEXEC);
	if (s->job.input < 0 || fstat(s->job.input, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode)) {
		s->finder.dir = TAKE_FD(s->job.input);
		rc = io_open_beneath(s->finder.dir, "snapshot.ini", &s->job.input);
		if (rc == 0)
			s->job.type = "snapshot";
		else if (rc == -ENOENT)
			rc = open_own(s);
	}
	return rc;
}

static int open_source(struct trace_source *s)
{
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	s->job.socket = pair[0];
	s->owner = pair[1];
	if (pthread_create(&s->thread, NULL, answer, s) != 0)
		return -ENOMEM;
	rc = strcmp(s->job.type, "perf.data") == 0 ? input_perf_open(&s->job, s->warnings, &s->source)
						   : input_snapshot_open(&s->job, s->warnings, &s->source);
	close(s->job.socket);
	pthread_join(s->thread, NULL);
	close(s->owner);
	return rc;
}

struct sizes {
	uint64_t of[DEFRAME_NO_ID + 1];
};

static int count_run(void *user, const struct deframe_run *run)
{
	((struct sizes *)user)->of[run->id] += run->reset ? 0 : run->size;
	return 0;
}

struct keep {
	struct buf bytes;
	uint8_t id;
};

static int keep_run(void *user, const struct deframe_run *run)
{
	struct keep *k = user;

	if (!run->reset && run->id == k->id)
		buf_add(&k->bytes, run->data, run->size);
	return 0;
}

/* Reads a whole piece: raw bytes, or those of the source out of the frames. */
static int read_piece(struct input *s, const struct pd_piece *piece, struct buf *ret)
{
	uint64_t at = 0;
	ssize_t n = 1;

	while (n > 0 && at < piece->size && buf_error(ret) == 0) {
		uint8_t *room = buf_reserve(ret, CHUNK);

		n = room ? s->ops->read(s, piece, at, room, MIN(piece->size - at, (uint64_t)CHUNK)) : -ENOMEM;
		if (n > 0)
			buf_grew(ret, (size_t)n);
		at += (uint64_t)MAX(n, (ssize_t)0);
	}
	return n < 0 ? (int)n : buf_error(ret);
}

static void take_apart(const struct buf *frames, int (*run)(void *, const struct deframe_run *), void *user)
{
	const struct deframe_sink sink = { run, user };
	struct deframe *d = malloc(sizeof(*d));

	if (!d)
		return;
	deframe_init(d, &sink);
	deframe_push(d, frames->data, frames->size);
	free(d);
}

/* Chooses the stream, and its largest piece. */
static int choose(struct trace_source *s, int id)
{
	uint64_t most = 0;

	for (size_t i = 0; i < s->source->streams.n; i++) {
		const struct stream *stream = &s->source->streams.list[i];

		for (size_t k = 0; k < stream->n_pieces && stream->supported; k++) {
			uint64_t size = stream->pieces[k].size;
			_cleanup_buf_ struct buf frames = { 0 };
			struct sizes sizes = { { 0 } };
			int rc;

			if (id >= 0 && stream->config.trace_id != id)
				continue;
			if (stream->formatted) {
				rc = read_piece(s->source, &stream->pieces[k], &frames);
				if (rc < 0)
					return rc;
				take_apart(&frames, count_run, &sizes);
				size = sizes.of[stream->config.trace_id];
			}
			if (size > most) {
				most = size;
				s->stream = *stream;
				s->piece = &stream->pieces[k];
			}
		}
	}
	return most ? 0 : -ENODATA;
}

static int read_bytes(struct trace *t)
{
	const struct trace_source *s = t->source;
	struct buf whole = { 0 };
	int rc = read_piece(s->source, s->piece, &whole);

	if (rc == 0 && s->stream.formatted) {
		struct keep keep = { .id = s->stream.config.trace_id };

		take_apart(&whole, keep_run, &keep);
		buf_done(&whole);
		whole = keep.bytes;
		rc = buf_error(&whole);
	}
	if (rc < 0) {
		buf_done(&whole);
		return rc;
	}
	t->bytes = whole.data;
	t->size = whole.size;
	return 0;
}

int trace_frames(const struct trace *t, uint8_t **ret, size_t *ret_size)
{
	struct buf frames = { 0 };
	int rc = t->source->stream.formatted ? read_piece(t->source->source, t->source->piece, &frames) : -ENOENT;

	if (rc < 0)
		return rc;
	*ret = frames.data;
	*ret_size = frames.size;
	return 0;
}

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	struct trace_source *s = user;

	return s->source->ops->code(s->source, &s->stream, context, address, ret, size);
}

static uint64_t code_version(void *user, const struct engine_context *context)
{
	struct trace_source *s = user;

	return s->source->ops->version(s->source, &s->stream, context);
}

int trace_load(const char *input, int id, struct trace *ret)
{
	struct trace_source *s = calloc(1, sizeof(*s));
	struct trace t = { .source = s };
	int rc;

	if (!s)
		return -ENOMEM;
	s->job.input = s->job.code = s->job.jitdump = s->finder.dir = -1;
	s->job.only_thread = -1;
	s->warnings = json_object_new_array();
	rc = open_input(s, input);
	if (rc == 0)
		rc = open_source(s);
	if (rc == 0)
		rc = choose(s, id);
	if (rc == 0)
		rc = read_bytes(&t);
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", input, s->job.reason.text[0] ? s->job.reason.text : strerror(-rc));
		trace_done(&t);
		return rc;
	}
	stream_configure(s->source->contents, &s->stream, s->piece, &t.config);
	t.memory = (struct engine_memory){ read_code, code_version, s->source->by_space, s };
	*ret = t;
	return 0;
}

void trace_done(struct trace *t)
{
	struct trace_source *s = t->source;

	input_close(s->source);
	closep(&s->job.input);
	closep(&s->job.code);
	closep(&s->finder.dir);
	finder_done(&s->finder);
	json_object_put(s->finder.snapshot);
	json_object_put(s->warnings);
	free(s);
	free(t->bytes);
	*t = (struct trace){ 0 };
}
