/* SPDX-License-Identifier: MIT */
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
#error "the system calls of this architecture are unknown"
#endif

/* An allowed system call: always if mask is 0, else if argument & mask equals value. A call may have several rules. */
struct filter_rule {
	uint32_t call;
	uint8_t argument;
	uint32_t mask, value;
};

#define ANY_ARGUMENTS(call)   \
	{                     \
		call, 0, 0, 0 \
	}

/* The flags with which glibc creates a thread; fewer would create a process. */
#define THREAD_FLAGS                                                                                       \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | \
	 CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/* Ordered by frequency: the filter compares each system call with the rules from the first one on. */
static const struct filter_rule rules[] = {
	ANY_ARGUMENTS(SYS_preadv2),
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
	/* glibc's fstat(). A filter cannot see that the path is empty: without a mount namespace, the size of any path
	 * can be read. */
	{ SYS_newfstatat, 3, ~0u, AT_EMPTY_PATH },
	ANY_ARGUMENTS(SYS_ftruncate),
	{ SYS_fcntl, 1, ~0u, F_GETFD },
	{ SYS_fcntl, 1, ~0u, F_GETFL },
	{ SYS_fcntl, 1, ~0u, F_DUPFD_CLOEXEC },
	ANY_ARGUMENTS(SYS_close),
	ANY_ARGUMENTS(SYS_clock_gettime),
	ANY_ARGUMENTS(SYS_clock_nanosleep),
	ANY_ARGUMENTS(SYS_gettimeofday),
	ANY_ARGUMENTS(SYS_getrandom),
	ANY_ARGUMENTS(SYS_sysinfo),
	/* For threads, and for abort(): */
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
/* Skips a number of instructions unless the accumulator equals value. */
#define SKIP_UNLESS_EQUAL(value, past) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (past))

struct filter_program {
	struct sock_filter code[CODE_MAX];
	unsigned short size;
};

static void emit_instruction(struct filter_program *p, struct sock_filter instruction)
{
	p->code[p->size++] = instruction;
}

/* Only the lower half of an argument is compared: these have 32 bits, or are flags whose upper half the kernel ignores.
 */
static void emit_rule(struct filter_program *p, const struct filter_rule *r)
{
	emit_instruction(p, (struct sock_filter)SKIP_UNLESS_EQUAL(r->call, r->mask ? 5 : 1));
	if (r->mask) {
		emit_instruction(p, (struct sock_filter)LOAD(args[r->argument]));
		emit_instruction(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask));
		emit_instruction(p, (struct sock_filter)SKIP_UNLESS_EQUAL(r->value, 1));
	}
	emit_instruction(p, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
	if (r->mask)
		emit_instruction(p, (struct sock_filter)LOAD(nr));
}

static int install_filter(void)
{
	const struct filter_rule abort_self = { SYS_tgkill, 0, ~0u, (uint32_t)getpid() };
	struct filter_program p = { .size = 0 };
	struct sock_fprog program;

	emit_instruction(&p, (struct sock_filter)LOAD(arch));
	emit_instruction(&p, (struct sock_filter)SKIP_UNLESS_EQUAL(CAGE_ARCH, 1));
	emit_instruction(&p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
	emit_instruction(&p, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
	emit_instruction(&p, (struct sock_filter)LOAD(nr));
	for (size_t i = 0; i < ELEMENTS(rules); i++)
		emit_rule(&p, &rules[i]);
	emit_rule(&p, &abort_self);
	/* The flags of clone3() are in memory, which a filter cannot read. With ENOSYS, glibc falls back to clone(). */
	emit_instruction(&p, (struct sock_filter)SKIP_UNLESS_EQUAL(SYS_clone3, 1));
	emit_instruction(&p, (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | ENOSYS));
	emit_instruction(&p, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
	program = (struct sock_fprog){ p.size, p.code };
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

/* Replaces all mounts by one empty, read-only file system. */
static int empty_root(void)
{
	/* The mount point: any directory that exists on every system. */
	static const char at[] = "/proc";

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", at, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=1") < 0 || chdir(at) < 0 ||
	    syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ||
	    mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return -errno;
	return 0;
}

static unsigned enter_namespaces(void)
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

	/* Fails if the process has no capabilities; no_new_privs then prevents it from gaining any. */
	for (int c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
			break;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -errno;
	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static void set_limit(int what, rlim_t most)
{
	struct rlimit now, l = { most, most };

	if (getrlimit(what, &now) == 0) {
		l.rlim_cur = l.rlim_max = MIN(most, now.rlim_max);
		setrlimit(what, &l);
	}
}

/* The owner may have set a lower limit, which it can change later. */
static void limit_file_size(rlim_t most)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_FSIZE, &l) < 0)
		return;
	l.rlim_max = MIN(most, l.rlim_max);
	l.rlim_cur = MIN(l.rlim_cur, l.rlim_max);
	setrlimit(RLIMIT_FSIZE, &l);
}

static void set_limits(void)
{
	if (!UNDER_SANITIZER) {
		prctl(PR_SET_DUMPABLE, 0);
		set_limit(RLIMIT_AS, (rlim_t)8 << 30);
	}
	set_limit(RLIMIT_CPU, 3600);
	limit_file_size((rlim_t)64 << 30);
	set_limit(RLIMIT_NOFILE, 8192);
	set_limit(RLIMIT_CORE, 0);
	/* Exceeding the file size limit must make write() fail, not kill the process. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
}

int cage_lock(unsigned *ret_parts)
{
	unsigned parts = UNDER_SANITIZER ? 0 : enter_namespaces();
	int rc;

	set_limits();
	rc = drop_capabilities();
	if (rc < 0)
		return rc;
	parts |= 1u << CAGE_CAPABILITIES;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (!UNDER_SANITIZER) {
		rc = install_filter();
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
			json_array_add(list, json_object_new_string(names[i]));
	return list;
}
