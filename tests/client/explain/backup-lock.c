/* SPDX-License-Identifier: MIT */
/* A backup holds the accounts for reading while it writes them out, and a transfer waits for the lock. */
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "planted.h"

static pthread_rwlock_t accounts_lock = PTHREAD_RWLOCK_INITIALIZER;
static uint32_t accounts[64], copy[64];
static sem_t started;

static apart void write_copy(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 40000000 }, NULL);
}

static void *backup(void *unused)
{
	(void)unused;
	pthread_rwlock_rdlock(&accounts_lock);
	sem_post(&started);
	for (int i = 0; i < 64; i++)
		copy[i] = accounts[i];
	write_copy();
	pthread_rwlock_unlock(&accounts_lock);
	return NULL;
}

static apart void lock_accounts(void)
{
	pthread_rwlock_wrlock(&accounts_lock);
}

static apart uint32_t check_limits(uint32_t amount)
{
	return compute(amount, 150);
}

static apart void transfer(uint32_t from, uint32_t to, uint32_t amount)
{
	uint32_t allowed = check_limits(amount);

	lock_accounts();
	accounts[from % 64] -= allowed;
	accounts[to % 64] += allowed;
	pthread_rwlock_unlock(&accounts_lock);
}

int main(void)
{
	pthread_t thread;

	planted("transfer", "lock_accounts");
	sem_init(&started, 0, 0);
	for (uint32_t i = 0; i < 200; i++) {
		if (i == 140) {
			if (pthread_create(&thread, NULL, backup, NULL))
				return 1;
			sem_wait(&started);
		}
		transfer(i, i * 7, i * 100);
	}
	pthread_join(thread, NULL);
	return 0;
}
