/* SPDX-License-Identifier: MIT */
/* tests/capture/unit-process.c: files that are mapped and unmapped, and programs that are executed. */
#include "config.h"

#include <fcntl.h>
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

#include "lib/base/io.h"
#include "tests/capture/process-child.h"

static const char *name_of(char *ret, unsigned step)
{
	/* The name contains a newline, an escaped newline, and the kernel's suffix of deleted files. */
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
		place = step_map(16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
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

void test_plugins(void)
{
	struct child c;
	struct done a, b, e;
	struct captured *t, *u;
	char name[128];

	if (!child_new(&c, plug_steps, true))
		return;
	a = child_act(&c, 'A');
	child_scan(&c);
	b = child_act(&c, 'B'); /* deleted before a scan: unknown, and reported */
	child_act(&c, 'D');     /* before a scan, but its name still exists */
	e = child_act(&c, 'E');
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.after), can_open_deleted() ? 'A' : 0);
	CHECK_EQ(captured_byte(t, a.addr, b.after), 0);
	CHECK_EQ(captured_byte(t, a.addr, e.before), 'D');
	CHECK_EQ(captured_byte(t, a.addr, e.after), can_open_deleted() ? 'E' : 0);
	CHECK(captured_misses(t, "gone"));

	/* A file is passed only once. */
	u = child_capture_more(&c, t);
	CHECK_EQ(u->n_files, t->n_files);
	CHECK_EQ(captured_byte(u, a.addr, e.after), can_open_deleted() ? 'E' : 0);
	captured_free(u);
	captured_free(t);

	/* A file that was forgotten gets a new identifier when it is mapped again. */
	process_forget(c.process, clock_now());
	t = child_capture(&c);
	CHECK_EQ(t->n_files, 0);
	e = child_act(&c, 'D');
	child_scan(&c);
	u = child_capture_more(&c, NULL);
	CHECK_EQ(u->n_files, 1);
	CHECK_EQ(u->n_named, t->n_named + 1);
	CHECK_EQ(captured_byte(u, a.addr, e.after), 'D');
	captured_free(u);
	captured_free(t);
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

	/* As a user other than root, who owns all files of /proc in any case. */
	if (geteuid() == 0 && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
		_exit(1);
	prctl(PR_SET_DUMPABLE, 1);
	if (pthread_create(&thread, NULL, stay, NULL) != 0 || write(ready, &c, 1) != 1 || read(go, &c, 1) != 1)
		_exit(1);
	pthread_exit(NULL);
}

/* A file mapped in place of another since the list was read is not mistaken for it. */
void test_another_there(void)
{
	_cleanup_(proc_maps_done) struct proc_maps maps = { 0 };
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	const struct proc_map *m;
	struct proc_map other;
	struct proc_dir proc;
	int fd = -1, rc;

	CHECK_EQ(proc_dir_open(getpid(), pidfd, &proc), 0);
	CHECK_EQ(proc_maps_read(&proc, &maps), 0);
	m = proc_maps_find(&maps, (uintptr_t)&test_another_there);
	CHECK(m);
	CHECK_EQ(proc_dir_open_map(&proc, m, &fd), 0);
	closep(&fd);
	other = *m;
	other.inode++;
	rc = proc_dir_open_map(&proc, &other, &fd);
	CHECK(rc == -ENOENT || rc == -ESTALE);
	proc_dir_done(&proc);
}

/* While the first thread has ended and another executes a program, the owner counts as unchanged. */
void test_first_ended(void)
{
	_cleanup_(proc_maps_done) struct proc_maps maps = { 0 };
	struct buf log = { 0 }, missing = { 0 };
	_cleanup_close_ int pidfd = -1;
	struct capture_file *files;
	struct process_code *p;
	struct proc_dir proc;
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
	CHECK_EQ(proc_dir_open(pid, pidfd, &proc), 0);
	CHECK_EQ(proc_dir_check_owner(&proc), 0);
	CHECK_EQ(process_new(&(struct process_of){ pid, pidfd, getuid() }, true, clock_now(), &p), 0);
	CHECK_EQ(write(there[1], &c, 1), 1);
	for (int i = 0; i < 500 && proc_dir_check_owner(&proc) == 0; i++)
		usleep(10000);
	CHECK_EQ(proc_dir_check_owner(&proc), -EAGAIN);
	CHECK_EQ(proc_maps_read(&proc, &maps), -ESRCH);
	process_note_lost_records(p, 1, clock_now());
	process_scan(&p, clock_now());
	CHECK_EQ(process_write_log(p, &log, &missing, &files, &n), 0);
	CHECK(memmem(missing.data, missing.size, "first thread", 12) &&
	      !memmem(missing.data, missing.size, "owner", 5));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	CHECK_EQ(proc_dir_check_owner(&proc), -ESRCH);
	for (size_t i = 0; i < n; i++)
		closep(&files[i].fd);
	free(files);
	proc_dir_done(&proc);
	process_free(p);
	buf_done(&log);
	buf_done(&missing);
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
}

static void exec_steps(unsigned step, struct done *d)
{
	if (step == 'X') {
		execl("/proc/self/exe", "unit-process", "--sleep", NULL);
		_exit(1);
	}
	step_jit(step, d);
}

void test_exec(void)
{
	struct child c;
	struct done a;
	struct captured *t;
	uint64_t text = (uint64_t)(uintptr_t)make_file & ~(uint64_t)(PAGE - 1), ran;
	uint8_t byte = 'X', bytes[16];
	char none;

	if (!child_new(&c, exec_steps, true))
		return;
	a = child_act(&c, 'A');
	child_scan(&c);
	/* The exec closes the child's end of the pipe. */
	CHECK(write(c.to, &byte, 1) == 1 && read(c.from, &none, 1) == 0);
	ran = clock_now();
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 'A');
	CHECK_EQ(captured_byte(t, a.addr, ran), 0);
	/* The text of the old program is known for that time; that of the new one is elsewhere, and listed. */
	CHECK(image_read(t->images, 1, text, a.after, bytes, 16) == 16 &&
	      memcmp(bytes, (void *)(uintptr_t)text, 16) == 0);
	CHECK_EQ(t->code.n_names >= 1, 1);
	CHECK(!captured_misses(t, "lost"));
	for (size_t i = 0; i < t->code.n_maps; i++) {
		const struct code_map *m = &t->code.maps[i];

		if (m->image != UINT32_MAX && m->record.head.time_ns > a.after && strstr(m->path, "unit-process"))
			CHECK_EQ(image_read(t->images, 1, m->record.addr, ran, bytes, 16), 16);
	}
	captured_free(t);
	child_done(&c);
}

/* The mappings of the next program are scanned before the record of the exec: until then the old program ran. */
void test_exec_seen_early(void)
{
	struct child c;
	struct captured *t;
	uint64_t text = (uint64_t)(uintptr_t)make_file & ~(uint64_t)(PAGE - 1), before;
	uint8_t byte = 'X', bytes[16];
	char none;

	if (!child_new(&c, exec_steps, true))
		return;
	child_act(&c, 'A');
	child_drain(&c);
	before = clock_now();
	CHECK(write(c.to, &byte, 1) == 1 && read(c.from, &none, 1) == 0);
	process_scan(&c.process, before);
	t = child_capture(&c);
	CHECK(image_read(t->images, 1, text, before + 1, bytes, 16) == 16 &&
	      memcmp(bytes, (void *)(uintptr_t)text, 16) == 0);
	CHECK(image_read(t->images, 1, text, clock_now(), bytes, 16) != 16);
	captured_free(t);
	child_done(&c);
}

static char program_path[200];

/* A program that is executed and ends before a scan. */
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
	struct captured *t;
	siginfo_t info;
	uint8_t byte = 'X', bytes[16];
	unsigned n = 0, known = 0;
	char command[700];

	snprintf(program_path, sizeof(program_path), "%s/brief", work);
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s && chmod %o %s", (int)getpid(), program_path,
		 (unsigned)mode, program_path);
	if (!CHECK_EQ(system(command), 0))
		return;
	/* Timestamps of file systems advance in steps, and a file changed just now is not trusted. */
	usleep(100000);
	if (!child_new(&c, brief_steps, true))
		return;
	child_scan(&c);
	CHECK(write(c.to, &byte, 1) == 1 && waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOWAIT) == 0);
	CHECK_EQ(info.si_status, 7);
	t = child_capture(&c);
	for (size_t i = 0; i < t->code.n_maps; i++) {
		const struct code_map *m = &t->code.maps[i];

		if (strcmp(m->path, program_path) != 0)
			continue;
		n++;
		known += image_read(t->images, 1, m->record.addr, m->record.head.time_ns, bytes, 16) == 16;
	}
	CHECK(n > 0);
	CHECK_EQ(known, there ? n : 0);
	CHECK_EQ(captured_misses(t, program_path), !there);
	CHECK(!captured_misses(t, "owner"));
	captured_free(t);
	child_done(&c);
	unlink(program_path);
}

void test_brief(void)
{
	brief(0755, true);
	/* A set-user-ID program may have changed the owner. */
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

		d->addr = (uint64_t)(uintptr_t)step_map(PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);
	}
}

/* A path in another mount namespace names another file here. */
void test_mounts(void)
{
	struct child c;
	struct done a;
	struct captured *t;
	char name[128];

	if (geteuid() != 0) {
		unit_skip("mount namespaces", "needs root");
		return;
	}
	snprintf(name, sizeof(name), "%s/inside", work);
	make_file(name, 'O');
	if (!child_new(&c, mount_steps, true))
		return;
	a = child_act(&c, 'M');
	if (a.addr) {
		t = child_capture(&c);
		CHECK_EQ(captured_byte(t, a.addr, a.after), 'M');
		captured_free(t);
	} else {
		unit_skip("mount namespaces", "they are not allowed here");
	}
	child_done(&c);
}

/* Mounts a file system in user space without a server on /tmp. */
static void stall_steps(unsigned step, struct done *d)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[64];

	(void)step;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	d->addr = fd >= 0 && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		  mount("none", "/tmp", "fuse", 0, options) == 0;
}

void test_stalling(void)
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
	if (child_act(&c, 'S').addr) {
		alarm(60);
		CHECK_EQ(proc_dir_open_perf_map(c.pid, c.pidfd, 0, &fd, &size), -EMEDIUMTYPE);
		alarm(0);
	} else {
		unit_skip("a file system that does not answer", "none can be mounted here");
	}
	child_done(&c);
}
