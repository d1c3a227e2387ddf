/* SPDX-License-Identifier: MIT */
/* daemon/capture/perf: aux-buffer.c and perf-event.c, with valid and invalid records. */
#include "config.h"

#include <stdlib.h>

#include "daemon/capture/perf/aux-buffer.h"
#include "daemon/capture/perf/grid.h"
#include "daemon/capture/perf/thread-table.h"
#include "lib/base/util.h"
#include "tests/capture/perf-record.h"
#include "tests/unit.h"

enum { SIZE = 4096 };

static uint8_t buffer[SIZE];
static struct aux_buffer a;

static void slice(uint64_t end, uint64_t size, uint64_t flags, uint32_t tid, uint64_t time)
{
	const uint64_t body[3] = { end, size, flags };
	struct perf_record r = record(PERF_RECORD_AUX, 0, body, sizeof(body), tid, time);

	aux_fold(&a, &r);
}

static void start(uint32_t tid, uint64_t time)
{
	const uint32_t body[2] = { 100, tid };
	struct perf_record r = record(PERF_RECORD_ITRACE_START, 0, body, sizeof(body), tid, time);

	aux_fold(&a, &r);
}

static struct perf_event_mmap_page empty;

static void hardware_id(uint64_t id)
{
	struct perf_record r = record(PERF_RECORD_AUX_OUTPUT_HW_ID, 0, &id, sizeof(id), 1, 1);

	aux_fold(&a, &r);
}

static void fresh(void)
{
	aux_done(&a);
	aux_init(&a, 2, SIZE, 0x14);
	a.ring.aux = buffer;
	a.ring.aux_size = SIZE;
	a.ring.data_size = 1024;
}

/* Removes the test's buffer, which must not be unmapped. */
static void done(void)
{
	a.ring = (struct perf_ring){ 0 };
	aux_done(&a);
}

static void test_slices(void)
{
	struct capture_ring copy = { 0 };
	uint64_t from;

	for (unsigned i = 0; i < SIZE; i++)
		buffer[i] = (uint8_t)(i / 16);
	fresh();
	CHECK_EQ(aux_held(&a, &from), 0);
	CHECK_EQ(aux_copy(&a, UINT64_MAX, &copy), 0);
	CHECK(copy.data == NULL && copy.size == 0);
	start(7, 10);
	slice(1000, 1000, 2, 7, 20);
	start(8, 30);
	slice(1600, 600, 2, 8, 40);
	CHECK_EQ(aux_held(&a, &from), 1600);
	CHECK_EQ(aux_copy(&a, UINT64_MAX, &copy), 0);
	CHECK_EQ(copy.n_slices, 2);
	CHECK(copy.slices[1].offset == 1000 && copy.slices[1].size == 600 && copy.slices[1].tid == 8);
	CHECK_EQ(a.slices[1].begun, 30);
	CHECK(memcmp(copy.data, buffer, 1600) == 0);
	free(copy.data);
	free(copy.slices);
	CHECK_EQ(aux_newer(&a, 20), 1600);
	CHECK_EQ(aux_newer(&a, 21), 600);
	CHECK_EQ(aux_newer(&a, 41), 0);
	/* With a limit, the first slice is cut at the start of a frame. */
	CHECK_EQ(aux_copy(&a, 1000, &copy), 0);
	CHECK(copy.from == 600 && copy.size == 1000);
	CHECK(copy.slices[0].offset == 608 && copy.slices[0].size == 392);
	free(copy.data);
	free(copy.slices);
	/* After several wraps, the buffer and the list hold only the newest 4096 bytes. */
	slice(6000, 4400, 2, 9, 50);
	CHECK_EQ(a.n_slices - a.first, 1);
	CHECK_EQ(aux_held(&a, &from), SIZE);
	CHECK_EQ(from, 6000 - SIZE);
	CHECK_EQ(aux_copy(&a, UINT64_MAX, &copy), 0);
	CHECK_EQ(copy.data[0], buffer[(6000 - SIZE) % SIZE]);
	CHECK_EQ(copy.data[SIZE - 1], buffer[5999 % SIZE]);
	CHECK_EQ(copy.slices[0].offset, 1600 + (6000 - SIZE - 1600 + 15) / 16 * 16);
	/* 100 bytes were written during the copy. */
	aux_cut(&copy, SIZE, 6100);
	CHECK_EQ(copy.slices[0].offset, 1600 + (6100 - SIZE - 1600 + 15) / 16 * 16);
	aux_cut(&copy, SIZE, 20000);
	CHECK_EQ(copy.n_slices, 0);
	free(copy.data);
	free(copy.slices);
	for (unsigned i = 0; i < 100000; i++)
		slice(6000 + (i + 1) * 16, 16, 2, 9, 60 + i);
	CHECK(a.n_slices - a.first == SIZE / 16 && a.room < 4096);
	CHECK(!a.strange && !a.failed && !a.refused);
	done();
}

static struct capture_ring copy_between(uint64_t from, uint64_t to, bool continues)
{
	struct capture_ring copy;

	CHECK_EQ(aux_copy_between(&a, from, to, continues, &copy), 0);
	CHECK(copy.size == to - from && copy.from == from);
	for (uint64_t i = 0; i < copy.size; i++)
		if (copy.data[i] != buffer[(from + i) % SIZE])
			CHECK(false);
	return copy;
}

static void free_ring(struct capture_ring *copy)
{
	free(copy->data);
	free(copy->slices);
}

/* Parts of a buffer that a recording copies, one after the other: a slice may be in several. */
static void test_parts(void)
{
	struct capture_ring copy;

	fresh();
	slice(1000, 1000, 2, 7, 20);
	slice(2000, 1000, 3, 8, 40);
	slice(2000, 0, 1, 9, 45);
	slice(3000, 1000, 2, 7, 50);
	copy = copy_between(0, 1500, false);
	CHECK_EQ(copy.n_slices, 2);
	CHECK(copy.slices[0].flags == 2 && copy.slices[0].size == 1000);
	/* That it was truncated is known at its end. */
	CHECK(copy.slices[1].flags == 2 && copy.slices[1].offset == 1000 && copy.slices[1].size == 500);
	free_ring(&copy);
	copy = copy_between(1500, 2500, true);
	CHECK_EQ(copy.n_slices, 3);
	CHECK(copy.slices[0].flags == (3 | PD_AUX_CONTINUES) && copy.slices[0].offset == 1500 &&
	      copy.slices[0].size == 500 && copy.slices[0].tid == 8);
	CHECK(copy.slices[1].size == 0 && copy.slices[1].tid == 9);
	CHECK(copy.slices[2].flags == 2 && copy.slices[2].size == 500 && copy.slices[2].time == 50);
	free_ring(&copy);
	/* Something between the two is lost: the slice begins at a frame, and is partial. */
	copy = copy_between(2600, 3000, false);
	CHECK_EQ(copy.n_slices, 1);
	CHECK(copy.slices[0].flags == (2 | PD_AUX_PARTIAL) && copy.slices[0].offset == 2608 &&
	      copy.slices[0].size == 392);
	free_ring(&copy);
	CHECK(aux_slice_at(&a, 999)->ended == 20 && aux_slice_at(&a, 1000)->ended == 40);
	CHECK(aux_slice_at(&a, 2999)->ended == 50 && aux_slice_at(&a, 3000) == NULL);
	done();
}

/* A buffer that is filled once: offsets are those of the beginning, and it is full up to one page early. */
static void test_fill(void)
{
	struct capture_ring copy = { 0 };
	uint64_t from;

	fresh();
	a.size = a.ring.aux_size = (uint64_t)sysconf(_SC_PAGESIZE) + SIZE;
	a.fills = true;
	start(7, 10);
	slice(0, 1000, 0, 7, 20);
	CHECK(a.end == 1000 && !a.full_at && !a.failed);
	/* A sink that was refused is tried again. */
	slice(1000, 0, 1, 7, 21);
	CHECK(a.failed && a.refused == 21 && !a.full_at);
	a.failed = false;
	start(8, 30);
	slice(1000, 500, 0, 8, 40);
	start(9, 50);
	slice(1500, SIZE - 1500, 9, 9, 60);
	CHECK(a.full_at == 60 && a.end == SIZE && !a.failed && a.collisions == 0);
	/* The kernel refuses what follows. */
	slice(SIZE, 0, 1, 7, 70);
	CHECK(!a.failed && a.refused == 21);
	/* Another buffer was full while thread 9 ran: it stays; and earlier: it goes. */
	aux_end(&a, 50);
	CHECK_EQ(aux_held(&a, &from), SIZE);
	aux_end(&a, 49);
	CHECK_EQ(aux_held(&a, &from), 1500);
	slice(1500, 100, 0, 7, 80);
	CHECK_EQ(a.end, 1500);
	CHECK_EQ(aux_copy(&a, UINT64_MAX, &copy), 0);
	CHECK(copy.size == 1500 && copy.n_slices == 3 && copy.slices[2].flags == 0);
	free(copy.data);
	free(copy.slices);
	done();
}

/* From the first refusal to the start that is not followed by another. */
static void test_outages(void)
{
	fresh();
	start(7, 10);
	CHECK_EQ(a.n_outages, 0);
	slice(0, 0, 3, 7, 11);
	CHECK(a.n_outages == 1 && a.outages[0].from == 11 && a.outages[0].to == UINT64_MAX);
	start(7, 20);
	slice(0, 0, 3, 7, 20);
	CHECK(a.n_outages == 1 && a.outages[0].to == UINT64_MAX);
	start(7, 30);
	CHECK(a.n_outages == 1 && a.outages[0].from == 11 && a.outages[0].to == 30);
	slice(1000, 1000, 2, 7, 40);
	start(7, 41);
	CHECK(a.n_outages == 1 && a.outages[0].to == 30);
	slice(1000, 0, 3, 7, 42);
	CHECK(a.n_outages == 2 && a.outages[1].from == 42 && a.outages[1].to == UINT64_MAX);
	/* Of too many, the oldest ones become one. */
	for (unsigned i = 0; i < AUX_OUTAGES_MAX; i++) {
		start(7, 50 + 10 * i);
		start(7, 52 + 10 * i);
		slice(1000, 0, 3, 7, 53 + 10 * i);
	}
	CHECK_EQ(a.n_outages, AUX_OUTAGES_MAX);
	CHECK(a.outages[0].from == 11 && a.outages[0].to == 60);
	CHECK_EQ(a.outages[AUX_OUTAGES_MAX - 1].from, 53 + 10 * (AUX_OUTAGES_MAX - 1));
	done();
}

static void test_failures(void)
{
	uint64_t from;

	fresh();
	start(7, 10);
	slice(0, 0, 3, 7, 10);
	CHECK(a.failed && a.started_empty == 1 && a.traces == 0);
	CHECK_EQ(a.refused, 10);
	/* Records whose end decreases or whose size exceeds their end are rejected. */
	a.failed = false;
	slice(1000, 500, 2, 7, 11);
	slice(900, 100, 2, 7, 12);
	CHECK(a.strange);
	CHECK_EQ(a.end, 1000);
	slice(1200, 1500, 2, 7, 13);
	slice(1300, 700, 2, 7, 14);
	CHECK_EQ(a.slices[a.n_slices - 1].from, 1000);
	slice(UINT64_MAX, 16, 2, 7, 15);
	CHECK_EQ(aux_held(&a, &from), 16);
	slice(UINT64_MAX, UINT64_MAX, 2, 7, 15);
	CHECK(aux_held(&a, &from) <= SIZE);
	hardware_id(0x1234560000000023);
	CHECK(!a.has_id && a.trace_id == 0x14);
	hardware_id(0x0100000000000000 | (uint64_t)0xdeadbeef << 8 | 0x23);
	CHECK(a.has_id && a.trace_id == 0x23);
	hardware_id(0x7f);
	CHECK_EQ(a.trace_id, 0x23);
	done();
}

static void switched(bool out, uint32_t tid, uint64_t time)
{
	struct perf_record r = record(PERF_RECORD_SWITCH, out ? PERF_RECORD_MISC_SWITCH_OUT : 0, NULL, 0, tid, time);

	aux_fold(&a, &r);
}

/* A run of a thread, traced as the kernel records it, or with its event disabled. */
static void run(uint32_t tid, uint64_t time, uint64_t end)
{
	if (end)
		start(tid, time);
	switched(false, tid, time + 1);
	switched(true, tid, time + 5);
	if (end)
		slice(end, 100, 2, tid, time + 6);
}

/* Runs without trace are found by the switches, also among runs that the kernel records in other orders. */
static void test_untraced(void)
{
	struct thread_table t;

	thread_table_init(&t, 7);
	fresh();
	a.threads = &t;
	switched(true, 7, 5);
	run(7, 10, 100);
	CHECK(!a.untraced);
	run(8, 20, 0);
	CHECK(a.untraced && a.untraced_since == 21);
	CHECK_EQ(a.n_slices, 2);
	CHECK(a.slices[1].tid == 8 && a.slices[1].from == a.slices[1].to && a.slices[1].ended == 25);
	CHECK_EQ(a.refused, 0);
	a.untraced = false;
	/* The kernel passes the events of one thread to the next; the sink begins its buffer again; a thread ends. */
	start(7, 30);
	switched(false, 7, 31);
	slice(300, 200, 2, 7, 32);
	switched(true, 7, 33);
	switched(false, 8, 34);
	switched(true, 8, 35);
	slice(400, 100, 2, 8, 36);
	start(7, 40);
	switched(false, 7, 41);
	slice(500, 100, 2, 7, 42);
	run(8, 50, 600);
	CHECK(!a.untraced);
	/* After the thread that ended, its successor runs untraced. */
	start(7, 60);
	switched(false, 7, 61);
	slice(700, 100, 2, 7, 62);
	run(8, 70, 0);
	CHECK(a.untraced && a.untraced_since == 71);
	a.untraced = false;
	/* A stop ends tracing while a thread is running. */
	start(7, 80);
	switched(false, 7, 81);
	a.stopping = true;
	a.stopped_at = 800;
	slice(800, 100, 2, 7, 82);
	switched(true, 7, 83);
	CHECK(!a.untraced);
	run(8, 84, 0);
	CHECK(a.untraced);
	a.untraced = false;
	/* Two events of a thread record the same switch. */
	t.n_switches = 0;
	start(7, 90);
	switched(false, 7, 91);
	switched(false, 7, 91);
	switched(true, 7, 92);
	switched(true, 7, 92);
	slice(900, 100, 2, 7, 93);
	CHECK(!a.untraced && t.n_switches == 2);
	/* After lost records nothing is known. */
	aux_fold(&a, &(struct perf_record){ .type = PERF_RECORD_LOST, .origin = { 100, 7, 2, 94 } });
	run(8, 95, 0);
	CHECK(!a.untraced);
	thread_table_done(&t);
	done();
}

/* The pauses that an earlier daemon has logged; the last one has no end. */
static void test_replayed(void)
{
	const struct trace_pause pauses[] = {
		{ 10, UINT64_MAX, 1 }, { 12, 15, 0 }, { 10, 20, 1 }, { 30, UINT64_MAX, 1 }
	};
	const struct plan plan = { .n_cpus = 1 };
	struct grid g = { .plan = &plan, .rings = &a };
	struct buf b = { 0 };

	fresh();
	start(7, 1);
	slice(100, 100, 2, 7, 5);
	for (size_t i = 0; i < ELEMENTS(pauses); i++)
		grid_replay_pause(&g, &pauses[i]);
	CHECK(g.pauses.n == 3 && g.pauses.list[0].to == 20 && g.off);
	a.ring.page = &empty;
	grid_drain(&g, 40, 0, &b);
	CHECK_EQ(g.pauses.list[2].to, UINT64_MAX);
	grid_start(&g);
	grid_drain(&g, 50, 0, &b);
	CHECK(g.pauses.n == 4 && g.pauses.list[2].to == 50 && !g.off);
	pause_list_done(&g.pauses);
	buf_done(&b);
	done();
}

/* While tracing was stopped, threads ran untraced: no sink has failed. That is read when tracing has started again. */
static void test_stopped(void)
{
	const struct plan plan = { .n_cpus = 1 };
	struct grid g = { .plan = &plan, .rings = &a };
	struct buf b = { 0 };

	fresh();
	a.ring.page = &empty;
	run(7, 10, 100);
	grid_stop(&g);
	grid_drain(&g, 20, 0, &b);
	run(8, 30, 0);
	grid_start(&g);
	grid_drain(&g, 40, 0, &b);
	CHECK(!a.failed && !a.untraced);
	CHECK_EQ(g.pauses.n, 1);
	run(8, 50, 0);
	grid_drain(&g, 60, 0, &b);
	CHECK(a.failed && a.failed_since == 51);
	pause_list_done(&g.pauses);
	buf_done(&b);
	done();
}

/* Writes a record in the format of a ring. */
static size_t put(uint8_t *to, uint32_t type, uint16_t misc, const void *body, size_t size, uint32_t tid, uint64_t time)
{
	struct perf_event_header head = { type, misc, (uint16_t)(sizeof(head) + size + PERF_RECORD_ID_SIZE) };
	const struct {
		uint32_t pid, tid;
		uint64_t time;
		uint32_t cpu, reserved;
		uint64_t id;
	} origin = { 100, tid, time, 1, 0, 5 };

	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), body, size);
	memcpy(to + sizeof(head) + size, &origin, sizeof(origin));
	return head.size;
}

static void test_ring(void)
{
	enum { DATA = 1024 };
	static struct perf_event_mmap_page page;
	static uint8_t data[DATA];
	const uint64_t aux[3] = { 64, 64, 2 };
	struct buf b = { 0 };
	uint8_t whole[256];
	struct perf_record r;
	size_t size = put(whole, PERF_RECORD_AUX, 0, aux, sizeof(aux), 7, 99), at = DATA - 24;

	fresh();
	a.ring.page = &page;
	a.ring.data = data;
	a.ring.data_size = DATA;
	/* A record that wraps around the end of the ring, then an incomplete record. */
	page.data_tail = a.ring.position = at;
	for (size_t i = 0; i < size; i++)
		data[(at + i) % DATA] = whole[i];
	page.data_head = at + size;
	aux_drain(&a, &b);
	CHECK_EQ(a.end, 64);
	CHECK_EQ(page.data_tail, page.data_head);
	CHECK(!a.strange);
	/* The kernel had no room for another record, and may have lost some. */
	CHECK_EQ(a.lost, 0);
	for (size_t n = put(whole, PERF_RECORD_ITRACE_START, 0, aux, 8, 7, 99);
	     page.data_head - page.data_tail + n <= DATA; page.data_head += n)
		for (size_t i = 0; i < n; i++)
			data[(page.data_head + i) % DATA] = whole[i];
	aux_drain(&a, &b);
	CHECK(!a.strange && a.lost == 1);
	a.lost = 0;
	page.data_head += 12;
	aux_drain(&a, &b);
	CHECK(a.strange);
	CHECK_EQ(page.data_tail, page.data_head);
	a.strange = false;
	page.data_head += 10 * DATA;
	aux_drain(&a, &b);
	CHECK(a.strange && a.lost == 1);
	size = put(whole, PERF_RECORD_AUX, 0, aux, sizeof(aux), 7, 99);
	/* Invalid sizes. */
	CHECK_EQ(perf_record_parse(whole, size, &r), (int)size);
	CHECK_EQ(r.size, 24);
	CHECK(r.origin.tid == 7 && r.origin.time == 99 && r.origin.cpu == 1);
	for (unsigned lie = 0; lie < 300; lie++) {
		whole[6] = (uint8_t)lie;
		whole[7] = (uint8_t)(lie >> 8);
		if (perf_record_parse(whole, size, &r) >= 0 && (lie < 40 || lie > size || lie % 8))
			CHECK(false);
	}
	buf_done(&b);
	done();
}

int main(void)
{
	a.fd = -1;
	test_slices();
	test_parts();
	test_failures();
	test_fill();
	test_outages();
	test_untraced();
	test_replayed();
	test_stopped();
	test_ring();
	return unit_end();
}
