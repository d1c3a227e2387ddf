/* SPDX-License-Identifier: MIT */
/*
 * Two threads, or two processes, that send messages to and fro, COUNT each: messages WAY threads|processes COUNT. WAY
 * is pipe, socketpair, eventfd, futex, signal, or handler: signals that interrupt a loop. Between messages both work or
 * sleep for times of their own. Each message is sent by a call of send_message() and ends a call of receive_message().
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum way { PIPE, SOCKETS, EVENTS, FUTEX, SIGNALS, HANDLER };

static enum way way;
static unsigned long count;
static int in[2], out[2]; /* of each side */

/* Shared by both processes. */
static struct shared {
	_Atomic int pid[2], tid[2];
	_Atomic uint32_t futex[2];
} * shared;

static __thread volatile sig_atomic_t handled;

static apart void receive_message(unsigned side)
{
	const struct timespec forever = { .tv_sec = 60 };
	sigset_t set;
	uint64_t n;

	switch (way) {
	case FUTEX:
		/* The wake itself is the message: the sender repeats it until it wakes this thread. */
		while (syscall(SYS_futex, &shared->futex[side], FUTEX_WAIT, 0, NULL, NULL, 0) != 0)
			;
		break;
	case SIGNALS:
		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		while (sigtimedwait(&set, NULL, &forever) != SIGUSR1)
			;
		break;
	default:
		if (read(in[side], &n, sizeof(n)) != sizeof(n))
			_exit(1);
	}
}

static apart void send_message(unsigned side)
{
	uint64_t n = 1;

	switch (way) {
	case FUTEX:
		while (syscall(SYS_futex, &shared->futex[!side], FUTEX_WAKE, 1, NULL, NULL, 0) != 1)
			sched_yield();
		break;
	case SIGNALS:
	case HANDLER:
		while (!shared->tid[!side])
			sched_yield();
		syscall(SYS_tgkill, shared->pid[!side], shared->tid[!side], SIGUSR1);
		break;
	default:
		if (write(out[side], &n, sizeof(n)) != sizeof(n))
			_exit(1);
	}
}

static void on_signal(int number)
{
	(void)number;
	handled++;
}

/* Waits in a loop without system calls for a signal's handler. */
static apart void wait_for_handler(void)
{
	while (!handled)
		;
	handled--;
}

static apart uint64_t work(uint32_t *state, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += next_random(state) % 7 ? i : sum;
	return sum;
}

static apart void pause_between(unsigned side, uint32_t *state)
{
	const struct timespec sleep = { .tv_nsec = (long)(next_random(state) % 200000) };

	if (next_random(state) % 4 == side)
		nanosleep(&sleep, NULL);
	else
		work(state, next_random(state) % (side ? 200 : 20000));
}

static void *run(void *user)
{
	unsigned side = (unsigned)(uintptr_t)user;
	uint32_t state = side + 1;

	shared->pid[side] = getpid();
	shared->tid[side] = (int)syscall(SYS_gettid);
	for (unsigned long i = 0; i < count; i++) {
		if (side == 0) {
			pause_between(side, &state);
			send_message(side);
		}
		if (way == HANDLER)
			wait_for_handler();
		else
			receive_message(side);
		if (side == 1) {
			pause_between(side, &state);
			send_message(side);
		}
	}
	return NULL;
}

static int open_files(void)
{
	int pair[2], other[2];

	if (way == SOCKETS ? socketpair(AF_UNIX, SOCK_STREAM, 0, pair) : pipe(pair))
		return -1;
	if (way == SOCKETS) {
		in[0] = out[0] = pair[0];
		in[1] = out[1] = pair[1];
		return 0;
	}
	if (way == EVENTS) {
		in[0] = out[1] = eventfd(0, 0);
		in[1] = out[0] = eventfd(0, 0);
		return in[0] < 0 || in[1] < 0 ? -1 : 0;
	}
	in[1] = pair[0];
	out[0] = pair[1];
	if (pipe(other))
		return -1;
	in[0] = other[0];
	out[1] = other[1];
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const ways[] = { "pipe", "socketpair", "eventfd", "futex", "signal", "handler" };
	struct sigaction action = { .sa_handler = on_signal };
	pthread_t thread;
	sigset_t set;
	int status = 0;

	if (argc < 4)
		return 2;
	while (way < HANDLER && strcmp(argv[1], ways[way]) != 0)
		way++;
	count = strtoul(argv[3], NULL, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || open_files() < 0)
		return 2;
	if (way == HANDLER)
		sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	if (way == SIGNALS)
		sigprocmask(SIG_BLOCK, &set, NULL);
	if (strcmp(argv[2], "processes") == 0) {
		pid_t child = fork();

		if (child == 0) {
			run((void *)1);
			return 0;
		}
		run(NULL);
		waitpid(child, &status, 0);
		return status != 0;
	}
	if (pthread_create(&thread, NULL, run, (void *)1))
		return 2;
	run(NULL);
	pthread_join(thread, NULL);
	return 0;
}
