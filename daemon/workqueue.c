/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "daemon/notify.h"
#include "daemon/workqueue.h"
#include "lib/base/util.h"

enum { WAKE_ATTEMPTS = 3, EXTENSION_SECONDS = 5, EXTENSIONS_MAX = 60 };

STAILQ_HEAD(work_list, work);

struct workqueue {
	pthread_t thread;
	bool running; /* of the loop's thread only */
	int nice;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	struct fair_queue todo;    /* under the mutex */
	struct work_list finished; /* under the mutex */
	bool stop;                 /* under the mutex */
	int event_fd;
	struct event *event;
};

static void *workqueue_main(void *data)
{
	struct workqueue *q = data;

	/* On Linux this sets the priority of one thread. */
	if (q->nice)
		setpriority(PRIO_PROCESS, (id_t)gettid(), q->nice);
	pthread_mutex_lock(&q->mutex);
	for (;;) {
		struct fair_item *item = fair_queue_pop(&q->todo);
		uint64_t one = 1, began;
		struct work *w;

		if (!item) {
			if (q->stop)
				break;
			pthread_cond_wait(&q->wake, &q->mutex);
			continue;
		}
		pthread_mutex_unlock(&q->mutex);
		w = container_of(item, struct work, item);
		began = now_ns(CLOCK_MONOTONIC);
		w->run(w);
		pthread_mutex_lock(&q->mutex);
		fair_queue_charge(&q->todo, item, now_ns(CLOCK_MONOTONIC) - began);
		STAILQ_INSERT_TAIL(&q->finished, w, link);
		/* EAGAIN: the counter is at its maximum, which wakes the loop as well. */
		for (int i = 0; i < WAKE_ATTEMPTS && write(q->event_fd, &one, sizeof(one)) < 0 && errno != EAGAIN; i++)
			;
	}
	pthread_mutex_unlock(&q->mutex);
	return NULL;
}

static void deliver_finished(struct workqueue *q)
{
	struct work_list finished = STAILQ_HEAD_INITIALIZER(finished);
	struct work *w;

	pthread_mutex_lock(&q->mutex);
	STAILQ_CONCAT(&finished, &q->finished);
	pthread_mutex_unlock(&q->mutex);
	while ((w = STAILQ_FIRST(&finished))) {
		STAILQ_REMOVE_HEAD(&finished, link);
		w->done(w);
	}
}

static void on_finished(evutil_socket_t fd, short what, void *data)
{
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
	deliver_finished(data);
}

int workqueue_new(struct event_base *base, const char *name, int nice, struct workqueue **ret)
{
	struct workqueue *q = calloc(1, sizeof(*q));
	sigset_t all, saved;
	int rc;

	if (!q)
		return -ENOMEM;
	q->nice = nice;
	pthread_mutex_init(&q->mutex, NULL);
	pthread_cond_init(&q->wake, NULL);
	fair_queue_init(&q->todo);
	STAILQ_INIT(&q->finished);
	q->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->event_fd < 0) {
		rc = -errno;
		workqueue_free(q);
		return rc;
	}
	q->event = event_new(base, q->event_fd, EV_READ | EV_PERSIST, on_finished, q);
	if (!q->event || event_add(q->event, NULL) < 0) {
		workqueue_free(q);
		return -ENOMEM;
	}
	/* Only the loop's thread handles signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	rc = pthread_create(&q->thread, NULL, workqueue_main, q);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (rc) {
		workqueue_free(q);
		return -rc;
	}
	q->running = true;
	pthread_setname_np(q->thread, name);
	*ret = q;
	return 0;
}

static void queue_work(struct workqueue *q, struct work *w, uid_t uid, bool urgent)
{
	if (!q->running) {
		w->run(w);
		w->done(w);
		return;
	}
	pthread_mutex_lock(&q->mutex);
	if (urgent)
		fair_queue_push_urgent(&q->todo, &w->item);
	else
		fair_queue_push(&q->todo, &w->item, uid);
	pthread_cond_signal(&q->wake);
	pthread_mutex_unlock(&q->mutex);
}

void workqueue_submit(struct workqueue *q, struct work *w)
{
	queue_work(q, w, 0, false);
}

void workqueue_submit_for(struct workqueue *q, struct work *w, uid_t uid)
{
	queue_work(q, w, uid, false);
}

void workqueue_submit_urgent(struct workqueue *q, struct work *w)
{
	queue_work(q, w, 0, true);
}

uint64_t workqueue_cpu_ns(const struct workqueue *q)
{
	clockid_t clock;

	return q->running && pthread_getcpuclockid(q->thread, &clock) == 0 ? now_ns(clock) : 0;
}

/* Waits for the end of a thread. Meanwhile, it extends the time limit of systemd, at most EXTENSIONS_MAX times. */
static void join(pthread_t thread)
{
	struct timespec until;

	for (unsigned n = 0; n < EXTENSIONS_MAX; n++) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += EXTENSION_SECONDS;
		if (pthread_timedjoin_np(thread, NULL, &until) != ETIMEDOUT)
			return;
		notify_saving();
	}
	pthread_join(thread, NULL);
}

void workqueue_stop(struct workqueue *q)
{
	if (!q->running)
		return;
	pthread_mutex_lock(&q->mutex);
	q->stop = true;
	pthread_cond_signal(&q->wake);
	pthread_mutex_unlock(&q->mutex);
	join(q->thread);
	q->running = false;
	deliver_finished(q);
}

struct workqueue *workqueue_free(struct workqueue *q)
{
	if (!q)
		return NULL;
	workqueue_stop(q);
	if (q->event)
		event_free(q->event);
	closep(&q->event_fd);
	fair_queue_done(&q->todo);
	pthread_cond_destroy(&q->wake);
	pthread_mutex_destroy(&q->mutex);
	free(q);
	return NULL;
}
