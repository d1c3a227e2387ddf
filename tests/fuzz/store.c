/* SPDX-License-Identifier: MIT */
/* lib/store and lib/export: tables and events of a store, and all exports of it. */
#include "config.h"

#include <fcntl.h>

#include "client/call-groups.h"
#include "client/explanation.h"
#include "lib/export/decode-formats.h"
#include "tests/fuzz/fuzz.h"
#include "tests/store/storegen.h"

enum { EVENTS_MAX = 3000 };

static size_t touch(const char *text)
{
	return text ? strlen(text) : 0;
}

static void go_through(const struct store *s, size_t thread, uint64_t from, const uint8_t *wanted)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	const struct store_frame *stack;
	struct store_event e;

	if (store_iter_new(s, thread, &it) < 0 || store_iter_seek(it, from) < 0)
		return;
	store_iter_filter(it, wanted);
	for (int i = 0; i < EVENTS_MAX && store_iter_next(it, &e) == 1; i++) {
		size_t n = store_iter_stack(it, &stack);

		for (size_t k = 0; k < n; k++)
			fuzz_require(stack[k].function < store_functions(s) &&
				     (stack[k].site == STORE_NO_SITE ||
				      store_site(s, stack[k].site)->function == stack[k].function));
	}
}

static void read_all(const struct store *s)
{
	struct store_event e;

	for (size_t i = 0; i < store_threads(s); i++) {
		_cleanup_(store_iter_freep) struct store_iter *it = NULL;
		int rc = store_iter_new(s, i, &it);

		while (rc >= 0 && (rc = store_iter_next(it, &e)) == 1)
			;
		fuzz_require(rc == 0 || rc == -ENOMEM);
	}
}

/* A recovered store must be readable to its end. */
static void recover(int fd)
{
	_cleanup_close_ int to = memfd_create("recovered", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *s = NULL;
	uint64_t end;

	if (store_recover(fd, to, &end) < 0)
		return;
	fuzz_require(store_open(to, &s) == 0);
	read_all(s);
}

/* The same functions, some with other names. */
static void rename_some(const struct store *s)
{
	_cleanup_close_ int to = memfd_create("renamed", MFD_CLOEXEC);
	_cleanup_free_ struct store_name *some = calloc(store_functions(s) + 1, sizeof(*some));
	_cleanup_(store_closep) struct store *other = NULL;

	fuzz_require(some);
	for (size_t i = 0; i < store_functions(s); i += 2)
		some[i] = (struct store_name){ "other", i % 4 ? "file.c" : NULL, 7 };
	/* The bytes over the header have changed. */
	if (store_rename(s, to, some) < 0 || store_open(to, &other) < 0)
		return;
	fuzz_require(store_functions(other) == store_functions(s));
	for (size_t i = 0; i < store_functions(s); i += 2)
		fuzz_require(strcmp(store_function(other, i)->name, "other") == 0);
}

/* As csight reads it: with clones as one function, and with bounds. */
static void merge(struct store *s)
{
	_cleanup_free_ uint64_t *bounds = calloc(store_functions(s) + 1, sizeof(*bounds));

	fuzz_require(bounds);
	if (store_merge_clones(s) < 0 || store_function_bounds(s, bounds) < 0)
		return;
	for (size_t i = 0; i < store_functions(s); i++) {
		const struct store_function *f = store_function(s, i);

		fuzz_require(store_base_name(f->name) == strlen(f->name) || f->kind != REGION_FUNCTION);
		fuzz_require(!f->calls || store_thread(s, f->longest_thread));
		fuzz_require(f->whole <= f->calls &&
			     (!f->whole || (f->median_ns <= f->p99_ns && f->p99_ns <= f->longest_ns)));
	}
}

/* A physical view must be readable to its end. */
static void view_physically(const struct store *s)
{
	_cleanup_close_ int to = memfd_create("physical", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *view = NULL;

	if (store_physical(s, to) < 0)
		return;
	fuzz_require(store_open(to, &view) == 0);
	read_all(view);
}

/* The calls of a function, as csight explain reads them. The lines of an explanation add up for any events. */
static void explain(const struct store *s, const uint8_t *roots, const struct call_list *list)
{
	_cleanup_(explanation_done) struct explanation e = { 0 };
	_cleanup_(call_tree_done) struct call_tree tree = { 0 };
	_cleanup_close_ int to = memfd_create("calls", MFD_CLOEXEC);
	const char *const thread_names[] = { "slow", "typical" };
	struct store_call calls[2] = { list->slowest };
	const struct store_extract from = { roots, calls, thread_names, 2 };
	uint64_t sum = 0;

	if (!list->n || call_list_typical(list, &calls[0], &calls[1]) < 0 || call_tree_init(&tree, list) < 0 ||
	    call_tree_add(&tree, CALL_TREE_SLOW, &calls[0], 1, 1) < 0 ||
	    call_tree_add(&tree, CALL_TREE_TYPICAL, &calls[1], 1, 1) < 0)
		return;
	call_tree_finish(&tree);
	if (explanation_make(&e, &tree, 4) < 0)
		return;
	for (size_t i = 0; i < e.n; i++)
		sum += (uint64_t)e.lines[i].difference;
	fuzz_require(sum == (uint64_t)e.difference);
	explanation_find_waker(&e);
	store_extract_calls(s, to, &from);
}

static void explain_some(const struct store *s)
{
	_cleanup_free_ uint8_t *roots = calloc(store_functions(s) + 1, 1);

	fuzz_require(roots);
	for (size_t i = 0; i < MIN(store_functions(s), (size_t)8); i++) {
		struct call_list list = { 0 };
		struct call_groups groups = { 0 };

		roots[i] = 1;
		if (call_list_read(&list, s, roots, i % 2 ? MEASURE_TIME : MEASURE_INSTRUCTIONS) == 0) {
			explain(s, roots, &list);
			if (list.n && call_groups_read(&groups, &list) == 0)
				call_groups_compare(&groups, &groups.groups[groups.n - 1], NULL, 0);
			call_groups_done(&groups);
		}
		call_list_done(&list);
		roots[i] = 0;
	}
}

/* A redacted store must be a store, of the same functions, without a directory. */
static void redact(const struct store *s)
{
	_cleanup_close_ int to = memfd_create("redacted", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *other = NULL;

	if (store_redact(s, to) < 0)
		return;
	fuzz_require(store_open(to, &other) == 0 && store_functions(other) == store_functions(s));
	for (size_t i = 0; i < store_functions(other); i++)
		fuzz_require(!strchr(store_function(other, i)->image, '/') &&
			     !strchr(store_function(other, i)->file, '/'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int null = -1;
	_cleanup_close_ int fd = fuzz_fd(data, size);
	_cleanup_(store_closep) struct store *s = NULL;
	struct export_options options = EXPORT_DEFAULTS;
	struct export_result result;
	_cleanup_free_ uint8_t *wanted = NULL;
	size_t sum = 0;

	if (null < 0)
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	recover(fd);
	if (store_open(fd, &s) < 0)
		return 0;
	sum += touch(store_meta(s, "program")) + store_meta_number(s, "pid");
	for (size_t i = 0; i < store_functions(s); i++) {
		const struct store_function *f = store_function(s, i);

		sum += touch(f->name) + touch(f->image) + touch(f->build_id);
		fuzz_require(!f->calls || store_thread(s, f->longest_thread));
		fuzz_require(f->whole <= f->calls &&
			     (!f->whole || (f->median_ns <= f->p99_ns && f->p99_ns <= f->longest_ns)));
	}
	rename_some(s);
	view_physically(s);
	redact(s);
	wanted = calloc(store_functions(s) + 1, 1);
	fuzz_require(wanted);
	for (size_t i = 0; i < store_functions(s); i += 3)
		wanted[i] = 1;
	for (size_t i = 0; i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);

		sum += touch(t->name);
		go_through(s, i, 0, NULL);
		go_through(s, i, 0, wanted);
		go_through(s, i, t->first + (t->last - t->first) / 2, NULL);
	}
	merge(s);
	explain_some(s);
	options.budget = 500;
	for (size_t i = 0; i < DECODE_FORMAT_COUNT; i++)
		if (decode_formats[i].export)
			decode_formats[i].export->write(s, null, &options, &result);
	return sum == SIZE_MAX;
}

/* A store of the version before. */
static void seed_older(void)
{
	const char *top = getenv("top_srcdir");
	_cleanup_close_ int fd = -1;
	char path[4096];

	if (!top)
		return;
	snprintf(path, sizeof(path), "%s/tests/store/version-5/store", top);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		fuzz_seed_fd(fd);
}

void fuzz_seeds(void)
{
	static const size_t steps[] = { 0, 20, 400 };

	seed_older();

	for (size_t i = 0; i < ELEMENTS(steps); i++) {
		struct thread threads[2] = { 0 };
		_cleanup_close_ int fd = -1;

		clones = true;
		fd = make_store(threads, i ? 2 : 1, steps[i]);
		fuzz_seed_fd(fd);
		free(threads[0].events);
		free(threads[1].events);
	}
}
