/* SPDX-License-Identifier: MIT */
/* daemon/capture/emu: a program that begins threads and fills its log once csightd copies gets no more memory for it.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/capture/emu/emu.h"
#include "daemon/capture/emu/patience.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { RINGS = 64, RING = 64 << 10, LOG = 8 << 20, HEAD = 256 << 10, TOTAL = HEAD + LOG + RINGS * RING };

static uint8_t *map;
static struct emu_header *header;
static struct emu_slot *slots;

static struct capture_source *program(void)
{
	int fd = memfd_create("emu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct emu_about *about = malloc(sizeof(*about));
	struct capture_source *s = NULL;

	if (!about || fd < 0 || ftruncate(fd, TOTAL) < 0)
		exit(1);
	map = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		exit(1);
	header = (struct emu_header *)map;
	*header = (struct emu_header){ .magic = EMU_MAGIC,
				       .version = EMU_VERSION,
				       .header_size = sizeof(*header),
				       .total_size = TOTAL,
				       .n_rings = RINGS,
				       .slot_size = sizeof(struct emu_slot),
				       .watching_offset = ALIGN8(sizeof(*header)),
				       .slots_offset = ALIGN8(sizeof(*header)) + sizeof(struct emu_watching),
				       .log_offset = HEAD,
				       .log_size = LOG,
				       .rings_offset = HEAD + LOG,
				       .ring_size = RING };
	slots = (struct emu_slot *)(map + header->slots_offset);
	for (uint32_t n = 0; n < RINGS; n++)
		slots[n] = (struct emu_slot){ .tid = n + 1, .serial = 1, .head = RING };
	if (emu_source_new(fd, about, &s) < 0)
		exit(1);
	free(about);
	return s;
}

static void put_records(size_t size)
{
	const struct emu_record_comm r = { .head = { EMU_REC_COMM, sizeof(r), 1 }, .name = "name" };

	for (size_t at = 0; at + sizeof(r) <= size; at += sizeof(r))
		memcpy(map + HEAD + at, &r, sizeof(r));
	atomic_store(&header->log_head, size / sizeof(r) * sizeof(r));
}

/* Uses all slots as soon as the freeze is visible; csightd waits for the first one, which is the last here. */
static void *begin_threads(void *unused)
{
	while (!(atomic_load(&header->control) & 1))
		;
	for (uint32_t n = RINGS; n-- > 0;)
		atomic_store(&slots[n].state, EMU_IDLE);
	return NULL;
}

static bool says(const struct capture_copy *c, const char *text)
{
	for (size_t at = 0; at < c->missing.size; at += strlen((char *)c->missing.data + at) + 1)
		if (strstr((char *)c->missing.data + at, text))
			return true;
	return false;
}

static void test_threads(void)
{
	struct capture_source *s = program();
	struct capture_limits limits;
	struct capture_copy *c = NULL;
	uint64_t sum = 0, trace, log;
	pthread_t thread;

	/* The one that runs makes csightd wait, so that the others begin before the second look. */
	atomic_store(&slots[0].state, EMU_RUNNING);
	s->ops->copy_max(s, &trace, &log);
	limits = (struct capture_limits){ trace, log };
	CHECK_EQ(trace, 2u * RING);
	pthread_create(&thread, NULL, begin_threads, NULL);
	CHECK_EQ(s->ops->copy(s, true, &limits, &c), 0);
	pthread_join(thread, NULL);
	for (size_t n = 0; n < c->n_threads; n++)
		sum += c->threads[n].size;
	CHECK(sum <= trace);
	CHECK(c->n_threads >= 1);
	CHECK(says(c, "thread 64 was left out: it began during the copy"));
	capture_copy_free(c);
	s->ops->free(s);
	munmap(map, TOTAL);
}

/* A thread that does not obey a freeze costs the account that the source is charged to, and no other. */
static void test_patience(void)
{
	const uid_t account = 1234600501;
	struct capture_source *s = program();
	struct capture_limits limits;
	struct capture_copy *c = NULL;
	uint64_t now = now_ns(CLOCK_MONOTONIC), second = 1000000000, trace, log;

	s->share.account = account;
	patience_spend(account, now, second / 50 * 49);
	CHECK_EQ(patience_left(account, now), second / 50);
	atomic_store(&slots[0].state, EMU_RUNNING);
	s->ops->copy_max(s, &trace, &log);
	limits = (struct capture_limits){ trace, log };
	CHECK_EQ(s->ops->copy(s, true, &limits, &c), 0);
	CHECK(patience_left(account, now) < second / 50);
	CHECK_EQ(patience_left(account + 1, now), second);
	CHECK_EQ(patience_left(0, now), second);
	capture_copy_free(c);
	s->ops->free(s);
	munmap(map, TOTAL);
}

/* Drains at most `most` bytes, and checks that these are the next ones of the stream: byte p of a stream is p * 7. */
static struct capture_copy *drain(struct capture_source *s, struct capture_positions *p, size_t most)
{
	struct capture_drain d = { .most = most };
	struct capture_copy *c = NULL;
	const uint8_t *piece;
	size_t size, wrong = 0;

	CHECK_EQ(s->ops->drain(s, p, &d, &c), 0);
	for (size_t n = 0; n < c->n_threads; n++) {
		uint64_t at = c->threads[n].from;

		for (unsigned i = 0; i < 2; i++) {
			capture_piece(&c->threads[n], i, &piece, &size);
			for (size_t k = 0; k < size; k++, at++)
				wrong += piece[k] != (uint8_t)(at * 7);
		}
	}
	CHECK_EQ(wrong, 0);
	return c;
}

/* The thread of slot 0 writes up to a position. */
static void write_to(uint64_t head)
{
	uint8_t *ring = map + header->rings_offset;

	for (uint64_t at = head - MIN(head, (uint64_t)RING); at < head; at++)
		ring[at % RING] = (uint8_t)(at * 7);
	atomic_store(&slots[0].head, head);
}

static void check_drained(struct capture_copy *c, uint64_t from, uint64_t size, uint64_t own, uint64_t earlier)
{
	const struct capture_thread *t = c->threads;

	CHECK_EQ(c->n_threads, 1);
	if (c->n_threads) {
		CHECK_EQ(t->from, from);
		CHECK_EQ(t->size, size);
		CHECK_EQ(t->lost.own, own);
		CHECK_EQ(t->lost.earlier, earlier);
	}
	capture_copy_free(c);
}

static void check_nothing(struct capture_copy *c)
{
	CHECK_EQ(c->n_threads, 0);
	capture_copy_free(c);
}

static void test_drain(void)
{
	struct capture_source *s = program();
	struct capture_positions p = { 0 };

	/* What is in the ring is the beginning. */
	atomic_store(&slots[0].state, EMU_IDLE);
	write_to(3 * RING + 100);
	check_drained(drain(s, &p, 1000), 2 * RING + 100, 1000, 0, 0);
	check_drained(drain(s, &p, RING), 2 * RING + 1100, RING - 1000, 0, 0);
	check_nothing(drain(s, &p, RING));
	write_to(3 * RING + 150);
	check_drained(drain(s, &p, RING), 3 * RING + 100, 50, 0, 0);
	/* A ring that has wrapped since, and one that may be written on. */
	write_to(5 * RING + 160);
	check_drained(drain(s, &p, RING), 4 * RING + 160, RING, RING + 10, 0);
	write_to(6 * RING + 160);
	atomic_store(&slots[0].state, EMU_RUNNING);
	check_drained(drain(s, &p, RING), 5 * RING + 160 + 4096, RING - 4096, 4096, 0);
	/* Another thread takes the slot over: 500 bytes of this one, and 70 and 30 of two that nothing was seen of. */
	atomic_store(&slots[0].state, EMU_EXITED);
	write_to(6 * RING + 660);
	atomic_store(&slots[0].earlier, 6 * RING + 660);
	check_nothing(drain(s, &p, RING));
	atomic_store(&slots[0].earlier, 6 * RING + 660 + 70 + 30);
	slots[0].serial += 3;
	write_to(20);
	check_drained(drain(s, &p, RING), 0, 20, 0, 600);
	/* A program that damages its positions gets nothing recorded, and no harm is done. */
	atomic_store(&slots[0].head, 10);
	check_nothing(drain(s, &p, RING));
	atomic_store(&slots[0].head, UINT64_MAX);
	capture_copy_free(drain(s, &p, 0));
	free(p.list);
	s->ops->free(s);
	munmap(map, TOTAL);
}

static atomic_bool pushing;

/* Moves the heads of all slots on, so that whatever has been copied of a ring is overwritten. */
static void *push_heads(void *unused)
{
	while (atomic_load(&pushing))
		for (uint32_t n = 0; n < RINGS; n++)
			atomic_fetch_add(&slots[n].head, RING + EMU_PENDING_MAX);
	return NULL;
}

/* A step takes no more memory for a program whose rings are overwritten while they are copied. */
static void test_overwritten(void)
{
	struct capture_source *s = program();
	struct capture_positions p = { 0 };
	size_t most = 0;
	pthread_t thread;

	for (uint32_t n = 0; n < RINGS; n++)
		atomic_store(&slots[n].state, EMU_RUNNING);
	atomic_store(&pushing, true);
	pthread_create(&thread, NULL, push_heads, NULL);
	for (unsigned i = 0; i < 200; i++) {
		struct capture_drain d = { .most = 2 * RING };
		struct capture_copy *c = NULL;
		size_t used = 0;

		CHECK_EQ(s->ops->drain(s, &p, &d, &c), 0);
		for (size_t n = 0; n < c->n_threads; n++)
			used += c->threads[n].data ? c->threads[n].room : 0;
		most = MAX(most, used);
		capture_copy_free(c);
	}
	atomic_store(&pushing, false);
	pthread_join(thread, NULL);
	CHECK(most <= 2 * RING + 4096);
	free(p.list);
	s->ops->free(s);
	munmap(map, TOTAL);
}

/* Puts a record into the log, at its head. */
static void put_record(const void *record, size_t size)
{
	uint64_t head = atomic_load(&header->log_head);

	memcpy(map + HEAD + head, record, size);
	atomic_store(&header->log_head, head + size);
}

static struct capture_copy *drain_live(struct capture_source *s, struct capture_positions *p, bool ended)
{
	struct capture_drain d = { .most = RING, .live = true, .ended = ended };
	struct capture_copy *c = NULL;

	CHECK_EQ(s->ops->drain(s, p, &d, &c), 0);
	CHECK(!c->n_threads || !d.more);
	return c;
}

/* A drain that is live: what is new in the log comes before the trace, without code, and each thread ends once. */
static void test_live(void)
{
	const struct emu_record_comm name = { .head = { EMU_REC_COMM, sizeof(name), 1 }, .name = "name" };
	const struct emu_record_code code = { .head = { EMU_REC_CODE, 100 << 10, 1 }, .len = 1000 };
	struct capture_source *s = program();
	struct capture_positions p = { 0 };
	struct capture_copy *c;

	atomic_store(&slots[0].state, EMU_IDLE);
	write_to(1000);
	put_record(&name, sizeof(name));
	put_record(&code, sizeof(code));
	atomic_store(&header->log_head, sizeof(name) + code.head.size);
	put_record(&name, sizeof(name));
	put_record(&name, sizeof(name));
	c = drain_live(s, &p, false);
	CHECK_EQ(c->n_threads, 0);
	CHECK_EQ(c->log_size, sizeof(name));
	capture_copy_free(c);
	c = drain_live(s, &p, false);
	CHECK_EQ(c->n_threads, 1);
	CHECK_EQ(c->log_size, 2 * sizeof(name));
	CHECK(!c->threads[0].ended);
	capture_copy_free(c);
	atomic_store(&slots[0].state, EMU_EXITED);
	c = drain_live(s, &p, false);
	CHECK(c->n_threads == 1 && !c->threads[0].size && c->threads[0].ended && !c->log);
	capture_copy_free(c);
	check_nothing(drain_live(s, &p, false));
	/* The next one of the ring, whose process dies. */
	atomic_store(&slots[0].earlier, 1000);
	slots[0].serial++;
	atomic_store(&slots[0].state, EMU_RUNNING);
	write_to(10);
	atomic_store(&slots[0].pending, 10 << 8 | 0xf7);
	c = drain_live(s, &p, true);
	CHECK(c->n_threads == 1 && c->threads[0].size == 10 && c->threads[0].ended && c->threads[0].end_size);
	capture_copy_free(c);
	check_nothing(drain_live(s, &p, true));
	/* A damaged log is not read on. */
	put_record(&(struct emu_record_code){ .head = { EMU_REC_COMM, 3, 1 } }, sizeof(code));
	put_record(&name, sizeof(name));
	for (int i = 0; i < 2; i++) {
		c = drain_live(s, &p, false);
		CHECK(!c->log);
		capture_copy_free(c);
	}
	CHECK_EQ(p.log, UINT64_MAX);
	free(p.list);
	s->ops->free(s);
	munmap(map, TOTAL);
}

/* Steps that are too small for all threads: each thread has its turn. */
static void test_turns(void)
{
	struct capture_source *s = program();
	struct capture_positions p = { 0 };
	size_t bytes[3] = { 0 };

	for (unsigned n = 0; n < ELEMENTS(bytes); n++)
		atomic_store(&slots[n].state, EMU_IDLE);
	for (unsigned i = 0; i < 3 * 20; i++) {
		struct capture_drain d = { .most = 1000 };
		struct capture_copy *c = NULL;

		CHECK_EQ(s->ops->drain(s, &p, &d, &c), 0);
		for (size_t n = 0; n < c->n_threads; n++)
			bytes[c->threads[n].slot] += c->threads[n].size;
		capture_copy_free(c);
	}
	for (unsigned n = 0; n < ELEMENTS(bytes); n++)
		CHECK_EQ(bytes[n], 20 * 1000);
	free(p.list);
	s->ops->free(s);
	munmap(map, TOTAL);
}

/* The last copy of a recording has what is behind it, and what is lost before. */
static void test_last_copy(void)
{
	struct capture_source *s = program();
	struct capture_limits limits;
	struct capture_positions p = { 0 };
	struct capture_copy *c = NULL;
	uint64_t trace, log;

	atomic_store(&slots[0].state, EMU_IDLE);
	write_to(RING);
	check_drained(drain(s, &p, RING), 0, RING, 0, 0);
	write_to(2 * RING + 40);
	s->ops->copy_max(s, &trace, &log);
	limits = (struct capture_limits){ .trace = trace, .log = log, .since = &p };
	CHECK_EQ(s->ops->copy(s, true, &limits, &c), 0);
	check_drained(c, RING + 40, RING, 40, 0);
	limits.closed = true;
	CHECK_EQ(s->ops->copy(s, true, &limits, &c), 0);
	check_drained(c, 2 * RING + 40, 0, 0, 0);
	free(p.list);
	s->ops->free(s);
	munmap(map, TOTAL);
}

static void test_log(void)
{
	struct capture_source *s = program();
	struct capture_limits limits;
	struct capture_copy *c = NULL;
	uint64_t trace, log;

	atomic_store(&slots[0].state, EMU_IDLE);
	put_records(100000);
	s->ops->copy_max(s, &trace, &log);
	limits = (struct capture_limits){ trace, log };
	CHECK(log >= 100000 + (1 << 20) && log < 2 << 20);
	put_records(LOG);
	CHECK_EQ(s->ops->copy(s, true, &limits, &c), 0);
	CHECK(c->log_size <= log && c->log_size > log - sizeof(struct emu_record_comm));
	CHECK_EQ(c->log_size % sizeof(struct emu_record_comm), 0u);
	CHECK(says(c, "the newest 7"));
	CHECK(says(c, "of the log of mappings and code were left out: it grew before it was copied"));
	capture_copy_free(c);
	/* All of it, where it has the room. */
	put_records(200000);
	CHECK_EQ(s->ops->copy(s, true, &limits, &c), 0);
	CHECK_EQ(c->log_size, 200000u / sizeof(struct emu_record_comm) * sizeof(struct emu_record_comm));
	CHECK(!says(c, "left out"));
	capture_copy_free(c);
	s->ops->free(s);
	munmap(map, TOTAL);
}

int main(void)
{
	test_threads();
	test_patience();
	test_log();
	test_drain();
	test_overwritten();
	test_turns();
	test_live();
	test_last_copy();
	return unit_end();
}
