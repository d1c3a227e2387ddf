/* SPDX-License-Identifier: MIT */
/*
 * damage FILE IMAGES STEP CUTS FLIPS: decodes a perf.data truncated after each STEP bytes of its first 4 KiB and at
 * CUTS random positions, then with one bit flipped at each of FLIPS random positions. The decoder must not crash or
 * hang, must report truncation, and must emit the same elements as before for pieces of trace that are not damaged.
 * IMAGES is a directory with the mapped files, by name.
 */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/perfdata/read.h"
#include "lib/decoder/decoder.h"
#include "tests/unit.h"

enum { FIRST = 4096, HANG_MS = 60000, UNPRIVILEGED_UID = 65534, KEY_MAX = 40 };

/* The output of one piece: text up to its "end". */
struct slice {
	char key[KEY_MAX]; /* the heading of its stream */
	unsigned id, n;    /* the trace ID, and the index in its stream */
	const char *text;
	size_t size;
};

struct outcome {
	bool ended, crashed, failed;
	uint64_t warnings, cuts;
	json_object *gaps; /* by type, including cuts */
	char *text;
	size_t size;
	struct buf slices;
};

static struct {
	char *data;
	size_t size;
	const char *images;
	int server;
	uint64_t job;
	struct outcome whole;
	struct pd_file *file;
	const struct pd_contents *contents;
	bool own; /* written by csightd */
} t;

static int image_for(const char *path)
{
	const char *name = strrchr(path, '/');
	char here[4096];

	snprintf(here, sizeof(here), "%s%s", t.images, name ? name : "/-");
	return open(here, O_RDONLY | O_CLOEXEC);
}

static void read_result(json_object *result, struct outcome *o)
{
	json_object *list, *gaps;

	if (json_get(result, "warnings", json_type_array, &list) == 0)
		o->warnings = json_object_array_length(list);
	if (json_get(result, "gaps", json_type_object, &gaps) < 0)
		return;
	json_get_u64(gaps, "cut", &o->cuts);
	o->gaps = json_object_get(gaps);
}

/* True if there are more gaps of any type than in the undamaged trace. */
static bool more_gaps(const struct outcome *o)
{
	json_object_object_foreach (o->gaps, type, count) {
		json_object *before = NULL;

		json_object_object_get_ex(t.whole.gaps, type, &before);
		if (json_object_get_int64(count) > json_object_get_int64(before))
			return true;
	}
	return false;
}

static void follow(int job, struct outcome *o)
{
	struct pollfd p = { job, POLLIN, 0 };
	bool finished = false;

	for (;;) {
		struct decoder_event e = { 0 };

		if (poll(&p, 1, HANG_MS) != 1)
			return;
		if (decoder_receive(job, 0, &e) < 0)
			break;
		if (e.type == DECODER_IMAGE) {
			_cleanup_close_ int fd = e.attempt ? -1 : image_for(e.path);

			decoder_reply_image(job, e.index, fd, "not here");
		} else if (e.type == DECODER_RESULT) {
			read_result(e.body, o);
			finished = true;
		} else if (e.type == DECODER_FAILED) {
			o->failed = finished = true;
		}
		decoder_event_done(&e);
	}
	o->ended = true;
	o->crashed = !finished;
}

/* Splits the output: "# thread 7" begins a stream, "10 end" ends a piece. */
static void slice(struct outcome *o)
{
	struct slice s = { .text = o->text };
	const char *at = o->text, *end = o->text + o->size;

	while (at < end) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at)), *space;

		line_end = line_end ? line_end + 1 : end;
		if (*at == '#') {
			snprintf(s.key, sizeof(s.key), "%.*s", (int)(line_end - at - 1), at);
			s.n = 0;
			s.text = line_end;
		} else if ((space = memchr(at, ' ', (size_t)(line_end - at))) && line_end - space > 5 &&
			   memcmp(space, " end ", 5) == 0) {
			s.id = (unsigned)strtoul(at, NULL, 16);
			s.size = (size_t)(line_end - s.text);
			buf_add(&o->slices, &s, sizeof(s));
			s.n++;
			s.text = line_end;
		}
		at = line_end;
	}
}

static struct outcome decode(const void *data, size_t size)
{
	_cleanup_close_ int input = memfd_create("input", MFD_CLOEXEC), output = memfd_create("output", MFD_CLOEXEC),
			    job = -1;
	const char *format = "elements";
	const struct decoder_start start = { "perf.data", input, -1, -1, &format, &output, 1, NULL, NULL };
	struct outcome o = { 0 };
	struct stat st;
	uint64_t id;
	int status;

	if (io_pwrite(input, data, size, 0) < 0 || decoder_submit(t.server, ++t.job, &job) < 0 ||
	    decoder_start(job, &start) < 0)
		return o;
	follow(job, &o);
	if (!o.ended)
		return o;
	if (decoder_receive_end(t.server, 0, &id, &status) < 0 || id != t.job || !WIFEXITED(status))
		o.crashed = true;
	if (fstat(output, &st) == 0 && st.st_size) {
		o.size = (size_t)st.st_size;
		o.text = malloc(o.size);
		if (o.text && pread(output, o.text, o.size, 0) == st.st_size)
			slice(&o);
	}
	return o;
}

static void outcome_done(struct outcome *o)
{
	free(o->text);
	json_object_put(o->gaps);
	buf_done(&o->slices);
}

static const struct slice *find(const struct outcome *o, const struct slice *like, unsigned n)
{
	const struct slice *s = (const struct slice *)o->slices.data;

	for (size_t i = 0; i < o->slices.size / sizeof(*s); i++)
		if (s[i].id == like->id && s[i].n == n && strcmp(s[i].key, like->key) == 0)
			return &s[i];
	return NULL;
}

static void key_of(const struct pd_piece *p, char ret[KEY_MAX])
{
	bool own = p->cpu == UINT32_MAX;

	snprintf(ret, KEY_MAX, "# %s %u", own ? "thread" : "cpu", own ? p->tid : p->cpu);
}

/* The index of a piece in its stream. */
static unsigned rank(const struct pd_contents *c, size_t piece)
{
	char key[KEY_MAX], other[KEY_MAX];
	unsigned n = 0;

	key_of(&c->pieces[piece], key);
	for (size_t i = 0; i < piece; i++) {
		key_of(&c->pieces[i], other);
		n += strcmp(key, other) == 0;
	}
	return n;
}

/* True if a piece of the undamaged trace has the same output as piece n of the same stream. */
static bool same(const struct outcome *o, size_t piece, unsigned n)
{
	const struct slice *s = (const struct slice *)t.whole.slices.data;
	unsigned before = rank(t.contents, piece);
	char key[KEY_MAX];
	bool all = true;

	key_of(&t.contents->pieces[piece], key);
	for (size_t i = 0; i < t.whole.slices.size / sizeof(*s); i++) {
		const struct slice *now;

		if (s[i].n != before || strcmp(s[i].key, key) != 0)
			continue;
		now = find(o, &s[i], n);
		all = all && now && now->size == s[i].size && memcmp(now->text, s[i].text, now->size) == 0;
	}
	return all;
}

struct verdict {
	size_t tries, crashes, hangs, silent, spoilt, compared;
};

static void judge(struct verdict *v, const struct outcome *o, size_t at)
{
	v->tries++;
	if (o->crashed || !o->ended)
		printf("# byte %zu: %s\n", at, o->crashed ? "a crash" : "a hang");
	v->crashes += o->crashed;
	v->hangs += !o->ended;
}

static bool within(const struct pd_piece *p, size_t at)
{
	return at >= p->file_offset && at - p->file_offset < p->size;
}

/* True if the output of a truncated piece is a prefix of the undamaged output, apart from its last lines. */
static bool begins_alike(const struct outcome *o, size_t piece, unsigned n)
{
	const struct slice *s = (const struct slice *)t.whole.slices.data;
	unsigned before = rank(t.contents, piece);
	char key[KEY_MAX];
	bool all = true;

	key_of(&t.contents->pieces[piece], key);
	for (size_t i = 0; i < t.whole.slices.size / sizeof(*s); i++) {
		const struct slice *now;
		size_t size, ends = 3;

		if (s[i].n != before || strcmp(s[i].key, key) != 0)
			continue;
		now = find(o, &s[i], n);
		for (size = now ? now->size : 0; size && ends; size--)
			ends -= now->text[size - 1] == '\n';
		all = all && (!size || (size <= s[i].size && memcmp(now->text, s[i].text, size) == 0));
	}
	return all;
}

/* Compares pieces that are complete in the damaged file with the undamaged output; at: the changed byte. */
static void compare_kept(struct verdict *v, const struct outcome *o, size_t size, size_t at)
{
	_cleanup_close_ int fd = memfd_create("cut", MFD_CLOEXEC);
	_cleanup_(pd_closep) struct pd_file *file = NULL;
	const struct pd_contents *c;
	struct pd_problem problem;

	if (io_pwrite(fd, t.data, size, 0) < 0 || pd_open(fd, &file, &c, &problem) < 0)
		return;
	/* Without mappings, a piece has no code. */
	if (c->n_maps != t.contents->n_maps || c->n_cpus != t.contents->n_cpus)
		return;
	for (size_t i = 0; i < c->n_pieces; i++)
		for (size_t k = 0; k < t.contents->n_pieces; k++) {
			const struct pd_piece *a = &c->pieces[i], *b = &t.contents->pieces[k];

			if (a->file_offset != b->file_offset || a->tid != b->tid || a->cpu != b->cpu ||
			    a->flags != b->flags || within(a, at) || (a->size != b->size && !a->lost))
				continue;
			v->compared++;
			if (a->lost ? !begins_alike(o, k, rank(c, i)) : !same(o, k, rank(c, i))) {
				printf("# %zu bytes, byte %zu: piece %zu differs\n", size, at, k);
				v->spoilt++;
			}
		}
}

static void cut(struct verdict *v, size_t size)
{
	struct outcome o = decode(t.data, size);

	judge(v, &o, size);
	if (!o.crashed && !o.failed && o.warnings <= t.whole.warnings && o.cuts <= t.whole.cuts) {
		printf("# cut to %zu bytes: not reported\n", size);
		v->silent++;
	}
	if (!o.failed)
		compare_kept(v, &o, size, SIZE_MAX);
	outcome_done(&o);
}

/* A flipped bit in one piece must not change the output of another. */
static void flip(struct verdict *v, size_t at, unsigned bit)
{
	struct outcome o;
	bool in_trace = false;

	t.data[at] ^= (char)(1u << bit);
	o = decode(t.data, t.size);
	if (!o.failed)
		compare_kept(v, &o, t.size, at);
	t.data[at] ^= (char)(1u << bit);
	judge(v, &o, at);
	for (size_t k = 0; k < t.contents->n_pieces; k++)
		in_trace = in_trace || within(&t.contents->pieces[k], at);
	if (in_trace && o.failed) {
		printf("# byte %zu: damage to one piece fails the whole decode\n", at);
		v->spoilt++;
	}
	/* Without checksums, a change to other valid trace that the code permits cannot be detected. */
	if (!o.failed && o.warnings == t.whole.warnings && !more_gaps(&o) &&
	    (t.own || o.size != t.whole.size || memcmp(o.text, t.whole.text, o.size) != 0))
		v->silent++;
	outcome_done(&o);
}

static size_t anywhere(void)
{
	return ((size_t)random() << 16 ^ (size_t)random()) % t.size;
}

static void check_verdict(const char *what, const struct verdict *v)
{
	unit_check(v->crashes == 0, __FILE__, __LINE__, "%s %zu times: no crash", what, v->tries);
	unit_check(v->hangs == 0, __FILE__, __LINE__, "%s: no hang", what);
	unit_check(v->spoilt == 0, __FILE__, __LINE__, "%s: %zu undamaged pieces are as before", what, v->compared);
}

static bool load(const char *path)
{
	size_t size;
	int fd;

	if (io_read_file(AT_FDCWD, path, 64 << 20, &t.data, &size) < 0)
		return false;
	t.size = size;
	fd = memfd_create("whole", MFD_CLOEXEC);
	return fd >= 0 && io_pwrite(fd, t.data, t.size, 0) == 0 &&
	       pd_open(fd, &t.file, &t.contents, &(struct pd_problem){ 0 }) == 0;
}

int main(int argc, char **argv)
{
	struct verdict cuts = { 0 }, flips = { 0 };
	uid_t user = geteuid() == 0 ? UNPRIVILEGED_UID : (uid_t)-1;
	unsigned long step, more, places;
	pid_t pid = -1;

	if (argc != 6)
		return 2;
	t.images = argv[2];
	step = strtoul(argv[3], NULL, 10);
	more = strtoul(argv[4], NULL, 10);
	places = strtoul(argv[5], NULL, 10);
	srandom(1);
	if (!CHECK(load(argv[1])) ||
	    !CHECK_EQ(decoder_spawn(unit_built("csight-decode"), user, user, &pid, &t.server), 0))
		return unit_end();
	t.own = t.contents->version && strcmp(t.contents->version, PACKAGE_STRING) == 0;
	t.whole = decode(t.data, t.size);
	printf("# %zu bytes, %zu pieces, %zu bytes of elements\n", t.size, t.contents->n_pieces, t.whole.size);
	CHECK(t.whole.ended && !t.whole.crashed && !t.whole.failed && t.whole.slices.size >= sizeof(struct slice));
	for (size_t k = 0; k < t.contents->n_pieces; k++)
		CHECK(same(&t.whole, k, rank(t.contents, k)));
	for (size_t at = 0; step && at < FIRST && at < t.size; at += step)
		cut(&cuts, at);
	for (unsigned long i = 0; i < more; i++)
		cut(&cuts, anywhere());
	check_verdict("cut", &cuts);
	CHECK_EQ(cuts.silent, 0);
	for (unsigned long i = 0; i < places; i++)
		flip(&flips, anywhere(), (unsigned)random() % 8);
	check_verdict("flipped", &flips);
	if (t.own)
		CHECK_EQ(flips.silent, 0);
	else
		printf("# of %zu flips %zu changed the output without a report: the trace is still valid\n",
		       flips.tries, flips.silent);
	close(t.server);
	CHECK(waitpid(pid, NULL, 0) == pid);
	outcome_done(&t.whole);
	pd_close(t.file);
	free(t.data);
	return unit_end();
}
