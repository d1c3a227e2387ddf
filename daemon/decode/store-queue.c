/* SPDX-License-Identifier: MIT */
#include "daemon/decode/store-queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "lib/base/util.h"
#include "lib/etm/pool.h"

/* The thread wakes for several batches, and its owner when there is room for several: a wake-up costs as much as the
 * writing of some hundred events. */
enum { BATCH_EVENTS = 1024, BATCHES = 8, WAKE_BATCHES = BATCHES / 2 };

/* A struct call_event in fewer bytes, since the events go from one CPU to another. */
struct queued_event {
	uint64_t time, instructions, bound;
	const void *of; /* the struct inlined, else the struct region, or NULL */
	uint32_t thread;
	uint8_t type, kind, left, entered;
};

/* Marks the type of an event that has a struct inlined, whose function is that of the event. */
#define OF_INLINED 0x80

struct event_batch {
	struct queued_event events[BATCH_EVENTS];
};

struct store_queue {
	struct store_writer *writer;
	struct pool *pool;           /* of one thread; NULL: none */
	struct pool_job job;         /* runs write_events() until the queue is freed */
	struct event_batch *batches; /* BATCHES of them; batch i is in i % BATCHES */
	size_t n;                    /* events in the batch that the owner fills, whose number is `submitted` */
	pthread_mutex_t lock;        /* protects the following members */
	pthread_cond_t filled, emptied;
	uint64_t submitted, written; /* batches so far */
	size_t last;                 /* events in the last batch submitted; the others are full */
	bool draining, closing;
	int rc; /* first error */
};

static int write_event(struct store_queue *q, const struct queued_event *from)
{
	const struct inlined *inlined = from->type & OF_INLINED ? from->of : NULL;
	const struct call_event e = {
		.type = from->type & ~OF_INLINED,
		.kind = from->kind,
		.time = from->time,
		.instructions = from->instructions,
		.bound = from->bound,
		.function = inlined ? inlined->function : from->of,
		.inlined = inlined,
		.left = from->left,
		.entered = from->entered,
	};

	return store_event(q->writer, from->thread, &e);
}

static int write_batch(struct store_queue *q, const struct event_batch *b, size_t n)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = write_event(q, &b->events[i]);
	return rc;
}

/* Writes the oldest batch, with the lock released meanwhile. */
static void write_next(struct store_queue *q)
{
	const struct event_batch *b = &q->batches[q->written % BATCHES];
	size_t n = q->written + 1 == q->submitted ? q->last : BATCH_EVENTS;
	int rc = q->rc;

	pthread_mutex_unlock(&q->lock);
	/* After an error the state of the writer is undefined. */
	if (rc == 0)
		rc = write_batch(q, b, n);
	pthread_mutex_lock(&q->lock);
	q->rc = rc;
	q->written++;
	if (q->submitted - q->written <= BATCHES - WAKE_BATCHES)
		pthread_cond_signal(&q->emptied);
}

static void write_events(void *user)
{
	struct store_queue *q = user;

	pthread_mutex_lock(&q->lock);
	while (!q->closing) {
		if (q->submitted - q->written >= (q->draining ? 1 : WAKE_BATCHES))
			while (!q->closing && q->submitted != q->written)
				write_next(q);
		else
			pthread_cond_wait(&q->filled, &q->lock);
	}
	pthread_mutex_unlock(&q->lock);
}

/* Hands over the batch that the owner has filled, and waits until there is room for the next one. */
_apart_ static int submit_batch(struct store_queue *q)
{
	int rc;

	pthread_mutex_lock(&q->lock);
	q->last = q->n;
	q->n = 0;
	q->submitted++;
	if (q->submitted - q->written >= WAKE_BATCHES)
		pthread_cond_signal(&q->filled);
	while (q->submitted - q->written == BATCHES)
		pthread_cond_wait(&q->emptied, &q->lock);
	rc = q->rc;
	pthread_mutex_unlock(&q->lock);
	return rc;
}

static int add_event(void *user, const struct call_event *e)
{
	const struct store_queue_sink *to = user;
	struct store_queue *q = to->queue;
	if (!q->pool)
		return store_event(q->writer, to->thread, e);
	q->batches[q->submitted % BATCHES].events[q->n++] = (struct queued_event){
		.time = e->time,
		.instructions = e->instructions,
		.bound = e->bound,
		.of = e->inlined ? (const void *)e->inlined : e->function,
		.thread = to->thread,
		.type = (uint8_t)(e->type | (e->inlined ? OF_INLINED : 0)),
		.kind = e->kind,
		.left = e->left,
		.entered = e->entered,
	};
	return q->n == BATCH_EVENTS ? submit_batch(q) : 0;
}

struct calls_sink store_queue_sink(struct store_queue_sink *to)
{
	return (struct calls_sink){ add_event, to, true };
}

int store_queue_drain(struct store_queue *q)
{
	int rc = 0;

	if (!q->pool)
		return 0;
	/*
	 * Only the last batch that was submitted may be filled in part (`last`): the owner submits no other one until
	 * all batches are written.
	 */
	if (q->n)
		rc = submit_batch(q);
	pthread_mutex_lock(&q->lock);
	q->draining = true;
	pthread_cond_signal(&q->filled);
	while (q->submitted != q->written)
		pthread_cond_wait(&q->emptied, &q->lock);
	q->draining = false;
	rc = rc < 0 ? rc : q->rc;
	pthread_mutex_unlock(&q->lock);
	return rc;
}

static void start_thread(struct store_queue *q)
{
	q->batches = malloc(BATCHES * sizeof(*q->batches));
	if (!q->batches || pool_new(1, &q->pool) < 0)
		return;
	q->job = (struct pool_job){ .run = write_events, .user = q };
	pool_submit(q->pool, &q->job);
}

int store_queue_new(struct store_writer *w, bool threaded, struct store_queue **ret)
{
	struct store_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->writer = w;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->filled, NULL);
	pthread_cond_init(&q->emptied, NULL);
	if (threaded)
		start_thread(q);
	*ret = q;
	return 0;
}

struct store_queue *store_queue_free(struct store_queue *q)
{
	if (!q)
		return NULL;
	pthread_mutex_lock(&q->lock);
	q->closing = true;
	pthread_cond_signal(&q->filled);
	pthread_mutex_unlock(&q->lock);
	pool_free(q->pool);
	pthread_cond_destroy(&q->emptied);
	pthread_cond_destroy(&q->filled);
	pthread_mutex_destroy(&q->lock);
	free(q->batches);
	free(q);
	return NULL;
}
