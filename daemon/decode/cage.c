#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/decode/cage.h"
#include "lib/base/util.h"

#if defined(__x86_64__)
#define CAGE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CAGE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the system calls of this machine are not known here"
#endif

/* A call that is allowed: always where mask is 0, else where argument & mask is value. Rows for one call add up. */
struct filter_rule {
	uint32_t call;
	uint8_t argument;
	uint32_t mask, value;
};

#define ANY_ARGUMENTS(call)   \
	{                     \
		call, 0, 0, 0 \
	}

/* What glibc asks of clone() for a thread; anything less shared would be a process. */
#define THREAD_FLAGS                                                                                       \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | \
	 CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/* In the order of their frequency: each call that is made runs down this list. */
static const struct filter_rule rules[] = {
	ANY_ARGUMENTS(SYS_pread64),
	ANY_ARGUMENTS(SYS_pwrite64),
	ANY_ARGUMENTS(SYS_write),
	ANY_ARGUMENTS(SYS_read),
	ANY_ARGUMENTS(SYS_brk),
	{ SYS_mmap, 2, PROT_EXEC, 0 },
	ANY_ARGUMENTS(SYS_munmap),
	ANY_ARGUMENTS(SYS_futex),
	ANY_ARGUMENTS(SYS_madvise),
	ANY_ARGUMENTS(SYS_mremap),
	{ SYS_mprotect, 2, PROT_EXEC, 0 },
	ANY_ARGUMENTS(SYS_sendmsg),
	ANY_ARGUMENTS(SYS_recvmsg),
	ANY_ARGUMENTS(SYS_lseek),
	ANY_ARGUMENTS(SYS_fstat),
	/* This is fstat(), too. That it can ask for a path's size where there is no mount namespace cannot be told
	   here. */
	{ SYS_newfstatat, 3, ~0u, AT_EMPTY_PATH },
	ANY_ARGUMENTS(SYS_ftruncate),
	ANY_ARGUMENTS(SYS_memfd_create),
	{ SYS_fcntl, 1, ~0u, F_GETFD },
	{ SYS_fcntl, 1, ~0u, F_GETFL },
	{ SYS_fcntl, 1, ~0u, F_DUPFD_CLOEXEC },
	ANY_ARGUMENTS(SYS_close),
	ANY_ARGUMENTS(SYS_clock_gettime),
	ANY_ARGUMENTS(SYS_gettimeofday),
	ANY_ARGUMENTS(SYS_getrandom),
	ANY_ARGUMENTS(SYS_sysinfo),
	/* Threads, and abort(). */
	{ SYS_clone, 0, ~0u, THREAD_FLAGS },
	ANY_ARGUMENTS(SYS_set_robust_list),
	ANY_ARGUMENTS(SYS_rseq),
	ANY_ARGUMENTS(SYS_sched_yield),
	ANY_ARGUMENTS(SYS_sched_getaffinity),
	ANY_ARGUMENTS(SYS_gettid),
	ANY_ARGUMENTS(SYS_getpid),
	ANY_ARGUMENTS(SYS_rt_sigprocmask),
	ANY_ARGUMENTS(SYS_rt_sigaction),
	ANY_ARGUMENTS(SYS_rt_sigreturn),
	ANY_ARGUMENTS(SYS_restart_syscall),
	ANY_ARGUMENTS(SYS_exit),
	ANY_ARGUMENTS(SYS_exit_group),
};

enum { RULE_CODE_MAX = 6, CODE_MAX = 16 + RULE_CODE_MAX * (ELEMENTS(rules) + 1) };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))
/* Goes on where equal, else past so many. */
#define UNLESS_EQUAL(value, past) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (past))

struct filter_program {
	struct sock_filter code[CODE_MAX];
	unsigned short size;
};

static void emit(struct filter_program *p, struct sock_filter instruction)
{
	p->code[p->size++] = instruction;
}

/* All arguments here are of 32 bits, or flags whose upper half the kernel does not look at. */
static void emit_rule(struct filter_program *p, const struct filter_rule *r)
{
	emit(p, (struct sock_filter)UNLESS_EQUAL(r->call, r->mask ? 5 : 1));
	if (r->mask) {
		emit(p, (struct sock_filter)LOAD(args[r->argument]));
		emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask));
		emit(p, (struct sock_filter)UNLESS_EQUAL(r->value, 1));
	}
	emit(p, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
	if (r->mask)
		emit(p, (struct sock_filter)LOAD(nr));
}

static int filter(void)
{
	const struct filter_rule abort_self = { SYS_tgkill, 0, ~0u, (uint32_t)getpid() };
	struct filter_program p = { .size = 0 };
	struct sock_fprog program;

	emit(&p, (struct sock_filter)LOAD(arch));
	emit(&p, (struct sock_filter)UNLESS_EQUAL(CAGE_ARCH, 1));
	emit(&p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
	emit(&p, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
	emit(&p, (struct sock_filter)LOAD(nr));
	for (size_t i = 0; i < ELEMENTS(rules); i++)
		emit_rule(&p, &rules[i]);
	emit_rule(&p, &abort_self);
	/* Its flags are in memory, where a filter cannot see them: glibc then takes clone(). */
	emit(&p, (struct sock_filter)UNLESS_EQUAL(SYS_clone3, 1));
	emit(&p, (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | ENOSYS));
	emit(&p, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
	program = (struct sock_fprog){ p.size, p.code };
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

/* An empty file system, read-only, in place of all others. */
static int empty_root(void)
{
	/* Any directory would do; this one is everywhere. */
	static const char at[] = "/proc";

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", at, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=1") < 0 || chdir(at) < 0 ||
	    syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ||
	    mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return -errno;
	return 0;
}

static unsigned leave(void)
{
	unsigned parts = 1u << CAGE_USER;

	if (unshare(CLONE_NEWUSER) < 0)
		return 0;
	if (unshare(CLONE_NEWNET) == 0)
		parts |= 1u << CAGE_NETWORK;
	if (unshare(CLONE_NEWIPC) == 0)
		parts |= 1u << CAGE_IPC;
	if (empty_root() == 0)
		parts |= 1u << CAGE_MOUNT;
	return parts;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	/* Where this may not be done the process has none, and no_new_privs keeps it from getting any. */
	for (int c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
			break;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -errno;
	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static void limit(int what, rlim_t most)
{
	struct rlimit now, l = { most, most };

	if (getrlimit(what, &now) == 0) {
		l.rlim_cur = l.rlim_max = MIN(most, now.rlim_max);
		setrlimit(what, &l);
	}
}

static void set_limits(void)
{
	if (!UNDER_SANITIZER) {
		prctl(PR_SET_DUMPABLE, 0);
		limit(RLIMIT_AS, (rlim_t)8 << 30);
	}
	limit(RLIMIT_CPU, 3600);
	limit(RLIMIT_FSIZE, (rlim_t)64 << 30);
	limit(RLIMIT_NOFILE, 8192);
	limit(RLIMIT_CORE, 0);
	/* A full output is an error of write(), not a death. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
}

int cage_lock(unsigned *ret_parts)
{
	unsigned parts = UNDER_SANITIZER ? 0 : leave();
	int rc;

	set_limits();
	rc = drop_capabilities();
	if (rc < 0)
		return rc;
	parts |= 1u << CAGE_CAPABILITIES;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (!UNDER_SANITIZER) {
		rc = filter();
		if (rc < 0)
			return rc;
		parts |= 1u << CAGE_SECCOMP;
	}
	*ret_parts = parts;
	return 0;
}

json_object *cage_json(unsigned parts)
{
	static const char *const names[CAGE_PARTS] = {
		[CAGE_USER] = "user",
		[CAGE_MOUNT] = "mount",
		[CAGE_NETWORK] = "network",
		[CAGE_IPC] = "ipc",
		[CAGE_CAPABILITIES] = "capabilities",
		[CAGE_SECCOMP] = "seccomp",
	};
	json_object *list = json_object_new_array();

	for (int i = 0; list && i < CAGE_PARTS; i++)
		if (parts & 1u << i)
			json_object_array_add(list, json_object_new_string(names[i]));
	return list;
}
