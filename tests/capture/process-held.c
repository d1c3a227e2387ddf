/* SPDX-License-Identifier: MIT */
/*
 * tests/capture/unit-process.c: a process that holds the lock of its own address space. One thread reads a mapped file
 * of a file system in user space, which first fails and then does not answer; another waits to change the mappings.
 */
#include "config.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/capture/perf/perf-event.h"
#include "tests/capture/process-child.h"

enum { FILE_NODE = 2, FAILED_READS = 2, REQUEST_MAX = 1 << 20, HOLD_US = 300000, OTHER_ACCOUNT = 1234 };

struct answer {
	int error;
	const void *data;
	size_t size;
};

static void send_answer(int device, const struct fuse_in_header *in, const struct answer *a)
{
	struct fuse_out_header out = { (uint32_t)(sizeof(out) + a->size), a->error, in->unique };
	const struct iovec parts[2] = { { &out, sizeof(out) }, { (void *)(uintptr_t)a->data, a->size } };

	if (writev(device, parts, 2) < 0)
		_exit(1);
}

static void answer_request(int device, const struct fuse_in_header *in)
{
	static unsigned reads;
	bool root = in->nodeid == FUSE_ROOT_ID && in->opcode != FUSE_LOOKUP;
	const struct fuse_attr attr = { .ino = root ? FUSE_ROOT_ID : FILE_NODE,
					.size = 16 * PAGE,
					.mode = root ? S_IFDIR | 0755 : S_IFREG | 0755,
					.nlink = 1,
					.blksize = PAGE };
	const struct fuse_init_out init = { .major = 7, .minor = 31, .max_readahead = PAGE, .max_write = PAGE };
	const struct fuse_entry_out entry = {
		.nodeid = FILE_NODE, .entry_valid = 100, .attr_valid = 100, .attr = attr
	};
	const struct fuse_attr_out attributes = { .attr_valid = 100, .attr = attr };
	const struct fuse_open_out opened = { .fh = 1 };

	switch (in->opcode) {
	case FUSE_INIT:
		send_answer(device, in, &(struct answer){ 0, &init, sizeof(init) });
		break;
	case FUSE_LOOKUP:
		send_answer(device, in, &(struct answer){ 0, &entry, sizeof(entry) });
		break;
	case FUSE_GETATTR:
		send_answer(device, in, &(struct answer){ 0, &attributes, sizeof(attributes) });
		break;
	case FUSE_OPEN:
		send_answer(device, in, &(struct answer){ 0, &opened, sizeof(opened) });
		break;
	case FUSE_READ:
		if (++reads <= FAILED_READS)
			send_answer(device, in, &(struct answer){ -EIO, NULL, 0 });
		break;
	case FUSE_FORGET:
		break;
	default:
		send_answer(device, in, &(struct answer){ -ENOSYS, NULL, 0 });
	}
}

static void serve_files(int device)
{
	static _Alignas(8) char request[REQUEST_MAX];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(device, request, sizeof(request)) >= (ssize_t)sizeof(struct fuse_in_header))
		answer_request(device, (const struct fuse_in_header *)(const void *)request);
	_exit(0);
}

static void *read_page(void *page)
{
	return (void *)(uintptr_t) * (volatile char *)page;
}

/* Its thread exists before the lock is held: what it takes to make one waits for it, too. */
static void *change_mappings(void *unused)
{
	usleep(HOLD_US);
	return mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Executes a program, for which the kernel waits for the memory that is left. */
static int execute(void *unused)
{
	(void)unused;
	usleep(2 * HOLD_US);
	execl("/bin/true", "true", NULL);
	_exit(1);
}

static void hold_steps(unsigned step, struct done *d)
{
	static char stack[64 << 10];
	int device = open("/dev/fuse", O_RDWR | O_CLOEXEC), fd;
	char options[64];
	pthread_t thread;
	void *page;

	(void)step;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
	if (device < 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("held", "/tmp", "fuse", 0, options) < 0)
		return;
	if (fork() == 0)
		serve_files(device);
	/* The end of the server ends what waits for it. */
	close(device);
	fd = open("/tmp/file", O_RDONLY | O_CLOEXEC);
	page = mmap(NULL, 16 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (fd < 0 || page == MAP_FAILED)
		return;
	madvise(page, 16 * PAGE, MADV_RANDOM);
	/* Another process with the same memory. */
	d->addr = (uint64_t)clone(execute, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	pthread_create(&thread, NULL, change_mappings, NULL);
	pthread_create(&thread, NULL, read_page, page);
	usleep(3 * HOLD_US);
}

/* An event of a process that executes a program: the kernel waits for the memory that it leaves. */
static void check_opening(pid_t pid)
{
	const struct address_space_of of = { OTHER_ACCOUNT, pid }, another = { 0, getpid() };
	const struct perf_event_attr attr =
	    perf_event_default_attr(PERF_TYPE_SOFTWARE, (const uint64_t[5]){ PERF_COUNT_SW_DUMMY, 0, 0, 0, 0 });
	int fd = -1,
	    rc = perf_event_open_thread(another, &attr, (struct perf_event_place){ (uint32_t)getpid(), -1, 0 }, &fd);

	if (rc < 0) {
		unit_skip("events of a process that executes a program", strerror(-rc));
		return;
	}
	close(fd);
	alarm(60);
	CHECK_EQ(perf_event_open_thread(of, &attr, (struct perf_event_place){ (uint32_t)pid, -1, 0 }, &fd), -ETIMEDOUT);
	/* No other process of the account is waited for a second time. */
	CHECK_EQ(perf_event_open_thread(of, &attr, (struct perf_event_place){ (uint32_t)getpid(), -1, 0 }, &fd),
		 -ETIMEDOUT);
	alarm(0);
}

/* Other processes of its user are not read after this. */
void test_held(void)
{
	struct child c;
	uint64_t other;

	if (geteuid() != 0) {
		unit_skip("a process that holds its address space", "needs root");
		return;
	}
	if (!child_new(&c, hold_steps, true))
		return;
	other = child_act(&c, 'H').addr;
	if (!other) {
		unit_skip("a process that holds its address space", "no file system in user space can be mounted here");
	} else {
		alarm(60);
		child_drain(&c);
		process_scan(&c.process, clock_now());
		alarm(0);
		CHECK(!c.process);
		CHECK_EQ(process_new(&(struct process_of){ c.pid, c.pidfd, getuid() }, true, clock_now(), &c.process),
			 -EBUSY);
		check_opening((pid_t)other);
	}
	child_done(&c);
}
