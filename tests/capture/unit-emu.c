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
	return unit_end();
}
