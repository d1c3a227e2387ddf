#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "daemon/workqueue.h"
#include "lib/base/util.h"

STAILQ_HEAD(works, work);

struct workqueue {
	pthread_t thread;
	bool running; /* the loop's own view */
	int nice;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	struct works todo, finished;
	bool stop;
	int event_fd;
	struct event *event;
};

static void *workqueue_main(void *data)
{
	struct workqueue *l = data;

	/* To Linux a thread is what others call a process here. */
	if (l->nice)
		setpriority(PRIO_PROCESS, (id_t)gettid(), l->nice);
	pthread_mutex_lock(&l->mutex);
	for (;;) {
		struct work *w = STAILQ_FIRST(&l->todo);
		uint64_t one = 1;

		if (!w) {
			if (l->stop)
				break;
			pthread_cond_wait(&l->wake, &l->mutex);
			continue;
		}
		STAILQ_REMOVE_HEAD(&l->todo, link);
		pthread_mutex_unlock(&l->mutex);
		w->run(w);
		pthread_mutex_lock(&l->mutex);
		STAILQ_INSERT_TAIL(&l->finished, w, link);
		/* The counter can only fail to grow where it is full, and then the loop is awake already. */
		(void)!write(l->event_fd, &one, sizeof(one));
	}
	pthread_mutex_unlock(&l->mutex);
	return NULL;
}

static void deliver(struct workqueue *l)
{
	struct works finished = STAILQ_HEAD_INITIALIZER(finished);
	struct work *w;

	pthread_mutex_lock(&l->mutex);
	STAILQ_CONCAT(&finished, &l->finished);
	pthread_mutex_unlock(&l->mutex);
	while ((w = STAILQ_FIRST(&finished))) {
		STAILQ_REMOVE_HEAD(&finished, link);
		w->done(w);
	}
}

static void on_finished(evutil_socket_t fd, short what, void *data)
{
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
	deliver(data);
}

int workqueue_new(struct event_base *base, const char *name, int nice, struct workqueue **ret)
{
	struct workqueue *l = calloc(1, sizeof(*l));
	sigset_t all, saved;
	int rc;

	if (!l)
		return -ENOMEM;
	l->nice = nice;
	pthread_mutex_init(&l->mutex, NULL);
	pthread_cond_init(&l->wake, NULL);
	STAILQ_INIT(&l->todo);
	STAILQ_INIT(&l->finished);
	l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->event_fd < 0) {
		rc = -errno;
		workqueue_free(l);
		return rc;
	}
	l->event = event_new(base, l->event_fd, EV_READ | EV_PERSIST, on_finished, l);
	if (!l->event || event_add(l->event, NULL) < 0) {
		workqueue_free(l);
		return -ENOMEM;
	}
	/* Signals are the loop's business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	rc = pthread_create(&l->thread, NULL, workqueue_main, l);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (rc) {
		workqueue_free(l);
		return -rc;
	}
	l->running = true;
	pthread_setname_np(l->thread, name);
	*ret = l;
	return 0;
}

void workqueue_submit(struct workqueue *l, struct work *w)
{
	if (!l->running) {
		w->run(w);
		w->done(w);
		return;
	}
	pthread_mutex_lock(&l->mutex);
	STAILQ_INSERT_TAIL(&l->todo, w, link);
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->mutex);
}

void workqueue_stop(struct workqueue *l)
{
	if (!l->running)
		return;
	pthread_mutex_lock(&l->mutex);
	l->stop = true;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->mutex);
	pthread_join(l->thread, NULL);
	l->running = false;
	deliver(l);
}

struct workqueue *workqueue_free(struct workqueue *l)
{
	if (!l)
		return NULL;
	workqueue_stop(l);
	if (l->event)
		event_free(l->event);
	closep(&l->event_fd);
	pthread_cond_destroy(&l->wake);
	pthread_mutex_destroy(&l->mutex);
	free(l);
	return NULL;
}
