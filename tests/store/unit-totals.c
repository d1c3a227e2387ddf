/* SPDX-License-Identifier: MIT */
/* lib/store: the totals and the spread of each function, which are accumulated while writing. */
#include <stdlib.h>
#include <sys/mman.h>

#include "lib/base/util.h"
#include "lib/store/histogram.h"
#include "lib/store/store.h"
#include "tests/store/storegen.h"
#include "tests/unit.h"

static int compare_times(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/* Compares the duration statistics of a function with those of all its calls. Returns the number of errors. */
static unsigned compare_spread(const struct thread *t, const struct store_function *f, int which)
{
	uint64_t *times = calloc(t->n, sizeof(*times)), longest = 0;
	unsigned wrong = 0, found = 0;
	size_t n = 0;

	for (size_t i = 0, at = 0; i < t->n; i++) {
		const struct expected *e = &t->events[i];
		static uint8_t kinds[4096];

		if (e->type == STORE_ENTER)
			kinds[at++] = e->kind;
		if (e->type == STORE_LEAVE)
			at--;
		if (e->type != STORE_LEAVE || number_of(e->function) != which)
			continue;
		longest = MAX(longest, e->time - e->enter);
		found += e->enter == f->longest_enter && e->time - e->enter == f->longest_ns;
		if (kinds[at] != CALL_INFERRED && e->kind != LEAVE_GAP && e->kind != LEAVE_END)
			times[n++] = e->time - e->enter;
	}
	qsort(times, n, sizeof(*times), compare_times);
	wrong += f->longest_ns != longest || !found || f->longest_thread != 0;
	wrong += f->whole != n;
	if (n) {
		wrong += f->shortest_ns != times[0];
		wrong += !is_near(f->median_ns, times[(n - 1) / 2]);
		wrong += !is_near(f->p99_ns, times[n - n / 100 - 1]);
	}
	free(times);
	return wrong;
}

/* Removes the last call of a function, and those behind it. inner: not -1: is it there if that is the first in it? */
static bool take_cut(const int *cut, size_t *n, int function, int inner, bool *ret_inner)
{
	size_t k = *n, i;

	while (k && cut[k - 1] != function)
		k--;
	if (!k)
		return false;
	for (i = k; i < *n && cut[i] != inner;)
		i++;
	if (ret_inner)
		*ret_inner = i < *n;
	*n = k - 1;
	return true;
}

/*
 * Counts calls of functions that have been open since before a segment, the outermost first: those that a gap ended are
 * none. What each of them had called is over, but for an inlined function in the last one of the program.
 */
static void count_inferred(const struct expected *e, size_t n, const int *cut, size_t *n_cut, uint64_t *calls)
{
	if (n > 1 && e[n - 1].function > FUNCTIONS) {
		int inner = number_of(e[n - 1].function), outer = number_of(e[n - 2].function);
		bool same = false;

		if (!take_cut(cut, n_cut, outer, inner, &same)) {
			calls[outer]++;
			same = take_cut(cut, n_cut, inner, -1, NULL);
		}
		calls[inner] += !same;
		n -= 2;
	}
	while (n-- > 0)
		calls[number_of(e[n].function)] += !take_cut(cut, n_cut, number_of(e[n].function), -1, NULL);
}

/* Totals accumulated while writing equal sums over the events. */
static void test_totals(void)
{
	struct thread *t = calloc(1, sizeof(*t));
	_cleanup_close_ int fd = make_store(t, 1, 30000);
	_cleanup_(store_closep) struct store *s = NULL;
	uint64_t calls[NUMBERS] = { 0 }, total[NUMBERS] = { 0 }, wait[NUMBERS] = { 0 }, waited = 0, waits = 0, self = 0,
		 elapsed = 0, wrong = 0, gaps = 0;
	uint64_t first = t->events[0].time, last = t->events[t->n - 1].time;
	uint64_t before[NUMBERS] = { 0 };
	int active[NUMBERS] = { 0 };
	int *cut = calloc(t->n, sizeof(*cut)); /* calls that gaps ended, as they were in the stack */
	size_t n_cut = 0, left = 0, inferred = 0;

	if (!CHECK_EQ(store_open(fd, &s), 0))
		return;
	for (size_t i = 0; i < t->n; i++) {
		const struct expected *e = &t->events[i];

		if (e->type != STORE_ENTER || e->kind != CALL_INFERRED)
			inferred = i + 1;
		if (e->type == STORE_LEAVE && e->function == FUNCTIONS)
			waited += e->time - e->enter;
		if (e->type == STORE_ENTER) {
			bool more = i + 1 < t->n && t->events[i + 1].type == STORE_ENTER &&
				    t->events[i + 1].kind == CALL_INFERRED;

			if (e->kind == CALL_INFERRED && !more)
				count_inferred(&t->events[inferred], i + 1 - inferred, cut, &n_cut, calls);
			if (e->kind != CALL_INFERRED)
				calls[number_of(e->function)]++;
			if (!active[number_of(e->function)]++)
				before[number_of(e->function)] = waited;
		} else if (e->type == STORE_GAP) {
			gaps++;
			left = 0;
		} else if (e->type == STORE_LEAVE) {
			if (e->kind == LEAVE_GAP) {
				memmove(cut + n_cut - left + 1, cut + n_cut - left, left * sizeof(*cut));
				cut[n_cut - left] = number_of(e->function);
				n_cut++;
				left++;
			}
			if (--active[number_of(e->function)] == 0) {
				total[number_of(e->function)] += e->time - e->enter;
				wait[number_of(e->function)] += waited - before[number_of(e->function)];
			}
			if (e->depth == 0)
				elapsed += e->time - e->enter;
		}
	}
	for (size_t i = 0; i < store_functions(s); i++) {
		const struct store_function *f = store_function(s, i);
		int which = number_in(f);

		wrong += f->calls != calls[which];
		wrong += f->total_ns != total[which];
		wrong += f->wait_ns != wait[which];
		waits += f->wait_ns != 0 && f->wait_ns < f->total_ns;
		wrong += f->self_ns > f->total_ns;
		wrong += compare_spread(t, f, which);
		self += f->self_ns;
	}
	CHECK_EQ(wrong, 0);
	CHECK(waits > FUNCTIONS / 2);
	CHECK_EQ(wait[FUNCTIONS], waited);
	CHECK_EQ(self, elapsed);
	CHECK(gaps > 3);
	/* All gaps have one kind; their durations are those of the generated store. */
	CHECK_EQ(store_thread(s, 0)->gaps_of[GAP_NO_IMAGE].n, gaps);
	CHECK_EQ(store_thread(s, 0)->gaps_of[GAP_NO_IMAGE].ns, gaps * 5000);
	CHECK_EQ(store_quality(s, 0), (unsigned)(10000 - gaps * 5000.0 * 10000 / (double)(last - first)));
	CHECK_EQ(store_quality(s, SIZE_MAX), store_quality(s, 0));
	CHECK_EQ(store_last_slices(s, -1, UINT64_MAX, UINT64_MAX), store_thread(s, 0)->first);
	CHECK(store_last_slices(s, -1, UINT64_MAX, 100) > store_thread(s, 0)->first);
	free(cut);
	free(t->events);
	free(t);
}

/* Returns the number of whole calls of an inlined function, called once in two pieces, of which the second ends so. */
static uint64_t whole_in_pieces(enum leave_kind kind)
{
	const struct store_meta meta = { .pid = 1, .program = "p", .source = "emu" };
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *s = NULL;
	uint64_t whole = UINT64_MAX;
	struct thread t = { 0 };

	make_functions();
	CHECK_EQ(store_create(fd, &meta, &t.writer), 0);
	store_thread_add(t.writer, 1, "t", &t.index);
	segment(&t);
	enter(&t, CALL_PLAIN, 0);
	for (int piece = 0; piece < 2; piece++) {
		enter(&t, piece ? CALL_RESUMED : CALL_INLINED, FUNCTIONS + 1);
		t.time += 10;
		leave(&t, piece ? kind : LEAVE_RETURN);
		t.time += 10;
	}
	leave(&t, kind);
	CHECK(!t.failed && store_thread_end(t.writer, t.index, NULL) == 0 && store_finish(t.writer) == 0);
	store_writer_free(t.writer);
	free(t.events);
	if (!CHECK_EQ(store_open(fd, &s), 0))
		return whole;
	for (size_t i = 0; i < store_functions(s); i++)
		if (store_function(s, i)->kind == REGION_INLINED)
			whole = store_function(s, i)->whole;
	return whole;
}

static void test_pieces(void)
{
	CHECK_EQ(whole_in_pieces(LEAVE_RETURN), 1);
	CHECK_EQ(whole_in_pieces(LEAVE_GAP), 0);
	CHECK_EQ(whole_in_pieces(LEAVE_END), 0);
	CHECK_EQ(whole_in_pieces(LEAVE_SWITCH), 0);
}

int main(void)
{
	test_totals();
	test_pieces();
	return unit_end();
}
