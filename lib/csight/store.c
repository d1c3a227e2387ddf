/* SPDX-License-Identifier: MIT */
/* Gives programs the results that lib/store reads, in structs to which later versions can add fields. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/util.h"
#include "lib/csight/csight-internal.h"
#include "lib/store/finder.h"

struct csight_store {
	int fd;
	struct store *store;
};

struct csight_calls {
	const struct csight_store *store;
	struct store_finder *finder;
	uint8_t *wanted;
};

struct csight_gaps {
	struct store_iter *it;
};

int csight_store_open(int fd, unsigned flags, struct csight_store **ret)
{
	struct csight_store *s = calloc(1, sizeof(*s));
	int rc;

	if (!s) {
		close(fd);
		return -ENOMEM;
	}
	s->fd = fd;
	rc = flags & ~(unsigned)CSIGHT_SUFFIXES ? -EINVAL : 0;
	if (rc == 0) {
		rc = store_open(fd, &s->store);
		/* That of no regular file. */
		rc = rc == -EINVAL ? -EBADMSG : rc;
	}
	if (rc == 0 && !(flags & CSIGHT_SUFFIXES))
		rc = store_merge_clones(s->store);
	if (rc < 0) {
		csight_store_close(s);
		return rc;
	}
	*ret = s;
	return 0;
}

int csight_store_open_path(const char *path, unsigned flags, struct csight_store **ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int file;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return csight_store_open(TAKE_FD(fd), flags, ret);
	file = openat(fd, "store", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	return file < 0 ? -errno : csight_store_open(file, flags, ret);
}

struct csight_store *csight_store_close(struct csight_store *s)
{
	if (!s)
		return NULL;
	store_close(s->store);
	close(s->fd);
	free(s);
	return NULL;
}

const char *csight_store_text(const struct csight_store *s, const char *key)
{
	return store_meta(s->store, key);
}

size_t csight_store_threads(const struct csight_store *s)
{
	return store_threads(s->store);
}

int csight_store_thread(const struct csight_store *s, size_t index, struct csight_thread *ret)
{
	const struct store_thread *t;
	struct csight_thread out;

	if (index >= store_threads(s->store))
		return -ENOENT;
	t = store_thread(s->store, index);
	out = (struct csight_thread){
		.name = t->name,
		.first = t->first,
		.last = t->last,
		.calls = t->slices,
		.gaps = t->gaps,
		.instructions = t->instructions,
		.unexplained = t->unexplained,
		.bound = t->bound,
		.tid = t->tid,
		.deepest = t->deepest,
		.quality = store_quality(s->store, index),
	};
	return csight_options_write(ret, sizeof(out), &out);
}

size_t csight_store_functions(const struct csight_store *s)
{
	return store_functions(s->store);
}

int csight_store_function(const struct csight_store *s, size_t index, struct csight_function *ret)
{
	const struct store_function *f;
	struct csight_function out;

	if (index >= store_functions(s->store))
		return -ENOENT;
	f = store_function(s->store, index);
	out = (struct csight_function){
		.name = f->name,
		.image = f->image,
		.file = f->file,
		.address = f->address,
		.calls = f->calls,
		.whole = f->whole,
		.total = f->total_ns,
		.self = f->self_ns,
		.wait = f->wait_ns,
		.total_instructions = f->total_instructions,
		.self_instructions = f->self_instructions,
		.shortest = f->shortest_ns,
		.median = f->median_ns,
		.p99 = f->p99_ns,
		.longest = f->longest_ns,
		.longest_enter = f->longest_enter,
		.longest_thread = f->longest_thread,
		.line = f->line,
		.inlined = f->kind == REGION_INLINED,
		.uncertain = f->calls_uncertain,
	};
	return csight_options_write(ret, sizeof(out), &out);
}

static bool matches(const struct csight_store *s, size_t index, const char *pattern)
{
	const struct store_function *f = store_function(s->store, index);

	return f->calls && store_name_matches(f->name, pattern);
}

int csight_store_find(const struct csight_store *s, const char *pattern, size_t *index)
{
	for (size_t i = *index; i < store_functions(s->store); i++)
		if (matches(s, i, pattern)) {
			*index = i;
			return 0;
		}
	return -ENOENT;
}

/* Sets which functions are wanted. -ENOENT: none. */
static int choose_functions(struct csight_calls *c, const char *pattern)
{
	size_t n = store_functions(c->store->store);
	int rc = -ENOENT;

	c->wanted = calloc(n + 1, 1);
	if (!c->wanted)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		c->wanted[i] = store_name_matches(store_function(c->store->store, i)->name, pattern);
		if (c->wanted[i])
			rc = 0;
	}
	return rc;
}

int csight_calls_open(const struct csight_store *s, const struct csight_calls_options *options,
		      struct csight_calls **ret)
{
	struct csight_calls_options o;
	struct csight_calls *c;
	int rc = csight_options_read(&o, sizeof(o), options);

	if (rc < 0)
		return rc;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->store = s;
	if (o.function)
		rc = choose_functions(c, o.function);
	if (rc == 0) {
		const struct store_finder_options finder = { .wanted = c->wanted,
							     .tid = o.tid ? (int64_t)o.tid : -1,
							     .since = o.since,
							     .until = o.until,
							     .least_ns = o.longer };

		rc = store_finder_new(s->store, &finder, &c->finder);
	}
	if (rc < 0) {
		csight_calls_close(c);
		return rc;
	}
	*ret = c;
	return 0;
}

struct csight_calls *csight_calls_close(struct csight_calls *c)
{
	if (!c)
		return NULL;
	store_finder_free(c->finder);
	free(c->wanted);
	free(c);
	return NULL;
}

int csight_calls_next(struct csight_calls *c, struct csight_call *ret)
{
	struct store_found_call call;
	struct csight_call out;
	int rc = store_finder_next(c->finder, &call);

	if (rc <= 0)
		return rc;
	out = (struct csight_call){
		.enter = call.frame.enter,
		.duration = call.ns,
		.wait = call.waited_ns,
		.bound = call.bound,
		.instructions = call.instructions,
		.entered = calls_kind_str(call.frame.kind),
		.left = calls_leave_str(call.left),
		.function = call.frame.function,
		.caller = call.caller,
		.thread = (uint32_t)call.thread,
		.depth = call.depth,
		.whole = call.whole,
	};
	rc = csight_options_write(ret, sizeof(out), &out);
	return rc < 0 ? rc : 1;
}

int csight_gaps_open(const struct csight_store *s, size_t thread, struct csight_gaps **ret)
{
	struct csight_gaps *g;
	int rc;

	if (thread >= store_threads(s->store))
		return -ENOENT;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	rc = store_iter_new(s->store, thread, &g->it);
	if (rc < 0) {
		free(g);
		return rc;
	}
	*ret = g;
	return 0;
}

struct csight_gaps *csight_gaps_close(struct csight_gaps *g)
{
	if (g)
		store_iter_free(g->it);
	free(g);
	return NULL;
}

int csight_gaps_next(struct csight_gaps *g, struct csight_gap *ret)
{
	struct store_event e;
	struct csight_gap out;
	int rc;

	while ((rc = store_iter_next(g->it, &e)) == 1) {
		if (e.type != STORE_GAP)
			continue;
		out = (struct csight_gap){ .from = e.time, .until = e.until, .cause = calls_gap_str(e.kind) };
		rc = csight_options_write(ret, sizeof(out), &out);
		return rc < 0 ? rc : 1;
	}
	return rc;
}

size_t csight_store_notes(const struct csight_store *s)
{
	return store_notes(s->store);
}

int csight_store_note(const struct csight_store *s, size_t index, struct csight_stored_note *ret)
{
	const struct store_note *n = store_note(s->store, index);
	struct csight_stored_note out;

	if (!n)
		return -ENOENT;
	out = (struct csight_stored_note){ .label = n->label,
					   .kind = store_note_kind_str(n->kind),
					   .time = n->time,
					   .until = n->until,
					   .value = n->kind == STORE_NOTE_OPEN ? 0 : n->value,
					   .tid = n->tid };
	return csight_options_write(ret, sizeof(out), &out);
}
