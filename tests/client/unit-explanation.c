/* SPDX-License-Identifier: MIT */
/* client/explanation.c: its lines add up, in random trees as in those beyond its limits; and they name what is planted.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/call-groups.h"
#include "client/explanation.h"
#include "tests/unit.h"

/* Function 0 is the one to explain; the last ones are a wait, a preemption, a system call and an inlined function. */
enum { FUNCTIONS = 1300, OWN = 12, LIBRARY = 20, WAITING = 1290, PREEMPTED, SYSCALL, INLINED };

static struct region functions[FUNCTIONS];
static char names[FUNCTIONS][16];
static const struct inlined site = {
	.function = &functions[INLINED], .call_file = "/home/u/a.c", .call_line = 7, .depth = 1
};

static struct store_writer *writer;
static uint32_t thread;
static int fd = -1;
static uint64_t now;
static unsigned depth;
static int stack[4096];

/* What a call of function 0 has taken, by function: brute force. */
struct truth {
	uint64_t self[FUNCTIONS], total;
};
static struct truth *truths;
static size_t n_truths;
static bool counting, failed;

static void pass(uint64_t ns)
{
	now += ns;
	if (!counting)
		return;
	truths[n_truths].self[stack[depth - 1]] += ns;
	truths[n_truths].total += ns;
}

static void put(enum call_event_type type, unsigned kind, int function)
{
	struct call_event e = { .type = type, .kind = (uint8_t)kind, .time = now, .instructions = now };

	if (type == CALL_EVENT_ENTER) {
		e.function = &functions[function];
		e.inlined = function == INLINED ? &site : NULL;
	}
	failed = failed || store_event(writer, thread, &e) < 0;
}

static void enter(int function)
{
	put(CALL_EVENT_ENTER,
	    function == INLINED  ? CALL_INLINED
	    : function < WAITING ? CALL_PLAIN
				 : CALL_SYSCALL,
	    function);
	stack[depth++] = function;
	/* The outermost frame is that of the thread. */
	if (function == 0 && depth == 2)
		counting = true;
}

static void leave(void)
{
	put(CALL_EVENT_LEAVE, LEAVE_RETURN, 0);
	if (--depth == 1) {
		counting = false;
		n_truths++;
	}
}

static void begin(void)
{
	const struct store_meta meta = { .pid = 1, .program = "p", .source = "emu" };

	for (int i = 0; i < FUNCTIONS; i++) {
		snprintf(names[i], sizeof(names[i]), "f%d", i);
		functions[i] = (struct region){ .id = (uint32_t)i,
						.start = 0x1000u * (unsigned)(i + 1),
						.name = names[i],
						.image = i < OWN ? "/home/u/a" : "/usr/lib/libx.so",
						.file = i < OWN ? "/home/u/a.c" : "",
						.line = (unsigned)i + 1 };
	}
	functions[WAITING].kind = REGION_WAITING;
	functions[PREEMPTED].kind = REGION_PREEMPTED;
	functions[SYSCALL].kind = REGION_SYSCALL;
	functions[INLINED].kind = REGION_INLINED;
	functions[INLINED].file = "/home/u/a.c";
	fd = memfd_create("store", MFD_CLOEXEC);
	now = 1000;
	n_truths = depth = 0;
	counting = false;
	truths = calloc(400, sizeof(*truths));
	CHECK_EQ(store_create(fd, &meta, &writer), 0);
	CHECK_EQ(store_thread_add(writer, 5, "main", &thread), 0);
	put(CALL_EVENT_SEGMENT, 0, 0);
	enter(OWN - 1);
}

/* What is explained. */
struct explained {
	struct store *store;
	uint8_t roots[FUNCTIONS + 8];
	struct call_list list;
	struct call_tree tree;
	struct explanation explanation;
};

static void end(struct explained *x)
{
	*x = (struct explained){ 0 };
	while (depth)
		put(CALL_EVENT_LEAVE, LEAVE_END, 0), depth--;
	CHECK(!failed);
	CHECK_EQ(store_thread_end(writer, thread, NULL), 0);
	CHECK_EQ(store_finish(writer), 0);
	CHECK_EQ(store_open(fd, &x->store), 0);
	for (size_t i = 0; i < store_functions(x->store); i++)
		x->roots[i] = strcmp(store_function(x->store, i)->name, "f0") == 0;
	CHECK_EQ(call_list_read(&x->list, x->store, x->roots, MEASURE_TIME), 0);
}

static void done(struct explained *x)
{
	explanation_done(&x->explanation);
	call_tree_done(&x->tree);
	call_list_done(&x->list);
	store_close(x->store);
	store_writer_free(writer);
	close(fd);
	free(truths);
}

static void explain(struct explained *x, size_t slow, size_t typical, uint64_t weight)
{
	int rc = call_tree_init(&x->tree, &x->list);

	for (uint64_t i = 0; rc == 0 && i < weight; i++)
		rc = call_tree_add(&x->tree, CALL_TREE_SLOW, &x->list.calls[slow], 1, 1);
	if (rc == 0)
		rc = call_tree_add(&x->tree, CALL_TREE_TYPICAL, &x->list.calls[typical], 1, weight);
	call_tree_finish(&x->tree);
	if (rc == 0)
		rc = explanation_make(&x->explanation, &x->tree, 0);
	CHECK_EQ(rc, 0);
}

static int64_t sum_of_lines(const struct explained *x)
{
	int64_t sum = 0;

	for (size_t i = 0; i < x->explanation.n; i++)
		sum += x->explanation.lines[i].difference;
	return sum;
}

static uint64_t drawn = 1;

static unsigned draw(unsigned n)
{
	drawn = drawn * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((drawn >> 33) % n);
}

static void random_calls(unsigned levels)
{
	for (unsigned n = draw(5); n--;) {
		int function = draw(6) ? (int)draw(LIBRARY) : WAITING + (int)draw(4);

		pass(draw(50));
		enter(function);
		pass(draw(draw(10) ? 20 : 5000));
		if (levels && (function < WAITING || function == INLINED))
			random_calls(levels - 1);
		leave();
		pass(draw(10));
	}
}

/* Compares the sums of the tree, by function, with brute force. */
static bool is_true(const struct explained *x, unsigned side, size_t call, uint64_t weight)
{
	uint64_t self[FUNCTIONS] = { 0 };

	self[PREEMPTED] = x->tree.preempted[side];
	for (size_t i = 0; i < x->tree.n; i++) {
		const struct store_function *f = explanation_function(&x->explanation, (uint32_t)i);

		self[atoi(f->name + 1)] += x->tree.nodes[i].side[side].self;
	}
	for (int i = 0; i < FUNCTIONS; i++)
		if (self[i] != truths[call].self[i] * weight)
			return false;
	return true;
}

/* Lines are sorted, and the last one may be of the rest. */
static bool is_sorted(const struct explained *x)
{
	const struct explanation *e = &x->explanation;
	bool good = true;

	for (size_t i = 1; i + 1 < e->n; i++)
		good = good && (e->difference < 0 ? e->lines[i - 1].difference <= e->lines[i].difference
						  : e->lines[i - 1].difference >= e->lines[i].difference);
	return good;
}

static void compare_any(struct explained *x)
{
	size_t slow = draw(30), typical = draw(30);
	uint64_t weight = 1 + draw(3);
	int64_t want = (int64_t)(truths[slow].total - truths[typical].total) * (int64_t)weight;

	explain(x, slow, typical, weight);
	CHECK(is_true(x, CALL_TREE_SLOW, slow, weight) && is_true(x, CALL_TREE_TYPICAL, typical, weight));
	CHECK_EQ(x->explanation.difference, want);
	CHECK_EQ(sum_of_lines(x), want);
	CHECK(is_sorted(x));
	explanation_done(&x->explanation);
	call_tree_done(&x->tree);
}

static void test_random(void)
{
	for (int round = 0; round < 30; round++) {
		struct explained x;
		bool same = true;

		begin();
		for (int i = 0; i < 30; i++) {
			enter(0);
			pass(100);
			random_calls(5);
			leave();
			now += draw(100);
		}
		end(&x);
		CHECK_EQ(x.list.n, 30);
		for (size_t i = 0; i < x.list.n; i++)
			same = same && x.list.calls[i].ns == truths[i].total;
		CHECK(same);
		for (int k = 0; k < 8; k++)
			compare_any(&x);
		done(&x);
	}
}

/* Calls function with some work, and what is between. */
static void call(int function, uint64_t ns)
{
	enter(function);
	pass(ns);
	leave();
}

static const struct explained_line *first_line(const struct explained *x)
{
	return &x->explanation.lines[0];
}

static void check_first(const struct explained *x, enum explained_kind kind, const char *named)
{
	const struct explained_line *line = first_line(x);

	CHECK_STR(explanation_kind_str(line->kind), explanation_kind_str(kind));
	CHECK_STR(explanation_function(&x->explanation, line->named)->name, named);
	CHECK_EQ(sum_of_lines(x), x->explanation.difference);
}

static struct explained planted;

/* Makes two calls: a typical one and a slow one. */
static void compare(void (*body)(bool slow), enum explained_kind kind, const char *named)
{
	begin();
	for (int slow = 0; slow < 2; slow++) {
		enter(0);
		pass(20);
		body(slow);
		leave();
	}
	end(&planted);
	explain(&planted, 1, 0, 1);
	check_first(&planted, kind, named);
}

static void only(bool slow)
{
	enter(1);
	pass(10);
	if (slow) {
		enter(2);
		pass(5);
		call(3, 900);
		leave();
	}
	leave();
}

static void more(bool slow)
{
	enter(1);
	for (int i = slow ? 100 : 1; i--;)
		call(2, 10);
	leave();
}

static void self(bool slow)
{
	enter(1);
	call(2, 10);
	pass(slow ? 1000 : 10);
	leave();
}

/* A wait beneath library functions is that of the program's function above them. */
static void waits(bool slow)
{
	enter(1);
	enter(2);
	enter(OWN + 1);
	pass(10);
	if (slow) {
		enter(OWN + 2);
		enter(SYSCALL);
		call(WAITING, 5000);
		leave();
		leave();
	}
	leave();
	leave();
	leave();
}

/* A library function that calls back. */
static void callback(bool slow)
{
	enter(1);
	for (int i = slow ? 50 : 2; i--;) {
		enter(OWN + 1);
		call(4, 30);
		leave();
	}
	leave();
}

/* Work that is spread over a library function. */
static void library(bool slow)
{
	enter(3);
	enter(OWN + 1);
	pass(slow ? 300 : 10);
	for (int i = 2; i < 6; i++)
		call(OWN + i, slow ? 300 : 10);
	leave();
	leave();
}

/* The recursion is one function, however deep. */
static void recursion(bool slow)
{
	int levels = slow ? 200 : 3;

	for (int i = 0; i < levels; i++) {
		enter(1);
		pass(10);
		enter(2);
		pass(10);
	}
	for (int i = 0; i < 2 * levels; i++)
		leave();
}

static void is_preempted(bool slow)
{
	enter(1);
	pass(10);
	if (slow)
		call(PREEMPTED, 10000);
	leave();
}

/* One function called from several others. */
static void places(bool slow)
{
	for (int i = 1; i < 5; i++) {
		enter(i);
		pass(20);
		if (slow)
			call(7, 400);
		leave();
	}
}

static void test_planted(void)
{
	compare(only, EXPLAINED_ONLY, "f2");
	CHECK_STR(explanation_function(&planted.explanation, first_line(&planted)->deepest)->name, "f3");
	CHECK_EQ(first_line(&planted)->difference, 905);
	done(&planted);
	compare(more, EXPLAINED_MORE, "f2");
	CHECK_EQ(first_line(&planted)->calls[CALL_TREE_SLOW], 100);
	CHECK_EQ(first_line(&planted)->calls[CALL_TREE_TYPICAL], 1);
	CHECK_STR(explanation_function(&planted.explanation, first_line(&planted)->caller)->name, "f1");
	done(&planted);
	compare(self, EXPLAINED_SELF, "f1");
	CHECK_EQ(first_line(&planted)->difference, 990);
	done(&planted);
	compare(waits, EXPLAINED_WAIT, "f2");
	CHECK_EQ(first_line(&planted)->wait, 5000);
	CHECK_STR(explanation_function(&planted.explanation, first_line(&planted)->syscall)->name, "f1292");
	done(&planted);
	compare(callback, EXPLAINED_MORE, "f4");
	CHECK_STR(explanation_function(&planted.explanation, first_line(&planted)->caller)->name, "f1");
	done(&planted);
	compare(library, EXPLAINED_LONGER, "f13");
	CHECK_EQ(first_line(&planted)->difference, 5 * 290);
	CHECK_EQ(planted.explanation.n, 1);
	done(&planted);
	compare(recursion, EXPLAINED_MORE, "f1");
	CHECK_EQ(first_line(&planted)->calls[CALL_TREE_SLOW], 200);
	done(&planted);
	compare(is_preempted, EXPLAINED_PREEMPTED, "f0");
	CHECK_EQ(first_line(&planted)->difference, 10000);
	done(&planted);
	compare(places, EXPLAINED_ONLY, "f7");
	CHECK_EQ(first_line(&planted)->places, 4);
	CHECK_EQ(first_line(&planted)->difference, 1600);
	done(&planted);
}

/* More paths than the tree has nodes, and a deeper one: what is beyond is in one line. */
static void wide(bool slow)
{
	for (int i = 1; i < 450; i++) {
		enter(i);
		for (int k = 1; slow && k < 450; k++)
			if (k != i)
				call(k, 1);
		leave();
	}
}

static void deep(bool slow)
{
	for (int i = 1; i < (slow ? 1250 : 2); i++) {
		enter(i);
		pass(3);
	}
	for (int i = 1; i < (slow ? 1250 : 2); i++)
		leave();
}

static bool has_line(enum explained_kind kind)
{
	for (size_t i = 0; i < planted.explanation.n; i++)
		if (planted.explanation.lines[i].kind == kind)
			return true;
	return false;
}

static void test_limits(void)
{
	begin();
	for (int slow = 0; slow < 2; slow++) {
		enter(0);
		pass(20);
		wide(slow);
		leave();
	}
	end(&planted);
	explain(&planted, 1, 0, 1);
	CHECK_EQ(planted.tree.n, CALL_TREE_NODES_MAX);
	CHECK_EQ(planted.explanation.difference, 449 * 448);
	CHECK_EQ(sum_of_lines(&planted), 449 * 448);
	CHECK(has_line(EXPLAINED_CUT));
	done(&planted);
	compare(deep, EXPLAINED_ONLY, "f2");
	CHECK_EQ(first_line(&planted)->difference, 1248 * 3);
	CHECK_EQ(planted.tree.n, CALL_TREE_DEPTH_MAX + 1);
	done(&planted);
}

/* A list with these values, and whether the largest one stands out. */
static bool stands_out(uint64_t (*value)(unsigned i), unsigned n)
{
	struct explained x;
	bool found;

	begin();
	for (unsigned i = 0; i < n; i++)
		call(0, value(i));
	end(&x);
	found = call_list_stands_out(&x.list, call_list_value(&x.list, &x.list.slowest));
	done(&x);
	return found;
}

static uint64_t equal(unsigned i)
{
	(void)i;
	return 1000;
}

static uint64_t nearly_equal(unsigned i)
{
	return 1000 + i % 7 + (i == 50 ? 60 : 0);
}

static uint64_t uniform(unsigned i)
{
	return 500 + (i * 7919) % 1000;
}

static uint64_t exponential(unsigned i)
{
	return (uint64_t)(-1000 * log((i + 0.5) / 300));
}

static uint64_t one_slow(unsigned i)
{
	return 900 + (i * 7919) % 200 + (i == 17 ? 5000 : 0);
}

static uint64_t misses(unsigned i)
{
	return i % 8 == 3 ? 8000 + i : 900 + i % 5;
}

/* Some are each a little slower than the one before. */
static uint64_t growing(unsigned i)
{
	return 200 + i % 20 + (i > 40 && i % 20 == 0 ? i * 10u : 0);
}

static void test_stands_out(void)
{
	CHECK(!stands_out(equal, 100));
	CHECK(!stands_out(nearly_equal, 100));
	CHECK(!stands_out(uniform, 300));
	CHECK(!stands_out(exponential, 300));
	CHECK(stands_out(one_slow, 100));
	CHECK(stands_out(misses, 200));
	CHECK(stands_out(growing, 300));
}

/* The value that at least this share of the calls does not exceed, as csight report and assert have it. */
static void test_quantiles(void)
{
	static const struct {
		unsigned calls;
		double share;
		uint64_t value;
	} cases[] = { { 1, 0.5, 1 },    { 1, 0.99, 1 },       { 2, 0.5, 1 },     { 3, 0.5, 2 },      { 10, 0.9, 9 },
		      { 11, 0.9, 10 },  { 11, 0.99, 11 },     { 99, 0.99, 99 },  { 100, 0.99, 99 },  { 101, 0.99, 100 },
		      { 100, 0.07, 7 }, { 1000, 0.999, 999 }, { 300, 0.9, 270 }, { 5, 0.0000001, 1 } };
	uint64_t values[1000];

	for (unsigned i = 0; i < ELEMENTS(values); i++)
		values[i] = i + 1;
	for (unsigned i = 0; i < ELEMENTS(cases); i++)
		CHECK_EQ(
		    call_list_quantile(&(struct call_list){ .n = cases[i].calls, .sorted = values }, cases[i].share),
		    cases[i].value);
}

/* Of the calls nearest to the median, the one that calls what the others call. */
static void test_typical(void)
{
	struct store_call typical;
	struct explained x;

	begin();
	for (int i = 0; i < 40; i++) {
		enter(0);
		pass(450 + (uint64_t)i % 3);
		call(i == 1 ? 3 : 2, i == 7 ? 90000 : 50);
		leave();
	}
	end(&x);
	CHECK_EQ(call_list_typical(&x.list, &x.list.slowest, &typical), 0);
	CHECK_EQ(typical.ns, 501);
	CHECK_EQ(x.list.calls[1].ns, 501);
	CHECK(typical.enter != x.list.calls[1].enter);
	CHECK_EQ(x.list.slowest.ns, 90451);
	done(&x);
	begin();
	call(0, 5);
	end(&x);
	CHECK_EQ(call_list_typical(&x.list, &x.list.slowest, &typical), -ENOENT);
	done(&x);
}

/* Three shapes; a factor of less than four makes no other, and neither does what library functions call. */
static void group_call(unsigned i)
{
	enter(0);
	pass(100);
	for (unsigned k = 0; k < 5 + i % 3; k++)
		call(1, 10);
	if (i % 10 == 3)
		call(2, 500);
	enter(OWN + 1);
	call(OWN + 2 + (int)(i % 2), 3);
	leave();
	for (unsigned k = 0; k < (i == 20 ? 100u : 1u); k++)
		call(3, 5);
	leave();
	now++;
}

static void test_groups(void)
{
	struct group_difference differences[4];
	struct call_groups groups;
	struct explained x;
	uint64_t sum = 0;

	begin();
	for (unsigned i = 0; i < 50; i++)
		group_call(i);
	end(&x);
	for (size_t i = 0; i < x.list.n; i++)
		sum += truths[i].total;
	CHECK_EQ(call_groups_read(&groups, &x.list), 0);
	CHECK_EQ(groups.n, 3);
	CHECK_EQ(groups.calls, 50);
	CHECK_EQ(groups.value, sum);
	CHECK_EQ(call_groups_usual(&groups)->calls, 44);
	CHECK_EQ(groups.groups[0].calls, 44);
	CHECK_EQ(groups.groups[1].calls, 5);
	CHECK_EQ(call_groups_compare(&groups, &groups.groups[1], differences, 4), 1);
	CHECK_STR(store_function(x.store, differences[0].function)->name, "f2");
	CHECK(differences[0].calls == 1 && differences[0].usual_calls == 0);
	CHECK_EQ(groups.groups[2].calls, 1);
	CHECK_EQ(groups.groups[2].slowest.ns, truths[20].total);
	CHECK_EQ(call_groups_compare(&groups, &groups.groups[2], differences, 4), 1);
	CHECK_STR(store_function(x.store, differences[0].function)->name, "f3");
	CHECK(differences[0].calls == 100 && differences[0].usual_calls == 1);
	call_groups_done(&groups);
	done(&x);
}

/* Calls that the trace has a part of. */
static void test_incomplete(void)
{
	const struct store_call *at;
	struct explained x;

	begin();
	call(0, 50);
	now += 10;
	enter(0);
	pass(500);
	/* A gap. */
	counting = false;
	put(CALL_EVENT_LEAVE, LEAVE_GAP, 0);
	put(CALL_EVENT_LEAVE, LEAVE_GAP, 0);
	depth = 0;
	put(CALL_EVENT_GAP, GAP_OVERFLOW, 0);
	now += 5;
	put(CALL_EVENT_SEGMENT, 0, 0);
	enter(OWN - 1);
	call(0, 60);
	end(&x);
	CHECK_EQ(x.list.n, 2);
	CHECK_EQ(x.list.incomplete, 1);
	CHECK_EQ(x.list.slowest.ns, 60);
	at = call_list_at(&x.list, 1000 + 50 + 10 + 499);
	CHECK(at && !at->whole && at->ns == 500);
	at = call_list_at(&x.list, 1000 + 50 + 5);
	CHECK(at && !at->whole);
	at = call_list_at(&x.list, 1000 + 20);
	CHECK(at && at->ns == 50);
	CHECK(!call_list_at(&x.list, now));
	done(&x);
}

int main(void)
{
	test_random();
	test_planted();
	test_limits();
	test_stands_out();
	test_quantiles();
	test_typical();
	test_groups();
	test_incomplete();
	return unit_end();
}
