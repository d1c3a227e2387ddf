/* SPDX-License-Identifier: MIT */
/* One order waits for the lock of an account, which a thread that writes a statement holds for 40 ms. */
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "planted.h"

static pthread_mutex_t account_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t wanted, held;
static uint32_t balance;

static apart uint32_t check_order(uint32_t order)
{
	return compute(order, 500);
}

static apart void update_account(uint32_t order)
{
	pthread_mutex_lock(&account_lock);
	balance += compute(order, 100);
	pthread_mutex_unlock(&account_lock);
}

static apart void handle_order(uint32_t order)
{
	update_account(check_order(order));
}

static void *write_statement(void *user)
{
	const struct timespec moment = { .tv_nsec = 40 * 1000 * 1000 };

	sem_wait(&wanted);
	pthread_mutex_lock(&account_lock);
	sem_post(&held);
	nanosleep(&moment, NULL);
	pthread_mutex_unlock(&account_lock);
	return user;
}

int main(void)
{
	pthread_t thread;

	planted("handle_order", "update_account");
	sem_init(&wanted, 0, 0);
	sem_init(&held, 0, 0);
	pthread_create(&thread, NULL, write_statement, NULL);
	for (uint32_t i = 0; i < 60; i++) {
		if (i == 40) {
			sem_post(&wanted);
			sem_wait(&held);
		}
		handle_order(i);
	}
	pthread_join(thread, NULL);
	return 0;
}
