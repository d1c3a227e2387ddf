/* SPDX-License-Identifier: MIT */
/*
 * daemon/ledger.c, subuids.c: limits, shares, the reserve of root, refusals, rates, owners of subordinate uids.
 * daemon/user-queues.c: the threads of an account.
 */
#include <event2/event.h>
#include <string.h>
#include <unistd.h>

#include "daemon/ledger.h"
#include "daemon/subuids.h"
#include "daemon/user-queues.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { ANNA = 1000, BERT = 1001, CARL = 1002, FIRST_OF_ANNA = 100000, USERS = 7, CHARGES = 64 };

static uint64_t most_of_user = LEDGER_UNLIMITED;

static uid_t owner_of(void *data, uid_t uid)
{
	return uid >= FIRST_OF_ANNA ? *(uid_t *)data : uid;
}

static void limits_of(void *data, uid_t user, struct ledger_limits *ret)
{
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		ret->most[k] = user == CARL ? 10 : most_of_user;
}

static struct ledger *new_ledger(uint64_t most, uint64_t reserve, bool divided)
{
	static uid_t anna = ANNA;
	struct ledger_options o = { .owner = owner_of, .limits = limits_of, .data = &anna };
	struct ledger *l;

	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		o.totals[k] = (struct ledger_total){ most, reserve, divided };
	if (ledger_new(&o, &l) < 0)
		exit(1);
	return l;
}

static void test_limits(void)
{
	struct ledger *l = new_ledger(100, 20, false);
	struct charge a = { 0 }, b = { 0 }, c = { 0 };
	struct ledger_refusal no = { 0 };
	struct reason text = { "" };

	CHECK_EQ(ledger_charge(l, CARL, LEDGER_TARGETS, 11, &c, &no), -EDQUOT);
	CHECK(c.user == NULL && !no.machine && no.limit == 10 && no.used == 0 && no.wanted == 11);
	ledger_explain(&no, &text);
	CHECK_STR(text.text, "the limit targets-per-user is 10, of which 0 are in use; 11 more were wanted");
	CHECK_EQ(ledger_charge(l, CARL, LEDGER_TARGETS, 10, &c, &no), 0);
	CHECK_EQ(ledger_resize(&c, 11, &no), -EDQUOT);
	CHECK_EQ(ledger_resize(&c, 4, &no), 0);
	CHECK_EQ(ledger_used(l, CARL, LEDGER_TARGETS), 4);
	CHECK_EQ(ledger_left(l, CARL, LEDGER_TARGETS), 6);
	/* The reserve is for root alone, and what root holds counts against it first. */
	CHECK_EQ(ledger_charge(l, ANNA, LEDGER_TARGETS, 77, &a, &no), -EDQUOT);
	CHECK(no.machine && no.limit == 100 && no.used == 4);
	CHECK_EQ(ledger_charge(l, ANNA, LEDGER_TARGETS, 70, &a, &no), 0);
	CHECK_EQ(ledger_charge(l, 0, LEDGER_TARGETS, 20, &b, &no), 0);
	CHECK_EQ(ledger_left(l, ANNA, LEDGER_TARGETS), 6);
	CHECK_EQ(ledger_resize(&b, 26, &no), 0);
	CHECK_EQ(ledger_left(l, ANNA, LEDGER_TARGETS), 0);
	CHECK_EQ(ledger_resize(&b, 27, &no), -EDQUOT);
	CHECK_EQ(ledger_sum(l, LEDGER_TARGETS), 100);
	/* What exists is recorded without a check, and the account can shrink again. */
	ledger_settle(&a, 500);
	CHECK_EQ(ledger_sum(l, LEDGER_TARGETS), 530);
	CHECK_EQ(ledger_left(l, BERT, LEDGER_TARGETS), 0);
	ledger_return(&a);
	CHECK(a.user == NULL);
	ledger_return(&a);
	ledger_return(&b);
	ledger_return(&c);
	CHECK_EQ(ledger_sum(l, LEDGER_TARGETS), 0);
	ledger_free(l);
}

/* Half of what others leave: each later user gets some, however much the earlier ones want. */
static void test_division(void)
{
	struct ledger *l = new_ledger(128, 0, true);
	struct charge c[4] = { { 0 } };
	const uint64_t want[] = { 64, 32, 16, 8 };

	for (uid_t n = 0; n < 4; n++) {
		CHECK_EQ(ledger_left(l, BERT + 10 + n, LEDGER_PENDING), want[n]);
		CHECK_EQ(ledger_charge(l, BERT + 10 + n, LEDGER_PENDING, want[n] + 1, &c[n], NULL), -EDQUOT);
		CHECK_EQ(ledger_charge(l, BERT + 10 + n, LEDGER_PENDING, want[n], &c[n], NULL), 0);
		CHECK_EQ(ledger_resize(&c[n], want[n] + 1, NULL), -EDQUOT);
	}
	ledger_return(&c[0]);
	CHECK_EQ(ledger_left(l, BERT + 11, LEDGER_PENDING), 20);
	for (unsigned n = 1; n < 4; n++)
		ledger_return(&c[n]);
	ledger_free(l);
}

static void test_shares(void)
{
	struct ledger *l = new_ledger(120, 0, false);
	struct charge a, b, sub;

	ledger_record(l, ANNA, LEDGER_SPOOL, 70, &a);
	CHECK_EQ(ledger_excess(l, ANNA, ANNA, LEDGER_SPOOL, 120, 0), 0);
	CHECK_EQ(ledger_excess(l, ANNA, ANNA, LEDGER_SPOOL, 120, 51), 1);
	/* Beside a user who has nothing yet, the share is that of one more. */
	CHECK_EQ(ledger_excess(l, ANNA, BERT + 11, LEDGER_SPOOL, 120, 0), 10);
	ledger_record(l, BERT, LEDGER_SPOOL, 10, &b);
	CHECK_EQ(ledger_excess(l, ANNA, ANNA, LEDGER_SPOOL, 120, 0), 10);
	CHECK_EQ(ledger_excess(l, BERT, BERT, LEDGER_SPOOL, 120, 50), 0);
	/* A third user who comes makes the shares smaller. */
	CHECK_EQ(ledger_excess(l, BERT + 1 + 10, BERT + 1 + 10, LEDGER_SPOOL, 120, 41), 1);
	/* A subordinate uid has no share of its own. */
	ledger_record(l, FIRST_OF_ANNA + 7, LEDGER_SPOOL, 5, &sub);
	CHECK_EQ(ledger_used(l, ANNA, LEDGER_SPOOL), 75);
	CHECK_EQ(ledger_excess(l, ANNA, ANNA, LEDGER_SPOOL, 120, 0), 15);
	CHECK_EQ(ledger_excess(l, FIRST_OF_ANNA + 8, FIRST_OF_ANNA + 8, LEDGER_SPOOL, 120, 0), 15);
	ledger_return(&a);
	ledger_return(&b);
	ledger_return(&sub);
	ledger_free(l);
}

/* A range that moves to another user takes along what its uids hold. */
static void test_reassign(void)
{
	uid_t owner = ANNA;
	struct ledger_options o = { .owner = owner_of, .limits = limits_of, .data = &owner };
	_cleanup_free_ uid_t *users = NULL;
	struct charge c, d;
	struct ledger *l;
	size_t n;

	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		o.totals[k].most = 100;
	CHECK_EQ(ledger_new(&o, &l), 0);
	CHECK_EQ(ledger_charge(l, FIRST_OF_ANNA, LEDGER_MEMORY, 9, &c, NULL), 0);
	CHECK_EQ(ledger_charge(l, ANNA, LEDGER_MEMORY, 1, &d, NULL), 0);
	owner = CARL;
	ledger_reassign(l);
	CHECK_EQ(ledger_used(l, ANNA, LEDGER_MEMORY), 1);
	CHECK_EQ(ledger_used(l, CARL, LEDGER_MEMORY), 9);
	CHECK_EQ(ledger_left(l, FIRST_OF_ANNA + 1, LEDGER_MEMORY), 1);
	ledger_return(&d);
	CHECK(ledger_users(l, &users, &n) == 0 && n == 1 && users[0] == CARL);
	ledger_return(&c);
	ledger_free(l);
}

static void test_rates(void)
{
	struct ledger *l = new_ledger(100, 0, false);
	struct ledger_refusal no;

	for (int n = 0; n < 10; n++)
		if (ledger_spend(l, CARL, LEDGER_SNAPSHOTS, 1, &no) < 0)
			CHECK(false);
	CHECK_EQ(ledger_spend(l, CARL, LEDGER_SNAPSHOTS, 1, &no), -EDQUOT);
	CHECK(no.limit == 10 && no.used == 10 && !no.machine);
	CHECK_EQ(ledger_spend(l, BERT, LEDGER_SNAPSHOTS, 1, &no), 0);
	/* Of a decode the time is known afterwards. */
	CHECK_EQ(ledger_spend(l, CARL, LEDGER_DECODER, 5000, &no), 0);
	CHECK_EQ(ledger_check(l, CARL, LEDGER_DECODER, 0, &no), 0);
	CHECK_EQ(ledger_spend(l, CARL, LEDGER_DECODER, 1, &no), -EDQUOT);
	ledger_free(l);
}

/* A model: charges of several users in random order. */
static void test_model(unsigned seed)
{
	static const uid_t uids[USERS] = { 0, ANNA, BERT, CARL, FIRST_OF_ANNA, FIRST_OF_ANNA + 1, 5000 };
	struct ledger *l = new_ledger(1000, 100, false);
	struct charge charges[CHARGES] = { { 0 } };
	uint64_t used[USERS] = { 0 }, sum = 0, of[CHARGES] = { 0 };
	size_t who[CHARGES] = { 0 }, wrong = 0;

	srand(seed);
	for (int step = 0; step < 20000; step++) {
		size_t n = (size_t)rand() % CHARGES, u = (size_t)rand() % USERS;
		uint64_t amount = (uint64_t)rand() % 60;
		/* Both uids of the range are Anna's. */
		size_t account = uids[u] >= FIRST_OF_ANNA ? 1 : u;

		if (charges[n].user) {
			uint64_t more = amount > of[n] ? amount - of[n] : 0;
			size_t a = who[n];
			uint64_t left = 1000 - (a ? 100 - MIN(100u, used[0]) : 0) - MIN(sum, 1000u);

			if (rand() % 2) {
				ledger_return(&charges[n]);
				amount = 0;
			} else {
				if (uids[a] == CARL)
					left = MIN(left, 10 - used[a]);
				wrong += (ledger_resize(&charges[n], amount, NULL) == 0) != (more <= left);
				amount = more <= left ? amount : of[n];
			}
			used[a] = used[a] - of[n] + amount;
			sum = sum - of[n] + amount;
			of[n] = amount;
		} else {
			uint64_t bound = account ? 900 + MIN(100u, used[0]) : 1000, left = bound - MIN(sum, bound);
			int rc;

			if (uids[account] == CARL)
				left = MIN(left, 10 - used[account]);
			rc = ledger_charge(l, uids[u], LEDGER_MEMORY, amount, &charges[n], NULL);
			wrong += (rc == 0) != (amount <= left);
			if (rc < 0)
				continue;
			who[n] = account;
			of[n] = amount;
			used[account] += amount;
			sum += amount;
		}
		wrong += ledger_sum(l, LEDGER_MEMORY) != sum || ledger_used(l, uids[u], LEDGER_MEMORY) != used[account];
	}
	unit_check(wrong == 0, __FILE__, __LINE__, "the ledger agrees with the model, seed %u (%zu differences)", seed,
		   wrong);
	for (size_t n = 0; n < CHARGES; n++)
		ledger_return(&charges[n]);
	CHECK_EQ(ledger_sum(l, LEDGER_MEMORY), 0);
	ledger_free(l);
}

static void on_changed(void *data)
{
	*(bool *)data = true;
}

static void test_subuids(void)
{
	char path[] = "/tmp/csight-subuid-XXXXXX";
	static const char text[] = "1000:100000:65536\nroot:300000:10\nno-such-user-here:400000:10\n# x\n1001:5:x\n"
				   "1001:100000:65536\n1002:4294967290:5\n1003:4294967290:9\n\n1004:7:0\n";
	int fd = mkstemp(path);
	struct event_base *base = event_base_new();
	struct workqueue *queue;
	struct subuids_options o = { .path = path };
	bool changed = false;
	struct subuids *s;

	if (fd < 0 || io_write(fd, text, sizeof(text) - 1) < 0 || workqueue_new(base, "look", 0, &queue) < 0)
		exit(1);
	o.queue = queue;
	CHECK_EQ(subuids_new(&o, &s), 0);
	subuids_watch(s, on_changed, &changed);
	CHECK_EQ(subuids_owner(s, 100000), 1000);
	CHECK_EQ(subuids_owner(s, 165535), 1000);
	CHECK_EQ(subuids_owner(s, 165536), 165536);
	CHECK_EQ(subuids_owner(s, 99999), 99999);
	CHECK_EQ(subuids_owner(s, 300009), 300000);
	CHECK_EQ(subuids_owner(s, 400000), 400000);
	CHECK_EQ(subuids_owner(s, 5), 5);
	CHECK_EQ(subuids_owner(s, 7), 7);
	CHECK_EQ(subuids_owner(s, 4294967294u), 1002);
	subuids_refresh(s);
	usleep(1100000);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, "1005:100000:1\n", 14, 0) != 14)
		exit(1);
	subuids_refresh(s);
	for (int n = 0; n < 200 && !changed; n++)
		event_base_loop(base, EVLOOP_ONCE);
	CHECK(changed);
	CHECK_EQ(subuids_owner(s, 100000), 1005);
	CHECK_EQ(subuids_owner(s, 100001), 100001);
	subuids_free(s);
	workqueue_free(queue);
	event_base_free(base);
	close(fd);
	unlink(path);
}

/* A file system that does not answer until it is closed. */
static int blocked[2];

struct read_work {
	struct user_work work;
	bool done;
};

static void run_blocked(struct user_work *w)
{
	char byte;

	read(blocked[0], &byte, 1);
}

static void run_free(struct user_work *w)
{
}

static void read_done(struct user_work *w)
{
	container_of(w, struct read_work, work)->done = true;
}

static uid_t owner_of_range(void *data, uid_t uid)
{
	return uid < FIRST_OF_ANNA            ? uid
	       : uid < FIRST_OF_ANNA + 65536  ? ANNA
	       : uid < FIRST_OF_ANNA + 131072 ? BERT
					      : uid;
}

/* The uids of one account have 32 threads together, wherever their range begins, and take none of another's. */
static void test_user_queues(void)
{
	enum { FIRST = 131072, THREADS = 32, FIRST_OF_BERT = FIRST_OF_ANNA + 65536 };
	static struct user_queues *all;
	static struct event_base *base;
	struct ledger_options o = { .owner = owner_of_range, .limits = limits_of };
	struct read_work works[THREADS] = { 0 }, more = { .work = { .run = run_free, .done = read_done } }, bert = more;
	struct ledger *l;

	base = event_base_new();
	CHECK(pipe(blocked) == 0 && ledger_new(&o, &l) == 0 && user_queues_new(base, l, &all) == 0);
	for (uid_t n = 0; n < THREADS; n++) {
		works[n].work = (struct user_work){ .run = run_blocked, .done = read_done };
		user_queues_submit(all, FIRST + n, &works[n].work);
	}
	user_queues_submit(all, FIRST_OF_ANNA, &more.work);
	CHECK(user_queues_stuck(all, FIRST_OF_ANNA));
	user_queues_submit(all, FIRST_OF_BERT, &bert.work);
	while (!bert.done && !user_queues_stuck(all, FIRST_OF_BERT))
		event_base_loop(base, EVLOOP_ONCE);
	CHECK(bert.done && !more.done);
	close(blocked[1]);
	while (!more.done)
		event_base_loop(base, EVLOOP_ONCE);
	for (uid_t n = 0; n < THREADS; n++)
		while (!works[n].done)
			event_base_loop(base, EVLOOP_ONCE);
	close(blocked[0]);
	ledger_free(l);
}

int main(void)
{
	test_limits();
	test_division();
	test_shares();
	test_reassign();
	test_rates();
	for (unsigned seed = 1; seed <= 5; seed++)
		test_model(seed);
	test_subuids();
	test_user_queues();
	return unit_end();
}
