/* SPDX-License-Identifier: MIT */
/*
 * A bounded queue of requests that any number of threads push to without waiting for one another, and one thread at a
 * time pops from. A cell's number says whose turn it is: its position to push, one more to pop.
 */
#ifndef CSIGHT_REQUEST_QUEUE_H
#define CSIGHT_REQUEST_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/csight/csight.h"

enum { REQUEST_QUEUE_SIZE = 64, REQUEST_TEXT_MAX = 184 };

struct async_request {
	uint64_t ticket;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
	struct csight_async_options o;
	const char *doing; /* of its messages: "wait for snapshot ", before the subject */
	char subject[72];
	const char *field; /* of the reply, in which the result is; NULL: the reply is the result */
	bool wants_fd;
	bool stream; /* each reply is a result */
	size_t size; /* of the message with its NUL */
	char *heap;  /* a message that is larger than text; owned */
	char text[REQUEST_TEXT_MAX];
};

struct request_queue {
	struct {
		atomic_size_t turn;
		struct async_request request;
	} cells[REQUEST_QUEUE_SIZE];
	atomic_size_t head, tail;
};

void request_queue_init(struct request_queue *q);

/* False: it is full. */
bool request_queue_push(struct request_queue *q, const struct async_request *request);
bool request_queue_pop(struct request_queue *q, struct async_request *ret);
bool request_queue_empty(struct request_queue *q);

#endif
