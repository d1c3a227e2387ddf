/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/perf/watch-events.c and watch-places.c on this machine's kernel: a child calls a function in several
 * threads, some of which do not exist yet when it is watched, sleeps in them, has signals at its calls, or calls two
 * functions in turn, on two CPUs.
 */
#include "config.h"

#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "daemon/capture/perf/watch-calls.h"
#include "daemon/capture/perf/watch-events.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum {
	CALLS = 50,
	MANY = 20000,
	THREADS = 5,
	TURNS = 6000,
	TURNS_A_RING = 300,
	ALARMS_A_RING = 100,
	ALARM_US = 200,
	SLEEPS = 4,
	SLEEP_NS = 20000000
};

static _Atomic unsigned *calls; /* shared with the child */

__attribute__((noinline, aligned(16))) static void probed(unsigned n)
{
	/* The number may distinguish a call from the one before. */
	__asm__ volatile("" : : "r"(n));
	atomic_fetch_add(calls, 1);
}

__attribute__((noinline, aligned(16))) static void answered(void)
{
	atomic_fetch_add(calls, 1);
}

static void *work(void *data)
{
	for (unsigned i = 0; i < CALLS; i++)
		probed(1);
	return NULL;
}

static void pass(int fd)
{
	char c;

	if (read(fd, &c, 1) != 1)
		_exit(1);
}

static int child_go, child_ready;

static pid_t start_child(int go[2], int ready[2], void (*play)(void))
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child_go = go[0];
	child_ready = ready[1];
	if (write(ready[1], "", 1) != 1)
		_exit(1);
	pass(go[0]);
	play();
	_exit(0);
}

static void *sleep_often(void *data)
{
	const struct timespec time = { 0, SLEEP_NS };

	for (unsigned i = 0; i < SLEEPS; i++)
		nanosleep(&time, NULL);
	return NULL;
}

static void run_in_threads(void *(*run)(void *data))
{
	run(NULL);
	for (unsigned i = 1; i < THREADS; i++) {
		pthread_t t;

		/* An event that threads cannot inherit would have this fail. */
		if (pthread_create(&t, NULL, run, NULL) != 0)
			_exit(2);
		pthread_join(t, NULL);
	}
	if (fork() == 0) {
		probed(1);
		_exit(0);
	}
	wait(NULL);
}

static void call_in_threads(void)
{
	run_in_threads(work);
}

static void sleep_in_threads(void)
{
	run_in_threads(sleep_often);
}

/* The rings are large enough for what is not read until then. */
static void wait_for_reader(void)
{
	if (write(child_ready, "", 1) == 1)
		pass(child_go);
}

static void move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		_exit(3);
}

static void call_often(void)
{
	/* Each CPU has a ring of its own, and this test wants one that is full. */
	move_to(sched_getcpu());
	for (unsigned i = 0; i < MANY; i++) {
		probed(1);
		if (i == MANY / 2)
			wait_for_reader();
	}
}

/* A breakpoint of the child's own at probed(), at which it has a SIGTRAP before the instruction is executed. */
static int open_trap(void)
{
	struct perf_event_attr a = { .type = PERF_TYPE_BREAKPOINT,
				     .size = sizeof(a),
				     .bp_type = HW_BREAKPOINT_X,
				     .bp_addr = (uintptr_t)probed,
				     .bp_len = sizeof(long),
				     .sample_period = 1,
				     .disabled = 1,
				     .exclude_kernel = 1,
				     .remove_on_exec = 1,
				     .sigtrap = 1 };

	return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int trap;

/* Without the resume flag the processor of a PC stops at the instruction again, as one of Arm does. */
static void on_trap(int number, siginfo_t *info, void *context)
{
#ifdef __x86_64__
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x10000ll;
#endif
	ioctl(trap, PERF_EVENT_IOC_DISABLE, 0);
}

static void call_with_signals(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };

	trap = open_trap();
	sigaction(SIGTRAP, &action, NULL);
	for (unsigned i = 0; i < CALLS; i++) {
		ioctl(trap, PERF_EVENT_IOC_ENABLE, 0);
		probed(1);
		/* One without a signal. */
		probed(1);
	}
}

static _Atomic unsigned alarms;

static void set_alarms(suseconds_t us)
{
	const struct itimerval often = { { 0, us }, { 0, us } };

	setitimer(ITIMER_REAL, &often, NULL);
}

/* Of some signals the handler calls the function, too, and has signals itself. */
static void on_alarm(int number, siginfo_t *info, void *context)
{
	unsigned n = atomic_fetch_add(&alarms, 1);

	if (n > ALARMS_A_RING)
		set_alarms(0);
#ifdef __x86_64__
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x10000ll;
#endif
	if (n % 4 == 0)
		probed(n);
}

static void call_beside_alarms(void)
{
	const struct sigaction action = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART };

	sigaction(SIGALRM, &action, NULL);
	for (unsigned i = 0; i < TURNS; i++) {
		if (i % TURNS_A_RING == 0) {
			set_alarms(0);
			wait_for_reader();
			alarms = 0;
			set_alarms(ALARM_US);
		}
		probed(i);
	}
	set_alarms(0);
}

/* Between the CPUs that call probed() and answered() in turn. */
static sem_t asked, done;

static void *answer(void *data)
{
	move_to(1);
	for (unsigned i = 0; i < TURNS; i++) {
		sem_wait(&asked);
		answered();
		sem_post(&done);
	}
	return NULL;
}

static void call_in_turn(void)
{
	pthread_t t;

	sem_init(&asked, 0, 0);
	sem_init(&done, 0, 0);
	if (pthread_create(&t, NULL, answer, NULL) != 0)
		_exit(2);
	move_to(0);
	for (unsigned i = 0; i < TURNS; i++) {
		probed(1);
		sem_post(&asked);
		sem_wait(&done);
		if (i % TURNS_A_RING == 0)
			wait_for_reader();
	}
	pthread_join(t, NULL);
}

static unsigned hits, foreign, losses;
static uint64_t last;
static pid_t child;

static void on_sample(void *data, const struct watch_sample *s)
{
	losses += s->spec->role == WATCH_LOST;
	if (s->spec->role == WATCH_LOSES || s->spec->role == WATCH_LOST)
		return;
	hits++;
	foreign += s->pid != (uint32_t)child || s->spec->slot != 3 || s->time < last ||
		   !s->registers.values[WATCH_SP] || s->registers.values[WATCH_PC] != (uintptr_t)probed;
	last = s->time;
}

/* Returns whether a breakpoint register of this machine has a hit where probed() is called: some hypervisors drop it.
 */
static bool machine_has_breakpoints(void)
{
	struct perf_event_attr a = { .type = PERF_TYPE_BREAKPOINT,
				     .size = sizeof(a),
				     .bp_type = HW_BREAKPOINT_X,
				     .bp_addr = (uintptr_t)probed,
				     .bp_len = sizeof(long),
				     .exclude_kernel = 1 };
	_cleanup_close_ int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	uint64_t count = 0;

	probed(1);
	return fd < 0 || (read(fd, &count, sizeof(count)) == sizeof(count) && count);
}

static uint64_t time_for_opening = 10000000000;

static struct watch_events *open_events(const struct capture_watch_list *list, uint32_t slot, int poll_fd,
					struct reason *why)
{
	uint32_t cpus[64];
	struct watch_opening o = { .of = { getuid(), child },
				   .cpus = cpus,
				   .poll_fd = poll_fd,
				   .most = 1000,
				   .until = now_ns(CLOCK_MONOTONIC) + time_for_opening };
	struct watch_specs specs = { 0 };
	struct watch_events *e = NULL;

	for (long n = sysconf(_SC_NPROCESSORS_ONLN); o.n_cpus < ELEMENTS(cpus) && (long)o.n_cpus < n; o.n_cpus++)
		cpus[o.n_cpus] = (uint32_t)o.n_cpus;
	CHECK_EQ(watch_places_find(&(struct process_of){ child, -1, getuid() }, list, slot, &specs, why), 0);
	if (watch_events_open(&o, &specs, &e, why) == 0)
		watch_events_enable(e, true);
	watch_specs_done(&specs);
	return e;
}

static void test_hits(const struct capture_watch_list *list, int poll_fd, void (*play)(void), unsigned wanted)
{
	struct watch_events *e;
	struct reason why = { "" };
	struct epoll_event event;
	int go[2], ready[2], status = 0;

	if (!CHECK(pipe2(go, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0))
		return;
	hits = foreign = losses = 0;
	last = 0;
	child = start_child(go, ready, play);
	pass(ready[0]);
	e = open_events(list, 3, poll_fd, &why);
	if (!e) {
		unit_skip("hits of a breakpoint", why.text);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		return;
	}
	CHECK_EQ(epoll_wait(poll_fd, &event, 1, 0), 0);
	CHECK(write(go[1], "", 1) == 1);
	CHECK_EQ(epoll_wait(poll_fd, &event, 1, 10000), 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	watch_events_read(&e, 1, on_sample, NULL);
	CHECK_EQ(watch_events_lost(e), 0);
	CHECK_EQ(losses, 0);
	CHECK_EQ(hits, wanted);
	CHECK_EQ(foreign, 0);
	CHECK_EQ(watch_events_unread(e), 0);
	watch_events_free(e);
}

static uint64_t read_dropped(struct watch_events *e, unsigned wanted)
{
	losses = 0;
	watch_events_read(&e, 1, on_sample, NULL);
	CHECK_EQ(losses, wanted);
	return watch_events_lost(e);
}

/* The kernel drops what does not fit into the rings; each hit counts once nevertheless. */
static void test_dropped(const struct capture_watch_list *list, int poll_fd)
{
	int go[2], ready[2], status = 0;
	struct watch_events *e;
	struct reason why = { "" };
	uint64_t dropped;

	if (!CHECK(pipe2(go, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0))
		return;
	hits = foreign = 0;
	last = 0;
	child = start_child(go, ready, call_often);
	pass(ready[0]);
	e = open_events(list, 3, poll_fd, &why);
	if (CHECK(e && write(go[1], "", 1) == 1)) {
		pass(ready[0]);
		CHECK_EQ(watch_events_unread(e), MANY / 2 + 1);
		/* The kernel records a loss before the next sample; the first reading finds it by the full ring. */
		dropped = read_dropped(e, 1);
		dropped += read_dropped(e, 0);
		CHECK_EQ(hits + dropped, MANY / 2 + 1);
		CHECK(write(go[1], "", 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
		/* One by a record, and one by the full ring. */
		dropped += read_dropped(e, 2);
		dropped += read_dropped(e, 0);
		CHECK(hits < MANY);
		CHECK_EQ(hits + dropped, MANY);
		CHECK_EQ(watch_events_unread(e), 0);
		CHECK_EQ(foreign, 0);
	}
	watch_events_free(e);
}

/* Reads all samples while the child runs. Returns its status. */
static int read_until_end(struct watch_events **all, size_t n, void (*fn)(void *data, const struct watch_sample *s),
			  int go, int ready)
{
	bool ended = false;
	int status = 0;
	char c;

	fcntl(ready, F_SETFL, O_NONBLOCK);
	while (!ended) {
		bool waits = read(ready, &c, 1) == 1;

		ended = waitpid(child, &status, WNOHANG) != 0;
		/* Each reading finds several samples. */
		usleep(500);
		watch_events_read(all, n, fn, NULL);
		if (waits && write(go, "", 1) != 1)
			break;
	}
	return status;
}

static unsigned unordered;

static void on_turn(void *data, const struct watch_sample *s)
{
	unordered += s->spec->role != WATCH_REACHED || s->spec->slot != 3 + hits % 2 || s->time < last;
	hits++;
	last = s->time;
}

/* Samples of two lists of events, on two CPUs, are read in the order of their times, while the program runs. */
static void test_order(const struct capture_watch_list *list, int poll_fd)
{
	/* Read in the other order. */
	struct watch_events *all[] = { NULL, NULL, NULL };
	int go[2], ready[2];
	struct reason why = { "" };

	if (!CHECK(pipe2(go, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0))
		return;
	hits = 0;
	last = 0;
	child = start_child(go, ready, call_in_turn);
	pass(ready[0]);
	all[0] = open_events(list, 4, poll_fd, &why);
	all[2] = open_events(list, 3, poll_fd, &why);
	if (CHECK(all[0] && all[2] && write(go[1], "", 1) == 1)) {
		CHECK_EQ(read_until_end(all, ELEMENTS(all), on_turn, go[1], ready[0]), 0);
		CHECK(!watch_events_lost(all[0]) && !watch_events_lost(all[2]));
		CHECK_EQ(hits, 2 * TURNS);
		CHECK_EQ(unordered, 0);
	}
	watch_events_free(all[0]);
	watch_events_free(all[2]);
}

/* Signals at any time, some of them at the breakpoint. */
static void test_alarms(const struct capture_watch_list *list, int poll_fd)
{
	struct watch_events *e;
	struct reason why = { "" };
	int go[2], ready[2];

	if (!CHECK(pipe2(go, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0))
		return;
	hits = foreign = losses = 0;
	last = 0;
	child = start_child(go, ready, call_beside_alarms);
	pass(ready[0]);
	e = open_events(list, 3, poll_fd, &why);
	*calls = 0;
	if (CHECK(e && write(go[1], "", 1) == 1)) {
		CHECK_EQ(read_until_end(&e, 1, on_sample, go[1], ready[0]), 0);
		CHECK(!watch_events_lost(e) && !losses);
		CHECK_EQ(hits, *calls);
		CHECK_EQ(foreign, 0);
	}
	watch_events_free(e);
}

/* Returns the reason why this machine has no tracepoints, or no signals at breakpoints; NULL: it has. */
static const char *missing_for_signals(void)
{
	static const char path[] = "/sys/kernel/tracing";
	int fd;

	if (access("/sys/kernel/tracing/events/signal", F_OK) < 0 &&
	    (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	     mount("none", path, "tracefs", 0, NULL) < 0 || access("/sys/kernel/tracing/events/signal", F_OK) < 0))
		return "tracefs is not mounted, and cannot be";
	fd = open_trap();
	if (fd < 0)
		return "this kernel sends no signals at breakpoints";
	close(fd);
	return NULL;
}

static struct watch_calls away;
static unsigned waits;

static void on_switch(void *data, const struct watch_sample *s)
{
	const struct watch_moment at = { .slot = s->spec->slot, .tid = s->tid, .time = s->time };
	unsigned unknown = 0;
	uint64_t ns;

	foreign += s->pid != (uint32_t)child || s->spec->slot != 5 || s->time < last;
	last = s->time;
	if (s->out)
		unknown = watch_calls_enter(&away, &at);
	else if (watch_calls_leave(&away, &at, &ns, &unknown))
		waits += ns >= SLEEP_NS / 2; /* where it was late to leave the CPU, part of its sleep had passed */
	foreign += unknown;
}

/* Each sleep is a wait, and so is that for a thread that sleeps. */
static void test_switches(const struct capture_watch_list *list, int poll_fd)
{
	int go[2], ready[2], status = 0;
	struct watch_events *e;
	struct reason why = { "" };

	if (!CHECK(pipe2(go, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0))
		return;
	foreign = 0;
	last = 0;
	child = start_child(go, ready, sleep_in_threads);
	pass(ready[0]);
	e = open_events(list, 5, poll_fd, &why);
	if (!e) {
		unit_skip("context switches", why.text);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		return;
	}
	time_for_opening = 0;
	CHECK(!open_events(list, 5, poll_fd, &why) && strstr(why.text, "took too long"));
	CHECK(write(go[1], "", 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
	watch_events_read(&e, 1, on_switch, NULL);
	CHECK_EQ(watch_events_lost(e), 0);
	CHECK(waits >= THREADS * SLEEPS + THREADS - 1);
	CHECK_EQ(foreign, 0);
	watch_calls_done(&away);
	watch_events_free(e);
}

static void test_refused(struct capture_watch_list *list)
{
	struct watch_specs specs = { 0 };
	struct emu_watch *w = &list->watches[3];
	const struct process_of self = { getpid(), -1, getuid() };
	struct reason why = { "" };

	list->ends[3].loops = true;
	CHECK_EQ(watch_places_find(&self, list, 3, &specs, &why), -EOPNOTSUPP);
	list->ends[3].loops = false;
	w->place = 0xffffffff81000000;
	CHECK_EQ(watch_places_find(&self, list, 3, &specs, &why), -ENOENT);
	w->place = (uint64_t)(uintptr_t)calls & ~3ull; /* not executable */
	CHECK_EQ(watch_places_find(&self, list, 3, &specs, &why), -ENOENT);
	w->place = 0;
	w->inode = 1234567;
	CHECK_EQ(watch_places_find(&self, list, 3, &specs, &why), -ENOENT);
	w->kind = EMU_WATCH_CALL;
	CHECK_EQ(watch_places_find(&self, list, 3, &specs, &why), -EOPNOTSUPP);
	*w = (struct emu_watch){ .kind = EMU_WATCH_SIGNAL, .place = SIGKILL };
	CHECK_EQ(watch_places_find(&self, list, 3, &specs, &why), -EOPNOTSUPP);
	CHECK_EQ(specs.n, 0);
	watch_specs_done(&specs);
}

int main(void)
{
	struct capture_watch_list list = { 0 };
	int poll_fd = epoll_create1(EPOLL_CLOEXEC);

	calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	list.watches[3] = (struct emu_watch){ .kind = EMU_WATCH_POINT, .place = (uintptr_t)probed };
	list.watches[4] = (struct emu_watch){ .kind = EMU_WATCH_POINT, .place = (uintptr_t)answered };
	if (machine_has_breakpoints()) {
		const char *why = missing_for_signals();

		test_hits(&list, poll_fd, call_in_threads, THREADS * CALLS);
		test_dropped(&list, poll_fd);
		if (why) {
			unit_skip("hits with signals at them", why);
		} else {
			test_hits(&list, poll_fd, call_with_signals, 2 * CALLS);
			test_alarms(&list, poll_fd);
		}
		if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
			unit_skip("hits on two CPUs", "this machine has one");
		else
			test_order(&list, poll_fd);
	} else
		unit_skip("hits of a breakpoint", "those of this machine have none");
	test_refused(&list);
	list.watches[5] = (struct emu_watch){ .kind = EMU_WATCH_OFF_CPU };
	test_switches(&list, poll_fd);
	return unit_end();
}
