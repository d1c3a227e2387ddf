/* SPDX-License-Identifier: MIT */
/*
 * Compares a snapshot's stacks with the emulator's log of stack pointers.
 *
 *   stacks SNAPSHOT TRUTH
 *
 * SNAPSHOT is a snapshot's directory with its store, TRUTH the directory that --truth and --truth-stacks wrote. For
 * each thread, at each instruction where either side enters or leaves a frame, or makes a system call, both must have
 * the same frames. That is compared twice: the store with the frames and their tail callers, and its physical view with
 * the frames alone. Of frames open before the trace, or before a stack was first traced, those known to the store are
 * compared. Differences where the store marks the depth as uncertain are counted separately. Prints the differences,
 * and "N compared, N differ, N uncertain, N odd"; exits with 0 if nothing differs.
 */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/base/util.h"
#include "lib/perfdata/read.h"
#include "lib/store/store.h"
#include "tests/calls/stacks.h"
#include "tests/emu/truth.h"

enum { SHOWN = 5, DEPTH_SHOWN = 12 };

struct result {
	uint64_t compared, differ, uncertain, odd, syscalls;
};

/* A runtime keeps its map when it ends. */
static int read_perf_map(struct region_map *regions, uint32_t pid)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct symbols *names = NULL;
	int rc = 0;

	if (asprintf(&path, "/tmp/perf-%" PRIu32 ".map", pid) < 0)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		rc = symbols_load_perf_map(fd, &names);
	if (names)
		region_map_set_names(regions, names, NULL);
	return rc;
}

/* Reads the program's mappings with their symbols from the recording, as the decoder does. */
static int read_regions(const char *snapshot, uint32_t pid, struct region_map **ret)
{
	_cleanup_free_ char *path = NULL;
	const struct pd_contents *contents;
	struct pd_problem problem;
	struct pd_file *file;
	struct region_map *regions;
	int fd, rc = 0;

	if (asprintf(&path, "%s/trace.perf.data", snapshot) < 0)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pd_open(fd, &file, &contents, &problem) < 0 || region_map_new(&regions) < 0)
		return -EBADMSG;
	for (size_t i = 0; rc == 0 && i < contents->n_maps; i++) {
		const struct pd_map *m = &contents->maps[i];
		struct region_mapping mapping = {
			.addr = m->addr, .len = m->len, .offset = m->offset, .time = m->time, .path = m->path
		};
		struct symbols *symbols = NULL;
		int image;

		if (m->pid != pid)
			continue;
		image = open(m->path, O_RDONLY | O_CLOEXEC);
		if (image >= 0 && symbols_load(image, &symbols) == 0)
			mapping.symbols = symbols;
		closep(&image);
		rc = region_map_add(regions, &mapping);
	}
	if (rc == 0)
		rc = read_perf_map(regions, pid);
	/* The maps' names are the file's, and live as long as this program. */
	*ret = regions;
	return rc;
}

static uint64_t count_instructions(const char *stacks)
{
	_cleanup_free_ char *path = strndup(stacks, strlen(stacks) - strlen(".stacks"));
	_cleanup_free_ char *name = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	struct truth_run run;
	uint64_t n = 0;

	if (!path || asprintf(&name, "%s.truth", path) < 0)
		abort();
	f = fopen(name, "re");
	while (f && fread(&run, sizeof(run), 1, f) == 1)
		n += run.count;
	return n;
}

struct view {
	const struct store *store;
	bool physical;
};

struct side {
	const struct store *store;
	struct store_iter *iter;
	struct store_event next;    /* the next event, not yet applied */
	struct store_frame *frames; /* without system calls and inlined functions */
	size_t n, capacity;
	bool more, ended, uncertain, physical;
	/* the thread changed to another stack in this step, which was not a correction of an uncertain one */
	bool switched;
	const struct truth_stack *last;
};

static int ahead(struct side *s)
{
	int rc = store_iter_next(s->iter, &s->next);

	if (rc < 0)
		return rc;
	s->more = rc > 0;
	/* Leaves at the end of the trace are not in the log. */
	s->ended = !s->more || (s->next.type == STORE_LEAVE && s->next.kind == LEAVE_END);
	return 0;
}

static bool same(const struct side *s, const struct store_frame *f, const struct region *region)
{
	const struct store_function *function = store_function(s->store, f->function);

	return function->address == region->start && strcmp(function->name, region->name) == 0;
}

/* Goes through the functions of the truth, innermost first. */
struct cursor {
	const struct truth_stack *stack;
	size_t frame;
	unsigned caller;
	bool physical;
};

static struct cursor cursor_at_top(const struct side *s, const struct truth_stack *truth)
{
	return (struct cursor){ truth, truth->n, 0, s->physical };
}

/* Returns NULL at the end. */
static const struct region *cursor_next(struct cursor *c)
{
	const struct truth_frame *f;

	if (c->caller)
		return c->stack->frames[c->frame].callers[--c->caller];
	if (!c->frame)
		return NULL;
	f = &c->stack->frames[--c->frame];
	c->caller = c->physical ? 0 : f->n_callers;
	return f->function;
}

/* Prints the frames, innermost first. */
static void show(const struct side *s, const struct truth_stack *truth)
{
	struct cursor c = cursor_at_top(s, truth);
	const struct region *f;

	printf("#   %s:", s->physical ? "physical view" : "store");
	for (size_t i = s->n; i-- > 0 && s->n - i <= DEPTH_SHOWN;)
		printf(" %s%s", store_function(s->store, s->frames[i].function)->name,
		       s->frames[i].kind == CALL_INFERRED ? "?" : "");
	printf("\n#   truth:");
	for (size_t i = 0; i < DEPTH_SHOWN && (f = cursor_next(&c)); i++)
		printf(" %s", f->name);
	printf("\n");
}

/*
 * Compares the frames from the innermost on. Of the frames that are older than the trace, the store has those returned
 * to; of a new stack, those that its first frame returns to.
 */
static bool is_same_stack(const struct side *s, struct cursor c)
{
	bool from_before = s->n && s->frames[0].kind == CALL_INFERRED, stub = c.frame == c.stack->n;
	const struct truth_stack *truth = c.stack;
	const struct region *f = NULL;
	size_t i = s->n;

	while (i > 0 && (f = cursor_next(&c))) {
		/* The store has the function that a stub jumps to in place of the stub. */
		if (!same(s, &s->frames[--i], f) && !(stub && f->kind == REGION_PLT))
			return false;
		stub = false;
	}
	if (!i)
		return from_before || !cursor_next(&c);
	return from_before && !truth->whole &&
	       (!truth->frames[0].ret || (i == 1 && same(s, &s->frames[0], truth->caller)));
}

static void compare(struct side *s, const struct stack_truth *t, uint64_t at, struct result *r)
{
	const struct truth_stack *truth = stack_truth_now(t);
	bool equal;

	if (!truth)
		return;
	equal = is_same_stack(s, cursor_at_top(s, truth));
	/* The store must not invent a stack. */
	equal = equal && (!s->switched || truth != s->last || s->uncertain);
	s->switched = false;
	s->last = truth;
	r->compared++;
	if (!equal && s->uncertain) {
		r->uncertain++;
	} else if (!equal && r->differ++ < SHOWN) {
		printf("# at instruction %" PRIu64 ":\n", at);
		show(s, truth);
	}
}

static void apply(struct side *s, bool *ret_system_call)
{
	const struct store_event *e = &s->next;

	if (e->type == STORE_GAP || e->type == STORE_MARK) {
		s->uncertain = e->type == STORE_MARK && e->kind == MARK_UNCERTAIN;
		return;
	}
	/* The log has no inlined functions; tests/calls/inlined.test compares those. */
	if (e->frame.site != STORE_NO_SITE)
		return;
	if (e->frame.kind == CALL_SYSCALL) {
		*ret_system_call = *ret_system_call || e->type == STORE_ENTER;
	} else if (e->type == STORE_LEAVE) {
		s->switched = s->switched || (e->kind == LEAVE_SWITCH && !s->uncertain);
		s->n--;
	} else {
		if (s->n == s->capacity) {
			s->capacity = s->capacity ? 2 * s->capacity : 64;
			s->frames = reallocarray(s->frames, s->capacity, sizeof(*s->frames));
			if (!s->frames)
				abort();
		}
		s->frames[s->n++] = e->frame;
	}
}

static int side_advance(struct side *s, uint64_t at, bool *ret_system_call)
{
	int rc = 0;

	while (rc == 0 && s->more && !s->ended && s->next.instructions <= at) {
		apply(s, ret_system_call);
		rc = ahead(s);
	}
	return rc;
}

static int compare_thread(const struct view *view, size_t index, struct stack_truth *truth, uint64_t before,
			  struct result *r)
{
	const struct store *store = view->store;
	struct side s = { .store = store, .physical = view->physical };
	int rc = store_iter_new(store, index, &s.iter);

	if (rc == 0)
		rc = ahead(&s);
	while (stack_truth_next(truth) < before)
		stack_truth_step(truth);
	/* The store cannot know them. */
	stack_truth_forget_callers(truth);
	while (rc == 0 && !s.ended) {
		uint64_t next = stack_truth_next(truth);
		uint64_t at = MIN(s.next.instructions, next == UINT64_MAX ? UINT64_MAX : next - before);
		bool theirs = false, ours = false;

		rc = side_advance(&s, at, &ours);
		while (stack_truth_next(truth) <= at + before)
			theirs = stack_truth_step(truth) || theirs;
		if (s.ended)
			break;
		compare(&s, truth, at, r);
		/* The return from fork or clone in a new process or thread is not its own system call. */
		if (theirs != ours && at && r->differ++ < SHOWN)
			printf("# at instruction %" PRIu64 ": system call in the %s alone\n", at,
			       ours ? "store" : "log");
		r->syscalls += theirs && ours;
	}
	store_iter_free(s.iter);
	free(s.frames);
	return rc;
}

static int compare_log(const struct view *view, size_t index, struct region_map *regions, const char *path,
		       struct result *r)
{
	uint64_t all = count_instructions(path), seen = store_thread(view->store, index)->instructions;
	struct stack_truth *truth;
	int rc = stack_truth_open(path, regions, &truth);

	if (rc < 0 || seen > all) {
		printf("# %s: %s\n", path, rc < 0 ? strerror(-rc) : "the log is shorter than the store");
		r->differ++;
		return 0;
	}
	rc = compare_thread(view, index, truth, all - seen, r);
	r->odd += stack_truth_odd(truth);
	stack_truth_close(truth);
	return rc;
}

static int compare_view(const struct view *view, struct region_map *regions, const char *truth, struct result *r)
{
	const struct store *store = view->store;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < store_threads(store); i++) {
		_cleanup_free_ char *pattern = NULL;
		glob_t logs;

		if (asprintf(&pattern, "%s/%u.%u.*.stacks", truth, (unsigned)store_meta_number(store, "pid"),
			     store_thread(store, i)->tid) < 0)
			return -ENOMEM;
		if (glob(pattern, 0, NULL, &logs) != 0 || logs.gl_pathc != 1) {
			printf("# thread %u has no log of its own\n", store_thread(store, i)->tid);
			r->differ++;
			continue;
		}
		rc = compare_log(view, i, regions, logs.gl_pathv[0], r);
		globfree(&logs);
	}
	return rc;
}

int main(int argc, char **argv)
{
	_cleanup_(store_closep) struct store *store = NULL, *physical = NULL;
	_cleanup_free_ char *path = NULL;
	struct region_map *regions;
	struct result r = { 0 };
	int fd, to = memfd_create("physical", MFD_CLOEXEC), rc;

	if (argc != 3)
		return 2;
	if (asprintf(&path, "%s/store", argv[1]) < 0)
		return 1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	rc = fd < 0 ? -errno : store_open(fd, &store);
	if (rc == 0)
		rc = store_physical(store, to);
	if (rc == 0)
		rc = store_open(to, &physical);
	if (rc == 0)
		rc = read_regions(argv[1], (uint32_t)store_meta_number(store, "pid"), &regions);
	if (rc == 0)
		rc = compare_view(&(struct view){ store, false }, regions, argv[2], &r);
	if (rc == 0)
		rc = compare_view(&(struct view){ physical, true }, regions, argv[2], &r);
	if (rc < 0)
		printf("# %s: %s\n", argv[1], strerror(-rc));
	printf("%" PRIu64 " compared, %" PRIu64 " differ, %" PRIu64 " uncertain, %" PRIu64 " odd, %" PRIu64
	       " system calls\n",
	       r.compared, r.differ, r.uncertain, r.odd, r.syscalls);
	return rc < 0 || r.differ || r.odd || !r.compared;
}
