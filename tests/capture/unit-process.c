/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/process/process.c and the modules below it, with real processes, kernel records of them, and the
 * decoder's reader of the log (daemon/capture/process/code-log.c, lib/code). The code that the log shows at an address
 * at a time is compared with the code that the process had there.
 */
#include "config.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "tests/capture/process-child.h"

enum { LINE = 64, CROWD = 33000, PARTS = 10000 };

static const uint64_t crowd_ns = 10000000000; /* was a minute */

static void test_rewritten(void)
{
	struct child c;
	struct done a, b, e, g;
	struct captured *t;

	if (!child_new(&c, step_jit, true))
		return;
	a = child_act(&c, 'A');
	child_scan(&c);
	b = child_act(&c, 'B');
	child_scan(&c);
	e = child_act(&c, 'C'); /* not scanned */
	g = child_act(&c, 'D');
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 'A');
	CHECK_EQ(captured_byte(t, a.addr, b.before), 'A');
	CHECK_EQ(captured_byte(t, a.addr, b.after), 'B');
	CHECK_EQ(captured_byte(t, a.addr, e.before), 'B');
	CHECK_EQ(captured_byte(t, a.addr, e.after), 0);
	CHECK_EQ(captured_byte(t, a.addr, g.before), 0);
	CHECK_EQ(captured_byte(t, a.addr, g.after), 'D');
	CHECK_EQ(captured_byte(t, a.addr, UINT64_MAX), 'D');
	/* The first code also counts for earlier times. */
	CHECK_EQ(captured_byte(t, a.addr, a.before - 1000000), 'A');
	captured_free(t);
	/* ... unless what happened before was not recorded. */
	process_known_since(c.process, a.before);
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.before - 1000000), 0);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 'A');
	captured_free(t);

	/* Older history is folded; later history is unchanged. */
	process_forget(c.process, e.before);
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, e.before), 'B');
	CHECK_EQ(captured_byte(t, a.addr, e.after), 0);
	CHECK_EQ(captured_byte(t, a.addr, g.after), 'D');
	captured_free(t);
	process_forget(c.process, clock_now());
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, clock_now()), 'D');
	CHECK_EQ(t->code.pieces, 2); /* this and the vDSO */
	captured_free(t);
	child_done(&c);
}

static void test_read_too_late(void)
{
	struct child c;
	struct done a, b;
	struct captured *t;

	/* The scan knows the records of A only, but reads B: the later records invalidate what it read. */
	if (!child_new(&c, step_jit, true))
		return;
	a = child_act(&c, 'A');
	child_drain(&c);
	b = child_act(&c, 'B');
	process_scan(&c.process, a.after);
	t = child_capture_more(&c, NULL);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 0);
	CHECK_EQ(captured_byte(t, a.addr, b.after), 0);
	captured_free(t);
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 0);
	CHECK_EQ(captured_byte(t, a.addr, b.after), 'B');
	captured_free(t);
	child_done(&c);
}

static void append_steps(unsigned step, struct done *d)
{
	static uint8_t *code;
	uint8_t *page;

	if (!code)
		code = step_map(64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	page = code + (size_t)(step - 'A') * PAGE;
	d->addr = (uint64_t)(uintptr_t)page;
	step_protect(page, PAGE, PROT_READ | PROT_WRITE);
	memset(page, (int)step, PAGE);
	/* The kernel records both pages as one mapping. */
	step_protect(page, PAGE, PROT_READ | PROT_EXEC);
}

static void test_appended(void)
{
	for (unsigned data = 0; data < 2; data++) {
		struct child c;
		struct done a, b;
		struct captured *t;

		if (!child_new(&c, append_steps, data))
			return;
		a = child_act(&c, 'A');
		b = child_act(&c, 'B');
		t = child_capture(&c);
		CHECK_EQ(captured_byte(t, a.addr, a.after), data ? 'A' : 0);
		CHECK_EQ(captured_byte(t, a.addr, b.after), 'A');
		CHECK_EQ(captured_byte(t, b.addr, b.after), 'B');
		captured_free(t);
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
		code = step_map(PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		shared = step_map(PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd);
		alias = step_map(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	}
	memset(code, (int)step, PAGE);
	memset(alias, (int)step, PAGE);
	d->addr = (uint64_t)(uintptr_t)(step & 1 ? code : shared);
}

static void test_open_for_writing(void)
{
	struct child c;
	struct done a, b;
	struct captured *t;

	if (!child_new(&c, open_steps, true))
		return;
	a = child_act(&c, 'A');
	child_scan(&c);
	b = child_act(&c, 'B');
	t = child_capture(&c);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t addr = i ? a.addr : b.addr;

		CHECK_EQ(captured_byte(t, addr, a.before), 0);
		CHECK_EQ(captured_byte(t, addr, a.after), 0);
		CHECK_EQ(captured_byte(t, addr, b.after), 0);
	}
	CHECK(captured_misses(t, "can be written while it runs"));
	captured_free(t);
	child_done(&c);
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
		text = step_map(4 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);
		close(fd);
	}
	d->addr = (uint64_t)(uintptr_t)text;
	if (step == 'T')
		return;
	/* Writes to the second page; the first one is writable at the same time, but unchanged. */
	step_protect(text, 2 * PAGE, PROT_READ | PROT_WRITE | (step == 'W' ? PROT_EXEC : 0));
	d->before = clock_now();
	memset(text + PAGE, (int)step, LINE);
	step_protect(text, 2 * PAGE, PROT_READ | PROT_EXEC);
}

static void test_patched(void)
{
	struct child c;
	struct done a, p, w;
	struct captured *t;
	uint64_t base;

	if (!child_new(&c, patch_steps, true))
		return;
	a = child_act(&c, 'T');
	base = a.addr;
	child_scan(&c);
	p = child_act(&c, 'P');
	child_scan(&c);
	w = child_act(&c, 'W');
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, base + PAGE, a.after), 'T');
	CHECK_EQ(captured_byte(t, base + PAGE, p.after), 'P');
	CHECK_EQ(captured_byte(t, base + PAGE + LINE, p.after), 'T');
	/* While writable and executable, pages are unknown unless they are still those of the file. */
	CHECK_EQ(captured_byte(t, base + PAGE, w.before), 0);
	CHECK_EQ(captured_byte(t, base, w.before), 'T');
	CHECK_EQ(captured_byte(t, base + PAGE, w.after), 'W');
	CHECK_EQ(captured_byte(t, base + PAGE + LINE, w.after), 'T');
	CHECK_EQ(captured_byte(t, base + 2 * PAGE, w.before), 'T');
	captured_free(t);
	child_done(&c);
}

static void owner_steps(unsigned step, struct done *d)
{
	if (step == 'S') {
		/* As after the exec of a set-user-ID program. */
		prctl(PR_SET_DUMPABLE, 0);
		step_jit('S', d);
		return;
	}
	if (step == 'U' &&
	    (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0))
		_exit(1);
	step_jit(step, d);
}

static void test_owner(void)
{
	struct child c;
	struct done a, b;
	struct captured *t;

	if (geteuid() != 0) {
		unit_skip("another owner", "needs root");
		return;
	}
	if (!child_new(&c, owner_steps, true))
		return;
	child_act(&c, 'U');
	c.process = process_free(c.process);
	CHECK_EQ(process_new(&(struct process_of){ c.pid, c.pidfd, getuid() }, true, clock_now(), &c.process), 0);
	a = child_act(&c, 'A');
	child_scan(&c);
	b = child_act(&c, 'S');
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 'A');
	CHECK_EQ(captured_byte(t, a.addr, b.after), 0);
	CHECK(captured_misses(t, "another owner"));
	captured_free(t);
	child_done(&c);
}

static void test_vdso_and_end(void)
{
	struct child c;
	struct captured *t;
	uint8_t bytes[64];
	uint64_t found = 0;
	int status;

	if (!child_new(&c, step_jit, true))
		return;
	kill(c.pid, SIGKILL);
	waitpid(c.pid, &status, 0);
	t = child_capture(&c);
	for (size_t i = 0; i < t->code.n_maps; i++)
		if (strcmp(t->code.maps[i].path, "[vdso]") == 0)
			found = t->code.maps[i].record.addr;
	/* The vDSO is at the address of this process's, since the child is a fork. */
	CHECK(found && image_read(t->images, 1, found, clock_now(), bytes, sizeof(bytes)) == sizeof(bytes) &&
	      memcmp(bytes, (void *)(uintptr_t)found, sizeof(bytes)) == 0);
	captured_free(t);
	CHECK_EQ(process_new(&(struct process_of){ c.pid, c.pidfd, getuid() }, true, clock_now(),
			     &(struct process_code *){ NULL }),
		 -ESRCH);
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
	if (io_write(fd, &r, sizeof(r)) < 0)
		_exit(1);
}

static void dump_steps(unsigned step, struct done *d)
{
	static uint8_t *code;
	static int fd;
	char name[128];

	if (step == 'X') {
		static const uint32_t nonsense[4] = { 0, 3, 0, 0 };

		if (io_write(fd, nonsense, sizeof(nonsense)) < 0)
			_exit(1);
		return;
	}
	if (!code) {
		uint32_t header[10] = { 0x4a695444, 1, 40, 0, 0, 0, 0, 0, 0, 0 };

		snprintf(name, sizeof(name), "%s/jit-%d.dump", work, (int)getpid());
		fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (io_write(fd, header, sizeof(header)) < 0)
			_exit(1);
		step_map(PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);
		if (can_open_deleted())
			unlink(name);
		code = step_map(PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	}
	d->addr = (uint64_t)(uintptr_t)code;
	usleep(2000);
	memset(code, (int)step, LINE);
	dump_record(fd, d->addr, (int)step);
	usleep(2000);
}

/* The jitdump of a program that rewrites its code in place is used. */
static void test_jitdump(void)
{
	struct child c;
	struct done a, b, e;
	struct captured *t;

	if (!child_new(&c, dump_steps, true))
		return;
	a = child_act(&c, 'A');
	b = child_act(&c, 'B');
	child_scan(&c);
	e = child_act(&c, 'C');
	usleep(10000);
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 'A');
	CHECK_EQ(captured_byte(t, a.addr, b.after), 'B');
	CHECK_EQ(captured_byte(t, a.addr + LINE, b.after), 0);
	CHECK_EQ(captured_byte(t, a.addr, e.after), 'C');
	CHECK(t->jitdump.fd >= 0 && t->jitdump.size > 0 && !t->jitdump_broken);
	CHECK(!captured_misses(t, "jitdump"));
	captured_free(t);

	/* After an invalid record, later code is unknown. */
	child_act(&c, 'X');
	usleep(1100000);
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, b.after), 'B');
	CHECK_EQ(captured_byte(t, a.addr, e.after), 0);
	CHECK(t->jitdump_broken);
	captured_free(t);
	child_done(&c);
}

/* With more changes than the limit, the log remains correct and memory bounded. */
static void test_bounds(void)
{
	struct child c;
	struct captured *t;
	struct done a, b = { 0 };
	uint64_t memory;

	if (!child_new(&c, step_jit, true))
		return;
	a = child_act(&c, 'A');
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned k = 0; k < 1000; k++)
			b = child_act(&c, 'a' + k % 20);
		child_scan(&c);
	}
	memory = process_memory(c.process);
	CHECK(memory < 16 << 20);
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 0);
	CHECK_EQ(captured_byte(t, a.addr, b.after), 'a' + 999 % 20);
	CHECK(captured_misses(t, "too often"));
	captured_free(t);
	process_forget(c.process, b.after);
	t = child_capture(&c);
	CHECK(!captured_misses(t, "too often"));
	CHECK_EQ(captured_byte(t, a.addr, b.after), 'a' + 999 % 20);
	captured_free(t);
	child_done(&c);
}

/*
 * A process with as many mappings as the history has records: no older half can be dropped, and each record more used
 * to cost a search of all. What does not fit is unknown, up to the next scan.
 */
static void test_crowded(void)
{
	const uint64_t place = 1ull << 44;
	struct process_map m = { .len = PAGE, .prot = PROT_READ | PROT_EXEC, .flags = MAP_PRIVATE, .path = "//anon" };
	struct captured *t;
	struct done a, b;
	struct child c;
	uint64_t begun;

	if (!child_new(&c, step_jit, true))
		return;
	a = child_act(&c, 'A');
	child_scan(&c);
	begun = now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (unsigned i = 0; i < CROWD; i++) {
		m.time = clock_now();
		m.addr = place + 2 * PAGE * (uint64_t)i;
		process_map(c.process, &m);
	}
	CHECK(now_ns(CLOCK_THREAD_CPUTIME_ID) - begun < crowd_ns);
	b = child_act(&c, 'B');
	child_drain(&c);
	t = child_capture_more(&c, NULL);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 'A');
	CHECK_EQ(captured_byte(t, a.addr, b.after), 0);
	CHECK(captured_misses(t, "more mappings"));
	captured_free(t);
	/* Records of an earlier time were lost, too. */
	process_note_lost_records(c.process, a.before, clock_now());
	t = child_capture_more(&c, NULL);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 0);
	captured_free(t);
	/* The process does not have these mappings, as a scan shows. */
	child_scan(&c);
	process_forget(c.process, clock_now());
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, clock_now()), 'B');
	captured_free(t);
	child_done(&c);
}

/* Code that is mapped after the older half of the history was dropped is not that of earlier times. */
static void test_cut(void)
{
	struct process_map m = { .len = PAGE, .flags = MAP_PRIVATE, .path = "//anon" };
	struct captured *t;
	struct done a, b;
	struct child c;

	if (!child_new(&c, step_jit, true))
		return;
	a = child_act(&c, 'A');
	child_scan(&c);
	for (unsigned i = 0; i < CROWD; i++) {
		m.time = clock_now();
		m.addr = i ? 1ull << 44 : a.addr;
		m.prot = PROT_READ | (i ? PROT_EXEC : 0);
		process_map(c.process, &m);
	}
	b = child_act(&c, 'B');
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 0);
	CHECK_EQ(captured_byte(t, a.addr, b.after), 'B');
	CHECK(captured_misses(t, "changed too often"));
	captured_free(t);
	child_done(&c);
}

/* Mappings of so many parts, replaced so often, that following them takes too long: then the past is unknown. */
static void test_parts(void)
{
	struct process_map m = { .prot = PROT_READ | PROT_EXEC, .flags = MAP_PRIVATE, .path = "//anon" };
	struct captured *t;
	struct done a, b;
	struct child c;

	if (!child_new(&c, step_jit, true))
		return;
	a = child_act(&c, 'A');
	child_scan(&c);
	for (unsigned i = 0; i < 2 * PARTS; i++) {
		m.time = clock_now();
		m.addr = (1ull << 44) + (i < PARTS ? 2 * PAGE * (uint64_t)i : 0);
		m.len = i < PARTS ? PAGE : 2ull * PAGE * PARTS;
		process_map(c.process, &m);
	}
	t = child_capture_more(&c, NULL);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 0);
	CHECK(captured_misses(t, "changed too often"));
	captured_free(t);
	b = child_act(&c, 'B');
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 0);
	CHECK_EQ(captured_byte(t, a.addr, clock_now()), 'B');
	CHECK(b.addr == a.addr);
	captured_free(t);
	child_done(&c);
}

static void test_lost(void)
{
	struct child c;
	struct done a, b;
	struct captured *t;

	if (!child_new(&c, step_jit, true))
		return;
	a = child_act(&c, 'A');
	child_scan(&c);
	b = child_act(&c, 'B');
	c.ring->data_tail = c.ring->data_head; /* the records of B are lost */
	process_note_lost_records(c.process, b.before, clock_now());
	t = child_capture(&c);
	CHECK_EQ(captured_byte(t, a.addr, a.after), 'A');
	CHECK_EQ(captured_byte(t, a.addr, b.after), 0);
	CHECK_EQ(captured_byte(t, a.addr, clock_now()), 'B');
	CHECK(captured_misses(t, "were lost"));
	captured_free(t);
	child_done(&c);
}

int main(int argc, char **argv)
{
	char command[128];

	if (argc > 1 && strcmp(argv[1], "--sleep") == 0) {
		/* The exec closed the pipes. */
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
	test_crowded();
	test_cut();
	test_parts();
	test_lost();
	test_held();
	snprintf(command, sizeof(command), "rm -rf %s", work);
	return system(command) || unit_end();
}
