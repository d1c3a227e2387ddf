/* SPDX-License-Identifier: MIT */
/*
 * A queue of events to a store, which a thread of its own writes behind the thread that folds calls: in the order in
 * which they were added, so that the store is the same. The queue has a fixed size; when it is full, adding waits.
 * All functions are called by its owner. The owner uses the writer itself only after store_queue_drain().
 */
#ifndef CSIGHT_DECODE_STORE_QUEUE_H
#define CSIGHT_DECODE_STORE_QUEUE_H

#include "lib/calls/calls.h"
#include "lib/store/store.h"

struct store_queue;

/* Borrows the writer. Without a thread (threaded is false, or none can be created), events are written at once. */
int store_queue_new(struct store_writer *w, bool threaded, struct store_queue **ret);

/* A calls_sink for one thread of the store. The struct must outlive the sink. */
struct store_queue_sink {
	struct store_queue *queue;
	uint32_t thread;
};

/* An error of the writer is returned by a later event, or by store_queue_drain(). */
struct calls_sink store_queue_sink(struct store_queue_sink *to);

/* Waits until all events are written. Returns the first error. */
int store_queue_drain(struct store_queue *q);

/* Drops the events that are not written. */
struct store_queue *store_queue_free(struct store_queue *q);

#endif
