/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/code/syscalls.h"
#include "lib/emu/descriptor.h"
#include "lib/emu/thread-clock.h"

enum {
	FUTEXES = 1024, /* by address within a page, which is the same in all processes */
	FILES = 4096,
	CACHED_FDS = 1024,
	LASTING = 20000, /* ns; a shorter system call did not block, or not long enough to measure it */
};

/* Entries of the table. Signals, ends of threads, and queues have one each. */
enum {
	KEY_SIGNALS,
	KEY_ENDS,
	KEY_QUEUES,   /* of System V and POSIX, file locks, FIFOs that are opened */
	KEY_STREAMS,  /* all files but regular ones, for calls that wait for several */
	KEY_REQUEUED, /* all futexes, once a waiter was moved from one to another */
	KEY_FUTEXES,
	KEY_SOCKETS = KEY_FUTEXES + FUTEXES, /* a socket does not name the other end */
	KEY_OTHERS,                          /* terminals, event descriptors */
	KEY_FILES,                           /* pipes at even numbers, regular files at odd ones */
	KEYS = KEY_FILES + FILES,
};

static struct {
	_Atomic uint64_t sent[KEYS];
	_Atomic uint64_t taken[KEYS]; /* by reads, for writes that waited for space */
} * table;

static struct descriptor proc; /* the directory: the program may change its root */
/* Readers have a file open, which a fork must not copy. */
static const pthread_rwlock_t unlocked = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_rwlock_t opening = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static _Atomic uint64_t created; /* latest time at which this process created a thread */
static _Atomic bool begun, requeued;
static _Atomic uint16_t file_keys[CACHED_FDS]; /* by descriptor; 0: unknown */

/* What a system call does that orders threads. */
enum effect {
	NOTHING,
	READS,  /* from the file in the first argument */
	WRITES, /* to it */
	SENDS_FILE,
	SPLICES,
	OPENS,
	CLOSES,
	REPLACES, /* the descriptor in the second argument */
	CLOSES_RANGE,
	POLLS,
	LOCKS,
	QUEUES,
	SIGNALS,
	WAITS_FOR_SIGNAL,
	FUTEX,
	CREATES,
	ENDS,
	WAITS_FOR_END,
	SLEEPS,
};

static const uint8_t effects[] = {
	[SYSCALL_read] = READS,
	[SYSCALL_readv] = READS,
	[SYSCALL_pread64] = READS,
	[SYSCALL_preadv] = READS,
	[SYSCALL_preadv2] = READS,
	[SYSCALL_recvfrom] = READS,
	[SYSCALL_recvmsg] = READS,
	[SYSCALL_recvmmsg] = READS,
	[SYSCALL_accept] = READS,
	[SYSCALL_accept4] = READS,
	[SYSCALL_connect] = WRITES,
	[SYSCALL_write] = WRITES,
	[SYSCALL_writev] = WRITES,
	[SYSCALL_pwrite64] = WRITES,
	[SYSCALL_pwritev] = WRITES,
	[SYSCALL_pwritev2] = WRITES,
	[SYSCALL_sendto] = WRITES,
	[SYSCALL_sendmsg] = WRITES,
	[SYSCALL_sendmmsg] = WRITES,
	[SYSCALL_shutdown] = WRITES,
	[SYSCALL_sendfile] = SENDS_FILE,
	[SYSCALL_splice] = SPLICES,
	[SYSCALL_copy_file_range] = SPLICES,
	[SYSCALL_openat] = OPENS,
	[SYSCALL_close] = CLOSES,
	[SYSCALL_dup3] = REPLACES,
	[SYSCALL_close_range] = CLOSES_RANGE,
	[SYSCALL_ppoll] = POLLS,
	[SYSCALL_pselect6] = POLLS,
	[SYSCALL_epoll_pwait] = POLLS,
	[SYSCALL_epoll_pwait2] = POLLS,
	[SYSCALL_io_uring_enter] = POLLS,
	[SYSCALL_fcntl] = LOCKS,
	[SYSCALL_flock] = QUEUES,
	[SYSCALL_semop] = QUEUES,
	[SYSCALL_semtimedop] = QUEUES,
	[SYSCALL_semctl] = QUEUES,
	[SYSCALL_msgsnd] = QUEUES,
	[SYSCALL_msgrcv] = QUEUES,
	[SYSCALL_mq_timedsend] = QUEUES,
	[SYSCALL_mq_timedreceive] = QUEUES,
	[SYSCALL_kill] = SIGNALS,
	[SYSCALL_tkill] = SIGNALS,
	[SYSCALL_tgkill] = SIGNALS,
	[SYSCALL_rt_sigqueueinfo] = SIGNALS,
	[SYSCALL_rt_tgsigqueueinfo] = SIGNALS,
	[SYSCALL_pidfd_send_signal] = SIGNALS,
	[SYSCALL_rt_sigsuspend] = WAITS_FOR_SIGNAL,
	[SYSCALL_rt_sigtimedwait] = WAITS_FOR_SIGNAL,
	[SYSCALL_futex] = FUTEX,
	[SYSCALL_clone] = CREATES,
	[SYSCALL_clone3] = CREATES,
	[SYSCALL_exit] = ENDS,
	[SYSCALL_exit_group] = ENDS,
	[SYSCALL_wait4] = WAITS_FOR_END,
	[SYSCALL_waitid] = WAITS_FOR_END,
	[SYSCALL_nanosleep] = SLEEPS,
	[SYSCALL_clock_nanosleep] = SLEEPS,
};

static enum effect effect_of(int64_t number)
{
	return number >= 0 && (size_t)number < ELEMENTS(effects) ? effects[number] : NOTHING;
}

static void before_fork(void)
{
	pthread_rwlock_wrlock(&opening);
}

static void after_fork_in_parent(void)
{
	pthread_rwlock_unlock(&opening);
}

/* The readers that waited do not exist here. */
static void after_fork_in_child(void)
{
	opening = unlocked;
}

int thread_clock_init(void)
{
	void *memory = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	table = memory;
	proc = descriptor_keep(descriptor_move(open("/proc", O_PATH | O_CLOEXEC)));
	return -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void publish(_Atomic uint64_t *to, uint64_t time)
{
	uint64_t old = atomic_load(to);

	while (old < time && !atomic_compare_exchange_weak(to, &old, time))
		;
}

static bool is_stream(unsigned key)
{
	return key == KEY_SOCKETS || key == KEY_OTHERS || (key >= KEY_FILES && (key - KEY_FILES) % 2 == 0);
}

static void send_to(unsigned key, uint64_t time)
{
	publish(&table->sent[key], time);
	if (is_stream(key))
		publish(&table->sent[KEY_STREAMS], time);
}

static uint64_t receive_from(unsigned key, uint64_t time)
{
	return MAX(time, atomic_load(&table->sent[key]));
}

static unsigned find_file_key(int fd)
{
	struct stat st;
	uint64_t hash;

	if (fstat(fd, &st) < 0)
		return KEY_OTHERS;
	if (S_ISSOCK(st.st_mode))
		return KEY_SOCKETS;
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		return KEY_OTHERS;
	hash = (st.st_ino ^ (uint64_t)st.st_dev << 32) * 0x9e3779b97f4a7c15ull;
	return KEY_FILES + (unsigned)(hash >> 32) % (FILES / 2) * 2 + S_ISREG(st.st_mode);
}

static unsigned file_key(uint64_t descriptor)
{
	unsigned key;

	if (descriptor >= CACHED_FDS)
		return find_file_key((int)descriptor);
	key = atomic_load(&file_keys[descriptor]);
	if (!key) {
		key = find_file_key((int)descriptor);
		atomic_store(&file_keys[descriptor], (uint16_t)key);
	}
	return key;
}

/* Forgets the keys of descriptors that a call may close. */
static void forget_files(enum effect effect, const uint64_t args[6])
{
	uint64_t first = effect == CLOSES_RANGE ? 0 : args[effect == REPLACES];
	uint64_t end = effect == CLOSES_RANGE ? CACHED_FDS : first + 1;

	for (uint64_t i = first; i < MIN(end, (uint64_t)CACHED_FDS); i++)
		atomic_store(&file_keys[i], 0);
}

static unsigned futex_key(uint64_t address)
{
	return KEY_FUTEXES + (unsigned)(address / 4 % FUTEXES);
}

static void enter_futex(const uint64_t args[6], uint64_t time)
{
	enum { WAKE = 1, REQUEUE = 3, CMP_REQUEUE = 4, WAKE_OP = 5, UNLOCK_PI = 7, WAKE_BITSET = 10, REQUEUE_PI = 12 };

	switch (args[1] & 0x7f) {
	case REQUEUE:
	case CMP_REQUEUE:
	case REQUEUE_PI:
		atomic_store(&requeued, true);
		/* fallthrough */
	case WAKE_OP:
		send_to(futex_key(args[4]), time);
		/* fallthrough */
	case WAKE:
	case WAKE_BITSET:
	case UNLOCK_PI:
		send_to(futex_key(args[0]), time);
		if (atomic_load(&requeued))
			send_to(KEY_REQUEUED, time);
		break;
	default:
		break;
	}
}

static bool is_lock(const uint64_t args[6])
{
	return args[1] == F_SETLK || args[1] == F_SETLKW || args[1] == F_OFD_SETLK || args[1] == F_OFD_SETLKW;
}

static void publish_call(enum effect effect, const uint64_t args[6], uint64_t time)
{
	switch (effect) {
	case READS:
		publish(&table->taken[file_key(args[0])], time);
		break;
	case SENDS_FILE:
		publish(&table->taken[file_key(args[1])], time);
		/* fallthrough */
	case WRITES:
		send_to(file_key(args[0]), time);
		break;
	case SPLICES:
		publish(&table->taken[file_key(args[0])], time);
		send_to(file_key(args[2]), time);
		break;
	case CLOSES:
	case REPLACES:
		/* The end of the file is a message, too. */
		send_to(file_key(args[effect == REPLACES]), time);
		forget_files(effect, args);
		break;
	case CLOSES_RANGE:
		send_to(KEY_OTHERS, time);
		break;
	case LOCKS:
		if (is_lock(args))
			send_to(KEY_QUEUES, time);
		break;
	case OPENS:
	case QUEUES:
		send_to(KEY_QUEUES, time);
		break;
	case SIGNALS:
		send_to(KEY_SIGNALS, time);
		/* A descriptor may receive it. */
		send_to(KEY_OTHERS, time);
		break;
	case FUTEX:
		enter_futex(args, time);
		break;
	case CREATES:
		publish(&created, time);
		break;
	case ENDS:
		send_to(KEY_ENDS, time);
		send_to(KEY_SIGNALS, time);
		break;
	default:
		break;
	}
}

/* Returns the time not before that of what the call may have received. */
static uint64_t receive(enum effect effect, const uint64_t args[6], int64_t result, uint64_t time)
{
	enum { WAKE_ONLY = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 10 | 1 << 12 }; /* as in enter_futex() */
	enum { RESTART = 512 }; /* QEMU restarts the call after the handler */

	if (result == -EINTR || result == -RESTART)
		return receive_from(KEY_SIGNALS, time);
	if (result < 0)
		return time;
	switch (effect) {
	case READS:
	case SPLICES:
		time = receive_from(file_key(args[0]), time);
		/* The end of the file may be the end of the process at the other end. */
		return result == 0 ? receive_from(KEY_ENDS, time) : time;
	case SENDS_FILE:
		return receive_from(file_key(args[1]), time);
	case POLLS:
		return result ? receive_from(KEY_ENDS, receive_from(KEY_STREAMS, time)) : time;
	case LOCKS:
		return is_lock(args) ? receive_from(KEY_QUEUES, time) : time;
	case QUEUES:
		return receive_from(KEY_QUEUES, time);
	case WAITS_FOR_SIGNAL:
		return receive_from(KEY_SIGNALS, time);
	case FUTEX:
		if (WAKE_ONLY >> (args[1] & 0x1f) & 1)
			return time;
		time = receive_from(futex_key(args[0]), receive_from(KEY_REQUEUED, time));
		return receive_from(KEY_ENDS, time);
	case WAITS_FOR_END:
		/* A process that was killed published nothing: its end is not before the signal was sent. */
		return receive_from(KEY_SIGNALS, receive_from(KEY_ENDS, time));
	default:
		return time;
	}
}

/* A call that blocked waited for what another thread did: a reader took bytes, or opened the other end. */
static uint64_t receive_space(enum effect effect, const uint64_t args[6], uint64_t time)
{
	switch (effect) {
	case WRITES:
	case SENDS_FILE:
		return MAX(time, atomic_load(&table->taken[file_key(args[0])]));
	case SPLICES:
		return MAX(time, atomic_load(&table->taken[file_key(args[2])]));
	case OPENS:
		return receive_from(KEY_QUEUES, time);
	default:
		return time;
	}
}

/* What a thread has used of CPUs, and how long it has waited for them, at a time. */
struct thread_times {
	uint64_t time, used, waited;
};

/* Opens the file of the thread's times. The program's limit of descriptors allows none for each thread. */
static struct descriptor open_schedstat(void)
{
	int dir = descriptor_fd(&proc);

	return descriptor_keep(descriptor_move(dir < 0 ? open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)
						       : openat(dir, "thread-self/schedstat", O_RDONLY | O_CLOEXEC)));
}

/*
 * Reads the times that the kernel has accounted to the thread. schedstat lags behind for the time used on a CPU. Where
 * the thread had to wait for a CPU between the readings, they do not fit each other: the closest of several are taken.
 */
static struct thread_times read_times(void)
{
	enum { TRIES = 16, CLOSE_NS = 20000 };
	uint64_t least = UINT64_MAX;
	struct descriptor schedstat;
	struct thread_times best;

	pthread_rwlock_rdlock(&opening);
	schedstat = open_schedstat();
	for (unsigned i = 0; i < TRIES && least > CLOSE_NS; i++) {
		uint64_t before = now_ns(CLOCK_MONOTONIC);
		struct thread_times t = { .used = now_ns(CLOCK_THREAD_CPUTIME_ID) };
		char text[80] = "";

		if (schedstat.inode && pread(schedstat.fd, text, sizeof(text) - 1, 0) > 0)
			sscanf(text, "%*u %" SCNu64, &t.waited);
		t.time = now_ns(CLOCK_MONOTONIC);
		if (t.time - before < least) {
			least = t.time - before;
			best = t;
		}
	}
	descriptor_close(&schedstat);
	pthread_rwlock_unlock(&opening);
	return best;
}

/*
 * Splits the real time of a call that lasted. The times are those since the last measurement: other calls since then
 * did not last, so that the thread blocked in this one, or not at all.
 */
static void measure(struct thread_clock *c, uint64_t now, struct clock_split *s)
{
	uint64_t lasted = now - c->entered, all, busy;
	struct thread_times t = read_times();

	t.waited = MAX(t.waited, c->waited);
	all = t.time - c->measured;
	busy = t.used - c->used + (t.waited - c->waited);
	s->blocked = MIN(lasted, all - MIN(all, busy));
	s->preempted = MIN(lasted - s->blocked, t.waited - c->waited);
	s->ran = lasted - s->blocked - s->preempted;
	c->measured = t.time;
	c->used = t.used;
	c->waited = t.waited;
}

static void begin_measuring(struct thread_clock *c)
{
	struct thread_times t = read_times();

	c->measured = t.time;
	c->used = t.used;
	c->waited = t.waited;
}

void thread_clock_begin(struct thread_clock *c)
{
	begin_measuring(c);
	c->entered = c->measured;
	c->base = atomic_exchange(&begun, true) ? atomic_load(&created) : c->measured;
}

void thread_clock_forked(struct thread_clock *c)
{
	begin_measuring(c);
}

void thread_clock_died(uint64_t time)
{
	publish_call(ENDS, NULL, time);
}

void thread_clock_enter(struct thread_clock *c, int64_t number, const uint64_t args[6], uint64_t time)
{
	publish_call(effect_of(number), args, time);
	c->entered = now_ns(CLOCK_MONOTONIC);
}

uint64_t thread_clock_return(struct thread_clock *c, const struct syscall_return *r, uint64_t time,
			     struct clock_split *ret)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	enum effect effect = effect_of(r->number);

	*ret = (struct clock_split){ .ran = now - c->entered };
	if (ret->ran >= LASTING || effect == SLEEPS)
		measure(c, now, ret);
	if (effect == CLOSES || effect == REPLACES || effect == CLOSES_RANGE)
		forget_files(effect, r->args);
	time = receive(effect, r->args, r->result, time + ret->blocked);
	return ret->blocked ? receive_space(effect, r->args, time) : time;
}

uint64_t thread_clock_signalled(uint64_t time)
{
	return receive_from(KEY_SIGNALS, time);
}
