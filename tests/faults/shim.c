/* SPDX-License-Identifier: MIT */
/*
 * LD_PRELOAD: numbers the sites from which a program calls the allocator and the kernel, and makes one of them fail, or
 * kills the process there. Also moves the clock, and delays the disk. control.h has the interface.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include "tests/faults/control.h"

/* The calls, by the number that control.h's call is; sweep.py has their names and errors in the same order. */
enum call {
	MALLOC,
	OPEN,
	READ,
	WRITE,
	SEND,
	RECEIVE,
	FORK,
	THREAD,
	MMAP,
	SYNC,
	RENAME,
	EXTEND,
	DESCRIPTOR,
	DIRECTORY,
};

enum { MODULES_MAX = 64, OWN_FRAMES = 3 };

struct module {
	uintptr_t from, to, base;
	uint64_t mark;
	bool own, shim;
};

struct stack {
	uint64_t frames[FRAMES_MAX];
	unsigned n, own;
};

static struct fault_control *control;
static enum fault_program program;
static struct module modules[MODULES_MAX];
static size_t n_modules;
static char path_of_control[256], path_of_shim[256];
static __thread bool inside __attribute__((tls_model("initial-exec")));

static int add_module(struct dl_phdr_info *info, size_t size, void *data)
{
	const char *name = info->dlpi_name;
	struct module *m = &modules[n_modules];

	(void)size;
	if (n_modules == MODULES_MAX)
		return 1;
	*m = (struct module){ .from = UINTPTR_MAX, .base = info->dlpi_addr };
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		m->from = at < m->from ? at : m->from;
		m->to = at + info->dlpi_phdr[i].p_memsz > m->to ? at + info->dlpi_phdr[i].p_memsz : m->to;
	}
	m->own = !*name || strstr(name, "libcsight");
	m->mark = !*name ? 1ull << 63 : m->own ? 3ull << 62 : (uint64_t)n_modules << 48;
	m->shim = (uintptr_t)data >= m->from && (uintptr_t)data < m->to;
	if (m->shim)
		snprintf(path_of_shim, sizeof(path_of_shim), "%s", name);
	n_modules++;
	return 0;
}

static enum fault_program identify(void)
{
	static const char *const names[] = { "csightd", "csight-decode", "csight", "library" };
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	const char *name;

	if (n <= 0)
		return PROGRAM_OTHER;
	path[n] = 0;
	name = strrchr(path, '/') + 1;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(name, names[i]) == 0)
			return (enum fault_program)(i + 1);
	return PROGRAM_OTHER;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("CSIGHT_FAULTS");
	void *at;
	int fd;

	program = identify();
	if (!path || program == PROGRAM_OTHER)
		return;
	inside = true;
	snprintf(path_of_control, sizeof(path_of_control), "%s", path);
	dl_iterate_phdr(add_module, (void *)(uintptr_t)start);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at != MAP_FAILED)
		control = at;
	inside = false;
}

static const struct module *find_module(uintptr_t at)
{
	for (size_t i = 0; i < n_modules; i++)
		if (at >= modules[i].from && at < modules[i].to)
			return &modules[i];
	return NULL;
}

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *data)
{
	struct stack *s = data;
	int interrupted;
	uintptr_t at = _Unwind_GetIPInfo(context, &interrupted);
	const struct module *m = find_module(at);

	/* The handler of a signal has no caller: what it interrupts differs from run to run. */
	if (interrupted)
		return _URC_END_OF_STACK;
	if (m && m->shim)
		return _URC_NO_REASON;
	s->frames[s->n++] = m ? at - m->base + m->mark : 0;
	s->own += m && m->own;
	return s->n == FRAMES_MAX || s->own == OWN_FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static void record(uint64_t id, enum call call, const struct stack *s)
{
	uint32_t n = atomic_load((_Atomic uint32_t *)&control->n_sites), at = 0;
	struct fault_site *site;

	for (;;) {
		for (; at < n; at++)
			if (control->sites[at].id == id && control->sites[at].program == program) {
				atomic_fetch_add((_Atomic uint32_t *)&control->sites[at].hits, 1);
				return;
			}
		if (n == SITES_MAX)
			return;
		/* Two threads may add the same site; sweep.py joins them. */
		if (atomic_compare_exchange_strong((_Atomic uint32_t *)&control->n_sites, &n, n + 1))
			break;
	}
	site = &control->sites[n];
	site->program = program;
	site->call = call;
	site->n_frames = s->n;
	memcpy(site->frames, s->frames, sizeof(s->frames));
	site->hits = 1;
	site->id = id;
}

/* True if this call is to fail. Sets errno; an errno of 0 means that less than all is to be read or written. */
static bool fails(enum call call)
{
	struct stack s = { .n = 0 };
	uint64_t id = 14695981039346656037ull ^ call;
	uint32_t mode;

	if (!control || inside)
		return false;
	mode = atomic_load((_Atomic uint32_t *)&control->mode);
	if (mode == FAULT_OFF || (control->program && control->program != program) ||
	    (mode != FAULT_RECORD && control->call != call))
		return false;
	inside = true;
	_Unwind_Backtrace(add_frame, &s);
	inside = false;
	/* What a library does on its own behalf, before main(), in its threads or on a signal, is not csight's. */
	if (!s.own)
		return false;
	for (unsigned i = 0; i < s.n; i++)
		id = (id ^ s.frames[i]) * 1099511628211ull, id ^= id >> 29;
	if (mode == FAULT_RECORD) {
		record(id, call, &s);
		return false;
	}
	if (id != control->id ||
	    atomic_fetch_add((_Atomic uint32_t *)&control->hits, 1) >= atomic_load((_Atomic uint32_t *)&control->times))
		return false;
	if (mode == FAULT_KILL)
		kill((pid_t)syscall(SYS_getpid), SIGKILL);
	errno = (int)control->error;
	return true;
}

static void delay(int fd)
{
	struct stat st;
	uint32_t us = control ? atomic_load((_Atomic uint32_t *)&control->delay_us) : 0;

	/* csight-decode must not sleep in its cage. */
	if (us && !inside && program == PROGRAM_DAEMON &&
	    (fd < 0 || (syscall(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode))))
		syscall(SYS_nanosleep, &(struct timespec){ us / 1000000, (long)(us % 1000000) * 1000 }, NULL);
}

/* Defines find_NAME(), which returns the function that the shim's NAME() replaces. */
#define NEXT(type, name, ...)                                                            \
	static type (*find_##name(void))(__VA_ARGS__)                                    \
	{                                                                                \
		static type (*next)(__VA_ARGS__);                                        \
		bool was = inside;                                                       \
                                                                                         \
		inside = true;                                                           \
		if (!next)                                                               \
			next = (type(*)(__VA_ARGS__))(uintptr_t)dlsym(RTLD_NEXT, #name); \
		inside = was;                                                            \
		return next;                                                             \
	}

/* A replacement that does no more than fail. */
#define REPLACE(type, name, call, failure, parameters, ...) \
	NEXT(type, name, EXPAND parameters)                 \
	type name(EXPAND parameters);                       \
	type name(EXPAND parameters)                        \
	{                                                   \
		if (fails(call))                            \
			return failure;                     \
		return find_##name()(__VA_ARGS__);          \
	}
#define EXPAND(...) __VA_ARGS__

NEXT(void *, malloc, size_t)
NEXT(void *, calloc, size_t, size_t)
NEXT(void *, realloc, void *, size_t)

void *malloc(size_t size)
{
	return fails(MALLOC) ? NULL : find_malloc()(size);
}

void *calloc(size_t n, size_t size)
{
	return fails(MALLOC) ? NULL : find_calloc()(n, size);
}

void *realloc(void *p, size_t size)
{
	return fails(MALLOC) ? NULL : find_realloc()(p, size);
}

REPLACE(void *, reallocarray, MALLOC, NULL, (void *p, size_t n, size_t size), p, n, size)
REPLACE(void *, aligned_alloc, MALLOC, NULL, (size_t align, size_t size), align, size)
REPLACE(int, posix_memalign, MALLOC, ENOMEM, (void **ret, size_t align, size_t size), ret, align, size)

REPLACE(void *, mmap, MMAP, MAP_FAILED, (void *at, size_t size, int prot, int flags, int fd, off_t from), at, size,
	prot, flags, fd, from)
REPLACE(void *, mmap64, MMAP, MAP_FAILED, (void *at, size_t size, int prot, int flags, int fd, off_t from), at, size,
	prot, flags, fd, from)

/* open(), with the mode that its variable argument has. */
#define REPLACE_OPEN(name, parameters, flags, ...)              \
	NEXT(int, name, EXPAND parameters, int, ...)            \
	int name(EXPAND parameters, int flags, ...)             \
	{                                                       \
		mode_t mode = 0;                                \
		va_list args;                                   \
                                                                \
		va_start(args, flags);                          \
		if (flags & (O_CREAT | __O_TMPFILE))            \
			mode = va_arg(args, mode_t);            \
		va_end(args);                                   \
		if (fails(OPEN))                                \
			return -1;                              \
		delay(-1);                                      \
		return find_##name()(__VA_ARGS__, flags, mode); \
	}
REPLACE_OPEN(open, (const char *path), flags, path)
REPLACE_OPEN(open64, (const char *path), flags, path)
REPLACE_OPEN(openat, (int dir, const char *path), flags, dir, path)
REPLACE_OPEN(openat64, (int dir, const char *path), flags, dir, path)
REPLACE(FILE *, fopen, OPEN, NULL, (const char *path, const char *mode), path, mode)
REPLACE(FILE *, fopen64, OPEN, NULL, (const char *path, const char *mode), path, mode)

/* A function that moves bytes: fails, or moves one byte of many. */
#define REPLACE_IO(name, call, parameters, size, fd, ...) \
	NEXT(ssize_t, name, EXPAND parameters)            \
	ssize_t name(EXPAND parameters)                   \
	{                                                 \
		if (fails(call)) {                        \
			if (errno)                        \
				return -1;                \
			size = size > 1 ? 1 : size;       \
		}                                         \
		if (call == WRITE)                        \
			delay(fd);                        \
		return find_##name()(__VA_ARGS__);        \
	}
REPLACE_IO(read, READ, (int fd, void *p, size_t size), size, fd, fd, p, size)
REPLACE_IO(pread, READ, (int fd, void *p, size_t size, off_t at), size, fd, fd, p, size, at)
REPLACE_IO(pread64, READ, (int fd, void *p, size_t size, off_t at), size, fd, fd, p, size, at)
REPLACE_IO(write, WRITE, (int fd, const void *p, size_t size), size, fd, fd, p, size)
REPLACE_IO(pwrite, WRITE, (int fd, const void *p, size_t size, off_t at), size, fd, fd, p, size, at)
REPLACE_IO(pwrite64, WRITE, (int fd, const void *p, size_t size, off_t at), size, fd, fd, p, size, at)
REPLACE_IO(sendfile, WRITE, (int fd, int from, off_t *at, size_t size), size, fd, fd, from, at, size)
REPLACE_IO(sendfile64, WRITE, (int fd, int from, off_t *at, size_t size), size, fd, fd, from, at, size)
REPLACE(ssize_t, readv, READ, -1, (int fd, const struct iovec *v, int n), fd, v, n)
NEXT(ssize_t, preadv2, int fd, const struct iovec *v, int n, off_t at, int flags)
ssize_t preadv2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
	struct iovec one = { v->iov_base, 1 };

	if (!fails(READ))
		return find_preadv2()(fd, v, n, at, flags);
	return errno ? -1 : find_preadv2()(fd, &one, 1, at, flags);
}
REPLACE(ssize_t, writev, WRITE, -1, (int fd, const struct iovec *v, int n), fd, v, n)
REPLACE_IO(send, SEND, (int fd, const void *p, size_t size, int flags), size, fd, fd, p, size, flags)
REPLACE_IO(recv, RECEIVE, (int fd, void *p, size_t size, int flags), size, fd, fd, p, size, flags)
/* Messages stay whole: most sockets here keep their boundaries. */
REPLACE(ssize_t, sendto, SEND, -1,
	(int fd, const void *p, size_t size, int flags, const struct sockaddr *to, socklen_t n), fd, p, size, flags, to,
	n)
REPLACE(ssize_t, recvfrom, RECEIVE, -1, (int fd, void *p, size_t size, int flags, struct sockaddr *from, socklen_t *n),
	fd, p, size, flags, from, n)
REPLACE(ssize_t, sendmsg, SEND, -1, (int fd, const struct msghdr *m, int flags), fd, m, flags)
REPLACE(ssize_t, recvmsg, RECEIVE, -1, (int fd, struct msghdr *m, int flags), fd, m, flags)

REPLACE(pid_t, fork, FORK, -1, (void), )
REPLACE(int, pthread_create, THREAD, EAGAIN, (pthread_t * t, const pthread_attr_t *a, void *(*run)(void *), void *data),
	t, a, run, data)

NEXT(int, fsync, int)
NEXT(int, fdatasync, int)

int fsync(int fd)
{
	delay(fd);
	return fails(SYNC) ? -1 : find_fsync()(fd);
}

int fdatasync(int fd)
{
	delay(fd);
	return fails(SYNC) ? -1 : find_fdatasync()(fd);
}

REPLACE(int, rename, RENAME, -1, (const char *from, const char *to), from, to)
REPLACE(int, renameat, RENAME, -1, (int a, const char *from, int b, const char *to), a, from, b, to)
REPLACE(int, linkat, RENAME, -1, (int a, const char *from, int b, const char *to, int flags), a, from, b, to, flags)
REPLACE(int, ftruncate, EXTEND, -1, (int fd, off_t size), fd, size)
REPLACE(int, ftruncate64, EXTEND, -1, (int fd, off_t size), fd, size)
REPLACE(int, fallocate, EXTEND, -1, (int fd, int mode, off_t at, off_t size), fd, mode, at, size)
REPLACE(int, fallocate64, EXTEND, -1, (int fd, int mode, off_t at, off_t size), fd, mode, at, size)

REPLACE(int, socket, DESCRIPTOR, -1, (int family, int type, int protocol), family, type, protocol)
REPLACE(int, socketpair, DESCRIPTOR, -1, (int family, int type, int protocol, int ret[2]), family, type, protocol, ret)
REPLACE(int, pipe2, DESCRIPTOR, -1, (int ret[2], int flags), ret, flags)
REPLACE(int, accept4, DESCRIPTOR, -1, (int fd, struct sockaddr *from, socklen_t *n, int flags), fd, from, n, flags)
REPLACE(int, eventfd, DESCRIPTOR, -1, (unsigned value, int flags), value, flags)
REPLACE(int, signalfd, DESCRIPTOR, -1, (int fd, const sigset_t *set, int flags), fd, set, flags)
REPLACE(int, memfd_create, DESCRIPTOR, -1, (const char *name, unsigned flags), name, flags)
REPLACE(int, dup, DESCRIPTOR, -1, (int fd), fd)

REPLACE(int, mkdirat, DIRECTORY, -1, (int dir, const char *path, mode_t mode), dir, path, mode)
REPLACE(int, mkdir, DIRECTORY, -1, (const char *path, mode_t mode), path, mode)
REPLACE(DIR *, opendir, OPEN, NULL, (const char *path), path)
REPLACE(DIR *, fdopendir, OPEN, NULL, (int fd), fd)

NEXT(int, clock_gettime, clockid_t, struct timespec *)

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int rc = find_clock_gettime()(clock, ret);

	if (rc == 0 && control && clock == CLOCK_REALTIME)
		ret->tv_sec += atomic_load((_Atomic int64_t *)&control->clock_ns) / 1000000000;
	return rc;
}

NEXT(long, syscall, long, ...)

/* System calls without a function in the C library. csight-decode starts with an environment of its own. */
long syscall(long number, ...)
{
	static char preload[512], faults[512];
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (control && number == SYS_execveat) {
		const char *const *was = (const char *const *)a[3];
		const char *environment[16];
		size_t n = 0;

		while (was[n] && n < 13)
			environment[n] = was[n], n++;
		snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", path_of_shim);
		snprintf(faults, sizeof(faults), "CSIGHT_FAULTS=%s", path_of_control);
		environment[n++] = preload;
		environment[n++] = faults;
		environment[n] = NULL;
		return find_syscall()(number, a[0], a[1], a[2], environment, a[4]);
	}
	if (number == SYS_openat2 && fails(OPEN))
		return -1;
	if ((number == SYS_pidfd_open || number == SYS_perf_event_open) && fails(DESCRIPTOR))
		return -1;
	return find_syscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
