/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/capture/process/address-space.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

#define MS 1000000ull

static const uint64_t look_ns = 5 * MS;
static const uint64_t stuck_ns = 1000 * MS; /* without use of a processor, all waits together */
static const uint64_t share = 16;           /* and for each time of a processor, which others use, too */
static const uint64_t short_ns = 200 * MS;  /* a wait that may be due to the machine's other work */
static const uint64_t rest_ns = 60000 * MS; /* one second of others' time a minute */

struct started_call {
	struct address_space_call call;
	struct address_space_of of;
	struct worker *worker;
	uint64_t begun;       /* CLOCK_MONOTONIC; 0: its thread has not run yet */
	uint64_t ran, queued; /* of its thread, before */
	uint64_t waited;      /* until it returned */
	bool returned, given_up;
};

/* A thread that runs one call after another. None ends: to the kernel, what a thread has opened is its own. */
struct worker {
	struct started_call *job; /* NULL: it waits for one */
	clockid_t clock;          /* its processor time */
	int schedstat;            /* a file of /proc; -1: none */
	struct worker *next;
};

/* An account, or a process, of which a call was given up. */
struct resting {
	struct address_space_of of;
	bool stuck; /* the call has not returned */
	uint64_t until;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of returned and given_up */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_cond_t submitted = PTHREAD_COND_INITIALIZER;
static struct worker *workers;
static void (*waiting)(void *data);
static void *waiting_data;
static struct resting *list;
static size_t n_list, list_room;
/* The last calls of the capture thread, all of one account, and for how long they have waited together. */
static struct {
	struct address_space_of of;
	uint64_t waited, ended;
} row;

static bool is_same(struct address_space_of a, struct address_space_of b)
{
	return a.account == b.account && (a.account || a.pid == b.pid);
}

/* With the lock. An account has one for each of its calls that waited at the same time. stuck: finds no other. */
static struct resting *find_resting(struct address_space_of of, bool stuck)
{
	for (size_t i = 0; i < n_list; i++)
		if (is_same(list[i].of, of) && (list[i].stuck || !stuck))
			return &list[i];
	return NULL;
}

static bool rests(struct address_space_of of)
{
	struct resting *r;

	pthread_mutex_lock(&lock);
	while ((r = find_resting(of, false)) && !r->stuck && now_ns(CLOCK_MONOTONIC) >= r->until)
		*r = list[--n_list];
	pthread_mutex_unlock(&lock);
	return r;
}

/* Returns for how long a thread has waited for a processor, as far as the kernel counts that. */
static uint64_t time_queued(const struct worker *w)
{
	unsigned long long ran, queued;
	char text[64];
	ssize_t n = w->schedstat < 0 ? -1 : pread(w->schedstat, text, sizeof(text) - 1, 0);

	text[MAX(n, 0)] = 0;
	return n > 0 && sscanf(text, "%llu %llu", &ran, &queued) == 2 ? queued : 0;
}

/*
 * With the lock. Returns for how long, in ns, a call has waited for anything but a processor. All its waits count
 * together: who holds the lock of an address space can let the call run for a moment, again and again.
 */
static uint64_t time_waited(const struct started_call *r)
{
	uint64_t passed, ran;

	if (!r->begun)
		return 0;
	passed = now_ns(CLOCK_MONOTONIC) - r->begun;
	ran = share * (now_ns(r->worker->clock) - r->ran) + (time_queued(r->worker) - r->queued);
	return passed - MIN(passed, ran);
}

/* With the lock, which is not held during the call. */
static void run_call(struct started_call *r)
{
	struct resting *rest;

	r->ran = now_ns(r->worker->clock);
	r->queued = time_queued(r->worker);
	r->begun = now_ns(CLOCK_MONOTONIC);
	pthread_mutex_unlock(&lock);
	r->call.run(r->call.data);
	pthread_mutex_lock(&lock);
	r->waited = time_waited(r);
	rest = r->given_up ? find_resting(r->of, true) : NULL;
	if (rest)
		*rest = (struct resting){ r->of, false, now_ns(CLOCK_MONOTONIC) + rest_ns };
	r->returned = true;
	pthread_cond_broadcast(&changed);
	if (!r->given_up)
		return;
	pthread_mutex_unlock(&lock);
	r->call.drop(r->call.data);
	free(r);
	pthread_mutex_lock(&lock);
}

static void *run_calls(void *data)
{
	struct worker *w = data;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)gettid());
	w->schedstat = open(path, O_RDONLY | O_CLOEXEC);
	pthread_mutex_lock(&lock);
	for (;;) {
		while (!w->job)
			pthread_cond_wait(&submitted, &lock);
		run_call(w->job);
		w->job = NULL;
	}
	return NULL;
}

/* With the lock. Its call can be given up, so nothing joins a worker. */
static struct worker *add_worker(void)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_attr_t detached;
	sigset_t all, saved;
	pthread_t thread;
	int rc;

	if (!w)
		return NULL;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	rc = pthread_create(&thread, &detached, run_calls, w);
	if (rc == 0)
		pthread_getcpuclockid(thread, &w->clock);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_attr_destroy(&detached);
	if (rc != 0) {
		free(w);
		return NULL;
	}
	w->next = workers;
	workers = w;
	return w;
}

static int start(struct started_call *r)
{
	struct worker *w;

	pthread_mutex_lock(&lock);
	for (w = workers; w && w->job;)
		w = w->next;
	if (!w)
		w = add_worker();
	if (w) {
		r->worker = w;
		w->job = r;
		pthread_cond_broadcast(&submitted);
	}
	pthread_mutex_unlock(&lock);
	return w ? 0 : -EAGAIN;
}

/* With the lock. */
static bool add_resting(const struct resting *r)
{
	if (array_reserve(list, n_list, &list_room) < 0)
		return false;
	list[n_list++] = *r;
	return true;
}

/* With the lock. Without memory the wait goes on. */
static bool give_up(struct started_call *r)
{
	r->given_up = add_resting(&(struct resting){ .of = r->of, .stuck = true });
	return r->given_up;
}

/*
 * With the lock. Refuses calls of the account for a time after a call, or a row of calls, that waited for long: it cost
 * others as much as one that is given up.
 */
static void rest_after(const struct started_call *r)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC), waited = r->waited;

	if (!r->call.elsewhere) {
		if (!is_same(row.of, r->of) || now - row.ended > stuck_ns)
			row.waited = 0;
		/* Calls that never pause, as those that scan many processes, may wait for this part of the time. */
		row.waited -= MIN(row.waited, (now - row.ended) / (rest_ns / stuck_ns));
		row.of = r->of;
		row.ended = now;
		row.waited += waited;
		if (row.waited > stuck_ns)
			waited = row.waited;
	}
	if (waited > short_ns)
		add_resting(&(struct resting){ .of = r->of, .until = now + rest_ns / stuck_ns * waited });
}

/* With the lock, which is not held meanwhile. */
static void do_other_work(void)
{
	void (*fn)(void *data) = waiting;

	pthread_mutex_unlock(&lock);
	if (fn)
		fn(waiting_data);
	pthread_mutex_lock(&lock);
}

static int wait_for(struct started_call *r)
{
	int rc = 0;

	pthread_mutex_lock(&lock);
	while (!r->returned && rc == 0) {
		uint64_t until = now_ns(CLOCK_MONOTONIC) + look_ns;
		const struct timespec look = { (time_t)(until / (1000 * MS)), (long)(until % (1000 * MS)) };

		if (time_waited(r) > stuck_ns && give_up(r))
			rc = -ETIMEDOUT;
		else if (pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &look) == ETIMEDOUT &&
			 !r->call.elsewhere)
			do_other_work();
	}
	if (rc == 0)
		rest_after(r);
	pthread_mutex_unlock(&lock);
	return rc;
}

int address_space_call(struct address_space_of of, const struct address_space_call *call)
{
	struct started_call *r;
	int rc;

	if (rests(of))
		return -EBUSY;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct started_call){ .call = *call, .of = of };
	rc = start(r);
	if (rc == 0)
		rc = wait_for(r);
	if (rc != -ETIMEDOUT)
		free(r);
	return rc;
}

void address_space_while_waiting(void (*fn)(void *data), void *data)
{
	waiting = fn;
	waiting_data = data;
}

const char *address_space_strerror(int rc)
{
	if (rc == -ETIMEDOUT)
		return "something in it, as a file system in user space, holds the lock of its address space";
	if (rc == -EBUSY)
		return "it, or another process of its user, did not let go of its address space a short time ago";
	return strerror(-rc);
}

int address_space_explain(int rc, struct reason *why)
{
	return reason_set(why, -EAGAIN, "reading the mappings of the process: %s", address_space_strerror(rc));
}
