/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/perf/perf-watch.c with this machine's kernel: hits of several watch points of a child, which calls
 * functions in a planted order, and their joins. The target has no rings.
 */
#include "config.h"

#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/capture/perf/perf-internal.h"
#include "tests/unit.h"

enum { PROBED, ANSWERED, JOIN, NESTED, TIMED };
enum { BURST = 1500, STORM_NS = 400000000, WAIT_US = 20000 };

#define HOUR 3600000000000ull

static _Atomic unsigned *calls; /* of probed(), shared with the child */

__attribute__((noinline, aligned(16))) static void probed(void)
{
	atomic_fetch_add(calls, 1);
}

__attribute__((noinline, aligned(16))) static void answered(void)
{
	__asm__ volatile("");
}

#ifdef __x86_64__
/*
 * A function that calls itself, as one of Go, whose goroutine is in r14 instead of x28. Where it ends, the stack
 * pointer is another than at its entry, as if the stack had moved.
 */
__asm__(".pushsection .text\n"
	".p2align 4\n"
	"nested:\n"
	"	sub	$8, %rsp\n"
	"	test	%edi, %edi\n"
	"	jz	1f\n"
	"	dec	%edi\n"
	"	call	nested\n"
	"1:\n"
	"	.p2align 2\n"
	"nested_end:\n"
	"	nop\n"
	"	add	$8, %rsp\n"
	"	ret\n"
	/* It waits for the test before it ends, if its argument is not 0. */
	".p2align 4\n"
	"timed:\n"
	"	test	%edi, %edi\n"
	"	jz	timed_end\n"
	"	sub	$8, %rsp\n"
	"	call	wait_for_test\n"
	"	add	$8, %rsp\n"
	"	.p2align 2\n"
	"timed_end:\n"
	"	ret\n"
	".popsection\n");
extern const char nested[], nested_end[], timed_end[];
void timed(int waits);

static void call_nested(void)
{
	__asm__ volatile("sub	$128, %%rsp\n\t"
			 "mov	$0x1234000, %%r14\n\t"
			 "mov	$2, %%edi\n\t"
			 "call	nested\n\t"
			 "add	$128, %%rsp" ::
			     : "r14", "rdi", "cc", "memory");
}

static int child_orders, child_ready;

/* Each CPU has a ring of its own. */
static void move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

void wait_for_test(void);
void wait_for_test(void)
{
	char c;

	if (write(child_ready, "", 1) != 1 || read(child_orders, &c, 1) != 1)
		_exit(1);
	if (c == 'm')
		move_to(1);
}

static void call_timed(int in, int out)
{
	child_orders = in;
	child_ready = out;
	move_to(0);
	timed(1);
	for (unsigned i = 0; i < BURST; i++)
		timed(0);
	timed(1);
}
#else
static void call_timed(int in, int out)
{
}

static void call_nested(void)
{
}
#endif

static void call_for(uint64_t ns)
{
	uint64_t end = now_ns(CLOCK_MONOTONIC) + ns;

	while (now_ns(CLOCK_MONOTONIC) < end)
		probed();
}

/* Calls probed() for each a that it reads, answered() for b, nested for g, timed() for t, and for others probed() many
 * times. */
static pid_t start_child(int orders[2], int ready[2])
{
	pid_t pid = fork();
	char c;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(orders[1]);
	do {
		if (write(ready[1], "", 1) != 1 || read(orders[0], &c, 1) != 1)
			_exit(0);
		if (c == 'a')
			probed();
		else if (c == 'b')
			answered();
		else if (c == 'g')
			call_nested();
		else if (c == 't')
			call_timed(orders[0], ready[1]);
		else if (c == 's')
			call_for(STORM_NS);
		else
			for (unsigned i = 0; i < BURST; i++)
				probed();
	} while (true);
}

static struct perf_machine m = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct capture_source *source;
static struct perf_target *target;
static struct capture_watch_list list;
static int orders[2], ready[2];

static void play(const char *what)
{
	char c;

	for (; *what; what++)
		CHECK(write(orders[1], what, 1) == 1 && read(ready[0], &c, 1) == 1);
}

static int set(uint64_t within)
{
	struct reason why = { "" };
	int rc;

	list.watches[PROBED] = (struct emu_watch){ .kind = EMU_WATCH_POINT, .place = (uintptr_t)probed };
	list.watches[ANSWERED] = (struct emu_watch){ .kind = EMU_WATCH_POINT, .place = (uintptr_t)answered };
	list.watches[JOIN] = (struct emu_watch){ .kind = EMU_WATCH_JOIN,
						 .longer_than = within,
						 .events = { 1 << PROBED, 1 << ANSWERED } };
	rc = perf_watching.set(source, &list, &why);
	if (rc < 0)
		printf("# %s\n", why.text);
	return rc;
}

/* Returns the hits of a watch point. */
static uint64_t hits_of(uint32_t slot)
{
	struct emu_watch_count counts[EMU_WATCHES_MAX];

	perf_watch_drain(target);
	CHECK_EQ(perf_watching.counts(source, counts), 0);
	return atomic_load(&counts[slot].hits);
}

static void check_hits(uint64_t of_probed, uint64_t of_answered, uint64_t of_both)
{
	CHECK_EQ(hits_of(PROBED), of_probed);
	CHECK_EQ(hits_of(ANSWERED), of_answered);
	CHECK_EQ(hits_of(JOIN), of_both);
}

static void test_joins(void)
{
	struct emu_hit hits[8] = { 0 };
	uint64_t cursor = 0;

	CHECK_EQ(set(HOUR), 0);
	play("ab");
	check_hits(1, 1, 1);
	play("aab");
	check_hits(3, 2, 2);
	/* In either order; these are read at once. */
	play("babba");
	check_hits(5, 5, 4);
	CHECK_EQ(perf_watching.hits(source, &cursor, hits, ELEMENTS(hits)), 4);
	CHECK_EQ(hits[0].watch, ANSWERED);
	CHECK_EQ(hits[1].watch, ANSWERED);
	CHECK_EQ(hits[2].watch, PROBED);
	CHECK_EQ(hits[3].watch, PROBED);
	CHECK(hits[0].tid == (uint32_t)target->pid && hits[0].time_ns < hits[1].time_ns);
	CHECK(perf_target_has_hits(source) && !perf_target_has_hits(source));
}

/* A hit that completes none freezes nothing, and is not reported. */
static void test_hold(void)
{
	struct emu_hit hit = { 0 };
	uint64_t cursor = UINT64_MAX;

	perf_watching.hits(source, &cursor, &hit, 1);
	for (uint32_t i = 0; i <= JOIN; i++)
		perf_watching.hold(source, i, 0);
	play("a");
	check_hits(6, 5, 4);
	CHECK(!perf_watch_held(target) && !perf_target_has_hits(source));
	/* It is the join that holds. */
	perf_watching.hold(source, ANSWERED, UINT64_MAX);
	play("b");
	check_hits(6, 6, 5);
	CHECK(perf_watch_held(target) != 0);
	CHECK(perf_watching.hits(source, &cursor, &hit, 1) == 1 && hit.held == 1 && hit.watch == ANSWERED);
	perf_watch_thaw(target);
	play("ab");
	check_hits(7, 7, 6);
	CHECK(!perf_watch_held(target));
}

/* A pause of the target alone ends with it, and no hit before that freezes anything. */
static void test_pause(void)
{
	struct emu_hit hit = { 0 };
	uint64_t cursor = UINT64_MAX;

	perf_watching.hits(source, &cursor, &hit, 1);
	perf_watching.hold(source, JOIN, 0);
	play("ab");
	check_hits(8, 8, 7);
	CHECK(perf_watch_held(target) && target->grid.paused);
	perf_capture.pause(source, true);
	perf_watch_thaw(target);
	CHECK(!perf_watch_held(target) && target->grid.paused);
	perf_watching.hold(source, JOIN, 0);
	play("ab");
	check_hits(9, 9, 8);
	CHECK(!perf_watch_held(target));
	CHECK(perf_watching.hits(source, &cursor, &hit, 1) == 1 && hit.held == 1);
	CHECK(perf_watching.hits(source, &cursor, &hit, 1) == 1 && hit.held == 0);
	perf_capture.pause(source, false);
	CHECK(!target->grid.paused);
	play("ab");
	check_hits(10, 10, 9);
	CHECK(perf_watch_held(target) && target->grid.paused);
	perf_watch_thaw(target);
	CHECK(!target->grid.paused);
}

/* Another join of the same events begins anew. */
static void test_changes(void)
{
	play("a");
	check_hits(11, 10, 9);
	CHECK_EQ(set(1), 0);
	play("bab");
	check_hits(12, 12, 9);
	CHECK_EQ(set(HOUR), 0);
	play("a");
	check_hits(13, 12, 9);
	play("b");
	check_hits(13, 13, 10);
	memset(&list, 0, sizeof(list));
	CHECK_EQ(perf_watching.set(source, &list, NULL), 0);
	play("ab");
	check_hits(13, 13, 10);
}

/* Which of several open calls of a goroutine ends is unknown where the stack has moved, but for the outermost. */
static void test_goroutines(void)
{
#ifdef __x86_64__
	struct emu_watch_count counts[EMU_WATCHES_MAX];
	struct reason why = { "" };

	memset(&list, 0, sizeof(list));
	list.watches[NESTED] =
	    (struct emu_watch){ .kind = EMU_WATCH_GO_CALL, .place = (uintptr_t)nested, .longer_than = HOUR };
	list.ends[NESTED] = (struct capture_watch_ends){ .n = 1, .places = { (uintptr_t)nested_end } };
	CHECK_EQ(perf_watching.set(source, &list, &why), 0);
	play("g");
	perf_watch_drain(target);
	CHECK_EQ(perf_watching.counts(source, counts), 0);
	CHECK_EQ(atomic_load(&counts[NESTED].measured), 1);
	CHECK_EQ(atomic_load(&counts[NESTED].unknown), 2);
	memset(&list, 0, sizeof(list));
	CHECK_EQ(perf_watching.set(source, &list, NULL), 0);
#else
	unit_skip("calls of goroutines", "the program for it is of x86-64");
#endif
}

/* The kernel drops samples of what is read too late; each call is a hit nevertheless. */
static void test_dropped(void)
{
	uint64_t before;
	unsigned begun = *calls;

	CHECK_EQ(set(HOUR), 0);
	before = hits_of(PROBED);
	/* Fewer of them are read than those after which the place rests. */
	for (unsigned i = 0; i < 2; i++) {
		play("m");
		/* The first reading finds a full ring, and the second one what was dropped. */
		CHECK(hits_of(PROBED) - before <= *calls - begun);
		CHECK_EQ(hits_of(PROBED) - before, *calls - begun);
	}
}

/*
 * Of calls, the kernel drops the samples of both ends. The ring is full within a call, or between two; the last call
 * has no sample of its entry, and the one at its return, on this CPU or another, must not become the end of another.
 */
static void test_dropped_calls(void)
{
#ifdef __x86_64__
	struct emu_watch_count counts[EMU_WATCHES_MAX];
	struct reason why = { "" };
	struct emu_hit hits[16];
	uint64_t cursor = 0, returns;
	size_t n;

	memset(&list, 0, sizeof(list));
	list.watches[TIMED] = (struct emu_watch){ .kind = EMU_WATCH_CALL, .place = (uintptr_t)timed, .longer_than = 1 };
	list.ends[TIMED] = (struct capture_watch_ends){ .n = 1, .places = { (uintptr_t)timed_end } };
	for (unsigned i = 0; i < 4; i++) {
		/* Set anew, the place does not rest, however fast the rounds are. */
		CHECK_EQ(perf_watching.set(source, &list, &why), 0);
		play("t");
		if (i % 2)
			perf_watch_drain(target);
		play(".");
		/* The second reading finds what was dropped. */
		perf_watch_drain(target);
		perf_watch_drain(target);
		returns = now_ns(CLOCK_MONOTONIC);
		play(i < 2 ? "." : "m");
		perf_watch_drain(target);
		CHECK_EQ(perf_watching.counts(source, counts), 0);
		printf("# %u calls are measured, %u are unknown\n", (unsigned)counts[TIMED].measured,
		       (unsigned)counts[TIMED].unknown);
		CHECK(counts[TIMED].measured && counts[TIMED].unknown);
		CHECK_EQ(counts[TIMED].measured + counts[TIMED].unknown, (i + 1) * (BURST + 2));
		while ((n = perf_watching.hits(source, &cursor, hits, ELEMENTS(hits))) > 0)
			CHECK(hits[n - 1].time_ns < returns);
		CHECK_EQ(perf_watching.set(source, &(struct capture_watch_list){ 0 }, NULL), 0);
	}
	memset(&list, 0, sizeof(list));
#else
	unit_skip("calls of which samples are dropped", "the program for it is of x86-64");
#endif
}

/* A place that is reached too often rests. */
static void test_storm(void)
{
	struct capture_watch_state state;
	uint64_t before = hits_of(PROBED);
	unsigned begun = *calls;
	char c;

	CHECK(write(orders[1], "s", 1) == 1 && fcntl(ready[0], F_SETFL, O_NONBLOCK) == 0);
	/* As seldom as a daemon that waits for a processor. */
	while (read(ready[0], &c, 1) != 1) {
		usleep(WAIT_US);
		perf_watch_drain(target);
	}
	perf_watching.state(source, EMU_WATCH_POINT, &state);
	printf("# %u calls, %u hits, %u rests\n", *calls - begun, (unsigned)(hits_of(PROBED) - before),
	       (unsigned)state.rests);
	if (state.rests)
		CHECK(hits_of(PROBED) - before < *calls - begun);
	else
		CHECK_EQ(hits_of(PROBED) - before, *calls - begun);
}

/* Returns whether a breakpoint register of this machine has a hit: some hypervisors drop it. */
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

	probed();
	return fd >= 0 && read(fd, &count, sizeof(count)) == sizeof(count) && count;
}

int main(void)
{
	const struct sideband_listener none = { NULL, NULL, NULL, NULL };
	const struct capture_options options = { 0 };
	int status, pidfd;
	char c;
	pid_t child;

	calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!machine_has_breakpoints()) {
		unit_skip("hits of breakpoints", "this machine has none, or they may not be used");
		return unit_end();
	}
	if (!CHECK(pipe2(orders, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0))
		return unit_end();
	child = start_child(orders, ready);
	pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	m.poll_fd = epoll_create1(EPOLL_CLOEXEC);
	TAILQ_INIT(&m.sources);
	CHECK(pidfd >= 0 && topology_read("/", &m.topology) == 0 && sideband_new(&none, m.poll_fd, &m.sideband) == 0);
	CHECK_EQ(perf_target_new(&m, child, pidfd, getuid(), &options, &source), 0);
	target = perf_target_of(source);
	target->armed = true;
	/* The child waits for its first order. */
	CHECK(read(ready[0], &c, 1) == 1);
	test_joins();
	test_hold();
	test_pause();
	test_changes();
	test_goroutines();
	test_dropped_calls();
	test_dropped();
	test_storm();
	close(orders[1]);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	perf_watch_free(target);
	closep(&target->pidfd);
	free(target);
	sideband_free(m.sideband);
	topology_free(m.topology);
	return unit_end();
}
