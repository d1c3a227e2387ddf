/* SPDX-License-Identifier: MIT */
/* lib/store/clones.c: names without the suffixes of compiler clones; clones become their function, with exact totals.
 */
#include <string.h>
#include <sys/mman.h>

#include "lib/base/util.h"
#include "lib/store/store.h"
#include "tests/unit.h"

static void check_base(const char *name, const char *base)
{
	char got[256];

	snprintf(got, sizeof(got), "%.*s", (int)store_base_name(name), name);
	if (!unit_check(strcmp(got, base) == 0, __FILE__, __LINE__, "%s is a clone of %s", name, base))
		printf("# got %s\n", got);
}

static void test_names(void)
{
	static const char *const clones[][2] = {
		{ "visit.isra.0", "visit" },
		{ "visit.constprop.12", "visit" },
		{ "visit.part.3.cold", "visit" },
		{ "visit.cold", "visit" },
		{ "visit.cold.5", "visit" },
		{ "visit.lto_priv.0.isra.1.constprop.2", "visit" },
		{ "visit.llvm.1234567890123", "visit" },
		{ "visit.isra", "visit.isra" },
		{ "visit.1234", "visit.1234" },
		{ "visit.part.func1", "visit.part.func1" },
		{ "visit._omp_fn.0", "visit._omp_fn.0" },
		{ ".isra.0", ".isra.0" },
		{ "isra.0", "isra.0" },
		{ "", "" },
		{ ".0", ".0" },
		{ "0", "0" },
		{ "]", "]" },
		{ "a::f(int) [clone .isra.0]", "a::f(int)" },
		{ "a::f(int) [clone .part.0] [clone .cold]", "a::f(int)" },
		{ "a::f(int) [clone .constprop.0.isra.0]", "a::f(int)" },
		{ "a::f(int) [clone ._omp_fn.0]", "a::f(int) [clone ._omp_fn.0]" },
		{ "a::f(int) [clone ]", "a::f(int) [clone ]" },
		{ "a::f(int) [clone .cold", "a::f(int) [clone .cold" },
		{ " [clone .cold]", " [clone .cold]" },
		{ "a::operator[]", "a::operator[]" },
	};

	for (size_t i = 0; i < ELEMENTS(clones); i++)
		check_base(clones[i][0], clones[i][1]);
}

enum { CALLER, VISIT, VISIT_ISRA, VISIT_PART, OTHER, TWIN_A, TWIN_B, TWIN_CLONE, ALONE, FUNCTIONS };

static const struct region functions[FUNCTIONS] = {
	[CALLER] = { .name = "caller", .image = "/a", .build_id = "" },
	[VISIT] = { .name = "visit", .image = "/a", .build_id = "", .file = "a.c", .line = 3 },
	[VISIT_ISRA] = { .name = "visit.isra.0", .image = "/a", .build_id = "", .file = "a.c", .line = 3 },
	[VISIT_PART] = { .name = "visit.part.0", .image = "/a", .build_id = "", .file = "a.c", .line = 3 },
	/* Of other source lines: not a clone of those above. */
	[OTHER] = { .name = "visit.isra.1", .image = "/a", .build_id = "", .file = "b.c", .line = 9 },
	/* Two functions of one name: of which the clone is, nothing says. */
	[TWIN_A] = { .name = "twin", .image = "/a", .build_id = "", .start = 1 },
	[TWIN_B] = { .name = "twin", .image = "/a", .build_id = "", .start = 2 },
	[TWIN_CLONE] = { .name = "twin.part.0", .image = "/a", .build_id = "", .start = 3 },
	[ALONE] = { .name = "alone.constprop.0", .image = "/a", .build_id = "" },
};

struct script {
	struct store_writer *writer;
	uint32_t thread;
	uint64_t now;
	int rc;
};

/* Each event is 10 ns and 5 instructions after the one before. */
static void event(struct script *s, enum call_event_type type, int function)
{
	struct call_event e = { .type = type,
				.time = s->now += 10,
				.instructions = s->now / 2,
				.function = function < 0 ? NULL : &functions[function],
				.kind = type == CALL_EVENT_ENTER ? CALL_PLAIN : LEAVE_RETURN };

	if (s->rc == 0)
		s->rc = store_event(s->writer, s->thread, &e);
}

static void enter(struct script *s, int function)
{
	event(s, CALL_EVENT_ENTER, function);
}

static void leave(struct script *s)
{
	event(s, CALL_EVENT_LEAVE, -1);
}

static void leaf(struct script *s, int function)
{
	enter(s, function);
	leave(s);
}

/* visit > visit.part.0 > caller; visit.isra.0 > visit > visit.part.0; caller > visit.part.0; others */
static void write_events(struct script *s)
{
	event(s, CALL_EVENT_SEGMENT, -1);
	enter(s, CALLER);
	enter(s, VISIT);
	enter(s, VISIT_PART);
	leaf(s, CALLER);
	leave(s);
	leave(s);
	enter(s, VISIT_ISRA);
	enter(s, VISIT);
	leaf(s, VISIT_PART);
	leave(s);
	leave(s);
	leaf(s, VISIT_PART);
	leaf(s, OTHER);
	leaf(s, TWIN_A);
	leaf(s, TWIN_B);
	leaf(s, TWIN_CLONE);
	leaf(s, ALONE);
	leave(s);
}

static int make(struct store **ret)
{
	const struct store_meta meta = { .pid = 1, .program = "p", .source = "emu" };
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	int fd = memfd_create("clones", MFD_CLOEXEC);
	struct script s = { 0 };

	if (fd < 0 || store_create(fd, &meta, &w) < 0 || store_thread_add(w, 1, "t", &s.thread) < 0)
		return -1;
	s.writer = w;
	write_events(&s);
	if (s.rc < 0 || store_finish(w) < 0 || store_open(fd, ret) < 0)
		return -1;
	return fd;
}

static const struct store_function *function(const struct store *s, const char *name, const char *file)
{
	for (size_t i = 0; i < store_functions(s); i++)
		if (strcmp(store_function(s, i)->name, name) == 0 && strcmp(store_function(s, i)->file, file) == 0 &&
		    store_function(s, i)->calls)
			return store_function(s, i);
	return NULL;
}

static void test_totals(void)
{
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = make(&s);
	const struct store_function *visit;
	uint64_t before = 0, after = 0;
	size_t ran = 0, twins = 0;

	if (!CHECK(fd >= 0))
		return;
	for (size_t i = 0; i < store_functions(s); i++)
		before += store_function(s, i)->self_ns;
	CHECK(!function(s, "alone", ""));
	CHECK_EQ(store_merge_clones(s), 0);
	for (size_t i = 0; i < store_functions(s); i++) {
		const struct store_function *f = store_function(s, i);

		after += f->calls ? f->self_ns : 0;
		ran += f->calls != 0;
		twins += f->calls == 1 && strcmp(f->name, "twin") == 0;
	}
	CHECK_EQ(after, before);
	CHECK_EQ(ran, 7);
	CHECK_EQ(twins, 3);
	CHECK(function(s, "alone", ""));
	CHECK(function(s, "visit", "b.c") && function(s, "visit", "b.c")->calls == 1);
	visit = function(s, "visit", "a.c");
	if (!CHECK(visit))
		return;
	/* The parts beneath visit are not calls of their own, that beneath caller is one. */
	CHECK_EQ(visit->calls, 4);
	CHECK_EQ(visit->whole, 4);
	/* The outermost frames: 50, 50 and 10 ns. */
	CHECK_EQ(visit->total_ns, 110);
	CHECK_EQ(visit->total_instructions, 55);
	CHECK_EQ(visit->self_ns, 100);
	CHECK_EQ(visit->shortest_ns, 10);
	CHECK_EQ(visit->longest_ns, 50);
}

/* Iterators return one function for all clones, also through a filter. */
static void test_events(bool filtered)
{
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = make(&s);
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	size_t calls = 0, pieces = 0;
	uint8_t wanted[FUNCTIONS];
	struct store_event e;

	if (!CHECK(fd >= 0 && store_merge_clones(s) == 0 && store_iter_new(s, 0, &it) == 0))
		return;
	for (size_t i = 0; i < store_functions(s); i++)
		wanted[i] = strcmp(store_function(s, i)->name, "visit") == 0;
	if (filtered)
		store_iter_filter(it, wanted);
	while (store_iter_next(it, &e) == 1) {
		const struct store_function *f = store_function(s, e.frame.function);

		if (e.type != STORE_LEAVE || strcmp(f->name, "visit") != 0 || strcmp(f->file, "a.c") != 0)
			continue;
		calls += !e.frame.piece;
		pieces += e.frame.piece;
	}
	CHECK_EQ(calls, 4);
	CHECK_EQ(pieces, 2);
}

int main(void)
{
	test_names();
	test_totals();
	test_events(false);
	test_events(true);
	return unit_end();
}
