/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/decode/jitdump.h"
#include "lib/base/io.h"
#include "tests/capture/process-child.h"

enum { RING_PAGES = 256 };

char work[] = "/tmp/csight-test-process-XXXXXX";

uint64_t clock_now(void)
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

bool child_new(struct child *c, step_fn *steps, bool data)
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
	return CHECK_EQ(process_new(&(struct process_of){ c->pid, c->pidfd, getuid() }, data, clock_now(), &c->process),
			0);
}

struct done child_act(struct child *c, unsigned step)
{
	uint8_t byte = (uint8_t)step;
	struct done d = { 0 };

	if (write(c->to, &byte, 1) != 1 || io_read(c->from, &d, sizeof(d)) != sizeof(d))
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

void child_drain(struct child *c)
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

static bool scan_once(struct child *c)
{
	uint64_t now = clock_now();

	child_drain(c);
	return process_scan(&c->process, now);
}

void child_scan(struct child *c)
{
	if (scan_once(c)) {
		uint64_t now = clock_now();

		child_drain(c);
		process_scan_limited(&c->process, now);
	}
}

void child_done(struct child *c)
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

static int take_file(struct captured *t, uint32_t id)
{
	for (size_t i = 0; i < t->n_files; i++)
		if (id && t->files[i].id == id)
			return fcntl(t->files[i].fd, F_DUPFD_CLOEXEC, 0);
	return -1;
}

static void read_jitdump(struct captured *t)
{
	_cleanup_(jitdump_done) struct jitdump j = { 0 };

	if (t->jitdump.fd < 0)
		return;
	CHECK_EQ(jitdump_read(t->jitdump.fd, t->jitdump.shift, &j), 0);
	CHECK_EQ(jitdump_add(&j, t->jitdump.fd, t->images, 1), 0);
	t->jitdump_broken = j.broken;
}

static void read_captured(struct captured *t)
{
	CHECK_EQ(code_log_read(t->log.data, t->log.size, &t->code), 0);
	CHECK(!t->code.broken);
	t->blob = memfd_create("blob", MFD_CLOEXEC);
	CHECK_EQ(code_log_write_bytes(t->log.data, t->log.size, t->blob), 0);
	CHECK_EQ(image_set_new(&t->images), 0);
	for (size_t i = 0; i < t->code.n_maps; i++) {
		const struct code_map *m = &t->code.maps[i];
		uint32_t file = strcmp(m->path, "//unknown") == 0 ? IMAGE_UNKNOWN : IMAGE_NONE;

		if (m->image != UINT32_MAX) {
			image_file_add(t->images, m->path, NULL, 0, m->record.inode, &file);
			image_file_attach(t->images, file, take_file(t, m->record.file), NULL);
		}
		image_map(t->images, 1,
			  &(struct image_mapping){ m->record.addr, m->record.len, m->record.offset,
						   m->record.head.time_ns, file });
	}
	CHECK_EQ(image_add_code(t->images, 1, t->blob), 0);
	read_jitdump(t);
	CHECK_EQ(image_seal(t->images), 0);
}

struct captured *child_capture_more(struct child *c, struct captured *before)
{
	struct captured *t = calloc(1, sizeof(*t));
	struct capture_file *files;
	size_t n;

	child_drain(c);
	CHECK_EQ(process_write_log(c->process, &t->log, &t->missing, &files, &n), 0);
	CHECK_EQ(process_copy_jitdump(c->process, &t->jitdump), 0);
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
	read_captured(t);
	return t;
}

struct captured *child_capture(struct child *c)
{
	child_scan(c);
	return child_capture_more(c, NULL);
}

void captured_free(struct captured *t)
{
	for (size_t i = 0; i < t->n_files; i++)
		closep(&t->files[i].fd);
	free(t->files);
	image_set_free(t->images);
	code_log_done(&t->code);
	buf_done(&t->log);
	buf_done(&t->missing);
	closep(&t->blob);
	closep(&t->jitdump.fd);
	free(t);
}

int captured_byte(const struct captured *t, uint64_t addr, uint64_t time)
{
	uint8_t bytes[16];

	if (image_read(t->images, 1, addr, time, bytes, sizeof(bytes)) != sizeof(bytes))
		return 0;
	for (size_t i = 1; i < sizeof(bytes); i++)
		if (bytes[i] != bytes[0])
			return -1;
	return bytes[0];
}

bool captured_misses(const struct captured *t, const char *word)
{
	return t->missing.size && memmem(t->missing.data, t->missing.size, word, strlen(word));
}

void step_protect(void *p, size_t size, int prot)
{
	if (mprotect(p, size, prot) < 0)
		_exit(1);
}

void *step_map(size_t size, int prot, int flags, int fd)
{
	void *p = mmap(NULL, size, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		_exit(1);
	return p;
}

void step_jit(unsigned step, struct done *d)
{
	static uint8_t *code;

	if (!code)
		code = step_map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	d->addr = (uint64_t)(uintptr_t)code;
	step_protect(code, PAGE, PROT_READ | PROT_WRITE);
	memset(code, (int)step, PAGE);
	step_protect(code, PAGE, PROT_READ | PROT_EXEC);
}

void make_file(const char *name, int fill)
{
	uint8_t bytes[4 * PAGE];
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	memset(bytes, fill, sizeof(bytes));
	if (fd < 0 || io_write(fd, bytes, sizeof(bytes)) < 0)
		_exit(1);
	close(fd);
}

bool can_open_deleted(void)
{
	return geteuid() == 0;
}
