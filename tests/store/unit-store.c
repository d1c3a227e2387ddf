/* SPDX-License-Identifier: MIT */
/* lib/store: events are read back as written, from any position; truncated or damaged files are errors. */
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/store/format.h"
#include "lib/store/histogram.h"
#include "lib/store/store.h"
#include "tests/store/storegen.h"
#include "tests/unit.h"

static bool same(const struct store *s, const struct store_event *got, const struct expected *want)
{
	if (got->type != want->type || got->kind != want->kind || got->time != want->time ||
	    got->instructions != want->instructions || got->depth != want->depth)
		return false;
	if (got->type == STORE_GAP)
		return got->until == want->time + 5000;
	if (got->frame.site != STORE_NO_SITE || want->function > FUNCTIONS) {
		const struct store_site *site = store_site(s, got->frame.site);
		const struct inlined *place = &places[want->function - FUNCTIONS - 1];
		const struct store_function *f = store_function(s, got->frame.function);

		return site && want->function > FUNCTIONS && got->frame.enter == want->enter &&
		       site->line == place->call_line &&
		       strcmp(site->file, place->call_file ? place->call_file : "") == 0 &&
		       site->function == got->frame.function && strcmp(f->name, place->function->name) == 0 &&
		       f->line == place->function->line && f->kind == REGION_INLINED;
	}
	return got->frame.enter == want->enter &&
	       strcmp(store_function(s, got->frame.function)->name, name_in(want->function)) == 0;
}

/* Compares the events from one index on. Returns how many are equal before the first that is not. */
static size_t compare(const struct store *s, struct store_iter *it, const struct thread *t, size_t from, size_t limit)
{
	struct store_event e;
	size_t i = from;
	int rc;

	while ((rc = store_iter_next(it, &e)) == 1 && i < t->n && i - from < limit) {
		if (!same(s, &e, &t->events[i])) {
			printf("# event %zu: got type %d kind %u time %ju depth %u, want type %d kind %u time %ju "
			       "depth %u\n",
			       i, (int)e.type, e.kind, (uintmax_t)e.time, e.depth, (int)t->events[i].type,
			       t->events[i].kind, (uintmax_t)t->events[i].time, t->events[i].depth);
			return i - from;
		}
		i++;
	}
	return rc < 0 ? 0 : i - from;
}

static bool seek_and_compare(const struct store *s, const struct thread *t, uint64_t time)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	const struct store_frame *stack;
	size_t from = 0, depth = 0;
	static struct expected open[8192];
	uint64_t waited = 0;

	while (from < t->n && t->events[from].time < time) {
		depth += t->events[from].type == STORE_ENTER;
		depth -= t->events[from].type == STORE_LEAVE;
		if (t->events[from].type == STORE_LEAVE && t->events[from].function == FUNCTIONS)
			waited += t->events[from].time - t->events[from].enter;
		if (t->events[from].type == STORE_ENTER)
			open[t->events[from].depth] = t->events[from];
		from++;
	}
	if (store_iter_new(s, t->index, &it) < 0 || store_iter_seek(it, time) < 0)
		return false;
	if (store_iter_stack(it, &stack) != depth)
		return false;
	if (depth && open[depth - 1].function == FUNCTIONS)
		waited += time - open[depth - 1].enter;
	if (from < t->n && store_iter_waited(it, time) != waited)
		return false;
	for (size_t i = 0; i < depth; i++) {
		if (stack[i].enter != open[i].enter || stack[i].kind != open[i].kind)
			return false;
	}
	return compare(s, it, t, from, 300) == MIN((size_t)300, t->n - from);
}

static bool is_near(uint64_t got, uint64_t want)
{
	return got <= want + want / 16 + 1 && want <= got + got / 16 + 1;
}

/* Classes are contiguous, and each contains its representative time. */
static void test_classes(void)
{
	unsigned last = 0, wrong = 0;

	for (uint64_t ns = 1; ns < (uint64_t)1 << 62; ns += ns / 100 + 1) {
		unsigned class = histogram_class(ns);

		wrong += class < last || class > last + 1 || class >= HISTOGRAM_CLASSES;
		wrong += histogram_class(histogram_time(class)) != class || !is_near(histogram_time(class), ns);
		last = class;
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(histogram_class(UINT64_MAX), HISTOGRAM_CLASSES - 1);
}

static void test_round_trip(size_t n, size_t steps, size_t blocks_at_least)
{
	struct thread *threads = calloc(n, sizeof(*threads));
	_cleanup_close_ int fd = make_store(threads, n, steps);
	_cleanup_(store_closep) struct store *s = NULL;
	size_t events = 0, good = 0, seeks = 0;
	off_t size = lseek(fd, 0, SEEK_END);

	if (!CHECK(fd >= 0) || !CHECK_EQ(store_open(fd, &s), 0))
		return;
	CHECK_EQ(store_threads(s), n);
	CHECK_EQ(store_meta_number(s, "pid"), 77);
	CHECK_STR(store_meta(s, "program"), "prog");
	CHECK(!store_meta(s, "id"));
	for (size_t i = 0; i < n; i++) {
		_cleanup_(store_iter_freep) struct store_iter *it = NULL;
		const struct store_thread *t = store_thread(s, i);

		CHECK_EQ(t->tid, 100 + i);
		CHECK_EQ(store_iter_new(s, i, &it), 0);
		events += threads[i].n;
		good += compare(s, it, &threads[i], 0, SIZE_MAX);
		for (int k = 0; k < 60; k++) {
			uint64_t time = t->first + (t->last + 100 - t->first) * (unsigned)k / 57;

			seeks += seek_and_compare(s, &threads[i], time);
			/* Exactly at an event; several events may have the same time. */
			seeks +=
			    seek_and_compare(s, &threads[i], threads[i].events[(size_t)rand() % threads[i].n].time);
		}
	}
	CHECK_EQ(good, events);
	CHECK_EQ(seeks, n * 120);
	CHECK((size_t)size > blocks_at_least * 65536);
	printf("# %zu events, %jd bytes\n", events, (intmax_t)size);
	for (size_t i = 0; i < n; i++)
		free(threads[i].events);
	free(threads);
}

/* With a filter: every leave of one function, and only some of the other events. */
static void test_only(void)
{
	struct thread *t = calloc(1, sizeof(*t));
	_cleanup_close_ int fd = make_store(t, 1, 300000);
	_cleanup_(store_closep) struct store *s = NULL;
	size_t wrong = 0, returned = 0, all = 0;

	if (!CHECK_EQ(store_open(fd, &s), 0))
		return;
	for (size_t f = 0; f < store_functions(s); f++) {
		_cleanup_(store_iter_freep) struct store_iter *it = NULL;
		uint8_t wanted[NUMBERS] = { 0 };
		int which = number_in(store_function(s, f));
		struct store_event e;
		size_t i = 0;

		wanted[f] = 1;
		wrong += store_iter_new(s, 0, &it) != 0;
		store_iter_filter(it, wanted);
		while (store_iter_next(it, &e) == 1) {
			returned++;
			if (e.type != STORE_LEAVE || e.frame.function != f)
				continue;
			while (i < t->n &&
			       (t->events[i].type != STORE_LEAVE || number_of(t->events[i].function) != which))
				i++;
			wrong += i == t->n || t->events[i].time != e.time || t->events[i].enter != e.frame.enter ||
				 t->events[i].depth != e.depth;
			i++;
		}
		while (i < t->n && (t->events[i].type != STORE_LEAVE || number_of(t->events[i].function) != which))
			i++;
		wrong += i != t->n;
		all += t->n;
	}
	CHECK_EQ(wrong, 0);
	CHECK(returned < all);
	printf("# %zu of %zu events were read\n", returned, all);
	free(t->events);
	free(t);
}

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

/* True if a cut thread ends with this event: its frames are left by a gap. */
static bool ends_with_gap(struct store_iter *it, struct store_event e)
{
	while (e.type == STORE_LEAVE && e.kind == LEAVE_GAP)
		if (store_iter_next(it, &e) != 1)
			return false;
	return e.type == STORE_GAP && e.kind == GAP_TRUNCATED && store_iter_next(it, &e) == 0;
}

/*
 * Counts the events of a thread that equal those written; SIZE_MAX if there are others. Roots are not compared, since
 * they are known at the end of a segment only. cut: the thread may end at any event.
 */
static size_t count_true(const struct store *s, struct store_iter *it, const struct thread *t, bool cut)
{
	struct store_event e = { 0 };
	size_t i = 0, n = 0;
	int rc;

	while ((rc = store_iter_next(it, &e)) == 1) {
		if (e.type == STORE_ENTER && e.kind == CALL_INFERRED)
			continue;
		while (i < t->n && t->events[i].type == STORE_ENTER && t->events[i].kind == CALL_INFERRED)
			i++;
		if (i < t->n) {
			struct expected want = t->events[i++];

			want.depth = e.depth;
			if (same(s, &e, &want) ||
			    (cut && e.type == STORE_GAP && e.time == want.time && e.kind == want.kind)) {
				n++;
				continue;
			}
		}
		return cut && ends_with_gap(it, e) ? n : SIZE_MAX;
	}
	return rc < 0 || (cut && e.type != STORE_GAP) ? SIZE_MAX : n;
}

/*
 * Reads a store that may be damaged: each event must be one that was written, or the store is refused. Returns the
 * number of events of all threads, or SIZE_MAX if any is wrong.
 */
static size_t read_damaged(int fd, const struct thread *threads, bool *ret_refused)
{
	_cleanup_close_ int to = memfd_create("recovered", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *s = NULL;
	uint64_t end = 0;
	size_t sum = 0;
	int rc = store_open(fd, &s);
	bool cut = rc == -ENODATA;

	*ret_refused = false;
	if (cut) {
		rc = store_recover(fd, to, &end);
		if (rc < 0 && rc != -ENODATA && rc != -EBADMSG)
			return SIZE_MAX;
		rc = rc == 0 ? store_open(to, &s) : rc;
	}
	*ret_refused = rc < 0;
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++) {
		_cleanup_(store_iter_freep) struct store_iter *it = NULL;
		struct store_event e;
		size_t n;

		rc = store_iter_new(s, i, &it);
		/* Damage within a block is detected when it is read. */
		while (rc == 0 && (rc = store_iter_next(it, &e)) == 1)
			rc = 0;
		*ret_refused = *ret_refused || rc < 0;
		if (rc < 0 || store_iter_seek(it, 0) < 0)
			break;
		n = count_true(s, it, &threads[i], cut);
		if (n == SIZE_MAX)
			return SIZE_MAX;
		sum += n;
	}
	return sum;
}

static int copy_of(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("copy", MFD_CLOEXEC);

	io_write(fd, bytes, size);
	return fd;
}

/* Truncated at a thousand places, a store has its whole chunks, and more of them the later it was truncated. */
static void test_cut(void)
{
	struct thread *threads = calloc(2, sizeof(*threads));
	_cleanup_close_ int fd = make_store(threads, 2, 60000);
	size_t size = (size_t)lseek(fd, 0, SEEK_END), last = 0, most = 0, all, wrong = 0, grew = 0, refused = 0;
	_cleanup_free_ uint8_t *bytes = malloc(size);
	bool is_refused;

	CHECK_EQ(pread(fd, bytes, size, 0), size);
	all = read_damaged(fd, threads, &is_refused);
	CHECK(!is_refused && all != SIZE_MAX && all > 60000);
	for (size_t i = 0; i < 1000; i++) {
		size_t cut = size * i / 1000 + (size_t)rand() % (size / 1000);
		_cleanup_close_ int cut_fd = copy_of(bytes, cut);
		size_t n = read_damaged(cut_fd, threads, &is_refused);

		wrong += n == SIZE_MAX || n < last;
		grew += n > last;
		refused += is_refused;
		last = n;
		most = MAX(most, n);
	}
	CHECK_EQ(wrong, 0);
	CHECK(grew > 4);
	CHECK(refused < 3);
	CHECK_EQ(most, all);
	printf("# %zu bytes, %zu events; %zu cuts refused\n", size, all, refused);
	free(threads[0].events);
	free(threads[1].events);
	free(threads);
}

static void test_flips(void)
{
	struct thread *t = calloc(2, sizeof(*t));
	_cleanup_close_ int fd = make_store(t, 2, 120);
	size_t size = (size_t)lseek(fd, 0, SEEK_END), refused = 0, wrong = 0, less = 0, all;
	_cleanup_free_ uint8_t *bytes = malloc(size);
	bool is_refused;

	all = read_damaged(fd, t, &is_refused);
	CHECK(!is_refused && all != SIZE_MAX);
	CHECK_EQ(pread(fd, bytes, size, 0), size);
	for (size_t at = 0; at < size; at++) {
		static const uint8_t masks[] = { 0x01, 0x80, 0xff };

		for (size_t k = 0; k < ELEMENTS(masks); k++) {
			uint8_t byte = bytes[at] ^ masks[k];
			size_t n;

			io_pwrite(fd, &byte, 1, (off_t)at);
			n = read_damaged(fd, t, &is_refused);
			wrong += n == SIZE_MAX;
			refused += is_refused;
			less += !is_refused && n < all;
		}
		io_pwrite(fd, &bytes[at], 1, (off_t)at);
	}
	CHECK_EQ(wrong, 0);
	CHECK(refused > 0);
	printf("# %zu bytes; of %zu flips %zu refused, %zu left less\n", size, 3 * size, refused, less);
	/* Another version and files of other formats have errors of their own. */
	bytes[8] = STORE_VERSION + 1;
	io_pwrite(fd, bytes, STORE_HEADER_SIZE, 0);
	{
		struct store *s = NULL;

		CHECK_EQ(store_open(fd, &s), -EPROTONOSUPPORT);
		memset(bytes, 0, STORE_HEADER_SIZE);
		io_pwrite(fd, bytes, STORE_HEADER_SIZE, 0);
		CHECK_EQ(store_open(fd, &s), -EBADMSG);
		CHECK(!s);
	}
	for (int i = 0; i < 2; i++)
		free(t[i].events);
	free(t);
}

static uint64_t word_at(int fd, uint64_t at)
{
	uint64_t word = 0;

	CHECK_EQ(pread(fd, &word, sizeof(word), (off_t)at), sizeof(word));
	return word;
}

/* Returns true if the events are consistent: no frame is left that was not entered. */
static bool followed(int fd, bool *ret_whole)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	struct store_event e;
	uint32_t depth = 0;
	int rc;

	*ret_whole = false;
	if (store_open(fd, &s) < 0 || store_iter_new(s, 0, &it) < 0)
		return true;
	while ((rc = store_iter_next(it, &e)) == 1) {
		if (e.type == STORE_ENTER && e.depth != depth++)
			return false;
		if (e.type == STORE_LEAVE && (!depth || e.depth != --depth))
			return false;
	}
	*ret_whole = rc == 0;
	return true;
}

/* Recomputes the checksums of a section, of the section table and of the header. */
static void sign(int fd, uint64_t entry)
{
	uint64_t table = word_at(fd, 24), size = word_at(fd, entry + 16), n = word_at(fd, 32) & UINT32_MAX;
	_cleanup_free_ uint8_t *bytes = malloc(size + n * STORE_SECTION_SIZE);
	uint8_t header[STORE_HEADER_SIZE];
	uint32_t sum;

	CHECK_EQ(pread(fd, bytes, size, (off_t)word_at(fd, entry + 8)), size);
	sum = htole32(store_checksum(bytes, size));
	io_pwrite(fd, &sum, sizeof(sum), (off_t)entry + 24);
	CHECK_EQ(pread(fd, bytes, n * STORE_SECTION_SIZE, (off_t)table), n * STORE_SECTION_SIZE);
	sum = htole32(store_checksum(bytes, n * STORE_SECTION_SIZE));
	io_pwrite(fd, &sum, sizeof(sum), 36);
	CHECK_EQ(pread(fd, header, sizeof(header), 0), sizeof(header));
	sum = htole32(store_checksum(header, sizeof(header) - sizeof(sum)));
	io_pwrite(fd, &sum, sizeof(sum), STORE_HEADER_SIZE - sizeof(sum));
}

/* A block whose initial stack differs from the end of the block before is refused. */
static void test_joints(void)
{
	struct thread *t = calloc(1, sizeof(*t));
	_cleanup_close_ int fd = make_store(t, 1, 200000);
	uint64_t table = word_at(fd, 24), blocks = 0, size = 0, entry = 0, wrong = 0, refused = 0, n;
	bool whole;

	for (uint64_t at = table; !blocks && at < table + SECTION_TYPES * STORE_SECTION_SIZE; at += STORE_SECTION_SIZE)
		if ((uint32_t)word_at(fd, at) == SECTION_BLOCKS) {
			entry = at;
			blocks = word_at(fd, at + 8);
			size = word_at(fd, at + 16);
		}
	n = size / BLOCK_SIZE;
	CHECK(n > 4);
	CHECK(followed(fd, &whole) && whole);
	for (uint64_t i = 1; i + 1 < n; i++) {
		uint64_t here = blocks + i * BLOCK_SIZE, next = here + BLOCK_SIZE;
		uint64_t mine[2] = { word_at(fd, here), word_at(fd, here + 8) };
		uint64_t other[2] = { word_at(fd, next), word_at(fd, next + 8) };
		uint64_t sums = word_at(fd, here + 64), other_sums = word_at(fd, next + 64);

		io_pwrite(fd, other, sizeof(other), (off_t)here);
		io_pwrite(fd, &other_sums, sizeof(other_sums), (off_t)here + 64);
		sign(fd, entry);
		wrong += !followed(fd, &whole);
		refused += !whole;
		io_pwrite(fd, mine, sizeof(mine), (off_t)here);
		io_pwrite(fd, &sums, sizeof(sums), (off_t)here + 64);
	}
	CHECK_EQ(wrong, 0);
	CHECK(refused > 0);
	printf("# %ju blocks, %ju of another's place refused\n", (uintmax_t)n, (uintmax_t)refused);
	free(t->events);
	free(t);
}

/* Events in an invalid order are refused. */
static void test_misuse(void)
{
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);
	struct store_meta meta = { .pid = 1 };
	struct call_event leave_none = { CALL_EVENT_LEAVE, LEAVE_RETURN, 5, 5, 0, NULL };
	struct call_event first = { CALL_EVENT_SEGMENT, 0, 10, 10, 0, NULL };
	struct call_event earlier = { CALL_EVENT_ENTER, CALL_SYSCALL, 9, 11, 0, NULL };
	uint32_t thread;

	CHECK_EQ(store_create(fd, &meta, &w), 0);
	CHECK_EQ(store_event(w, 0, &first), -EINVAL);
	CHECK_EQ(store_thread_add(w, 1, "", &thread), 0);
	CHECK_EQ(store_event(w, thread, &leave_none), -EINVAL);
	CHECK_EQ(store_event(w, thread, &first), 0);
	CHECK_EQ(store_event(w, thread, &earlier), -EINVAL);
	/* Between a gap and the next segment nothing runs. */
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_GAP, GAP_PAUSED, 10, 10, 0, NULL }), 0);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_ENTER, CALL_SYSCALL, 11, 11, 0, NULL }),
		 -EINVAL);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_ROOT, 0, 11, 11, 0, NULL }), -EINVAL);
	CHECK_EQ(store_event(w, thread,
			     &(struct call_event){ CALL_EVENT_MOVE, 0, 11, 11, 0, .inlined = nested, .entered = 1 }),
		 -EINVAL);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_SEGMENT, 0, 11, 11, 0, NULL }), 0);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_MOVE, 0, 11, 11, 0, .left = 1 }), -EINVAL);
	CHECK_EQ(store_event(w, thread,
			     &(struct call_event){ CALL_EVENT_MOVE, 0, 11, 11, 0, .inlined = nested, .entered = 2 }),
		 -EINVAL);
}

/* Steps of centuries in time, as in a garbled trace. */
static void test_far(void)
{
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);
	const uint64_t times[] = { 5, (uint64_t)1 << 61, UINT64_MAX - 1, UINT64_MAX };
	struct store_meta meta = { .pid = 1 };
	struct store_event e;
	uint32_t thread;

	make_functions();
	CHECK_EQ(store_create(fd, &meta, &w), 0);
	CHECK_EQ(store_thread_add(w, 1, "", &thread), 0);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_SEGMENT, 0, 0, 0, 0, NULL }), 0);
	for (size_t i = 0; i < ELEMENTS(times); i++)
		CHECK_EQ(
		    store_event(w, thread,
				&(struct call_event){ CALL_EVENT_ENTER, CALL_PLAIN, times[i], i, 0, &functions[i] }),
		    0);
	for (size_t i = 0; i < ELEMENTS(times); i++)
		CHECK_EQ(store_event(w, thread,
				     &(struct call_event){ CALL_EVENT_LEAVE, LEAVE_RETURN, UINT64_MAX, 9, 0, NULL }),
			 0);
	CHECK_EQ(store_thread_end(w, thread, NULL), 0);
	CHECK_EQ(store_finish(w), 0);
	CHECK_EQ(store_open(fd, &s), 0);
	CHECK_EQ(store_iter_new(s, 0, &it), 0);
	for (size_t i = 0; i < ELEMENTS(times); i++)
		CHECK(store_iter_next(it, &e) == 1 && e.type == STORE_ENTER && e.time == times[i]);
	for (size_t i = ELEMENTS(times); i-- > 0;)
		CHECK(store_iter_next(it, &e) == 1 && e.type == STORE_LEAVE && e.frame.enter == times[i]);
	CHECK_EQ(store_iter_next(it, &e), 0);
}

/* Returns from a recursion that is deeper than a reader's stack, and that began before the trace. */
static void test_many_roots(void)
{
	enum { RETURNS = 140000 };
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);
	struct call_event enter = { CALL_EVENT_ENTER, CALL_INFERRED, 1, 1, 0, &functions[0] };
	struct call_event leave = { CALL_EVENT_LEAVE, LEAVE_RETURN, 1, 1, 0, NULL };
	struct store_event e;
	uint32_t thread, enters = 0, n = 0;
	bool failed = false;

	make_functions();
	CHECK_EQ(store_create(fd, &(struct store_meta){ .pid = 1 }, &w), 0);
	CHECK_EQ(store_thread_add(w, 1, "", &thread), 0);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_SEGMENT, 0, 1, 1, 0, NULL }), 0);
	for (int i = 0; i <= RETURNS; i++) {
		failed = failed || store_event(w, thread, &enter) < 0 || store_event(w, thread, &leave) < 0;
		enter.type = CALL_EVENT_ROOT;
		enter.time = ++leave.time;
	}
	CHECK(!failed);
	CHECK_EQ(store_thread_end(w, thread, NULL), 0);
	CHECK_EQ(store_finish(w), 0);
	CHECK_EQ(store_open(fd, &s), 0);
	CHECK_EQ(s ? store_iter_new(s, 0, &it) : -1, 0);
	for (; it && store_iter_next(it, &e) == 1; n++)
		enters += e.type == STORE_ENTER;
	CHECK(enters == RETURNS + 1 && n == 2 * enters);
}

/* A thread whose tracing stops and starts more often than a store holds ends with a gap. */
static void test_many_segments(void)
{
	enum { SEGMENTS = 2 << 20 };
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);
	struct call_event begin = { CALL_EVENT_SEGMENT, 0, 1, 1, 0, NULL };
	struct call_event gap = { CALL_EVENT_GAP, GAP_PAUSED, 2, 1, 0, NULL };
	struct store_event e = { 0 };
	uint32_t thread, n = 0;
	bool failed = false;

	CHECK_EQ(store_create(fd, &(struct store_meta){ .pid = 1 }, &w), 0);
	CHECK_EQ(store_thread_add(w, 1, "", &thread), 0);
	for (int i = 0; i < SEGMENTS + 10; i++) {
		failed = failed || store_thread_is_cut(w, thread) != (i > SEGMENTS) ||
			 store_event(w, thread, &begin) < 0 || store_event(w, thread, &gap) < 0;
		begin.time += 2;
		gap.time += 2;
	}
	CHECK(!failed);
	CHECK_EQ(store_thread_end(w, thread, NULL), 0);
	CHECK_EQ(store_finish(w), 0);
	CHECK_EQ(store_open(fd, &s), 0);
	CHECK_EQ(s ? store_iter_new(s, 0, &it) : -1, 0);
	for (; it && store_iter_next(it, &e) == 1; n++)
		;
	CHECK_EQ(n, SEGMENTS + 1);
	CHECK(e.type == STORE_GAP && e.kind == GAP_TRUNCATED && e.time == 1 + 2 * SEGMENTS &&
	      e.until == 2 + 2 * (SEGMENTS + 9));
	CHECK_EQ(s ? store_thread(s, 0)->gaps_of[GAP_TRUNCATED].ns : 0, 19);
}

/* csightd empties the store of a snapshot that it removes, while a reader has it open. */
static void test_emptied(void)
{
	struct thread *t = calloc(1, sizeof(*t));
	_cleanup_close_ int fd = make_store(t, 1, 300000);
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	struct store_event e;
	int rc;

	CHECK_EQ(store_open(fd, &s), 0);
	CHECK_EQ(store_iter_new(s, 0, &it), 0);
	CHECK_EQ(store_iter_next(it, &e), 1);
	CHECK_EQ(ftruncate(fd, 0), 0);
	while ((rc = store_iter_next(it, &e)) == 1)
		;
	CHECK_EQ(rc, -ESTALE);
	free(t->events);
	free(t);
}

/* Twice: the second renames a renamed store. */
static void test_rename(void)
{
	struct thread t[2] = { 0 };
	_cleanup_close_ int fd = make_store(t, 2, 5000), once = memfd_create("once", MFD_CLOEXEC),
			    twice = memfd_create("twice", MFD_CLOEXEC);
	_cleanup_close_ int same = memfd_create("same", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *s = NULL, *a = NULL, *b = NULL, *c = NULL;
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	struct store_name other[256] = { 0 };
	size_t wrong = 0, n;

	CHECK_EQ(store_open(fd, &s), 0);
	n = store_functions(s);
	CHECK(n > 20 && n < ELEMENTS(other));
	for (size_t i = 0; i < n; i++)
		other[i] = i % 3 == 0   ? (struct store_name){ NULL, NULL, 99 }
			   : i % 3 == 1 ? (struct store_name){ "another name", NULL, 99 }
					: (struct store_name){ "a third", "a.c", 42 };
	CHECK_EQ(store_rename(s, once, other), 0);
	CHECK_EQ(store_open(once, &a), 0);
	memset(other, 0, sizeof(other));
	CHECK_EQ(store_rename(s, same, other), 0);
	CHECK_EQ(store_open(same, &c), 0);
	other[2] = (struct store_name){ "a fourth", "b.c", 43 };
	CHECK_EQ(store_rename(a, twice, other), 0);
	CHECK_EQ(store_open(twice, &b), 0);
	for (size_t i = 0; i < n; i++) {
		const struct store_function *f = store_function(s, i), *g = store_function(b, i);
		const char *name = i == 2 ? "a fourth" : i % 3 == 0 ? f->name : i % 3 == 1 ? "another name" : "a third";
		const char *file = i == 2 ? "b.c" : i % 3 == 2 ? "a.c" : f->file;

		wrong += strcmp(g->name, name) != 0 || strcmp(g->file, file) != 0;
		wrong += g->line != (i == 2 ? 43 : i % 3 == 2 ? 42 : f->line);
		wrong += strcmp(g->image, f->image) != 0 || g->address != f->address || g->kind != f->kind ||
			 g->offset != f->offset;
		wrong += strcmp(g->build_id, f->build_id) != 0 || g->calls != f->calls || g->median_ns != f->median_ns;
	}
	CHECK_EQ(wrong, 0);
	for (size_t i = 0; i < 2; i++) {
		CHECK_STR(store_thread(b, i)->name, store_thread(s, i)->name);
		CHECK_EQ(store_iter_new(c, i, &it), 0);
		CHECK(compare(c, it, &t[i], 0, SIZE_MAX) == t[i].n);
		it = store_iter_free(it);
		free(t[i].events);
	}
}

/* What the version before lacks stays unknown in a store that is made of it. */
static void test_older(void)
{
	const char *top = getenv("top_srcdir");
	_cleanup_close_ int fd = -1, to = memfd_create("recovered", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *s = NULL;
	char path[4096];
	uint64_t end;

	snprintf(path, sizeof(path), "%s/tests/store/version-5/store", top ? top : "..");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_EQ(store_recover(fd, to, &end), 0);
	if (CHECK_EQ(store_open(to, &s), 0))
		CHECK(!store_has_waits(s));
}

int main(void)
{
	test_far();
	test_many_roots();
	test_many_segments();
	test_classes();
	test_round_trip(1, 0, 0);
	test_round_trip(3, 100000, 3);
	test_totals();
	test_pieces();
	test_older();
	test_only();
	test_cut();
	test_flips();
	test_joints();
	test_misuse();
	test_emptied();
	test_rename();
	return unit_end();
}
