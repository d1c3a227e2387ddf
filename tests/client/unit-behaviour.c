/* SPDX-License-Identifier: MIT */
/* client/behaviour.c and comparison.c: calls in batches, figures per call, and how functions of two traces match. */
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "client/comparison.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { MAIN, WORK, HELP, PART, LONE, WAIT, FUNCTIONS };

static struct region functions[FUNCTIONS] = {
	[MAIN] = { .name = "main", .image = "/a/app-1.2", .build_id = "" },
	[WORK] = { .name = "work", .image = "/a/app-1.2", .build_id = "" },
	[HELP] = { .name = "help", .image = "/lib/libhelp.so.1", .build_id = "" },
	[PART] = { .name = "work.part.0", .image = "/a/app-1.2", .build_id = "" },
	[WAIT] = { .kind = REGION_WAITING, .name = "waiting", .image = "", .build_id = "" },
	[LONE] = { .name = "lone", .image = "/a/app-1.2", .build_id = "" },
};

struct script {
	struct store_writer *writer;
	uint64_t now, waited;
	int rc;
};

/* An event after n instructions of 2 ns each. */
static void event(struct script *s, enum call_event_type type, unsigned kind, int function, unsigned n)
{
	struct call_event e = { .type = type,
				.kind = (uint8_t)kind,
				.time = 2 * (s->now += n) + s->waited,
				.instructions = s->now,
				.function = function < 0 ? NULL : &functions[function] };

	if (s->rc == 0)
		s->rc = store_event(s->writer, 0, &e);
}

static void enter(struct script *s, int function, unsigned n)
{
	event(s, CALL_EVENT_ENTER, CALL_PLAIN, function, n);
}

static void leave(struct script *s, unsigned n)
{
	event(s, CALL_EVENT_LEAVE, LEAVE_RETURN, -1, n);
}

/* Waits 50 ns; 30 instructions follow. */
static void wait_once(struct script *s)
{
	event(s, CALL_EVENT_ENTER, CALL_SYSCALL, WAIT, 0);
	s->waited += 50;
	event(s, CALL_EVENT_LEAVE, LEAVE_RETURN, -1, 0);
	s->now += 30;
}

/*
 * Calls of work, each with 10 instructions around and 30 in its part, which calls help twice for `cost` instructions.
 * The last call is not complete. One of `waiting` calls of work waits; 0: none.
 */
static int make(unsigned calls, unsigned cost, unsigned waiting, struct store **ret)
{
	const struct store_meta meta = { .pid = 1, .program = "p", .source = "emu" };
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_close_ int fd = memfd_create("behaviour", MFD_CLOEXEC);
	struct script s = { 0 };
	uint32_t thread;

	if (fd < 0 || store_create(fd, &meta, &w) < 0 || store_thread_add(w, 1, "t", &thread) < 0)
		return -1;
	s.writer = w;
	event(&s, CALL_EVENT_SEGMENT, 0, -1, 0);
	enter(&s, MAIN, 0);
	for (unsigned i = 0; i <= calls; i++) {
		enter(&s, WORK, 5);
		if (waiting && i % waiting == 0)
			wait_once(&s);
		enter(&s, PART, 4);
		for (int k = 0; k < 2; k++) {
			enter(&s, HELP, 10);
			leave(&s, cost);
		}
		if (i == calls)
			break;
		leave(&s, 10);
		leave(&s, 6);
	}
	for (int i = 0; i < 3; i++)
		event(&s, CALL_EVENT_LEAVE, LEAVE_END, -1, 100);
	if (s.rc < 0 || store_finish(w) < 0 || store_open(fd, ret) < 0 || store_merge_clones(*ret) < 0)
		return -1;
	return TAKE_FD(fd);
}

static const struct behaviour_function *find(const struct behaviour *b, const char *name)
{
	for (size_t i = 0; i < b->n_functions; i++)
		if (b->functions[i].calls && strcmp(b->functions[i].name, name) == 0)
			return &b->functions[i];
	return NULL;
}

/* Of waiting calls, those without waiting are compared. */
static void test_figures(unsigned calls, unsigned waiting)
{
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = make(calls, 7, waiting, &s);
	_cleanup_(behaviour_done) struct behaviour b = { 0 };
	const struct behaviour_function *work, *help;
	const struct behaviour_edge *edge = NULL;
	uint64_t n = 0, batches = 0, wrong = 0, waits = waiting ? (calls + waiting - 1) / waiting : 0;
	enum behaviour_set set = waiting ? BEHAVIOUR_UNWAITED : BEHAVIOUR_ALL;

	if (!CHECK(fd >= 0 && behaviour_read(s, &b) == 0))
		return;
	work = find(&b, "work");
	help = find(&b, "help");
	if (!CHECK(work && help && !find(&b, "lone")))
		return;
	CHECK(work->calls == calls + 1 && work->whole == calls && work->begun == calls + 1);
	CHECK(help->calls == 2 * (calls + 1) && help->whole == help->calls);
	for (unsigned i = 0; i < SPREAD_BATCHES; i++) {
		n += work->sets[set].n[i];
		batches += work->sets[set].n[i] != 0;
		wrong += work->sets[set].n[i] > calls / SPREAD_BATCHES + 1 ||
			 work->sets[set].instructions[i] != 40 * work->sets[set].n[i] ||
			 work->sets[set].ns[i] != 80 * work->sets[set].n[i];
	}
	CHECK_EQ(n, calls - waits);
	CHECK_EQ(work->sets[set].whole, n);
	/* The incomplete call has its place, too. */
	CHECK(waiting || batches + 1 >= MIN(calls, (unsigned)SPREAD_BATCHES));
	CHECK_EQ(wrong, 0);
	edge = behaviour_find_edge(&b, (size_t)(work - b.functions), (size_t)(help - b.functions));
	/* Calls from its part are calls from work; those of the incomplete call do not count. */
	CHECK(edge && edge->calls == 2 * calls);
	CHECK_EQ(b.instructions, (store_thread(s, 0)->last - 50 * waits) / 2);
}

static const struct compared_pair *pair_of(const struct comparison *c, const char *name)
{
	for (size_t i = 0; i < c->n_pairs; i++) {
		const struct behaviour_function *f = c->pairs[i].side[0] ? c->pairs[i].side[0] : c->pairs[i].side[1];

		if (strcmp(f->name, name) == 0)
			return &c->pairs[i];
	}
	return NULL;
}

/* Compares traces of n calls each, where help costs 100 on one side and `cost` on the other. */
static void test_change(unsigned a_calls, unsigned b_calls, unsigned cost, bool differs)
{
	_cleanup_(store_closep) struct store *a = NULL, *b = NULL;
	_cleanup_close_ int fd_a = make(a_calls, 100, 0, &a), fd_b = make(b_calls, cost, 0, &b);
	_cleanup_(comparison_done) struct comparison c = { .threshold = 0.03 };
	const struct compared_pair *work, *help;
	size_t found = 0;

	if (!CHECK(fd_a >= 0 && fd_b >= 0 && comparison_make(&c, a, b) == 0))
		return;
	work = pair_of(&c, "work");
	help = pair_of(&c, "help");
	if (!CHECK(work && help && work->side[0] && work->side[1] && help->side[0] && help->side[1]))
		return;
	CHECK(work->instructions.a == 40 && work->instructions.b == 40 && !work->instructions.differs);
	CHECK(help->instructions.a == 100 && help->instructions.b == cost);
	CHECK_EQ(help->instructions.differs, differs);
	for (size_t i = 0; i < c.n_calls; i++)
		found += c.calls[i].differs;
	CHECK_EQ(found, 0);
}

/* More calls wait on one side. */
static void test_waits(void)
{
	_cleanup_(store_closep) struct store *a = NULL, *b = NULL;
	_cleanup_close_ int fd_a = make(1000, 100, 3, &a), fd_b = make(1000, 100, 2, &b);
	_cleanup_(comparison_done) struct comparison c = { .threshold = 0.03 };
	const struct compared_pair *work;
	size_t found = 0;

	if (!CHECK(fd_a >= 0 && fd_b >= 0 && comparison_make(&c, a, b) == 0))
		return;
	work = pair_of(&c, "work");
	CHECK(work && work->set == BEHAVIOUR_UNWAITED && !work->instructions.differs && !work->time.differs);
	for (size_t i = 0; i < c.n_calls; i++)
		found += c.calls[i].differs;
	CHECK_EQ(found, 0);
}

int main(void)
{
	test_figures(1, 0);
	test_figures(7, 0);
	test_figures(19, 0);
	test_figures(20, 0);
	test_figures(45, 0);
	test_figures(1000, 0);
	test_figures(1000, 3);
	test_change(100, 100, 100, false);
	test_change(100, 1, 100, false);
	test_change(1, 100, 100, false);
	test_change(100, 300, 105, true);
	test_change(100, 100, 102, false);
	test_change(3, 4, 105, false);
	test_change(3, 4, 250, true);
	test_waits();
	/* Other versions of the files, and another name of one. */
	functions[MAIN].image = functions[WORK].image = functions[PART].image = "/b/app-1.3";
	functions[HELP].image = "/lib/helper";
	test_change(100, 100, 105, true);
	return unit_end();
}
