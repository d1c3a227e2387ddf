/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/process/code-history.c: programs that map so many parts, and so often, that following each would take
 * seconds or gigabytes; and what a scan found, when earlier history is dropped.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/capture/process/code-history.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { PARTS = 8000, WIDE = 8000, CHANGES_MOST = 256 << 10, DOWN = 32000 };

static const uint64_t place = 1ull << 32, page = 4096, most_ns = 2000000000;
static const char anonymous[] = "//anon";

static uint64_t cpu_time(void)
{
	return now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static struct code_record memory(uint64_t time, uint64_t start, uint64_t pages, bool writable)
{
	return (struct code_record){ .time = time,
				     .start = start,
				     .end = start + pages * page,
				     .kind = CODE_MEMORY,
				     .writable = writable,
				     .image = CODE_NO_IMAGE,
				     .path = anonymous };
}

static void add(struct code_history *h, struct code_record r)
{
	if (code_history_record(h, &r) < 0)
		abort();
}

/* Every other page, and then all of them at once, again and again. */
static struct code_history *make_wide(bool writable)
{
	struct code_history *h;
	uint64_t time = 0;

	if (code_history_new(true, &h) < 0)
		abort();
	for (unsigned i = 0; i < PARTS; i++)
		add(h, memory(++time, place + 2 * page * i, 1, writable));
	for (unsigned i = 0; i < WIDE; i++)
		add(h, memory(++time, place, 2 * PARTS, writable));
	return h;
}

static void test_wide(void)
{
	for (unsigned writable = 0; writable < 2; writable++) {
		struct code_history *h = make_wide(writable);
		struct code_change *changes = NULL;
		struct code_span *spans = NULL;
		uint64_t begun = cpu_time();
		size_t n = 0;
		int rc = code_history_changes(h, &changes, &n);

		CHECK(rc == 0 || rc == -E2BIG);
		CHECK(n <= CHANGES_MOST);
		free(changes);
		rc = code_history_spans(h, &spans, &n);
		CHECK(rc == (writable ? 0 : -E2BIG));
		/* What is alike is one. */
		CHECK(!writable || (n == 1 && spans[0].start == place && spans[0].end == place + 2 * PARTS * page));
		free(spans);
		CHECK(cpu_time() - begun < most_ns);
		code_history_free(h);
	}
}

/* As the kernel places mappings. */
static void test_downwards(void)
{
	uint64_t begun, time = 0;
	struct code_history *h;
	struct code_span *spans;
	bool in_order = true;
	size_t n;

	CHECK_EQ(code_history_new(true, &h), 0);
	for (unsigned i = DOWN; i-- > 0;)
		add(h, memory(++time, place + 2 * page * i, 1, false));
	begun = cpu_time();
	CHECK_EQ(code_history_forget(h, time / 2), 0);
	CHECK_EQ(code_history_spans(h, &spans, &n), 0);
	CHECK(cpu_time() - begun < most_ns / 4);
	CHECK_EQ(n, DOWN);
	for (size_t i = 0; i < n; i++)
		in_order &= spans[i].start == place + 2 * page * i && spans[i].since == DOWN - i;
	CHECK(in_order);
	free(spans);
	code_history_free(h);
}

/* What was found in place of something else, and is confirmed, is not revoked when older records are dropped. */
static void test_found(void)
{
	struct code_record r = memory(10, place, 1, false);
	struct code_history *h;
	struct code_change *changes;
	size_t n;

	CHECK_EQ(code_history_new(true, &h), 0);
	r.kind = CODE_FILE;
	r.image = 1;
	add(h, r);
	r = (struct code_record){ .time = 20,
				  .start = place,
				  .end = place + page,
				  .kind = CODE_FILE,
				  .found = true,
				  .instead = true,
				  .image = 2 };
	add(h, r);
	code_history_confirm(h, 30);
	add(h, memory(40, place, 1, true));
	for (unsigned forgotten = 0; forgotten < 2; forgotten++) {
		CHECK_EQ(code_history_changes(h, &changes, &n), 0);
		CHECK(n > 1 && changes[1].time == 20 && changes[1].image == 2);
		free(changes);
		CHECK_EQ(code_history_forget(h, 15), 0);
	}
	code_history_free(h);
}

/* A scan that finds as much in place of something else as it can, and as many records before it is confirmed. */
static void test_revoked(void)
{
	struct code_record r = memory(10, place, 1, false);
	struct code_history *h;
	uint64_t begun;
	int rc = 0;

	CHECK_EQ(code_history_new(true, &h), 0);
	r.found = r.instead = true;
	for (unsigned i = 0; i < DOWN / 2; i++) {
		add(h, r);
		r.start += 2 * page;
		r.end += 2 * page;
	}
	begun = cpu_time();
	for (unsigned i = 0; i < DOWN / 2 && rc == 0; i++) {
		r = memory(11 + i, page, 1, false);
		rc = code_history_record(h, &r);
	}
	CHECK_EQ(rc, -ENOSPC);
	CHECK(cpu_time() - begun < most_ns / 8);
	code_history_confirm(h, 11 + DOWN);
	r = memory(12 + DOWN, page, 1, false);
	CHECK_EQ(code_history_record(h, &r), 0);
	code_history_free(h);
}

int main(void)
{
	test_wide();
	test_downwards();
	test_found();
	test_revoked();
	return unit_end();
}
