/* SPDX-License-Identifier: MIT */
/* lib/export: Perfetto files against the events of their stores, and the text of the tree. */
#include <fcntl.h>
#include <string.h>

#include "lib/base/io.h"
#include "lib/export/export.h"
#include "tests/export/pftrace.h"
#include "tests/store/storegen.h"
#include "tests/unit.h"

struct file {
	int fd;
	uint8_t *data;
	size_t size;
	struct export_result result;
	struct pf_trace trace;
	int rc;
};

static struct file export(const struct store *s, const struct export_ops *ops, const struct export_options *o)
{
	struct file f = { .fd = memfd_create("export", MFD_CLOEXEC) };

	f.rc = ops->write(s, f.fd, o, &f.result);
	f.size = (size_t)lseek(f.fd, 0, SEEK_END);
	f.data = calloc(f.size + 1, 1);
	if (f.rc == 0 && pread(f.fd, f.data, f.size, 0) != (ssize_t)f.size)
		f.rc = -EIO;
	return f;
}

static void file_done(struct file *f)
{
	pf_done(&f->trace);
	free(f->data);
	close(f->fd);
}

static struct file export_perfetto_of(const struct store *s, const struct export_options *o)
{
	struct file f = export(s, &export_perfetto, o);

	if (f.rc == 0)
		f.rc = pf_read(f.data, f.size, &f.trace);
	if (f.rc < 0)
		printf("# %s\n", f.trace.error);
	return f;
}

/* Computes the slices of a thread from its events between since and until. */
static size_t expected_slices(const struct thread *t, uint64_t since, uint64_t until, struct pf_slice *ret)
{
	static size_t open[1 << 16];
	static struct expected before[1 << 16];
	size_t n = 0, depth = 0, i = 0;

	for (; i < t->n && t->events[i].time < since; i++) {
		if (t->events[i].type == STORE_ENTER)
			before[depth++] = t->events[i];
		else if (t->events[i].type == STORE_LEAVE)
			depth--;
	}
	for (size_t k = 0; k < depth; k++) {
		open[k] = n;
		ret[n++] = (struct pf_slice){ .ts = since, .depth = (uint32_t)k, .name = name_in(before[k].function) };
	}
	for (; i < t->n && t->events[i].time <= until; i++) {
		const struct expected *e = &t->events[i];

		if (e->type == STORE_ENTER) {
			open[depth] = n;
			ret[n++] =
			    (struct pf_slice){ .ts = e->time, .depth = (uint32_t)depth, .name = name_in(e->function) };
			depth++;
		} else if (e->type == STORE_LEAVE) {
			depth--;
			ret[open[depth]].dur = e->time - ret[open[depth]].ts;
		} else {
			ret[n++] = (struct pf_slice){ .ts = e->time, .instant = true, .name = "trace gap" };
		}
	}
	while (depth--)
		ret[open[depth]].dur = until - ret[open[depth]].ts;
	return n;
}

/* Counts the slices that are as expected; thread i of the store has tid 100 + i. */
static size_t same_slices(const struct pf_trace *f, const struct thread *t, uint64_t tid, uint64_t since,
			  uint64_t until, size_t *ret_want)
{
	struct pf_slice *want = calloc(t->n + 4096, sizeof(*want));
	size_t n = expected_slices(t, since, until, want), k = 0, good = 0;

	for (size_t i = 0; i < f->n_slices; i++) {
		const struct pf_slice *s = &f->slices[i];

		if (f->threads[s->thread].tid != tid)
			continue;
		if (k < n && s->ts == want[k].ts && s->dur == want[k].dur && s->depth == want[k].depth &&
		    s->instant == want[k].instant && strncmp(s->name, want[k].name, strlen(want[k].name)) == 0 &&
		    (s->instant || strlen(s->name) == strlen(want[k].name)))
			good++;
		k++;
	}
	free(want);
	*ret_want = n;
	return k == n ? good : 0;
}

static void test_perfetto(const struct store *s, const struct thread *threads, size_t n)
{
	struct export_options o = EXPORT_DEFAULTS;
	uint64_t first = store_thread(s, 0)->first, last = store_thread(s, 0)->last, length = last - first;
	size_t want, all = 0, failed = 0, noted = 0;
	struct file f;

	f = export_perfetto_of(s, &o);
	CHECK_EQ(f.rc, 0);
	CHECK_EQ(f.trace.n_threads, n);
	CHECK_EQ(f.trace.threads[1].pid, 77);
	CHECK_EQ(f.trace.threads[1].tid, 101);
	CHECK_STR(f.trace.threads[1].name, "thread1");
	CHECK_STR(f.trace.threads[1].process, "prog");
	CHECK_EQ(f.trace.realtime, 1700000000000000000 - 5);
	CHECK(!f.result.cut);
	for (size_t i = 0; i < n; i++) {
		CHECK_EQ(same_slices(&f.trace, &threads[i], 100 + i, 0, UINT64_MAX, &want), want);
		all += want;
	}
	CHECK_EQ(f.result.slices + f.result.gaps, all);
	printf("# %zu slices, %zu bytes\n", f.trace.n_slices, f.size);
	file_done(&f);

	/* For any event just after the end. */
	o.tid = 100;
	for (uint64_t i = 0; i < 20; i++) {
		o.since = first + length / 3 + i;
		o.until = first + length / 2 + length / 100 * i;
		f = export_perfetto_of(s, &o);
		failed += f.rc < 0 || f.trace.n_threads != 1 ||
			  same_slices(&f.trace, &threads[0], 100, o.since, o.until, &want) != want || want < 100;
		noted +=
		    f.rc == 0 && f.trace.slices[0].notes && strstr(f.trace.slices[0].notes, "begins=beyond this file");
		file_done(&f);
	}
	CHECK_EQ(failed, 0);
	CHECK_EQ(noted, 20);

	o = (struct export_options)EXPORT_DEFAULTS;
	o.budget = 5000;
	f = export_perfetto_of(s, &o);
	CHECK_EQ(f.rc, 0);
	CHECK(f.result.cut && f.result.slices > 4000 && f.result.slices < 6000);
	last = 0;
	for (size_t i = 0; i < n; i++)
		last = MAX(last, store_thread(s, i)->last);
	CHECK_EQ(f.result.until, last);
	CHECK_EQ(same_slices(&f.trace, &threads[0], 100, f.result.since, UINT64_MAX, &want), want);
	for (size_t i = 0; i < f.trace.n_attributes; i++) {
		if (strcmp(f.trace.attributes[i].key, "csight_covers") == 0)
			CHECK_STR(f.trace.attributes[i].text, "the last part");
	}
	file_done(&f);

	o.tid = 12345;
	f = export_perfetto_of(s, &o);
	CHECK(f.rc == 0 && f.trace.n_threads == 0 && f.trace.n_slices == 0);
	file_done(&f);

	/* A full disk is an error, not a short file. */
	o.tid = -1;
	f.fd = open("/dev/full", O_WRONLY);
	CHECK_EQ(export_perfetto.write(s, f.fd, &o, &f.result), -ENOSPC);
	close(f.fd);
}

/* The reader of this test detects errors that Perfetto ignores silently. */
static void test_reader(const struct store *s)
{
	static const uint8_t orphan[] = { 0x0a, 0x0a, 0x40, 0x01, 0x50, 0x01, 0x68, 0x02, 0x5a, 0x02, 0x48, 0x02 };
	struct export_options o = EXPORT_DEFAULTS;
	struct pf_trace t;
	struct file f;
	size_t refused = 0, tried = 0;

	o.budget = 500;
	o.tid = 100;
	f = export_perfetto_of(s, &o);
	CHECK_EQ(f.rc, 0);
	f.data = realloc(f.data, f.size + sizeof(orphan));
	memcpy(f.data + f.size, orphan, sizeof(orphan));
	CHECK(pf_read(f.data, f.size + sizeof(orphan), &t) < 0 && strstr(t.error, "END without"));
	pf_done(&t);
	CHECK(pf_read(orphan, sizeof(orphan), &t) < 0 && strstr(t.error, "before there is any"));
	pf_done(&t);
	for (size_t cut = 1; cut < f.size; cut++) {
		tried++;
		refused += pf_read(f.data, cut, &t) < 0;
		pf_done(&t);
	}
	/* A truncated file is valid only if the cut is between packets with no open slice. */
	CHECK(refused > tried - tried / 100);
	file_done(&f);
}

static struct store *small_store(int *ret_fd)
{
	struct thread *t = calloc(1, sizeof(*t));
	struct store_meta meta = { .pid = 1, .program = "p" };
	struct store_writer *w = NULL;
	struct store *s = NULL;

	make_functions();
	functions[3].name = "bad\x1b[31m\xff";
	*ret_fd = memfd_create("store", MFD_CLOEXEC);
	store_create(*ret_fd, &meta, &w);
	t->writer = w;
	t->time = 1000;
	store_thread_add(w, 5, "main", &t->index);
	segment(t);
	enter(t, CALL_INFERRED, 0);
	for (int i = 0; i < 3; i++) {
		enter(t, CALL_PLAIN, 1);
		t->time += 500000;
		enter(t, CALL_PLAIN, 2);
		t->time += 1000;
		leave(t, LEAVE_RETURN);
		leave(t, LEAVE_RETURN);
	}
	enter(t, CALL_PLAIN, 3);
	leave(t, LEAVE_RETURN);
	gap(t, GAP_OVERFLOW);
	t->time += 7000;
	segment(t);
	enter(t, CALL_INFERRED, 2);
	end_segment(t, LEAVE_END);
	store_finish(w);
	store_writer_free(w);
	store_open(*ret_fd, &s);
	free(t->events);
	free(t);
	return s;
}

static void test_tree(void)
{
	struct export_options o = EXPORT_DEFAULTS;
	int fd;
	struct store *s = small_store(&fd);
	struct file f = export(s, &export_tree, &o);

	CHECK_EQ(f.rc, 0);
	CHECK_STR((const char *)f.data, "thread 5 main: 1.5 ms, 9 calls, time error at most 10 ns, 99.53 % known\n"
					"    7.0 us  gaps: 1, overflow\n"
					"    1.5 ms            function0 (began earlier) (unfinished)\n"
					"    1.5 ms        x3    function1\n"
					"    3.0 us        x3      function2\n"
					"     ~0 ns              bad\\x1b[31m\\xff\n"
					"     ~0 ns            function2 (began earlier) (unfinished)\n");
	file_done(&f);
	o.depth = 2;
	o.width = 1;
	o.colour = true;
	f = export(s, &export_tree, &o);
	CHECK(strstr((const char *)f.data, "\033[1mfunction1\033[0m\n"));
	CHECK(strstr((const char *)f.data, "... 3 calls deeper"));
	CHECK(strstr((const char *)f.data, "... 1 more function, 0 ns"));
	CHECK(!strstr((const char *)f.data, "bad"));
	file_done(&f);
	f = export_perfetto_of(s, &o);
	CHECK_EQ(f.rc, 0);
	CHECK_EQ(f.trace.n_slices, 10);
	CHECK_STR(f.trace.slices[7].name, "bad\\x1b[31m\\xff");
	CHECK_STR(f.trace.slices[8].name, "trace gap (overflow)");
	CHECK_STR(f.trace.slices[8].notes, "duration ns=7000");
	CHECK_STR(f.trace.slices[0].notes, "begins=before the trace left by=gap");
	CHECK_STR(f.trace.slices[9].notes, "begins=before the trace ends=unfinished");
	CHECK(export_find("tree") == &export_tree && !export_find("none"));
	file_done(&f);
	store_close(s);
	close(fd);
}

/* A function that is called, and jumped to, and one whose chain is folded. */
static void test_tails(void)
{
	struct thread *t = calloc(1, sizeof(*t));
	struct store_meta meta = { .pid = 1, .program = "p" };
	struct export_options o = EXPORT_DEFAULTS;
	struct store_writer *w = NULL;
	struct store *s = NULL;
	int fd = memfd_create("store", MFD_CLOEXEC);
	struct file f;

	make_functions();
	store_create(fd, &meta, &w);
	t->writer = w;
	t->time = 1000;
	store_thread_add(w, 5, "main", &t->index);
	segment(t);
	enter(t, CALL_INFERRED, 0);
	enter(t, CALL_PLAIN, 1);
	leave(t, LEAVE_RETURN);
	enter(t, CALL_TAIL, 1);
	t->time += 1000;
	enter(t, CALL_TAIL, 2);
	leave(t, LEAVE_FOLDED);
	enter(t, CALL_FOLDED, 3);
	leave(t, LEAVE_BACK);
	end_segment(t, LEAVE_END);
	store_finish(w);
	store_writer_free(w);
	store_open(fd, &s);
	f = export(s, &export_tree, &o);
	CHECK_STR((const char *)f.data, "thread 5 main: 1.0 us, 5 calls, time error at most 10 ns\n"
					"    1.0 us            function0 (began earlier) (unfinished)\n"
					"    1.0 us        x2    function1 (also by tail call) (unfinished)\n"
					"     ~0 ns                function2 (tail call)\n"
					"     ~0 ns                function3 (tail call, folded)\n");
	file_done(&f);
	f = export_perfetto_of(s, &o);
	CHECK(!f.trace.slices[1].notes);
	CHECK_STR(f.trace.slices[2].notes, "entered by=tail ends=unfinished");
	CHECK_STR(f.trace.slices[3].notes, "entered by=tail left by=folded");
	CHECK_STR(f.trace.slices[4].notes, "entered by=folded tail left by=jump back");
	file_done(&f);
	store_close(s);
	close(fd);
	free(t->events);
	free(t);
}

int main(void)
{
	struct thread *threads = calloc(3, sizeof(*threads));
	int fd = make_store(threads, 3, 30000);
	struct store *s = NULL;

	if (CHECK_EQ(store_open(fd, &s), 0)) {
		test_perfetto(s, threads, 3);
		test_reader(s);
	}
	store_close(s);
	close(fd);
	for (int i = 0; i < 3; i++)
		free(threads[i].events);
	free(threads);
	test_tree();
	test_tails();
	return unit_end();
}
