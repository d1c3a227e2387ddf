/*
 * daemon/capture/process.c and what is beneath it: real processes, the kernel's own records of them, and the decoder's
 * own reading of the log (daemon/capture/code.c, lib/code). What a process had at an address at a time is compared with
 * what it says it had.
 */
#include "config.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/capture/code.h"
#include "daemon/capture/process.h"
#include "daemon/capture/procfs.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/code/image.h"
#include "tests/unit.h"

enum { PAGE = 4096, RING_PAGES = 256, LINE = 64 };

static char work[] = "/tmp/csight-test-process-XXXXXX";

/* The traced child: does a step for each byte that comes, and says when it was done with it. */
struct child {
	pid_t pid;
	int pidfd, to, from, perf;
	struct perf_event_mmap_page *ring;
	struct process *process;
};

struct done {
	uint64_t addr, before, after;
};

typedef void step_fn(unsigned step, struct done *d);

static uint64_t clock_now(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

static void serve(int from, int to, step_fn *steps)
{
	uint8_t step;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(from, &step, 1) == 1) {
		struct done d = { .before = clock_now() };

		steps(step, &d);
		d.after = clock_now();
		if (write(to, &d, sizeof(d)) < 0)
			break;
	}
	_exit(0);
}

static bool open_ring(struct child *c)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_DUMMY,
					.mmap = 1,
					.mmap2 = 1,
					.mmap_data = 1,
					.comm = 1,
					.comm_exec = 1,
					.exclude_kernel = 1,
					.sample_id_all = 1,
					.sample_type = PERF_SAMPLE_TIME,
					.use_clockid = 1,
					.clockid = CLOCK_MONOTONIC };

	c->perf = (int)syscall(SYS_perf_event_open, &attr, c->pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (c->perf < 0)
		return false;
	c->ring = mmap(NULL, (1 + RING_PAGES) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, c->perf, 0);
	return c->ring != MAP_FAILED;
}

/* false: the kernel gives no records here. data: as process_new() has it. */
static bool child_new(struct child *c, step_fn *steps, bool data)
{
	int there[2], back[2];

	*c = (struct child){ .perf = -1 };
	if (pipe2(there, O_CLOEXEC) < 0 || pipe2(back, O_CLOEXEC) < 0)
		return false;
	c->pid = fork();
	if (c->pid == 0) {
		close(there[1]);
		close(back[0]);
		serve(there[0], back[1], steps);
	}
	close(there[0]);
	close(back[1]);
	c->to = there[1];
	c->from = back[0];
	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (!open_ring(c)) {
		unit_skip("the kernel's records of a process", "perf events are not allowed here");
		return false;
	}
	return CHECK_EQ(process_new(c->pid, c->pidfd, data, clock_now(), &c->process), 0);
}

static struct done act(struct child *c, unsigned step)
{
	uint8_t byte = (uint8_t)step;
	struct done d = { 0 };

	if (write(c->to, &byte, 1) != 1 || read_full(c->from, &d, sizeof(d)) != sizeof(d))
		d.addr = 0;
	return d;
}

static void take_record(struct child *c, const uint8_t *at, const struct perf_event_header *h)
{
	uint64_t time;

	memcpy(&time, at + h->size - 8, 8);
	if (h->type == PERF_RECORD_MMAP2) {
		struct process_map m = { .time = time };

		memcpy(&m.addr, at + 16, 8);
		memcpy(&m.len, at + 24, 8);
		memcpy(&m.offset, at + 32, 8);
		memcpy(&m.major, at + 40, 4);
		memcpy(&m.minor, at + 44, 4);
		memcpy(&m.inode, at + 48, 8);
		memcpy(&m.generation, at + 56, 8);
		memcpy(&m.prot, at + 64, 4);
		memcpy(&m.flags, at + 68, 4);
		m.path = (const char *)at + 72;
		process_map(c->process, &m);
	} else if (h->type == PERF_RECORD_COMM) {
		uint32_t tid;

		memcpy(&tid, at + 12, 4);
		process_name(c->process, time, tid, (const char *)at + 16, h->misc & PERF_RECORD_MISC_COMM_EXEC);
	}
}

static void drain(struct child *c)
{
	uint64_t head = __atomic_load_n(&c->ring->data_head, __ATOMIC_ACQUIRE), tail = c->ring->data_tail;
	const uint8_t *base = (const uint8_t *)c->ring + PAGE;
	static uint8_t copy[65536];

	while (tail < head) {
		struct perf_event_header h;

		for (size_t i = 0; i < sizeof(h); i++)
			((uint8_t *)&h)[i] = base[(tail + i) % (RING_PAGES * PAGE)];
		for (size_t i = 0; i < h.size; i++)
			copy[i] = base[(tail + i) % (RING_PAGES * PAGE)];
		take_record(c, copy, &h);
		tail += h.size;
	}
	__atomic_store_n(&c->ring->data_tail, tail, __ATOMIC_RELEASE);
}

static bool look_once(struct child *c)
{
	uint64_t now = clock_now();

	drain(c);
	return process_look(c->process, now);
}

/* As the capture thread does after each round of records. */
static void look(struct child *c)
{
	if (look_once(c)) {
		uint64_t now = clock_now();

		drain(c);
		process_watch(c->process, now);
	}
}

static void child_done(struct child *c)
{
	int status;

	process_free(c->process);
	if (c->ring && c->ring != MAP_FAILED)
		munmap(c->ring, (1 + RING_PAGES) * PAGE);
	closep(&c->perf);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, &status, 0);
	closep(&c->pidfd);
	closep(&c->to);
	closep(&c->from);
}

/* What a snapshot would hold, read as the decoder reads it. */
struct told {
	struct buf log, missing;
	struct capture_file *files;
	size_t n_files, n_named;
	struct code_log code;
	struct image_set *images;
	int blob;
};

static int take_file(struct told *t, uint32_t id)
{
	for (size_t i = 0; i < t->n_files; i++)
		if (id && t->files[i].id == id)
			return fcntl(t->files[i].fd, F_DUPFD_CLOEXEC, 0);
	return -1;
}

static unsigned n_ids, n_other_ids;

/* The other reader of build-ids is the measure; files here that are no programs have none. */
static void compare_id(const struct emu_record_map *m, int fd)
{
	uint8_t id[IMAGE_BUILD_ID_MAX];
	size_t size = fd >= 0 ? image_build_id(fd, id) : 0;

	if (fd < 0)
		return;
	n_ids += size != 0;
	n_other_ids += size != m->build_id_size || memcmp(id, m->build_id, size) != 0;
}

static void read_told(struct told *t)
{
	CHECK_EQ(code_log_read(t->log.data, t->log.size, &t->code), 0);
	CHECK(!t->code.broken && !t->code.crowded);
	t->blob = memfd_create("blob", MFD_CLOEXEC);
	CHECK_EQ(code_log_write_bytes(t->log.data, t->log.size, t->blob), 0);
	CHECK_EQ(image_set_new(&t->images), 0);
	for (size_t i = 0; i < t->code.n_maps; i++) {
		const struct code_map *m = &t->code.maps[i];
		uint32_t file = strcmp(m->path, "//unknown") == 0 ? IMAGE_UNKNOWN : IMAGE_NONE;

		if (m->image != UINT32_MAX) {
			int fd = take_file(t, m->record.file);

			compare_id(&m->record, fd);
			image_file_add(t->images, m->path, NULL, 0, m->record.inode, &file);
			image_file_give(t->images, file, fd, NULL);
		}
		image_map(t->images, 1, m->record.addr, m->record.len, m->record.offset, file, m->record.head.time_ns);
	}
	CHECK_EQ(image_code(t->images, 1, t->blob), 0);
	CHECK_EQ(image_seal(t->images), 0);
}

/* Files that were handed over before stay with the target. */
static struct told *tell_more(struct child *c, struct told *before)
{
	struct told *t = calloc(1, sizeof(*t));
	struct capture_file *files;
	size_t n;

	drain(c);
	CHECK_EQ(process_tell(c->process, &t->log, &t->missing, &files, &n), 0);
	t->files = calloc(n + (before ? before->n_files : 0) + 1, sizeof(*files));
	for (size_t i = 0; before && i < before->n_files; i++) {
		t->files[t->n_files++] = before->files[i];
		before->files[i].fd = -1;
	}
	for (size_t i = 0; i < n; i++)
		if (files[i].fd >= 0)
			t->files[t->n_files++] = files[i];
	t->n_named = n;
	free(files);
	read_told(t);
	return t;
}

static struct told *tell(struct child *c)
{
	look(c);
	return tell_more(c, NULL);
}

static void told_done(struct told *t)
{
	for (size_t i = 0; i < t->n_files; i++)
		closep(&t->files[i].fd);
	free(t->files);
	image_set_free(t->images);
	code_log_done(&t->code);
	buf_done(&t->log);
	buf_done(&t->missing);
	closep(&t->blob);
	free(t);
}

/* The byte of a filling that is at addr as of time; 0: nothing is known; -1: something else. */
static int at(const struct told *t, uint64_t addr, uint64_t time)
{
	uint8_t bytes[16];

	if (image_read(t->images, 1, addr, time, bytes, sizeof(bytes)) != sizeof(bytes))
		return 0;
	for (size_t i = 1; i < sizeof(bytes); i++)
		if (bytes[i] != bytes[0])
			return -1;
	return bytes[0];
}

static bool misses(const struct told *t, const char *word)
{
	return t->missing.size && memmem(t->missing.data, t->missing.size, word, strlen(word));
}

static void protect(void *p, size_t size, int prot)
{
	if (mprotect(p, size, prot) < 0)
		_exit(1);
}

static void *map(size_t size, int prot, int flags, int fd)
{
	void *p = mmap(NULL, size, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		_exit(1);
	return p;
}

static void jit_steps(unsigned step, struct done *d)
{
	static uint8_t *code;

	if (!code)
		code = map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	d->addr = (uint64_t)(uintptr_t)code;
	protect(code, PAGE, PROT_READ | PROT_WRITE);
	memset(code, (int)step, PAGE);
	protect(code, PAGE, PROT_READ | PROT_EXEC);
}

static void test_rewritten(void)
{
	struct child c;
	struct done a, b, e, g;
	struct told *t;

	if (!child_new(&c, jit_steps, true))
		return;
	a = act(&c, 'A');
	look(&c);
	b = act(&c, 'B');
	look(&c);
	e = act(&c, 'C'); /* nobody looks */
	g = act(&c, 'D');
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, a.after), 'A');
	CHECK_EQ(at(t, a.addr, b.before), 'A');
	CHECK_EQ(at(t, a.addr, b.after), 'B');
	CHECK_EQ(at(t, a.addr, e.before), 'B');
	CHECK_EQ(at(t, a.addr, e.after), 0);
	CHECK_EQ(at(t, a.addr, g.before), 0);
	CHECK_EQ(at(t, a.addr, g.after), 'D');
	CHECK_EQ(at(t, a.addr, UINT64_MAX), 'D');
	/* Of a time before there was anything, what came first. */
	CHECK_EQ(at(t, a.addr, a.before - 1000000), 'A');
	told_done(t);

	/* What the ring does not reach any more is folded; what it reaches is as before. */
	process_forget(c.process, e.before);
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, e.before), 'B');
	CHECK_EQ(at(t, a.addr, e.after), 0);
	CHECK_EQ(at(t, a.addr, g.after), 'D');
	told_done(t);
	process_forget(c.process, clock_now());
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, clock_now()), 'D');
	CHECK_EQ(t->code.pieces, 2); /* this and the vdso */
	told_done(t);
	child_done(&c);
}

static void test_read_too_late(void)
{
	struct child c;
	struct done a, b;
	struct told *t;

	/* It looks with the records of A alone, and B is there already: those that come later take it back. */
	if (!child_new(&c, jit_steps, true))
		return;
	a = act(&c, 'A');
	drain(&c);
	b = act(&c, 'B');
	process_look(c.process, a.after);
	t = tell_more(&c, NULL);
	CHECK_EQ(at(t, a.addr, a.after), 0);
	CHECK_EQ(at(t, a.addr, b.after), 0);
	told_done(t);
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, a.after), 0);
	CHECK_EQ(at(t, a.addr, b.after), 'B');
	told_done(t);
	child_done(&c);
}

static void append_steps(unsigned step, struct done *d)
{
	static uint8_t *code;
	uint8_t *page;

	if (!code)
		code = map(64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	page = code + (size_t)(step - 'A') * PAGE;
	d->addr = (uint64_t)(uintptr_t)page;
	protect(page, PAGE, PROT_READ | PROT_WRITE);
	memset(page, (int)step, PAGE);
	/* The kernel tells of both pages as one. */
	protect(page, PAGE, PROT_READ | PROT_EXEC);
}

static void test_appended(void)
{
	for (unsigned data = 0; data < 2; data++) {
		struct child c;
		struct done a, b;
		struct told *t;

		if (!child_new(&c, append_steps, data))
			return;
		a = act(&c, 'A');
		b = act(&c, 'B');
		t = tell(&c);
		CHECK_EQ(at(t, a.addr, a.after), data ? 'A' : 0);
		CHECK_EQ(at(t, a.addr, b.after), 'A');
		CHECK_EQ(at(t, b.addr, b.after), 'B');
		told_done(t);
		child_done(&c);
	}
}

static void open_steps(unsigned step, struct done *d)
{
	static uint8_t *code, *shared, *alias;

	if (!code) {
		int fd = memfd_create("dual", MFD_CLOEXEC);

		if (ftruncate(fd, PAGE) < 0)
			_exit(1);
		code = map(PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		shared = map(PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd);
		alias = map(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	}
	memset(code, (int)step, PAGE);
	memset(alias, (int)step, PAGE);
	d->addr = (uint64_t)(uintptr_t)(step & 1 ? code : shared);
}

static void test_open_for_writing(void)
{
	struct child c;
	struct done a, b;
	struct told *t;

	if (!child_new(&c, open_steps, true))
		return;
	a = act(&c, 'A');
	look(&c);
	b = act(&c, 'B');
	t = tell(&c);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t addr = i ? a.addr : b.addr;

		CHECK_EQ(at(t, addr, a.before), 0);
		CHECK_EQ(at(t, addr, a.after), 0);
		CHECK_EQ(at(t, addr, b.after), 0);
	}
	CHECK(misses(t, "can be written while it runs"));
	told_done(t);
	child_done(&c);
}

static void make_file(const char *name, int fill)
{
	uint8_t bytes[4 * PAGE];
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	memset(bytes, fill, sizeof(bytes));
	if (fd < 0 || write_full(fd, bytes, sizeof(bytes)) < 0)
		_exit(1);
	close(fd);
}

/* Without capabilities files are opened by their names. */
static bool reaches_deleted(void)
{
	return geteuid() == 0;
}

static const char *name_of(char *ret, unsigned step)
{
	/* A name that lies about its end and has a line's end in it. */
	sprintf(ret, "%s/lib\\012\n%c (deleted)", work, step);
	return ret;
}

static void plug_steps(unsigned step, struct done *d)
{
	static uint8_t *place;
	char name[128];
	int fd;

	if (!place) {
		make_file(name_of(name, 'D'), 'D');
		usleep(100000);
		place = map(16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		munmap(place, 16 * PAGE);
	}
	d->addr = (uint64_t)(uintptr_t)place;
	munmap(place, 4 * PAGE);
	name_of(name, step);
	if (step != 'D')
		make_file(name, (int)step);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (mmap(place, 4 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) != place)
		_exit(1);
	close(fd);
	if (step != 'D')
		unlink(name);
}

static void test_plugins(void)
{
	struct child c;
	struct done a, b, e;
	struct told *t, *u;
	char name[128];

	if (!child_new(&c, plug_steps, true))
		return;
	a = act(&c, 'A');
	look(&c);
	b = act(&c, 'B'); /* nobody looks, and it is gone: nothing is known of it, and it is said */
	act(&c, 'D');	  /* nobody looks, and it has its name still */
	e = act(&c, 'E');
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, a.after), reaches_deleted() ? 'A' : 0);
	CHECK_EQ(at(t, a.addr, b.after), 0);
	CHECK_EQ(at(t, a.addr, e.before), 'D');
	CHECK_EQ(at(t, a.addr, e.after), reaches_deleted() ? 'E' : 0);
	CHECK(misses(t, "gone"));

	/* A file is handed over once. */
	u = tell_more(&c, t);
	CHECK_EQ(u->n_files, t->n_files);
	CHECK_EQ(at(u, a.addr, e.after), reaches_deleted() ? 'E' : 0);
	told_done(u);
	told_done(t);

	/* One that is named no more is another when it comes again. */
	process_forget(c.process, clock_now());
	t = tell(&c);
	CHECK_EQ(t->n_files, 0);
	e = act(&c, 'D');
	look(&c);
	u = tell_more(&c, NULL);
	CHECK_EQ(u->n_files, 1);
	CHECK_EQ(u->n_named, t->n_named + 1);
	CHECK_EQ(at(u, a.addr, e.after), 'D');
	told_done(u);
	told_done(t);
	unlink(name_of(name, 'D'));
	child_done(&c);
}

static void *stay(void *argument)
{
	pause();
	return argument;
}

static void lose_first(int ready, int go)
{
	pthread_t thread;
	char c = 0;

	/* As somebody whose files of /proc are not root's anyway. */
	if (geteuid() == 0 && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
		_exit(1);
	prctl(PR_SET_DUMPABLE, 1);
	if (pthread_create(&thread, NULL, stay, NULL) != 0 || write(ready, &c, 1) != 1 || read(go, &c, 1) != 1)
		_exit(1);
	pthread_exit(NULL);
}

/* What is mapped where a file was when mappings were read is not taken for that file. */
static void test_another_there(void)
{
	_cleanup_(procfs_maps_done) struct procfs_maps maps = { 0 };
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	const struct procfs_map *m;
	struct procfs_map other;
	struct procfs proc;
	int fd = -1, rc;

	CHECK_EQ(procfs_open(getpid(), pidfd, &proc), 0);
	CHECK_EQ(procfs_maps(&proc, &maps), 0);
	m = procfs_maps_find(&maps, (uintptr_t)&test_another_there);
	CHECK(m);
	CHECK_EQ(procfs_map_file(&proc, m, &fd), 0);
	closep(&fd);
	other = *m;
	other.inode++;
	rc = procfs_map_file(&proc, &other, &fd);
	CHECK(rc == -ENOENT || rc == -ESTALE);
	procfs_done(&proc);
}

/* While another thread executes a program, too, the first one has ended: that makes it nobody else's. */
static void test_first_ended(void)
{
	struct buf log = { 0 }, missing = { 0 };
	_cleanup_close_ int pidfd = -1;
	struct capture_file *files;
	struct process *p;
	struct procfs proc;
	int there[2], back[2], status;
	size_t n;
	char c;
	pid_t pid;

	if (pipe2(there, O_CLOEXEC) < 0 || pipe2(back, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0)
		lose_first(back[1], there[0]);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	CHECK_EQ(read(back[0], &c, 1), 1);
	CHECK_EQ(procfs_open(pid, pidfd, &proc), 0);
	CHECK_EQ(procfs_owner(&proc), 0);
	CHECK_EQ(process_new(pid, pidfd, true, clock_now(), &p), 0);
	CHECK_EQ(write(there[1], &c, 1), 1);
	for (int i = 0; i < 500 && procfs_owner(&proc) == 0; i++)
		usleep(10000);
	CHECK_EQ(procfs_owner(&proc), -EAGAIN);
	process_lost(p, 1, clock_now());
	process_look(p, clock_now());
	CHECK_EQ(process_tell(p, &log, &missing, &files, &n), 0);
	CHECK(memmem(missing.data, missing.size, "first thread", 12) && !memmem(missing.data, missing.size, "owner", 5));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	CHECK_EQ(procfs_owner(&proc), -ESRCH);
	for (size_t i = 0; i < n; i++)
		closep(&files[i].fd);
	free(files);
	procfs_done(&proc);
	process_free(p);
	buf_done(&log);
	buf_done(&missing);
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
}

static void patch_steps(unsigned step, struct done *d)
{
	static uint8_t *text;
	char name[128];

	if (!text) {
		int fd;

		snprintf(name, sizeof(name), "%s/text", work);
		make_file(name, 'T');
		fd = open(name, O_RDONLY | O_CLOEXEC);
		text = map(4 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);
		close(fd);
	}
	d->addr = (uint64_t)(uintptr_t)text;
	if (step == 'T')
		return;
	/* In the second page; the first one is writable meanwhile, and is not written. */
	protect(text, 2 * PAGE, PROT_READ | PROT_WRITE | (step == 'W' ? PROT_EXEC : 0));
	d->before = clock_now();
	memset(text + PAGE, (int)step, LINE);
	protect(text, 2 * PAGE, PROT_READ | PROT_EXEC);
}

static void test_patched(void)
{
	struct child c;
	struct done a, p, w;
	struct told *t;
	uint64_t base;

	if (!child_new(&c, patch_steps, true))
		return;
	a = act(&c, 'T');
	base = a.addr;
	look(&c);
	p = act(&c, 'P');
	look(&c);
	w = act(&c, 'W');
	t = tell(&c);
	CHECK_EQ(at(t, base + PAGE, a.after), 'T');
	CHECK_EQ(at(t, base + PAGE, p.after), 'P');
	CHECK_EQ(at(t, base + PAGE + LINE, p.after), 'T');
	/* Written and executed at once: not known until that ended, but for pages that are the file's still. */
	CHECK_EQ(at(t, base + PAGE, w.before), 0);
	CHECK_EQ(at(t, base, w.before), 'T');
	CHECK_EQ(at(t, base + PAGE, w.after), 'W');
	CHECK_EQ(at(t, base + PAGE + LINE, w.after), 'T');
	CHECK_EQ(at(t, base + 2 * PAGE, w.before), 'T');
	told_done(t);
	child_done(&c);
}

static void exec_steps(unsigned step, struct done *d)
{
	if (step == 'X') {
		execl("/proc/self/exe", "unit-process", "--sleep", NULL);
		_exit(1);
	}
	jit_steps(step, d);
}

static void test_exec(void)
{
	struct child c;
	struct done a;
	struct told *t;
	uint64_t text = (uint64_t)(uintptr_t)make_file & ~(uint64_t)(PAGE - 1), ran;
	uint8_t byte = 'X', bytes[16];
	char none;

	if (!child_new(&c, exec_steps, true))
		return;
	a = act(&c, 'A');
	look(&c);
	/* Its end of the pipe goes with the exec. */
	CHECK(write(c.to, &byte, 1) == 1 && read(c.from, &none, 1) == 0);
	ran = clock_now();
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, a.after), 'A');
	CHECK_EQ(at(t, a.addr, ran), 0);
	/* The old program's text is known as of then; the new one's stands elsewhere, and is in the list. */
	CHECK(image_read(t->images, 1, text, a.after, bytes, 16) == 16 && memcmp(bytes, (void *)(uintptr_t)text, 16) == 0);
	CHECK_EQ(t->code.n_names >= 1, 1);
	CHECK(!misses(t, "lost"));
	for (size_t i = 0; i < t->code.n_maps; i++) {
		const struct code_map *m = &t->code.maps[i];

		if (m->image != UINT32_MAX && m->record.head.time_ns > a.after && strstr(m->path, "unit-process"))
			CHECK_EQ(image_read(t->images, 1, m->record.addr, ran, bytes, 16), 16);
	}
	told_done(t);
	child_done(&c);
}

/* The next program's mappings are seen before its exec is told of: until then the old one ran. */
static void test_exec_seen_early(void)
{
	struct child c;
	struct told *t;
	uint64_t text = (uint64_t)(uintptr_t)make_file & ~(uint64_t)(PAGE - 1), before;
	uint8_t byte = 'X', bytes[16];
	char none;

	if (!child_new(&c, exec_steps, true))
		return;
	act(&c, 'A');
	drain(&c);
	before = clock_now();
	CHECK(write(c.to, &byte, 1) == 1 && read(c.from, &none, 1) == 0);
	process_look(c.process, before);
	t = tell(&c);
	CHECK(image_read(t->images, 1, text, before + 1, bytes, 16) == 16 && memcmp(bytes, (void *)(uintptr_t)text, 16) == 0);
	CHECK(image_read(t->images, 1, text, clock_now(), bytes, 16) != 16);
	told_done(t);
	child_done(&c);
}

static char program_path[200];

/* Executed, and over before anybody looks. */
static void brief_steps(unsigned step, struct done *d)
{
	if (step == 'X') {
		execl(program_path, "brief", "--brief", NULL);
		_exit(1);
	}
}

static void brief(mode_t mode, bool there)
{
	struct child c;
	struct told *t;
	siginfo_t info;
	uint8_t byte = 'X', bytes[16];
	unsigned n = 0, known = 0;
	char command[700];

	snprintf(program_path, sizeof(program_path), "%s/brief", work);
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s && chmod %o %s", (int)getpid(), program_path, (unsigned)mode, program_path);
	if (!CHECK_EQ(system(command), 0))
		return;
	/* A file system's clock goes in steps, and what was changed just now is not trusted. */
	usleep(100000);
	if (!child_new(&c, brief_steps, true))
		return;
	look(&c);
	CHECK(write(c.to, &byte, 1) == 1 && waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOWAIT) == 0);
	CHECK_EQ(info.si_status, 7);
	t = tell(&c);
	for (size_t i = 0; i < t->code.n_maps; i++) {
		const struct code_map *m = &t->code.maps[i];

		if (strcmp(m->path, program_path) != 0)
			continue;
		n++;
		known += image_read(t->images, 1, m->record.addr, m->record.head.time_ns, bytes, 16) == 16;
	}
	CHECK(n > 0);
	CHECK_EQ(known, there ? n : 0);
	CHECK_EQ(misses(t, program_path), !there);
	CHECK(!misses(t, "owner"));
	told_done(t);
	child_done(&c);
	unlink(program_path);
}

static void test_brief(void)
{
	brief(0755, true);
	/* It may have become another's. */
	brief(04755, false);
}

static void mount_steps(unsigned step, struct done *d)
{
	char name[128];

	if (step == 'M' && (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
			    mount("none", work, "tmpfs", 0, NULL) < 0))
		return;
	snprintf(name, sizeof(name), "%s/inside", work);
	make_file(name, (int)step);
	if (step == 'M') {
		int fd = open(name, O_RDONLY | O_CLOEXEC);

		d->addr = (uint64_t)(uintptr_t)map(PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);
	}
}

/* What a path means in another mount namespace is something else here. */
static void test_mounts(void)
{
	struct child c;
	struct done a;
	struct told *t;
	char name[128];

	if (geteuid() != 0) {
		unit_skip("mount namespaces", "needs root");
		return;
	}
	snprintf(name, sizeof(name), "%s/inside", work);
	make_file(name, 'O');
	if (!child_new(&c, mount_steps, true))
		return;
	a = act(&c, 'M');
	if (a.addr) {
		t = tell(&c);
		CHECK_EQ(at(t, a.addr, a.after), 'M');
		told_done(t);
	} else {
		unit_skip("mount namespaces", "they are not allowed here");
	}
	child_done(&c);
}

/* Its /tmp is a file system in user space that nobody serves. */
static void stall_steps(unsigned step, struct done *d)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[64];

	(void)step;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	d->addr = fd >= 0 && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		  mount("nobody", "/tmp", "fuse", 0, options) == 0;
}

static void test_stalling(void)
{
	struct child c;
	uint64_t size;
	int fd = -1;

	if (geteuid() != 0) {
		unit_skip("a file system that does not answer", "needs root");
		return;
	}
	if (!child_new(&c, stall_steps, true))
		return;
	if (act(&c, 'S').addr) {
		alarm(60);
		CHECK_EQ(procfs_perf_map(c.pid, c.pidfd, 0, &fd, &size), -EMEDIUMTYPE);
		alarm(0);
	} else {
		unit_skip("a file system that does not answer", "none can be mounted here");
	}
	child_done(&c);
}

static void owner_steps(unsigned step, struct done *d)
{
	if (step == 'S') {
		/* As after the exec of a set-user-ID program. */
		prctl(PR_SET_DUMPABLE, 0);
		jit_steps('S', d);
		return;
	}
	if (step == 'U' && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 ||
			    prctl(PR_SET_DUMPABLE, 1) < 0))
		_exit(1);
	jit_steps(step, d);
}

static void test_owner(void)
{
	struct child c;
	struct done a, b;
	struct told *t;

	if (geteuid() != 0) {
		unit_skip("another owner", "needs root");
		return;
	}
	if (!child_new(&c, owner_steps, true))
		return;
	act(&c, 'U');
	c.process = process_free(c.process);
	CHECK_EQ(process_new(c.pid, c.pidfd, true, clock_now(), &c.process), 0);
	a = act(&c, 'A');
	look(&c);
	b = act(&c, 'S');
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, a.after), 'A');
	CHECK_EQ(at(t, a.addr, b.after), 0);
	CHECK(misses(t, "another owner"));
	told_done(t);
	child_done(&c);
}

static void test_vdso_and_end(void)
{
	struct child c;
	struct told *t;
	uint8_t bytes[64];
	uint64_t found = 0;
	int status;

	if (!child_new(&c, jit_steps, true))
		return;
	kill(c.pid, SIGKILL);
	waitpid(c.pid, &status, 0);
	t = tell(&c);
	for (size_t i = 0; i < t->code.n_maps; i++)
		if (strcmp(t->code.maps[i].path, "[vdso]") == 0)
			found = t->code.maps[i].record.addr;
	/* It is where ours is: the child is a fork. */
	CHECK(found && image_read(t->images, 1, found, clock_now(), bytes, sizeof(bytes)) == sizeof(bytes) &&
	      memcmp(bytes, (void *)(uintptr_t)found, sizeof(bytes)) == 0);
	told_done(t);
	CHECK_EQ(process_new(c.pid, c.pidfd, true, clock_now(), &(struct process *){ NULL }), -ESRCH);
	child_done(&c);
}

static void dump_record(int fd, uint64_t addr, int fill)
{
	struct {
		uint32_t type, size;
		uint64_t time;
		uint32_t pid, tid;
		uint64_t vma, addr, code_size, index;
		char name[8];
		uint8_t code[LINE];
	} r = { 0, sizeof(r), clock_now(), 0, 0, addr, addr, LINE, (uint64_t)fill, "madeit!", { 0 } };

	memset(r.code, fill, sizeof(r.code));
	if (write_full(fd, &r, sizeof(r)) < 0)
		_exit(1);
}

static void dump_steps(unsigned step, struct done *d)
{
	static uint8_t *code;
	static int fd;
	char name[128];

	if (step == 'X') {
		static const uint32_t nonsense[4] = { 0, 3, 0, 0 };

		if (write_full(fd, nonsense, sizeof(nonsense)) < 0)
			_exit(1);
		return;
	}
	if (!code) {
		uint32_t header[10] = { 0x4a695444, 1, 40, 0, 0, 0, 0, 0, 0, 0 };

		snprintf(name, sizeof(name), "%s/jit-%d.dump", work, (int)getpid());
		fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (write_full(fd, header, sizeof(header)) < 0)
			_exit(1);
		map(PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);
		if (reaches_deleted())
			unlink(name);
		code = map(PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	}
	d->addr = (uint64_t)(uintptr_t)code;
	usleep(2000);
	memset(code, (int)step, LINE);
	dump_record(fd, d->addr, (int)step);
	usleep(2000);
}

/* What a program that rewrites its code in place tells of it, is believed. */
static void test_jitdump(void)
{
	struct child c;
	struct done a, b, e;
	struct told *t;

	if (!child_new(&c, dump_steps, true))
		return;
	a = act(&c, 'A');
	b = act(&c, 'B');
	look(&c);
	e = act(&c, 'C');
	usleep(10000);
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, a.after), 'A');
	CHECK_EQ(at(t, a.addr, b.after), 'B');
	CHECK_EQ(at(t, a.addr + LINE, b.after), 0);
	CHECK_EQ(at(t, a.addr, e.after), 'C');
	told_done(t);

	/* Where it ends in nonsense, what was told last may not be the last. */
	act(&c, 'X');
	usleep(1100000);
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, b.after), 'B');
	CHECK_EQ(at(t, a.addr, e.after), 0);
	CHECK(misses(t, "jitdump is cut"));
	told_done(t);
	child_done(&c);
}

/* More changes than are kept: what is told is right nevertheless, and memory has its bounds. */
static void test_bounds(void)
{
	struct child c;
	struct told *t;
	struct done a, b = { 0 };
	uint64_t memory;

	if (!child_new(&c, jit_steps, true))
		return;
	a = act(&c, 'A');
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned k = 0; k < 1000; k++)
			b = act(&c, 'a' + k % 20);
		look(&c);
	}
	memory = process_memory(c.process);
	CHECK(memory < 16 << 20);
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, a.after), 0);
	CHECK_EQ(at(t, a.addr, b.after), 'a' + 999 % 20);
	CHECK(misses(t, "too often"));
	told_done(t);
	process_forget(c.process, b.after);
	t = tell(&c);
	CHECK(!misses(t, "too often"));
	CHECK_EQ(at(t, a.addr, b.after), 'a' + 999 % 20);
	told_done(t);
	child_done(&c);
}

static void test_lost(void)
{
	struct child c;
	struct done a, b;
	struct told *t;

	if (!child_new(&c, jit_steps, true))
		return;
	a = act(&c, 'A');
	look(&c);
	b = act(&c, 'B');
	c.ring->data_tail = c.ring->data_head; /* the records of B are lost */
	process_lost(c.process, b.before, clock_now());
	t = tell(&c);
	CHECK_EQ(at(t, a.addr, a.after), 'A');
	CHECK_EQ(at(t, a.addr, b.after), 0);
	CHECK_EQ(at(t, a.addr, clock_now()), 'B');
	CHECK(misses(t, "were lost"));
	told_done(t);
	child_done(&c);
}

int main(int argc, char **argv)
{
	char command[sizeof(work) + 16];

	if (argc > 1 && strcmp(argv[1], "--sleep") == 0) {
		/* The pipes went with the exec. */
		pause();
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "--brief") == 0)
		return 7;
	if (!mkdtemp(work))
		return 1;
	test_rewritten();
	test_read_too_late();
	test_appended();
	test_open_for_writing();
	test_plugins();
	test_patched();
	test_exec();
	test_exec_seen_early();
	test_brief();
	test_mounts();
	test_stalling();
	test_owner();
	test_another_there();
	test_first_ended();
	test_vdso_and_end();
	test_jitdump();
	test_bounds();
	test_lost();
	snprintf(command, sizeof(command), "rm -rf %s", work);
	CHECK(n_ids > 0);
	CHECK_EQ(n_other_ids, 0);
	return system(command) || unit_end();
}
