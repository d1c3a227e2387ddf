/* SPDX-License-Identifier: MIT */
/* daemon/fair-queue.c, workqueue.c: users take turns by cost, whatever they queue; each one's items stay in order. */
#include <event2/event.h>
#include <string.h>

#include "daemon/fair-queue.h"
#include "daemon/workqueue.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { ANNA = 1000, BERT = 1001, MANY = 100, USERS = 5, ITEMS = 2000 };

static void push(struct fair_queue *q, struct fair_item *items, size_t n, uid_t uid)
{
	for (size_t i = 0; i < n; i++)
		fair_queue_push(q, &items[i], uid);
}

/* One runs at a time: after 100 items of one user, another waits for the one that runs. */
static void test_one_job(uint64_t cost)
{
	struct fair_item anna[MANY], bert[2], *first, *next;
	struct fair_queue q;

	fair_queue_init(&q);
	push(&q, anna, MANY, ANNA);
	first = fair_queue_pop(&q);
	CHECK(first == &anna[0]);
	push(&q, bert, 2, BERT);
	fair_queue_charge(&q, first, cost);
	next = fair_queue_pop(&q);
	CHECK(next == &bert[0]);
	CHECK_EQ(fair_queue_count(&q, ANNA), MANY - 1);
	CHECK_EQ(fair_queue_count(&q, BERT), 1);
	/* Bert's was cheap, so that he has the next turn, too, unless both cost nothing. */
	fair_queue_charge(&q, next, 1);
	next = fair_queue_pop(&q);
	CHECK(next == (cost > 1 ? &bert[1] : &anna[1]));
	fair_queue_charge(&q, next, 1);
	for (int n = 1; (next = fair_queue_pop(&q)); n++)
		fair_queue_charge(&q, next, 1);
	CHECK(fair_queue_empty(&q) && TAILQ_EMPTY(&q.flows));
	fair_queue_done(&q);
}

/* An item that cannot be done stays its user's next one, costs nothing, and holds up no other user. */
static void test_put_back(void)
{
	struct fair_item anna[3], bert[2];
	struct fair_queue q;

	fair_queue_init(&q);
	push(&q, anna, 3, ANNA);
	push(&q, bert, 2, BERT);
	CHECK(fair_queue_pop(&q) == &anna[0]);
	fair_queue_put_back(&q, &anna[0]);
	CHECK_EQ(fair_queue_count(&q, ANNA), 3);
	for (int n = 0; n < 2; n++) {
		CHECK(fair_queue_pop(&q) == &bert[n]);
		fair_queue_charge(&q, &bert[n], 7);
	}
	CHECK(fair_queue_pop(&q) == NULL && !fair_queue_empty(&q));
	fair_queue_resume(&q);
	for (int n = 0; n < 3; n++) {
		CHECK(fair_queue_pop(&q) == &anna[n]);
		fair_queue_charge(&q, &anna[n], 7);
	}
	CHECK(fair_queue_empty(&q) && TAILQ_EMPTY(&q.flows));
	fair_queue_done(&q);
}

/* While another waits, an item leaves its place, but not to a further one of its own user. */
static void test_suspend(void)
{
	struct fair_item anna[3], bert[2], *first, *b;
	struct fair_queue q;

	fair_queue_init(&q);
	push(&q, anna, 3, ANNA);
	first = fair_queue_pop(&q);
	CHECK(!fair_queue_suspend(&q, first));
	push(&q, bert, 2, BERT);
	CHECK(fair_queue_suspend(&q, first) && !fair_queue_suspend(&q, first));
	b = fair_queue_pop(&q);
	CHECK(b == &bert[0]);
	/* Anna waits, but gets no place that Bert's item could leave. */
	CHECK(!fair_queue_suspend(&q, b));
	fair_queue_charge(&q, b, 1000);
	b = fair_queue_pop(&q);
	CHECK(b == &bert[1] && !fair_queue_pop(&q));
	fair_queue_charge(&q, first, 1);
	CHECK(fair_queue_suspend(&q, b));
	for (int n = 1; n < 3; n++) {
		first = fair_queue_pop(&q);
		CHECK(first == &anna[n]);
		fair_queue_charge(&q, first, 1);
	}
	fair_queue_charge(&q, b, 1);
	CHECK(fair_queue_empty(&q) && TAILQ_EMPTY(&q.flows));
	fair_queue_done(&q);
}

/* Two run at a time, and a user who has one that runs does not get the second place while another waits. */
static void test_two_places(void)
{
	struct fair_item anna[MANY], bert[1], *a, *b;
	struct fair_queue q;

	fair_queue_init(&q);
	push(&q, anna, MANY, ANNA);
	a = fair_queue_pop(&q);
	push(&q, bert, 1, BERT);
	b = fair_queue_pop(&q);
	CHECK(a == &anna[0] && b == &bert[0]);
	fair_queue_charge(&q, a, 5);
	fair_queue_charge(&q, b, 5);
	fair_queue_done(&q);
}

static void test_urgent(void)
{
	struct fair_item anna[2], urgent;
	struct fair_queue q;

	fair_queue_init(&q);
	push(&q, anna, 2, ANNA);
	fair_queue_push_urgent(&q, &urgent);
	CHECK(fair_queue_pop(&q) == &urgent);
	fair_queue_charge(&q, &urgent, 1000);
	fair_queue_remove(&q, &anna[0]);
	CHECK(fair_queue_pop(&q) == &anna[1]);
	fair_queue_charge(&q, &anna[1], 1);
	CHECK(fair_queue_pop(&q) == NULL && TAILQ_EMPTY(&q.flows));
	fair_queue_done(&q);
}

/* While all have items that wait, no user has had more than the others by more than its most expensive item. */
static void test_costs(unsigned seed)
{
	static struct fair_item items[USERS][ITEMS];
	uint64_t spent[USERS] = { 0 }, dearest = 0, worst = 0;
	size_t next[USERS] = { 0 }, disorder = 0;
	struct fair_queue q;

	srand(seed);
	fair_queue_init(&q);
	for (unsigned u = 0; u < USERS; u++)
		push(&q, items[u], ITEMS, ANNA + u);
	for (;;) {
		struct fair_item *item = fair_queue_pop(&q);
		unsigned u = item->uid - ANNA;
		/* The first user's are expensive. */
		uint64_t cost = (uint64_t)rand() % (u ? 10 : 1000), most = 0, least = UINT64_MAX;

		disorder += item != &items[u][next[u]++];
		fair_queue_charge(&q, item, cost);
		spent[u] += MAX(cost, 1u);
		dearest = MAX(dearest, cost);
		for (u = 0; u < USERS; u++) {
			most = MAX(most, spent[u]);
			least = MIN(least, spent[u]);
		}
		worst = MAX(worst, most - least);
		if (next[item->uid - ANNA] == ITEMS)
			break;
	}
	CHECK_EQ(disorder, 0);
	unit_check(worst <= 2 * dearest, __FILE__, __LINE__,
		   "seed %u: users differ by %llu at most, the dearest item cost %llu", seed, (unsigned long long)worst,
		   (unsigned long long)dearest);
	fair_queue_done(&q);
}

struct step {
	struct work work;
	unsigned n;
};

static unsigned order[MANY], n_done;
static int gate[2];

static void run_step(struct work *w)
{
	char c;

	/* The first one runs until all are queued. */
	if (container_of(w, struct step, work)->n == 0)
		(void)!read(gate[0], &c, 1);
}

static void step_ran(struct work *w)
{
	order[n_done++] = container_of(w, struct step, work)->n;
}

static void test_workqueue(void)
{
	struct event_base *base = event_base_new();
	struct step steps[6] = { 0 };
	static const uid_t uids[] = { ANNA, ANNA, ANNA, BERT, 0, 0 };
	struct workqueue *q;

	if (pipe(gate) < 0 || workqueue_new(base, "test", 0, &q) < 0)
		exit(1);
	for (unsigned n = 0; n < ELEMENTS(steps); n++) {
		steps[n] = (struct step){ { .run = run_step, .done = step_ran }, n };
		if (n == 5)
			workqueue_submit_urgent(q, &steps[n].work);
		else
			workqueue_submit_for(q, &steps[n].work, uids[n]);
		if (n == 0)
			usleep(100000);
	}
	(void)!write(gate[1], "", 1);
	workqueue_stop(q);
	CHECK_EQ(n_done, 6);
	CHECK(order[0] == 0 && order[1] == 5);
	/* The others' before the second of the user who had the thread for long. */
	CHECK(order[2] == 3 && order[3] == 4 && order[4] == 1 && order[5] == 2);
	workqueue_free(q);
	event_base_free(base);
}

int main(void)
{
	test_one_job(1);
	test_one_job(1000000);
	test_put_back();
	test_suspend();
	test_two_places();
	test_urgent();
	for (unsigned seed = 1; seed <= 3; seed++)
		test_costs(seed);
	test_workqueue();
	return unit_end();
}
