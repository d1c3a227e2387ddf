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
#include "daemon/capture/process/proc-file.h"
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
	clockid_t clock; /* processor time of its thread */
	pid_t tid;
	uint64_t begun;  /* CLOCK_MONOTONIC; 0: its thread has not run yet */
	uint64_t waited; /* until it returned */
	bool returned, given_up;
};

/* An account, or a process, of which a call was given up. */
struct resting {
	struct address_space_of of;
	bool stuck; /* the call has not returned */
	uint64_t until;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of returned and given_up */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void (*waiting)(void *data);
static void *waiting_data;
static struct resting *list;
static size_t n_list, list_room;

static struct resting *find_resting(struct address_space_of of)
{
	for (size_t i = 0; i < n_list; i++)
		if (list[i].of.account == of.account && (of.account || list[i].of.pid == of.pid))
			return &list[i];
	return NULL;
}

static bool rests(struct address_space_of of)
{
	struct resting *r;
	bool found;

	pthread_mutex_lock(&lock);
	r = find_resting(of);
	if (r && !r->stuck && now_ns(CLOCK_MONOTONIC) >= r->until)
		*r = list[--n_list];
	found = find_resting(of);
	pthread_mutex_unlock(&lock);
	return found;
}

/* Returns for how long a thread has waited for a processor, as far as the kernel counts that. */
static uint64_t time_queued(pid_t tid)
{
	unsigned long long ran, queued;
	char path[64], text[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)tid);
	if (proc_file_read(AT_FDCWD, path, text, sizeof(text)) < 0 || sscanf(text, "%llu %llu", &ran, &queued) != 2)
		return 0;
	return queued;
}

/*
 * With the lock. Returns for how long a call has waited for anything but a processor: for the lock of an address space,
 * whose user can let it go on for a moment, again and again.
 */
static uint64_t time_waited(const struct started_call *r, uint64_t ran, uint64_t queued)
{
	uint64_t passed = r->begun ? now_ns(CLOCK_MONOTONIC) - r->begun : 0;

	return passed - MIN(passed, share * ran + queued);
}

static void *run_call(void *data)
{
	struct started_call *r = data;
	struct resting *rest;
	bool given_up;

	pthread_mutex_lock(&lock);
	r->tid = gettid();
	r->begun = now_ns(CLOCK_MONOTONIC);
	pthread_mutex_unlock(&lock);
	r->call.run(r->call.data);
	pthread_mutex_lock(&lock);
	r->waited = time_waited(r, now_ns(CLOCK_THREAD_CPUTIME_ID), time_queued(r->tid));
	given_up = r->given_up;
	rest = given_up ? find_resting(r->of) : NULL;
	if (rest)
		*rest = (struct resting){ r->of, false, now_ns(CLOCK_MONOTONIC) + rest_ns };
	r->returned = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	if (!given_up)
		return NULL;
	r->call.drop(r->call.data);
	free(r);
	return NULL;
}

/* The thread can be given up, so nothing joins it. */
static int start(struct started_call *r)
{
	pthread_attr_t detached;
	sigset_t all, saved;
	pthread_t thread;
	int rc;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	pthread_mutex_lock(&lock);
	rc = pthread_create(&thread, &detached, run_call, r);
	/* It exists as long as the lock is held. */
	if (rc == 0)
		pthread_getcpuclockid(thread, &r->clock);
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_attr_destroy(&detached);
	return -rc;
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

/* With the lock. A call that returns just before it would be given up costs others as much. */
static void rest_after(const struct started_call *r, uint64_t waited)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

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

		if (r->begun && time_waited(r, now_ns(r->clock), time_queued(r->tid)) > stuck_ns && give_up(r))
			rc = -ETIMEDOUT;
		else if (pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &look) == ETIMEDOUT)
			do_other_work();
	}
	if (rc == 0)
		rest_after(r, r->waited);
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

static void read_once(void *data)
{
	const struct address_space_of *of = data;
	char path[32], c;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)of->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!read(fd, &c, 1);
	closep(&fd);
}

int address_space_reach(struct address_space_of of)
{
	struct address_space_of *copy = malloc(sizeof(*copy));
	int rc = -ENOMEM;

	if (copy) {
		*copy = of;
		rc = address_space_call(of, &(struct address_space_call){ read_once, free, copy });
	}
	if (rc != -ETIMEDOUT)
		free(copy);
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
