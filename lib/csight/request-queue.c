/* SPDX-License-Identifier: MIT */
#include "lib/csight/request-queue.h"

void request_queue_init(struct request_queue *q)
{
	for (size_t i = 0; i < REQUEST_QUEUE_SIZE; i++)
		atomic_init(&q->cells[i].turn, i);
	atomic_init(&q->head, 0);
	atomic_init(&q->tail, 0);
}

bool request_queue_push(struct request_queue *q, const struct async_request *request)
{
	size_t at = atomic_load_explicit(&q->tail, memory_order_relaxed);

	for (;;) {
		size_t turn = atomic_load_explicit(&q->cells[at % REQUEST_QUEUE_SIZE].turn, memory_order_acquire);

		if (turn == at) {
			if (atomic_compare_exchange_weak_explicit(&q->tail, &at, at + 1, memory_order_relaxed,
								  memory_order_relaxed))
				break;
		} else if (turn < at) {
			return false;
		} else {
			at = atomic_load_explicit(&q->tail, memory_order_relaxed);
		}
	}
	q->cells[at % REQUEST_QUEUE_SIZE].request = *request;
	atomic_store_explicit(&q->cells[at % REQUEST_QUEUE_SIZE].turn, at + 1, memory_order_release);
	return true;
}

bool request_queue_empty(struct request_queue *q)
{
	size_t at = atomic_load_explicit(&q->head, memory_order_relaxed);

	return atomic_load_explicit(&q->cells[at % REQUEST_QUEUE_SIZE].turn, memory_order_acquire) != at + 1;
}

bool request_queue_pop(struct request_queue *q, struct async_request *ret)
{
	size_t at = atomic_load_explicit(&q->head, memory_order_relaxed);

	if (request_queue_empty(q))
		return false;
	*ret = q->cells[at % REQUEST_QUEUE_SIZE].request;
	atomic_store_explicit(&q->head, at + 1, memory_order_relaxed);
	atomic_store_explicit(&q->cells[at % REQUEST_QUEUE_SIZE].turn, at + REQUEST_QUEUE_SIZE, memory_order_release);
	return true;
}
