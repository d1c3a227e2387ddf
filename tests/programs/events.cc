/* SPDX-License-Identifier: MIT */
/*
 * Plants events for triggers: 1,000 calls of planted(), of which some take 200 times as long as the others, and which
 * end in every way: by a return, after a tail call, in a recursion, by an exception, by longjmp(), with their thread,
 * around a fork. Prints how many calls there were, how many of them long, system calls that slept, and signals.
 *
 * usage: events [exit STATUS | crash | abort | spin | measure | requests N SLOW | sleeps N | waits N | pairs N NS]
 *
 * requests: N calls of planted(), of which SLOW, evenly distributed, are slow, each by another duration; after each it
 * sleeps.
 *
 * sleeps: N times a sleep of 4 ms and one of 1 us. It prints N, then how many of all took more than 2 ms by its own
 * clock.
 *
 * waits: N times a wait of 40 ms and one of 1 us, in turns by nanosleep(), ppoll(), futex() and sigtimedwait(), and one
 * long system call that does not wait; then the same in another thread, for which it waits. It prints how many waits
 * were long, with that for the thread and that for the line of input, how many of all it was off the processor for
 * longer than 20 ms by its own clocks, and the longest, in ns.
 *
 * pairs: N times a call of planted() and a signal, in turns in this and in the other order, with the signal in turns in
 * this and in another thread, and then a call of magic_trace_stop_indicator(). It sleeps NS after each of the first
 * two; with 0 it does not, and ends with three calls of planted() and two signals. It prints the calls and the signals.
 *
 * measure: calls measured() once, and prints four times of CLOCK_MONOTONIC: before the call, after its first and before
 * its last instructions, and after it.
 *
 * It calls everything once, then waits for a line on standard input, so that a trigger meets code that has run before.
 */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ctime>
#include <thread>
#include <unistd.h>

namespace
{

enum { ROUNDS = 1000, SHORT = 500, LONG = 200 * SHORT };

enum way { RETURN, TAIL, RECURSE, THROW, JUMP, THREAD, FORK, WAYS };

int *volatile wild;
unsigned long calls, longs, sleeps, signals, sink;
thread_local unsigned long long noted; /* by note_wait() */
jmp_buf back;

struct failure {
};

__attribute__((noinline, noclone)) unsigned long spin(unsigned long n)
{
	unsigned long v = n;

	for (unsigned long i = 0; i < n; i++)
		asm volatile("" : "+r"(v));
	return v;
}

unsigned long (*volatile spin_by_pointer)(unsigned long) = spin;

} // namespace

__attribute__((noinline, noclone)) unsigned long planted(enum way way, unsigned long n, int depth)
{
	switch (way) {
	case TAIL:
		return n % 2 ? spin(n) : spin_by_pointer(n);
	case RECURSE:
		n = depth ? planted(way, n, depth - 1) : spin(n);
		asm volatile("" : "+r"(n)); /* no loop */
		return n + 1;
	case THROW:
		sink += spin(n);
		throw failure();
	case JUMP:
		sink += spin(n);
		longjmp(back, 1);
	case THREAD:
		sink += spin(n);
		pthread_exit(nullptr);
	case FORK: {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		waitpid(child, nullptr, 0);
		return spin(n) + 1;
	}
	default:
		return spin(n) + 1;
	}
}

static unsigned long long now()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<unsigned long long>(t.tv_sec) * 1000000000 + static_cast<unsigned long long>(t.tv_nsec);
}

__attribute__((noinline, noclone)) void measured(unsigned long long *begin, unsigned long long *end)
{
	*begin = now();
	do {
		sink += spin(SHORT);
		*end = now();
	} while (*end - *begin < 8000000);
	asm volatile("" ::: "memory"); /* no tail call */
}

/* The name that magic-trace looks for. */
extern "C" __attribute__((noinline, noclone)) void magic_trace_stop_indicator()
{
	asm volatile("" ::: "memory");
}

static void measure()
{
	unsigned long long before, begin, end;

	/* The error bound of a time is that of many calls around it; while the program waited it is large. */
	for (unsigned i = 0; i < 20000; i++)
		sink += spin_by_pointer(10);
	before = now();
	measured(&begin, &end);
	magic_trace_stop_indicator();
	printf("%llu %llu %llu %llu\n", before, begin, end, now());
	for (unsigned i = 0; i < 20000; i++)
		sink += spin_by_pointer(10);
	fflush(stdout);
}

static void *in_thread(void *n)
{
	planted(THREAD, *static_cast<unsigned long *>(n), 0);
	return nullptr;
}

static void plant(enum way way, unsigned long n, int depth)
{
	pthread_t thread;

	/* How long it waits for its child is not known. */
	if (way == FORK)
		n = LONG;
	calls += 1 + (way == RECURSE ? depth : 0);
	longs += n >= LONG ? 1 + (way == RECURSE ? depth : 0) : 0;
	if (way == THREAD) {
		pthread_create(&thread, nullptr, in_thread, &n);
		pthread_join(thread, nullptr);
	} else if (way == THROW) {
		try {
			planted(way, n, depth);
		} catch (const failure &) {
			sink++;
		}
	} else if (way == JUMP) {
		if (setjmp(back) == 0)
			planted(way, n, depth);
	} else {
		sink += planted(way, n, depth);
	}
}

static void nap(long ns)
{
	struct timespec t = { 0, ns };

	nanosleep(&t, nullptr);
	sleeps += ns >= 2000000;
}

static void on_signal(int)
{
	signals++;
}

static void play(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		enum way way = static_cast<enum way>(i % WAYS);

		/* Forks are slow. */
		if (way == FORK && i % (8 * WAYS) != FORK)
			way = RETURN;
		plant(way, i % 11 == 10 ? LONG + i % 2 : SHORT + i % 2, way == RECURSE ? 3 : 0);
		if (i % 50 == 49)
			nap(i % 100 == 99 ? 4000000 : 1000);
		if (i % 50 == 25)
			raise(SIGUSR1);
	}
}

static void serve(unsigned long n, unsigned long slow)
{
	for (unsigned long i = 1, done = 0; i <= n; i++) {
		bool is_slow = done < slow && i % (n / slow) == 0;

		/* 7 and the number of slow ones have no common divisor. */
		sink += planted(RETURN, is_slow ? LONG + SHORT * (done++ * 7 % slow) : 20, 0);
		if (is_slow)
			nap(200000000);
	}
}

static void sleep_often(unsigned long n)
{
	for (unsigned long i = 0; i < 2 * n; i++) {
		unsigned long long before = now();

		nap(i % 2 ? 4000000 : 1000);
		longs += now() - before > 2000000;
	}
	calls = n;
}

/* The time in which this thread was off the processor, by its own clocks. */
static unsigned long long off_cpu()
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return now() - static_cast<unsigned long long>(t.tv_sec) * 1000000000 -
	       static_cast<unsigned long long>(t.tv_nsec);
}

/* Nothing between two calls is left out: a busy machine may stop the thread in any system call. */
static void note_wait()
{
	unsigned long long before = noted, ns;

	noted = off_cpu();
	ns = noted - before;
	longs += ns > 20000000;
	sleeps = ns > sleeps ? ns : sleeps;
}

/* Waits in one of four ways. */
static void wait_for(unsigned long way, long ns)
{
	const struct timespec t = { 0, ns };
	static int word;
	sigset_t none;

	sigemptyset(&none);
	switch (way % 4) {
	case 0:
		nanosleep(&t, nullptr);
		break;
	case 1:
		ppoll(nullptr, 0, &t, nullptr);
		break;
	case 2:
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, nullptr, 0);
		break;
	default:
		sigtimedwait(&none, nullptr, &t);
	}
}

static void wait_often(unsigned long n)
{
	static char buffer[64 << 20];
	int random = open("/dev/urandom", O_RDONLY);

	note_wait();
	for (unsigned long i = 0; i < 2 * n; i++) {
		wait_for(i / 2, i % 2 ? 40000000 : 1000);
		note_wait();
		calls += i % 2;
	}
	if (read(random, buffer, sizeof(buffer)) < 0)
		abort();
	close(random);
	note_wait();
}

static void plant_waits(unsigned long n)
{
	unsigned long long began, ended;

	note_wait();
	wait_often(n);
	began = now();
	std::thread([&] {
		noted = began;
		wait_often(n);
		ended = now();
	}).join();
	longs += now() - ended > 20000000;
	note_wait();
	calls += 2;
}

static void *send_signal(void *)
{
	raise(SIGUSR1);
	return nullptr;
}

static void call_short()
{
	sink += planted(RETURN, SHORT, 0);
	calls++;
}

static void plant_pairs(unsigned long n, long ns)
{
	pthread_t thread;

	for (unsigned long i = 0; i < n; i++) {
		for (unsigned long k = 0; k < 2; k++) {
			if (k == i % 2) {
				call_short();
			} else if (i & 2) {
				pthread_create(&thread, nullptr, send_signal, nullptr);
				pthread_join(thread, nullptr);
			} else {
				send_signal(nullptr);
			}
			if (ns)
				nap(ns);
		}
		magic_trace_stop_indicator();
	}
	for (unsigned i = 0; i < 5 && !ns; i++)
		if (i < 3)
			call_short();
		else
			send_signal(nullptr);
}

int main(int argc, char **argv)
{
	char line[16];

	signal(SIGUSR1, on_signal);
	play(8 * WAYS + WAYS);
	calls = longs = sleeps = signals = 0;
	printf("ready\n");
	fflush(stdout);
	noted = off_cpu();
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	if (argc > 1 && strcmp(argv[1], "spin") == 0)
		for (;;)
			sink += spin(LONG);
	if (argc > 1 && strcmp(argv[1], "measure") == 0)
		measure();
	else if (argc > 3 && strcmp(argv[1], "requests") == 0)
		serve(strtoul(argv[2], nullptr, 10), strtoul(argv[3], nullptr, 10));
	else if (argc > 2 && strcmp(argv[1], "sleeps") == 0)
		sleep_often(strtoul(argv[2], nullptr, 10));
	else if (argc > 2 && strcmp(argv[1], "waits") == 0)
		plant_waits(strtoul(argv[2], nullptr, 10));
	else if (argc > 3 && strcmp(argv[1], "pairs") == 0)
		plant_pairs(strtoul(argv[2], nullptr, 10), strtol(argv[3], nullptr, 10));
	else
		play(ROUNDS);
	printf("%lu %lu %lu %lu\n", calls, longs, sleeps, signals);
	fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "crash") == 0)
		*wild = 1;
	if (argc > 1 && strcmp(argv[1], "abort") == 0)
		abort();
	/* Long enough to be read by the test. */
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	return argc > 2 ? atoi(argv[2]) : 0;
}
