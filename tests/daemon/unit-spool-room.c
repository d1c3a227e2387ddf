/* SPDX-License-Identifier: MIT */
/* daemon/spool-room.c: which snapshots are removed to make room, in which order, for whom, and what is refused. */
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/directory-tree.h"
#include "daemon/spool-room.h"
#include "daemon/spool.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { ANNA = 1000, BERT = 1001, CARL = 1002 };

static const uint64_t reserve = 0;
static uint64_t total = 120;

static struct event_base *base;
static struct workqueue *queue;
static struct ledger *ledger;
static struct spool *spool;
static char removed[256]; /* names of snapshots, in order */
static unsigned made, gone;
static uint64_t own_limit;

static void on_changed(void *data, const struct snapshot *s, enum snapshot_change change)
{
	if (change != SNAPSHOT_REMOVED)
		return;
	gone++;
	if (strlen(removed) + strlen(s->name) + 2 > sizeof(removed))
		return;
	strcat(removed, removed[0] ? " " : "");
	strcat(removed, s->name);
}

static void limits_of(void *data, uid_t user, struct ledger_limits *ret)
{
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		ret->most[k] = user == CARL ? own_limit : LEDGER_UNLIMITED;
}

static void begin(bool divided)
{
	struct ledger_options o = { .limits = limits_of };
	char dir[] = "/tmp/csight-room-XXXXXX";
	struct spool_options so = { .changed = on_changed };

	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		o.totals[k] = (struct ledger_total){ total, reserve, divided && k == LEDGER_PENDING };
	base = event_base_new();
	if (!mkdtemp(dir) || workqueue_new(base, "test", 0, &queue) < 0 || ledger_new(&o, &ledger) < 0)
		exit(1);
	so.path = dir;
	so.queue = queue;
	so.ledger = ledger;
	so.base = base;
	if (spool_new(&so, &spool) < 0)
		exit(1);
	removed[0] = 0;
}

/* Removals are done. */
static void drain(void)
{
	for (int n = 0; n < 60000 && spool_leaving(spool, -1u); n++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		usleep(1000);
	}
}

static void end(void)
{
	char path[256];

	drain();
	snprintf(path, sizeof(path), "%s", spool_path(spool));
	while (TAILQ_FIRST(spool_list(spool)))
		spool_expire(spool, TAILQ_FIRST(spool_list(spool)), "a limit");
	drain();
	CHECK_EQ(ledger_sum(ledger, LEDGER_SPOOL), 0);
	CHECK_EQ(ledger_sum(ledger, LEDGER_PENDING), 0);
	CHECK_EQ(spool_unwritten(spool), 0);
	workqueue_free(queue);
	spool_free(spool);
	ledger_free(ledger);
	event_base_free(base);
	CHECK_EQ(rmdir(path), 0);
}

static struct snapshot *add(uid_t uid, const char *name, uint64_t size, enum snapshot_state state)
{
	struct snapshot *s = snapshot_new();

	snprintf(s->id, sizeof(s->id), "20260101T000000-%06u", ++made);
	mkdirat(spool_fd(spool), s->id, 0700);
	s->owner = uid;
	s->name = strdup(name);
	s->size = size;
	s->state = state;
	s->time = made;
	spool_room_record(spool, uid, size, state < SNAPSHOT_READY, &s->claim);
	spool_insert(spool, s);
	snapshot_unref(s);
	return s;
}

/* Claims when what is removed for it is gone. */
static int claim(uid_t uid, uint64_t bytes, struct spool_claim *ret)
{
	struct spool_refusal why = { 0 };
	int rc = spool_room_claim(spool, uid, bytes, ret, &why);

	if (rc != -EAGAIN)
		return rc;
	drain();
	return spool_room_claim(spool, uid, bytes, ret, &why);
}

static void test_order(void)
{
	struct spool_claim c = { 0 }, d = { 0 };

	begin(false);
	add(ANNA, "a1", 30, SNAPSHOT_READY);
	add(BERT, "b1", 10, SNAPSHOT_READY);
	add(ANNA, "a2", 30, SNAPSHOT_RAW);
	add(ANNA, "a3", 30, SNAPSHOT_READY);
	add(BERT, "b2", 10, SNAPSHOT_READY);
	/* 110 of 120. Bert is within his share: Anna's oldest goes. */
	CHECK_EQ(claim(BERT, 20, &c), 0);
	CHECK_STR(removed, "a1");
	CHECK_EQ(ledger_sum(ledger, LEDGER_SPOOL), 100);
	/* With 70 more he would have more than his share: his own would go, not hers, and do not suffice. */
	CHECK_EQ(claim(BERT, 70, &d), -EDQUOT);
	CHECK_STR(removed, "a1");
	CHECK_EQ(claim(BERT, 25, &d), 0);
	CHECK_STR(removed, "a1 b1");
	spool_room_return(&c);
	spool_room_return(&d);
	end();
}

/* The one who exceeds the share by most loses first; who is within it loses nothing. */
static void test_largest(void)
{
	struct spool_claim c = { 0 };

	own_limit = 100;
	begin(false);
	add(CARL, "c1", 10, SNAPSHOT_READY);
	add(ANNA, "a1", 35, SNAPSHOT_READY);
	add(BERT, "b1", 25, SNAPSHOT_READY);
	add(BERT, "b2", 40, SNAPSHOT_READY);
	/* 110 of 120, shares of 40: Bert has 65. */
	CHECK_EQ(claim(CARL, 30, &c), 0);
	CHECK_STR(removed, "b1");
	spool_room_return(&c);
	end();
}

/* What waits for its decode cannot be removed, and does not push out others'. */
static void test_waiting(void)
{
	struct spool_claim c = { 0 }, d = { 0 };
	struct spool_refusal why = { 0 };
	struct snapshot *s;

	begin(false);
	add(BERT, "b1", 50, SNAPSHOT_READY);
	add(ANNA, "a1", 30, SNAPSHOT_READY);
	s = add(ANNA, "a2", 30, SNAPSHOT_QUEUED);
	CHECK_EQ(claim(ANNA, 20, &c), 0);
	CHECK_STR(removed, "a1");
	CHECK_EQ(claim(ANNA, 30, &d), -EDQUOT);
	CHECK_STR(removed, "a1");
	/* Once it is decoded, it goes. */
	s->state = SNAPSHOT_READY;
	spool_room_rest(&s->claim);
	CHECK_EQ(claim(ANNA, 30, &d), 0);
	CHECK_STR(removed, "a1 a2");
	CHECK_EQ(spool_room_resize(&d, 60, &why), -EDQUOT);
	CHECK(strstr(why.reason.text, "spool-max") != NULL);
	CHECK_EQ(spool_room_resize(&d, 10, &why), 0);
	spool_room_settle(&c, 15);
	CHECK_EQ(ledger_used(ledger, ANNA, LEDGER_SPOOL), 25);
	spool_room_return(&c);
	spool_room_return(&d);
	end();
}

/* Of what is pending, one user has at most half of what others leave; what is begun may grow. */
static void test_pending(void)
{
	struct spool_claim c = { 0 }, d = { 0 };
	struct spool_refusal why = { 0 };

	begin(true);
	CHECK_EQ(claim(ANNA, 61, &c), -EDQUOT);
	CHECK_EQ(claim(ANNA, 60, &c), 0);
	CHECK_EQ(claim(BERT, 31, &d), -EDQUOT);
	CHECK_EQ(claim(BERT, 30, &d), 0);
	CHECK_EQ(spool_room_resize(&c, 70, &why), 0);
	spool_room_return(&c);
	spool_room_return(&d);
	end();
}

/* A limit of one's own, without regard to what is free. */
static void test_own_limit(void)
{
	struct spool_claim c = { 0 };

	own_limit = 30;
	begin(false);
	add(CARL, "c1", 10, SNAPSHOT_READY);
	add(CARL, "c2", 10, SNAPSHOT_READY);
	CHECK_EQ(claim(CARL, 15, &c), 0);
	CHECK_STR(removed, "c1");
	spool_room_return(&c);
	CHECK_EQ(claim(CARL, 31, &c), -EDQUOT);
	CHECK_STR(removed, "c1");
	end();
}

/* A claim that others leave no room for removes nothing, neither theirs nor what is over the user's own limit. */
static void test_refused(void)
{
	struct spool_claim c = { 0 };

	own_limit = 30;
	begin(false);
	add(CARL, "c1", 20, SNAPSHOT_READY);
	add(ANNA, "a1", 75, SNAPSHOT_QUEUED);
	add(BERT, "b1", 20, SNAPSHOT_READY);
	/* 115 of 120. Without his own there is room for 25. */
	CHECK_EQ(claim(CARL, 30, &c), -EDQUOT);
	CHECK_STR(removed, "");
	CHECK_EQ(claim(CARL, 25, &c), 0);
	CHECK_STR(removed, "c1");
	spool_room_return(&c);
	end();
}

static struct snapshot *add_kept(uid_t uid, const char *name, uint64_t size)
{
	struct snapshot *s = add(uid, name, size, SNAPSHOT_READY);

	s->kept = true;
	return s;
}

/* Kept snapshots stay for their owner, for the age, and for other users as long as their owner is within the share. */
static void test_kept(void)
{
	struct spool_claim c = { 0 }, d = { 0 };

	own_limit = 30;
	begin(false);
	add_kept(CARL, "c1", 10);
	add(CARL, "c2", 10, SNAPSHOT_READY);
	CHECK_EQ(claim(CARL, 15, &c), 0);
	CHECK_STR(removed, "c2");
	CHECK_EQ(claim(CARL, 10, &d), -EDQUOT);
	CHECK_STR(removed, "c2");
	CHECK(!spool_room_drop_oldest(spool, CARL));
	spool_room_return(&c);
	end();

	begin(false);
	add_kept(ANNA, "a1", 60);
	CHECK_EQ(claim(BERT, 60, &c), 0);
	CHECK_EQ(claim(BERT, 10, &d), -EDQUOT);
	CHECK_STR(removed, "");
	spool_limit(spool, 0, 1);
	CHECK_STR(removed, "");
	spool_room_return(&c);
	end();
}

/* Beyond the share they give way to others, as the last ones. */
static void test_kept_beyond(void)
{
	struct spool_claim c = { 0 };

	begin(false);
	add_kept(ANNA, "a1", 40);
	add_kept(ANNA, "a2", 40);
	add(ANNA, "a3", 30, SNAPSHOT_READY);
	CHECK_EQ(claim(BERT, 40, &c), 0);
	CHECK_STR(removed, "a3");
	CHECK_EQ(spool_room_free(spool, BERT), 0);
	spool_room_return(&c);
	CHECK_EQ(claim(BERT, 60, &c), 0);
	CHECK_STR(removed, "a3 a1");
	spool_room_return(&c);
	end();
}

/* Claims until all is gone that must be removed for it. Adds the processor time of the calls to *ns. */
static int claim_much(uid_t uid, uint64_t bytes, struct spool_claim *ret, uint64_t *ns)
{
	struct spool_refusal why = { 0 };
	int rc = -EAGAIN;

	while (rc == -EAGAIN) {
		uint64_t began = now_ns(CLOCK_THREAD_CPUTIME_ID);
		unsigned before = gone;

		rc = spool_room_claim(spool, uid, bytes, ret, &why);
		*ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - began;
		CHECK(gone - before <= 256);
		drain();
	}
	return rc;
}

/*
 * Room is made on the loop, where users wait meanwhile: removing thousands of snapshots takes some ms in each turn, and
 * not a walk of all snapshots and removals for each of them, which would take seconds here.
 */
static void test_many(void)
{
	enum { N = 3000 };
	struct spool_claim c = { 0 }, d = { 0 };
	uint64_t ns = 0;

	total = own_limit = N;
	begin(false);
	for (int i = 0; i < N; i++)
		add(i % 2 ? CARL : ANNA, "x", 1, SNAPSHOT_READY);
	gone = 0;
	CHECK_EQ(claim_much(BERT, N / 3, &c, &ns), 0);
	CHECK_EQ(gone, N / 3);
	CHECK_EQ(ledger_used(ledger, CARL, LEDGER_SPOOL), N / 3);
	spool_room_return(&c);
	/* For more than his share, all that is his own goes first, if that suffices. */
	CHECK_EQ(claim_much(CARL, N, &d, &ns), -EDQUOT);
	CHECK_EQ(gone, N / 3);
	CHECK_EQ(claim_much(CARL, N / 3 * 2, &d, &ns), 0);
	CHECK_EQ(gone, N / 3 * 2);
	CHECK_EQ(ledger_used(ledger, CARL, LEDGER_SPOOL), N / 3 * 2);
	spool_room_return(&d);
	printf("# the claims took %" PRIu64 " us\n", ns / 1000);
	CHECK(ns < 1000000000u);
	end();
	total = 120;
}

/* What small files take is charged, too: blocks, and directories. */
static void test_small_files(void)
{
	char path[64] = "/tmp/csight-room-XXXXXX";
	const char *dir = mkdtemp(path);
	_cleanup_close_ int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	uint64_t size = 0;

	CHECK(fd >= 0 && mkdirat(fd, "code", 0700) == 0);
	CHECK_EQ(io_write_file(fd, "code/a", "x", 1, 0600), 0);
	CHECK_EQ(io_write_file(fd, "b", "", 0, 0600), 0);
	CHECK_EQ(directory_tree_size(fd, &size), 0);
	CHECK_EQ(size, 4 * 4096);
	CHECK_EQ(directory_tree_remove(AT_FDCWD, path), 0);
}

int main(void)
{
	log_setup("unit-spool-room", LOG_WARNING);
	test_order();
	test_largest();
	test_waiting();
	test_pending();
	test_own_limit();
	test_refused();
	test_kept();
	test_kept_beyond();
	test_many();
	test_small_files();
	return unit_end();
}
