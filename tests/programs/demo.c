/* SPDX-License-Identifier: MIT */
/*
 * The program that `./bootstrap demo` records: a small service with a dispatcher and two workers that answer generated
 * requests until SIGTERM. Its functions are noinline, so that the timeline shows each of them.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define apart __attribute__((noinline, noclone))

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	uint32_t requests[64];
	unsigned first, count;
	int closed;
};

static struct queue queue = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, { 0 }, 0, 0, 0 };
static volatile sig_atomic_t ended;
static uint32_t table[256];

static void end(int sig)
{
	(void)sig;
	ended = 1;
}

static apart uint32_t hash(const char *key)
{
	uint32_t h = 2166136261u;

	while (*key)
		h = (h ^ (uint8_t)*key++) * 16777619u;
	return h;
}

static apart void parse(uint32_t request, char *key, size_t size)
{
	snprintf(key, size, "user-%u", request % 97);
}

static apart uint32_t lookup(const char *key)
{
	return table[hash(key) % 256];
}

static apart uint32_t price(uint32_t depth, uint32_t value)
{
	if (depth == 0)
		return value;
	return price(depth - 1, value * 3 + 1) ^ value;
}

static apart int respond(const char *key, uint32_t value, char *out, size_t size)
{
	return snprintf(out, size, "%s costs %u", key, value);
}

static apart int handle_request(uint32_t request)
{
	char key[32], out[64];
	uint32_t value;

	parse(request, key, sizeof(key));
	value = lookup(key);
	return respond(key, price(request % 5, value), out, sizeof(out));
}

static apart int take(uint32_t *ret)
{
	int got;

	pthread_mutex_lock(&queue.lock);
	while (queue.count == 0 && !queue.closed)
		pthread_cond_wait(&queue.filled, &queue.lock);
	got = queue.count > 0;
	if (got) {
		*ret = queue.requests[queue.first++ % 64];
		queue.count--;
	}
	pthread_mutex_unlock(&queue.lock);
	return got;
}

static void *worker(void *name)
{
	uint32_t request;

	(void)name;
	while (take(&request))
		handle_request(request);
	return NULL;
}

static apart void put(uint32_t request)
{
	pthread_mutex_lock(&queue.lock);
	if (queue.count < 64)
		queue.requests[(queue.first + queue.count++) % 64] = request;
	pthread_cond_signal(&queue.filled);
	pthread_mutex_unlock(&queue.lock);
}

static apart void dispatch(void)
{
	const struct timespec pause = { 0, 2000000 };

	for (uint32_t request = 1; !ended; request++) {
		put(request * 2654435761u >> 16);
		nanosleep(&pause, NULL);
	}
	pthread_mutex_lock(&queue.lock);
	queue.closed = 1;
	pthread_cond_broadcast(&queue.filled);
	pthread_mutex_unlock(&queue.lock);
}

int main(void)
{
	pthread_t workers[2];

	signal(SIGTERM, end);
	for (unsigned i = 0; i < 256; i++)
		table[i] = i * i;
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&workers[i], NULL, worker, NULL);
	dispatch();
	for (unsigned i = 0; i < 2; i++)
		pthread_join(workers[i], NULL);
	return 0;
}
