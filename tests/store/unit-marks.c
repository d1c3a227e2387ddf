/* SPDX-License-Identifier: MIT */
/* lib/store: marks of an uncertain depth are read back as written, and those of a whole segment from its beginning. */
#include <endian.h>
#include <sys/mman.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/store/format.h"
#include "lib/store/store.h"
#include "tests/unit.h"

static struct region functions[3] = {
	{ .start = 0x1000, .end = 0x1100, .name = "callee", .image = "/bin/prog" },
	{ .start = 0x1100, .end = 0x1200, .name = "caller", .image = "/bin/prog" },
	{ .start = 0x1200, .end = 0x1300, .name = "main", .image = "/bin/prog" },
};

struct marked {
	enum store_event_type type;
	unsigned kind;
	uint64_t time;
};

/* Compares the events of the first thread, from a time on. */
static void check_marks(int fd, uint64_t time, const struct marked *want, size_t n)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	struct store_event e;
	int rc = store_open(fd, &s);

	CHECK_EQ(rc < 0 ? rc : store_iter_new(s, 0, &it), 0);
	if (!it)
		return;
	CHECK_EQ(time ? store_iter_seek(it, time) : 0, 0);
	for (size_t i = 0; i < n; i++) {
		CHECK_EQ(store_iter_next(it, &e), 1);
		CHECK_EQ(e.type, want[i].type);
		CHECK_EQ(e.kind, want[i].kind);
		CHECK_EQ(e.time, want[i].time);
	}
	CHECK_EQ(store_iter_next(it, &e), 0);
}

/* Returns a store with these events of one thread. */
static int write_store(const struct call_event *events, size_t n)
{
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	const struct store_meta meta = { .pid = 1 };
	int fd = memfd_create("store", MFD_CLOEXEC);
	uint32_t thread;

	CHECK_EQ(store_create(fd, &meta, &w), 0);
	CHECK_EQ(store_thread_add(w, 1, "", &thread), 0);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(store_event(w, thread, &events[i]), 0);
	CHECK_EQ(store_thread_end(w, thread, NULL), 0);
	CHECK_EQ(store_finish(w), 0);
	return fd;
}

/* Returns a copy of a store as if it had never been finished: without its tables. */
static int cut_tables(int fd)
{
	const struct store_header none = { .version = STORE_VERSION };
	int cut = memfd_create("cut", MFD_CLOEXEC);
	uint8_t bytes[4096];
	uint64_t table;

	CHECK_EQ(pread(fd, &table, sizeof(table), 24), sizeof(table));
	table = le64toh(table);
	CHECK(table < sizeof(bytes) && pread(fd, bytes, table, 0) == (ssize_t)table);
	io_write(cut, bytes, table);
	CHECK_EQ(store_write_header(cut, &none), 0);
	return cut;
}

/*
 * Segments that turn out to have been uncertain from their beginning are read as uncertain from there on: up to the
 * last such mark before a root. Marks within do not end that, and outlast it.
 */
static void test_was_uncertain(void)
{
	const struct call_event events[] = {
		{ CALL_EVENT_SEGMENT, 0, 10, 10, 0, NULL },
		{ CALL_EVENT_ENTER, CALL_INFERRED, 10, 10, 0, &functions[0] },
		{ CALL_EVENT_MARK, MARK_WAS_UNCERTAIN, 20, 20, 0, NULL },
		{ CALL_EVENT_MARK, MARK_UNCERTAIN, 21, 21, 0, NULL },
		{ CALL_EVENT_LEAVE, LEAVE_RETURN, 30, 30, 0, NULL },
		{ CALL_EVENT_ROOT, CALL_INFERRED, 30, 30, 0, &functions[1] },
		{ CALL_EVENT_MARK, MARK_WAS_UNCERTAIN, 40, 40, 0, NULL },
		{ CALL_EVENT_LEAVE, LEAVE_RETURN, 50, 50, 0, NULL },
		{ CALL_EVENT_ROOT, CALL_INFERRED, 50, 50, 0, &functions[2] },
		{ CALL_EVENT_MARK, MARK_CERTAIN, 55, 55, 0, NULL },
		{ CALL_EVENT_MARK, MARK_WAS_UNCERTAIN, 60, 60, 0, NULL },
		{ CALL_EVENT_LEAVE, LEAVE_GAP, 70, 70, 0, NULL },
		{ CALL_EVENT_GAP, GAP_PAUSED, 70, 70, 0, NULL },
		{ CALL_EVENT_SEGMENT, 0, 80, 80, 0, NULL },
		{ CALL_EVENT_ENTER, CALL_INFERRED, 80, 80, 0, &functions[0] },
		{ CALL_EVENT_MARK, MARK_WAS_UNCERTAIN, 85, 85, 0, NULL },
		{ CALL_EVENT_LEAVE, LEAVE_END, 90, 90, 0, NULL },
	};
	const struct marked want[] = {
		{ STORE_ENTER, CALL_INFERRED, 10 }, { STORE_ENTER, CALL_INFERRED, 10 },
		{ STORE_MARK, MARK_UNCERTAIN, 10 }, { STORE_ENTER, CALL_INFERRED, 10 },
		{ STORE_LEAVE, LEAVE_RETURN, 30 },  { STORE_LEAVE, LEAVE_RETURN, 50 },
		{ STORE_MARK, MARK_CERTAIN, 55 },   { STORE_LEAVE, LEAVE_GAP, 70 },
		{ STORE_GAP, GAP_PAUSED, 70 },      { STORE_ENTER, CALL_INFERRED, 80 },
		{ STORE_LEAVE, LEAVE_END, 90 },     { STORE_GAP, GAP_TRUNCATED, 90 },
	};
	_cleanup_close_ int fd = write_store(events, ELEMENTS(events)), cut = cut_tables(fd),
			    to = memfd_create("recovered", MFD_CLOEXEC);
	uint64_t end;

	check_marks(fd, 0, want, ELEMENTS(want) - 1);
	/* What began before is not returned, as with other marks. */
	check_marks(fd, 31, want + 5, ELEMENTS(want) - 6);
	/* The sections are made anew from the events; more may have followed. */
	CHECK_EQ(store_recover(cut, to, &end), 0);
	check_marks(to, 0, want, ELEMENTS(want));
}

/* A store with a mark that readers refuse is not recovered: what is recovered is read to its end. */
static void test_unknown_mark(void)
{
	const struct call_event events[] = {
		{ CALL_EVENT_SEGMENT, 0, 10, 10, 0, NULL },
		{ CALL_EVENT_MARK, MARK_KINDS, 20, 20, 0, NULL },
	};
	_cleanup_close_ int fd = write_store(events, ELEMENTS(events)), cut = cut_tables(fd),
			    to = memfd_create("recovered", MFD_CLOEXEC);
	uint64_t end;

	CHECK_EQ(store_recover(cut, to, &end), -EBADMSG);
}

int main(void)
{
	test_was_uncertain();
	test_unknown_mark();
	return unit_end();
}
