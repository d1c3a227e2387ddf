/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "daemon/capture/perf/perf-event.h"
#include "daemon/capture/process/address-space.h"
#include "daemon/capture/process/proc-file.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum { CAP_PERFMON_BIT = 38, CAP_SYS_ADMIN_BIT = 21, CAP_IPC_LOCK_BIT = 14 };
enum { CLOCK_READINGS = 8 /* number of readings of the two clocks */ };

struct perf_event_attr perf_event_default_attr(uint32_t type, const uint64_t words[5])
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = words[0],
		.config1 = words[1],
		.config2 = words[2],
		.sample_period = 1,
		/* No event samples the address, but perf's own reader requires this field. */
		.sample_type =
		    PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
		.read_format = PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled = 1,
		.exclude_hv = 1,
		.exclude_guest = 1,
		.sample_id_all = 1,
	};

	return attr;
}

static int open_in_group(const struct perf_event_attr *attr, pid_t pid, int cpu, int leader, int *ret_fd)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, leader, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int perf_event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int *ret_fd)
{
	return open_in_group(attr, pid, cpu, -1, ret_fd);
}

void perf_event_set_action(struct perf_event_attr *attr, enum perf_event_action action)
{
	uint32_t bit = action;

	/* The field behind this one, which headers before Linux 6.13 reserve. */
	memcpy((char *)attr + offsetof(struct perf_event_attr, aux_sample_size) + sizeof(attr->aux_sample_size), &bit,
	       sizeof(bit));
}

struct event_opening {
	struct perf_event_attr attr;
	pid_t tid;
	int cpu, leader, fd, rc;
};

static void run_opening(void *data)
{
	struct event_opening *o = data;

	o->rc = open_in_group(&o->attr, o->tid, o->cpu, o->leader, &o->fd);
}

static void drop_opening(void *data)
{
	struct event_opening *o = data;

	closep(&o->leader);
	closep(&o->fd);
	free(o);
}

int perf_event_open_thread(struct address_space_of of, const struct perf_event_attr *attr, struct perf_event_place at,
			   int *ret_fd)
{
	struct event_opening *o = malloc(sizeof(*o));
	int rc;

	if (!o)
		return -ENOMEM;
	*o = (struct event_opening){ *attr, (pid_t)at.tid, at.cpu, -1, -1, 0 };
	if (at.group > 0)
		o->leader = fcntl(at.group, F_DUPFD_CLOEXEC, 0);
	if (at.group > 0 && o->leader < 0) {
		rc = -errno;
		drop_opening(o);
		return rc;
	}
	rc = address_space_call(of, &(struct address_space_call){ run_opening, drop_opening, o });
	if (rc == -ETIMEDOUT)
		return rc;
	if (rc == 0 && o->rc == 0)
		*ret_fd = TAKE_FD(o->fd);
	/* EBUSY has another meaning here. */
	rc = rc == 0 ? o->rc : rc == -EBUSY ? -ETIMEDOUT : rc;
	drop_opening(o);
	return rc;
}

int perf_event_tracepoint(const char *name, uint64_t *ret, struct reason *why)
{
	static const char *const roots[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	long long id = -1;
	char path[128];

	for (size_t i = 0; i < ELEMENTS(roots) && id <= 0; i++) {
		snprintf(path, sizeof(path), "%s/events/%s/id", roots[i], name);
		id = proc_file_number(path);
	}
	if (id <= 0)
		return reason_set(why, -EOPNOTSUPP,
				  "the number of the kernel's tracepoint %s cannot be read: /sys/kernel/tracing is not "
				  "mounted, or csightd may not read it",
				  name);
	*ret = (uint64_t)id;
	return 0;
}

static void *close_all(void *data)
{
	int *fds = data;

	for (int *fd = fds; *fd >= 0; fd++)
		close(*fd);
	free(fds);
	return NULL;
}

void perf_event_close_apart(int *fds)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, close_all, fds) == 0)
		pthread_detach(thread);
	else
		free(fds);
}

int perf_event_control(int fd, unsigned long what, unsigned long argument)
{
	return ioctl(fd, what, argument) < 0 ? -errno : 0;
}

uint64_t perf_event_time_enabled(int fd)
{
	struct {
		uint64_t value, enabled, running, id;
	} values;

	return read(fd, &values, sizeof(values)) == sizeof(values) ? values.enabled : 0;
}

static int map_ring(int fd, size_t data_size, size_t aux_size, int aux_protection, struct perf_ring *ret)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), all = page + data_size;
	struct perf_ring r = { .data_size = data_size };
	void *map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	r.page = map;
	r.position = r.page->data_tail;
	r.data = (const uint8_t *)map + page;
	if (aux_size) {
		r.page->aux_offset = all;
		r.page->aux_size = aux_size;
		/* One mapped read-only is overwritten circularly, without a reader; else the kernel waits for one. */
		map = mmap(NULL, aux_size, aux_protection, MAP_SHARED, fd, (off_t)all);
		if (map == MAP_FAILED) {
			int rc = -errno;

			perf_ring_unmap(&r);
			return rc;
		}
		r.aux = map;
		r.aux_size = aux_size;
	}
	*ret = r;
	return 0;
}

int perf_ring_map(int fd, size_t data_size, size_t aux_size, struct perf_ring *ret)
{
	return map_ring(fd, data_size, aux_size, PROT_READ, ret);
}

int perf_ring_map_fill(int fd, size_t data_size, size_t aux_size, struct perf_ring *ret)
{
	return map_ring(fd, data_size, aux_size, PROT_READ | PROT_WRITE, ret);
}

int perf_ring_map_backward(int fd, size_t data_size, struct perf_ring *ret)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *map = mmap(NULL, page + data_size, PROT_READ, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	*ret = (struct perf_ring){ .page = map, .data = (const uint8_t *)map + page, .data_size = data_size };
	return 0;
}

void perf_ring_unmap(struct perf_ring *r)
{
	if (r->aux)
		munmap((void *)r->aux, r->aux_size);
	if (r->page)
		munmap(r->page, (size_t)sysconf(_SC_PAGESIZE) + r->data_size);
	*r = (struct perf_ring){ 0 };
}

int perf_record_parse(const void *data, size_t size, struct perf_record *ret)
{
	struct reader all = reader_of(data, size), id;
	struct perf_record r = { 0 };
	const uint8_t *bytes;
	uint16_t total;

	if (rd_u32(&all, &r.type) < 0 || rd_u16(&all, &r.misc) < 0 || rd_u16(&all, &total) < 0)
		return -EBADMSG;
	if (total < sizeof(struct perf_event_header) + PERF_RECORD_ID_SIZE || total % 8 || total > size)
		return -EBADMSG;
	r.size = total - sizeof(struct perf_event_header) - PERF_RECORD_ID_SIZE;
	if (rd_bytes(&all, r.size, &r.body) < 0 || rd_bytes(&all, PERF_RECORD_ID_SIZE, &bytes) < 0)
		return -EBADMSG;
	id = reader_of(bytes, PERF_RECORD_ID_SIZE);
	rd_u32(&id, &r.origin.pid);
	rd_u32(&id, &r.origin.tid);
	rd_u64(&id, &r.origin.time);
	rd_u32(&id, &r.origin.cpu);
	*ret = r;
	return total;
}

uint64_t perf_record_lost(const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	uint64_t id, lost = 0;

	if (r->type == PERF_RECORD_LOST && rd_u64(&body, &id) == 0)
		rd_u64(&body, &lost);
	return lost;
}

uint32_t perf_record_pid(const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	uint32_t pid = 0;

	switch (r->type) {
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
	case PERF_RECORD_COMM:
	case PERF_RECORD_MMAP2:
		rd_u32(&body, &pid);
		return pid;
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return r->origin.pid;
	default:
		return 0;
	}
}

uint64_t perf_ring_filled(const struct perf_ring *r)
{
	uint64_t filled = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE) - r->page->data_tail;

	return MIN(filled, r->data_size);
}

int perf_ring_read(struct perf_ring *r, struct buf *b)
{
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE), from = r->position;
	size_t size = (size_t)(head - from), at = from & (r->data_size - 1), first = MIN(size, r->data_size - at);
	int rc = 0;

	if (head - from > r->data_size) {
		rc = -EBADMSG;
	} else {
		buf_add(b, r->data + at, first);
		buf_add(b, r->data, size - first);
		rc = buf_error(b);
	}
	r->position = head;
	return rc;
}

/* The kernel writes from the end of the ring to its beginning: data_head falls. The oldest record may be cut. */
int perf_ring_read_newest(const struct perf_ring *r, uint64_t *head, struct buf *b)
{
	uint64_t now = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	size_t size = (size_t)MIN(*head - now, (uint64_t)r->data_size), at = now & (r->data_size - 1),
	       first = MIN(size, r->data_size - at);

	*head = now;
	buf_add(b, r->data + at, first);
	buf_add(b, r->data, size - first);
	return buf_error(b);
}

void perf_ring_release(struct perf_ring *r)
{
	__atomic_store_n(&r->page->data_tail, r->position, __ATOMIC_RELEASE);
}

uint64_t perf_ring_aux_head(const struct perf_ring *r)
{
	return r->page ? __atomic_load_n(&r->page->aux_head, __ATOMIC_ACQUIRE) : 0;
}

struct pd_clock perf_ring_clock(const struct perf_ring *r)
{
	const volatile struct perf_event_mmap_page *p = r->page;
	struct pd_clock c = { 0 };
	uint32_t seq;

	if (!p)
		return c;
	do {
		seq = __atomic_load_n(&p->lock, __ATOMIC_ACQUIRE);
		c = (struct pd_clock){
			.known = p->cap_user_time_zero,
			.shift = p->time_shift,
			.mult = p->time_mult,
			.zero = p->time_zero,
		};
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while ((seq & 1) || p->lock != seq);
	return c;
}

#ifdef __aarch64__
/* The counter behind the kernel's clock, read after all preceding instructions. */
static uint64_t read_counter(void)
{
	uint64_t v;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(v)::"memory");
	return v;
}

bool perf_ring_shift(const struct perf_ring *r, int64_t *ret)
{
	struct pd_clock clock = perf_ring_clock(r);
	uint64_t least = UINT64_MAX;

	/* This thread may be interrupted between two readings; the pair with the smallest difference counts. */
	for (unsigned i = 0; i < CLOCK_READINGS && clock.known; i++) {
		uint64_t begun = now_ns(CLOCK_MONOTONIC), counter = read_counter();
		uint64_t took = now_ns(CLOCK_MONOTONIC) - begun;

		if (took < least) {
			*ret = (int64_t)(pd_clock_time(&clock, counter) - (begun + took / 2));
			least = took;
		}
	}
	return clock.known;
}
#else
bool perf_ring_shift(const struct perf_ring *r, int64_t *ret)
{
	return false;
}
#endif

static bool capable(unsigned bit)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	return syscall(SYS_capget, &header, data) == 0 && (data[bit / 32].effective >> bit % 32 & 1);
}

static int explain_access(struct reason *why, int rc, const char *what)
{
	long long paranoid = proc_file_number("/proc/sys/kernel/perf_event_paranoid");

	if (!capable(CAP_SYS_ADMIN_BIT) && paranoid > 2)
		return reason_set(why, rc,
				  "%s was refused: kernel.perf_event_paranoid is %lld, which requires CAP_SYS_ADMIN; "
				  "set it to 2 (sysctl kernel.perf_event_paranoid=2) so that CAP_PERFMON suffices, or "
				  "grant csightd.service CAP_SYS_ADMIN",
				  what, paranoid);
	if (!capable(CAP_SYS_ADMIN_BIT) && !capable(CAP_PERFMON_BIT))
		return reason_set(why, rc,
				  "%s was refused: csightd has no CAP_PERFMON (kernel.perf_event_paranoid is %lld); "
				  "grant it to csightd.service by CapabilityBoundingSet=",
				  what, paranoid);
	return reason_set(why, rc,
			  "%s was refused although csightd has %s (kernel.perf_event_paranoid is %lld): a security "
			  "module or a container's seccomp filter forbids it",
			  what, capable(CAP_SYS_ADMIN_BIT) ? "CAP_SYS_ADMIN" : "CAP_PERFMON", paranoid);
}

int perf_event_explain(struct reason *why, int rc, const char *what, uint64_t locked_bytes)
{
	struct rlimit limit = { 0 };

	switch (-rc) {
	case EACCES:
		return explain_access(why, rc, what);
	case EPERM:
		if (!locked_bytes || capable(CAP_IPC_LOCK_BIT))
			return explain_access(why, rc, what);
		getrlimit(RLIMIT_MEMLOCK, &limit);
		return reason_set(why, rc,
				  "%s was refused: it locks %llu KiB of memory; the limit is %llu KiB (RLIMIT_MEMLOCK) "
				  "plus %lld KiB per CPU for all users (kernel.perf_event_mlock_kb); grant "
				  "csightd.service CAP_IPC_LOCK or a larger LimitMEMLOCK=, or reduce ring-size",
				  what, (unsigned long long)locked_bytes >> 10,
				  (unsigned long long)limit.rlim_cur >> 10,
				  proc_file_number("/proc/sys/kernel/perf_event_mlock_kb"));
	case EMFILE:
		getrlimit(RLIMIT_NOFILE, &limit);
		return reason_set(why, rc, "%s exceeds the limit of descriptors of csightd: %llu (LimitNOFILE=)", what,
				  (unsigned long long)limit.rlim_cur);
	case EBUSY:
		return reason_set(why, rc,
				  "%s: another session uses cs_etm for the same thread or CPU; the kernel admits one "
				  "at a time, and does not report which",
				  what);
	case ENOMEM:
		return reason_set(
		    why, rc,
		    "%s: no path leads from the trace unit to the sink, or %llu KiB of memory are not available", what,
		    (unsigned long long)locked_bytes >> 10);
	default:
		return reason_set(why, rc, "%s: %s", what, address_space_strerror(rc));
	}
}
