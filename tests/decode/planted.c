/* SPDX-License-Identifier: MIT */
/*
 * csight-decode with a hostile decoder: csight-decode's server, job protocol and cage, with a decode_run() that makes
 * one attempt to escape. The job's options name the attempt; the result reports whether it succeeded. planted-loose is
 * the same program without the cage (no-cage.c), in which each attempt must succeed, or it would prove nothing.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/decode/cage.h"
#include "daemon/decode/decode.h"
#include "daemon/decode/server.h"
#include "lib/base/util.h"

struct
try {
	const char *path, *secret; /* a file or socket; the contents to read */
	pid_t pid;                 /* target process */
	uint16_t port;
	int output;
};

/* Holds the secret; at the same address in all jobs, which are forked from one server. */
static char memory[64];

static bool read_secret(int fd, const struct try *t)
{
	char text[64] = "";

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strcmp(text, t->secret) == 0;
}

static bool try_open(const struct try *t)
{
	return read_secret(open(t->path, O_RDONLY), t);
}

static bool try_openat2(const struct try *t)
{
	struct open_how how = { .flags = O_RDONLY };

	return read_secret((int)syscall(SYS_openat2, AT_FDCWD, t->path, &how, sizeof(how)), t);
}

static bool try_create(const struct try *t)
{
	return mknod(t->path, S_IFREG | 0600, 0) == 0;
}

static bool try_list(const struct try *t)
{
	DIR *dir = opendir("/");

	return dir && readdir(dir);
}

static bool try_unix(const struct try *t)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(a.sun_path, t->path, sizeof(a.sun_path) - 1);
	return fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && send(fd, "x", 1, 0) == 1;
}

static bool try_tcp(const struct try *t)
{
	struct sockaddr_in a = { AF_INET, htons(t->port), { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && send(fd, "x", 1, 0) == 1;
}

static bool try_kill(const struct try *t)
{
	return kill(t->pid, SIGUSR1) == 0;
}

static bool try_tgkill(const struct try *t)
{
	return syscall(SYS_tgkill, t->pid, t->pid, SIGUSR1) == 0;
}

static bool try_sigqueue(const struct try *t)
{
	return sigqueue(t->pid, SIGUSR1, (union sigval){ 0 }) == 0;
}

static bool fork_or(pid_t pid, const struct try *t)
{
	int status;

	if (pid == 0)
		_exit(write(t->output, "x", 1) == 1 ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool try_fork(const struct try *t)
{
	return fork_or(fork(), t);
}

static bool try_clone(const struct try *t)
{
	return fork_or((pid_t)syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0), t);
}

static bool try_clone3(const struct try *t)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	} args = { .exit_signal = SIGCHLD };

	return fork_or((pid_t)syscall(SYS_clone3, &args, sizeof(args)), t);
}

/* Success shows in the exit status of the job. */
static bool try_execve(const struct try *t)
{
	static const char *const argv[] = { "sh", "-c", "exit 77", NULL };

	execve("/bin/sh", (char **)argv, NULL);
	return false;
}

static bool try_vm_read(const struct try *t)
{
	char text[sizeof(memory)] = "";
	struct iovec to = { text, sizeof(text) }, from = { memory, sizeof(memory) };

	return process_vm_readv(t->pid, &to, 1, &from, 1, 0) > 0 && strcmp(text, t->secret) == 0;
}

static bool try_proc_mem(const struct try *t)
{
	char path[64], text[sizeof(memory)] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)t->pid);
	fd = open(path, O_RDONLY);
	return fd >= 0 && pread(fd, text, sizeof(text), (off_t)(uintptr_t)memory) > 0 && strcmp(text, t->secret) == 0;
}

static bool try_ptrace(const struct try *t)
{
	bool done = ptrace(PTRACE_SEIZE, t->pid, NULL, NULL) == 0;

	/* The next attempt needs the other job, too. */
	if (done && ptrace(PTRACE_INTERRUPT, t->pid, NULL, NULL) == 0 && waitpid(t->pid, NULL, __WALL) == t->pid)
		ptrace(PTRACE_DETACH, t->pid, NULL, NULL);
	return done;
}

/* Duplicates the socket of the other job. */
static bool try_descriptor(const struct try *t)
{
	int pidfd = (int)syscall(SYS_pidfd_open, t->pid, 0);

	return pidfd >= 0 && syscall(SYS_pidfd_getfd, pidfd, 3, 0) >= 0;
}

static bool try_code(const struct try *t)
{
#if defined(__x86_64__)
	static const uint8_t code[] = { 0xb8, 0x2a, 0, 0, 0, 0xc3 };
#else
	static const uint32_t code[] = { 0x52800540, 0xd65f03c0 };
#endif
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return false;
	memcpy(page, code, sizeof(code));
	__builtin___clear_cache(page, page + sizeof(code));
	return mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0 && ((int (*)(void))(uintptr_t)page)() == 42;
}

static bool try_executable(const struct try *t)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

/* Its memory would count for nothing. */
static bool try_memory_file(const struct try *t)
{
	return memfd_create("more", MFD_CLOEXEC) >= 0;
}

static bool try_namespace(const struct try *t)
{
	return unshare(CLONE_NEWUSER) == 0;
}

/* Sends SIGIO to a process of choice. */
static bool try_owner(const struct try *t)
{
	return fcntl(3, F_SETOWN, t->pid) == 0;
}

static bool try_priority(const struct try *t)
{
	return setpriority(PRIO_PROCESS, (id_t)t->pid, 19) == 0;
}

#ifdef __x86_64__
/* The number of the 32-bit open() belongs to an allowed system call in 64-bit programs. */
static bool try_open32(const struct try *t)
{
	char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	long fd = 5;

	if (low == MAP_FAILED)
		return false;
	strncpy(low, t->path, 4095);
	__asm__ volatile("int $0x80" : "+a"(fd) : "b"(low), "c"(O_RDONLY), "d"(0) : "memory", "r8", "r9", "r10", "r11");
	return read_secret((int)fd, t);
}
#endif

/* What a decoder needs. */
static void *thread(void *data)
{
	char *more = malloc(300000);

	if (more)
		memset(more, 1, 300000);
	free(more);
	*(int *)data += 1;
	return NULL;
}

static bool try_threads(const struct try *t)
{
	pthread_t threads[8];
	int ran[8] = { 0 }, n = 0;

	for (int i = 0; i < 8; i++)
		if (pthread_create(&threads[i], NULL, thread, &ran[i]) != 0)
			return false;
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		n += ran[i];
	}
	return n == 8;
}

static bool try_memory(const struct try *t)
{
	char *p = NULL;

	for (size_t size = 4096; size <= 64u << 20; size *= 2) {
		char *more = realloc(p, size);

		if (!more)
			return false;
		p = more;
		p[size - 1] = 1;
	}
	free(p);
	return write(t->output, "x", 1) == 1;
}

static bool try_abort(const struct try *t)
{
	abort();
}

static const struct {
	const char *name;
	bool (*run)(const struct try *t);
} tries[] = {
	{ "open", try_open },
	{ "openat2", try_openat2 },
#ifdef __x86_64__
	{ "open32", try_open32 },
#endif
	{ "create", try_create },
	{ "list", try_list },
	{ "unix", try_unix },
	{ "tcp", try_tcp },
	{ "kill", try_kill },
	{ "tgkill", try_tgkill },
	{ "sigqueue", try_sigqueue },
	{ "fork", try_fork },
	{ "clone", try_clone },
	{ "clone3", try_clone3 },
	{ "execve", try_execve },
	{ "vm-read", try_vm_read },
	{ "proc-mem", try_proc_mem },
	{ "ptrace", try_ptrace },
	{ "descriptor", try_descriptor },
	{ "code", try_code },
	{ "executable", try_executable },
	{ "memory-file", try_memory_file },
	{ "namespace", try_namespace },
	{ "owner", try_owner },
	{ "priority", try_priority },
	{ "threads", try_threads },
	{ "memory", try_memory },
	{ "abort", try_abort },
};

static void send_result(struct decode_job *job, bool achieved)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "type", "result");
	json_add_bool(o, "achieved", achieved);
	json_object_object_add(o, "cage", cage_json(job->cage));
	job_result(job, o);
}

int decode_run(struct decode_job *job)
{
	struct try t = { .output = job->outputs[0].fd };
	const char *name = "open"; /* csight decode sends no name */
	uint64_t number;
	int fd;

	json_get_str(job->options, "try", &name);
	json_get_str(job->options, "path", &t.path);
	json_get_str(job->options, "secret", &t.secret);
	if (json_get_u64(job->options, "pid", &number) == 0)
		t.pid = (pid_t)number;
	if (json_get_u64(job->options, "port", &number) == 0)
		t.port = (uint16_t)number;
	if (strcmp(name, "hold") == 0) {
		/* The other job: has a secret in memory, and waits. */
		strncpy(memory, t.secret, sizeof(memory) - 1);
		return job_image(job, &(struct job_image_request){ .path = "/" }, &fd, NULL);
	}
	for (size_t i = 0; i < ELEMENTS(tries); i++)
		if (strcmp(name, tries[i].name) == 0) {
			send_result(job, tries[i].run(&t));
			return 0;
		}
	return reason_set(&job->reason, -EINVAL, "no test %s", name);
}

int main(void)
{
	return server_run() < 0;
}
