/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/user-queues.h"
#include "lib/base/log.h"
#include "lib/base/util.h"

enum {
	QUEUES_MAX = 128,
	/*
	 * A user may have 65536 subordinate uids (subuid(5)), which get no more threads than these; so do uids of a
	 * range that are no one's, as those of a container. The first range has the users of the machine.
	 */
	QUEUES_A_GROUP = 32,
	RANGE_BITS = 16,
	IDLE_SECONDS = 1,
};

struct user_queue {
	TAILQ_ENTRY(user_queue) link;
	struct user_queues *all;
	uid_t uid;
	struct workqueue *thread;
	unsigned n;        /* works that are not done */
	uint64_t since_ns; /* CLOCK_MONOTONIC when the first of them began at the latest */
};

struct user_queues {
	struct event_base *base;
	const struct ledger *ledger;
	struct event *sweep;
	TAILQ_HEAD(, user_queue) list;
	unsigned n;
	STAILQ_HEAD(, user_work) waiting; /* works of users without a thread */
};

static struct user_queue *find_queue(const struct user_queues *all, uid_t uid)
{
	struct user_queue *q;

	TAILQ_FOREACH (q, &all->list, link)
		if (q->uid == uid)
			return q;
	return NULL;
}

static void user_queue_free(struct user_queue *q)
{
	TAILQ_REMOVE(&q->all->list, q, link);
	q->all->n--;
	workqueue_free(q->thread);
	free(q);
}

static void run_work(struct work *work)
{
	struct user_work *w = container_of(work, struct user_work, work);

	w->run(w);
}

static void work_ran(struct work *work)
{
	struct user_work *w = container_of(work, struct user_work, work);
	struct user_queue *q = w->queue;
	struct timeval pause = { STAILQ_EMPTY(&q->all->waiting) ? IDLE_SECONDS : 0, 0 };

	q->since_ns = now_ns(CLOCK_MONOTONIC);
	if (--q->n == 0)
		event_add(q->all->sweep, &pause);
	w->done(w);
}

/* Returns the account of a subordinate uid, else the first uid of its range: 0 for users of the machine. */
static uid_t group_of(const struct user_queues *all, uid_t uid)
{
	uid_t account = ledger_owner(all->ledger, uid);

	return account != uid ? account : uid >> RANGE_BITS << RANGE_BITS;
}

static bool may_start(const struct user_queues *all, uid_t uid)
{
	uid_t group = group_of(all, uid);
	const struct user_queue *q;
	unsigned n = 0;

	TAILQ_FOREACH (q, &all->list, link)
		n += group_of(all, q->uid) == group;
	return all->n < QUEUES_MAX && (group == 0 || n < QUEUES_A_GROUP);
}

/* Returns NULL if there are too many threads. */
static struct user_queue *start_queue(struct user_queues *all, uid_t uid)
{
	struct user_queue *q = may_start(all, uid) ? calloc(1, sizeof(*q)) : NULL;
	char name[16];

	if (!q)
		return NULL;
	snprintf(name, sizeof(name), "u%u", uid);
	if (workqueue_new(all->base, name, 0, &q->thread) < 0) {
		free(q);
		return NULL;
	}
	q->all = all;
	q->uid = uid;
	TAILQ_INSERT_TAIL(&all->list, q, link);
	all->n++;
	return q;
}

static bool try_submit(struct user_queues *all, struct user_work *w)
{
	struct user_queue *q = find_queue(all, w->uid);

	if (!q)
		q = start_queue(all, w->uid);
	if (!q)
		return false;
	w->queue = q;
	if (q->n++ == 0)
		q->since_ns = now_ns(CLOCK_MONOTONIC);
	workqueue_submit(q->thread, &w->work);
	return true;
}

void user_queues_submit(struct user_queues *all, uid_t uid, struct user_work *w)
{
	struct timeval now = { 0, 0 };

	w->work = (struct work){ run_work, work_ran };
	w->uid = uid;
	if (try_submit(all, w))
		return;
	if (STAILQ_EMPTY(&all->waiting))
		log_warning("too many file systems of users block csightd: files of uid %u, and others, wait", uid);
	STAILQ_INSERT_TAIL(&all->waiting, w, link);
	event_add(all->sweep, &now);
}

/* Ends idle threads, and submits the works that waited for a thread. */
static void on_sweep(evutil_socket_t fd, short what, void *data)
{
	const struct timeval later = { IDLE_SECONDS, 0 };
	struct user_queues *all = data;
	struct user_queue *q, *next;
	STAILQ_HEAD(, user_work) waiting = STAILQ_HEAD_INITIALIZER(waiting);
	struct user_work *w;

	for (q = TAILQ_FIRST(&all->list); q; q = next) {
		next = TAILQ_NEXT(q, link);
		if (q->n == 0)
			user_queue_free(q);
	}
	STAILQ_CONCAT(&waiting, &all->waiting);
	while ((w = STAILQ_FIRST(&waiting))) {
		STAILQ_REMOVE_HEAD(&waiting, link);
		if (!try_submit(all, w))
			STAILQ_INSERT_TAIL(&all->waiting, w, link);
	}
	/* Starting a thread may have failed, so that none that ends is waited for. */
	if (!STAILQ_EMPTY(&all->waiting))
		event_add(all->sweep, &later);
}

int user_queues_new(struct event_base *base, const struct ledger *ledger, struct user_queues **ret)
{
	struct user_queues *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->base = base;
	all->ledger = ledger;
	TAILQ_INIT(&all->list);
	STAILQ_INIT(&all->waiting);
	all->sweep = evtimer_new(base, on_sweep, all);
	if (!all->sweep) {
		free(all);
		return -ENOMEM;
	}
	*ret = all;
	return 0;
}

unsigned user_queues_waiting(const struct user_queues *all, uid_t uid)
{
	const struct user_queue *q = find_queue(all, uid);
	const struct user_work *w;
	unsigned n = q ? q->n : 0;

	STAILQ_FOREACH (w, &all->waiting, link)
		n += w->uid == uid;
	return n;
}

bool user_queues_stuck(const struct user_queues *all, uid_t uid)
{
	const struct user_queue *q = find_queue(all, uid);

	if (!q)
		return user_queues_waiting(all, uid) > 0;
	return q->n && now_ns(CLOCK_MONOTONIC) - q->since_ns > USER_QUEUE_SECONDS * 1000000000ull;
}
