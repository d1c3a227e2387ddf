/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/process/credentials.c: status texts, including odd and hostile ones, and processes of several owners.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/capture/process/credentials.h"
#include "lib/base/util.h"
#include "tests/unit.h"

#define IDS "Uid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\n"
#define REST "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"

static int parse(const char *text, struct credentials *ret)
{
	_cleanup_fclose_ FILE *f = fmemopen((void *)text, strlen(text), "r");

	return f ? credentials_parse(f, ret) : -ENOMEM;
}

static void test_plain_text(void)
{
	struct credentials c;

	CHECK_EQ(
	    parse("Name:\tcat\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\nPid:\t7\nPPid:\t5\nTracerPid:\t0\n" IDS
		  "Groups:\t4 24 27 \nNStgid:\t7\nNSpid:\t7\nVmPeak:\t    5504 kB\n" REST,
		  &c),
	    0);
	CHECK_STR(c.name, "cat");
	CHECK(c.state == 'S' && credentials_leader_alive(&c));
	CHECK(c.parent == 5 && c.inner_pid == 7 && !c.contained);
	CHECK(c.uid[0] == 1000 && c.uid[3] == 1000 && c.gid[2] == 100 && c.permitted == 0);
	CHECK_EQ(credentials_uid(&c), 1000);
	/* The text does not contain the owner of the files, so the process does not count as dumpable yet. */
	CHECK(!credentials_dumpable(&c) && !credentials_owned(&c, 1000));
	c.files_uid = 1000;
	CHECK(credentials_owned(&c, 1000) && credentials_owned(&c, 0) && !credentials_owned(&c, 1001));
	CHECK(!credentials_owned(&c, (uid_t)-1));
}

static void test_namespaces(void)
{
	struct credentials c;

	CHECK_EQ(parse("Name:\ta\nNSpid:\t700\t20\t3\n" IDS REST, &c), 0);
	CHECK(c.contained && c.inner_pid == 3);
	/* Kernels before 4.1 have no such line. */
	CHECK_EQ(parse("Name:\ta\n" IDS REST, &c), 0);
	CHECK(!c.contained && c.inner_pid == 0);
	CHECK_EQ(parse("Name:\ta\nNSpid:\t\n" IDS REST, &c), 0);
	CHECK(!c.contained && c.inner_pid == 0);
	/* As the last line, without a newline. */
	CHECK_EQ(parse("Name:\ta\n" IDS REST "NSpid:\t8\t1", &c), 0);
	CHECK(c.contained && c.inner_pid == 1);
}

/* Each text differs from that of an owner's plain process in one field. */
static void test_not_owned(void)
{
	static const char *const texts[] = {
		"Uid:\t1000\t0\t1000\t1000\nGid:\t100\t100\t100\t100\n" REST,
		"Uid:\t1000\t1000\t0\t1000\nGid:\t100\t100\t100\t100\n" REST,
		"Uid:\t1000\t1000\t1000\t1001\nGid:\t100\t100\t100\t100\n" REST,
		"Uid:\t1001\t1001\t1001\t1001\nGid:\t100\t100\t100\t100\n" REST,
		"Uid:\t4294967295\t4294967295\t4294967295\t4294967295\nGid:\t100\t100\t100\t100\n" REST,
		"Uid:\t1000\t1000\t1000\t1000\nGid:\t100\t101\t100\t100\n" REST,
		"Uid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t42\n" REST,
		IDS "CapPrm:\t0000000000000400\n",
		IDS "CapPrm:\t8000000000000000\n",
	};

	for (size_t i = 0; i < ELEMENTS(texts); i++) {
		struct credentials c;

		CHECK_EQ(parse(texts[i], &c), 0);
		c.files_uid = c.uid[1];
		CHECK(credentials_dumpable(&c) && !credentials_owned(&c, 1000));
		CHECK(credentials_owned(&c, 0));
	}
}

static void test_hostile_texts(void)
{
	static const char *const texts[] = {
		"\n",
		":",
		":::\n",
		"Name",
		"Name:\tcat\n",
		IDS,
		"Uid:\t1000\t1000\t1000\t1000\n" REST,
		"Gid:\t1000\t1000\t1000\t1000\n" REST,
		"Uid:\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\n" REST,
		"Uid:\nGid:\t100\t100\t100\t100\n" REST,
		"Uid:\tx\ty\tz\tw\nGid:\t100\t100\t100\t100\n" REST,
		"Uid :\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\n" REST,
		" Uid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\n" REST,
		"XUid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\n" REST,
		IDS "CapPrm:\t\n",
		IDS "CapPrm:\tnone\n",
		/* A field that appears twice. */
		"Name:\tx\n" IDS IDS REST,
		IDS REST "CapPrm:\t0000000000000000\n",
	};

	for (size_t i = 0; i < ELEMENTS(texts); i++) {
		struct credentials c = { .parent = 42 };

		CHECK(parse(texts[i], &c) == -EBADMSG && c.parent == 42);
	}
}

static void test_names(void)
{
	struct credentials c;

	/* The kernel escapes newlines. A name may look like a field, and may be longer than that of a program. */
	CHECK_EQ(parse("Name:\tUid:\\n0 0 0 0\n" IDS REST, &c), 0);
	CHECK_STR(c.name, "Uid:\\n0 0 0 0");
	CHECK_EQ(c.uid[0], 1000);
	CHECK_EQ(parse("Name:\tkworker/u256:12-events_unbound\n" IDS REST, &c), 0);
	CHECK_STR(c.name, "kworker/u256:12-");
	CHECK_EQ(parse("Name:\t\nUmask:\t0022\n" IDS REST, &c), 0);
	CHECK_STR(c.name, "");
	/* One that exits keeps its state until it is a zombie, without memory. */
	CHECK_EQ(parse("State:\tR (running)\n" IDS REST, &c), 0);
	CHECK(!credentials_leader_alive(&c));
	CHECK_EQ(parse("State:\tR (running)\n" IDS "VmPeak:\t    5504 kB\n" REST, &c), 0);
	CHECK(credentials_leader_alive(&c));
	/* A zombie, a dead process, and one whose state is unknown. */
	CHECK_EQ(parse("State:\tZ (zombie)\n" IDS REST, &c), 0);
	CHECK(!credentials_leader_alive(&c));
	CHECK_EQ(parse("State:\tX (dead)\n" IDS REST, &c), 0);
	CHECK(!credentials_leader_alive(&c));
	CHECK_EQ(parse(IDS REST, &c), 0);
	CHECK(!credentials_leader_alive(&c));
}

/* The capabilities follow as many groups as the kernel allows. */
static void test_many_groups(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct credentials c;

	fprintf(f, "Name:\tmany\nState:\tR (running)\n%sGroups:\t", IDS);
	for (unsigned i = 0; i < 65536; i++)
		fprintf(f, "%u ", 100000 + i);
	fprintf(f, "\nNSpid:\t9\t2\nCapPrm:\t0000000000000001\n");
	fclose(f);
	CHECK_EQ(parse(text, &c), 0);
	CHECK(c.permitted == 1 && c.inner_pid == 2);
	free(text);
}

/* Each prefix of a text is either refused or parsed correctly. */
static void test_cut_texts(void)
{
	static const char text[] = "Name:\tcat\nState:\tS (sleeping)\nPPid:\t5\n" IDS "NSpid:\t7\n" REST;
	char cut[sizeof(text)];

	for (size_t n = 1; n < sizeof(text); n++) {
		struct credentials c;
		bool whole = n >= (size_t)(strstr(text, "CapPrm:\t") - text) + 9;

		snprintf(cut, sizeof(cut), "%.*s", (int)n, text);
		if ((parse(cut, &c) == 0) != whole || (whole && (c.uid[3] != 1000 || c.gid[3] != 100)))
			CHECK_EQ(n, 0);
	}
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_processes(void)
{
	struct credentials c;
	uid_t uid;
	gid_t gid;
	pid_t pid;
	int pidfd, dir;

	CHECK_EQ(credentials_read(getpid(), &c), 0);
	CHECK(c.uid[0] == getuid() && c.gid[1] == getegid() && c.parent == getppid());
	CHECK(!c.contained && c.inner_pid == getpid());
	CHECK(credentials_owned(&c, 0));
	CHECK(!credentials_owned(&c, getuid() + 1));
	dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(credentials_read_files_owner(dir, &uid, &gid), 0);
	CHECK(uid == c.files_uid && gid == c.files_gid);
	close(dir);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_DUMPABLE, 0);
		pause();
		_exit(0);
	}
	for (unsigned i = 0; i < 1000 && credentials_read(pid, &c) == 0 && credentials_dumpable(&c); i++)
		usleep(1000);
	if (getuid() == 0)
		unit_skip("a process that is not dumpable", "its files are root's in any case");
	else
		CHECK(!credentials_dumpable(&c) && !credentials_owned(&c, getuid()));
	/* A zombie has credentials, but its first thread is not alive. */
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	kill(pid, SIGKILL);
	waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	CHECK_EQ(credentials_read(pid, &c), -EAGAIN);
	CHECK_EQ(credentials_read_pidfd(pid, pidfd, &c), 0);
	CHECK(credentials_uid(&c) == getuid() && !credentials_leader_alive(&c));
	waitpid(pid, NULL, 0);
	CHECK_EQ(credentials_read(pid, &c), -ESRCH);
	CHECK_EQ(credentials_read_pidfd(pid, pidfd, &c), -ESRCH);
	/* The process of the descriptor has been reaped, so the number may belong to another process. */
	CHECK_EQ(credentials_read_pidfd(getpid(), pidfd, &c), -ESRCH);
	close(pidfd);
}

static void test_other_owner(void)
{
	struct credentials c = { 0 };
	pid_t pid;

	if (getuid() != 0) {
		unit_skip("a process of another owner", "needs root");
		return;
	}
	/* A process that changed its uid becomes dumpable when it executes a program. */
	pid = fork();
	if (pid == 0) {
		if (setgid(65534) == 0 && setuid(65534) == 0)
			execl("/bin/sleep", "sleep", "100", (char *)NULL);
		_exit(1);
	}
	for (unsigned i = 0; i < 60000; i++) {
		if (credentials_read(pid, &c) == 0 && credentials_owned(&c, 65534))
			break;
		usleep(1000);
	}
	CHECK(credentials_owned(&c, 65534) && credentials_uid(&c) == 65534);
	CHECK(!credentials_owned(&c, 1000));
	end(pid);
}

static bool write_text(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* User 65534 becomes root of a user namespace that he makes, reports it, and waits. */
static void wait_inside(int report)
{
	if (setgid(65534) != 0 || setuid(65534) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0 || unshare(CLONE_NEWUSER) != 0 ||
	    !write_text("/proc/self/uid_map", "0 65534 1") || !write_text("/proc/self/setgroups", "deny") ||
	    !write_text("/proc/self/gid_map", "0 65534 1") || write(report, "", 1) != 1)
		_exit(1);
	pause();
	_exit(0);
}

/* Capabilities in a user namespace that the owner made do not count. */
static void test_made_namespace(void)
{
	struct credentials c = { 0 };
	int report[2];
	char byte;
	pid_t pid;

	if (getuid() != 0) {
		unit_skip("a process in a user namespace", "needs root");
		return;
	}
	CHECK_EQ(pipe2(report, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		wait_inside(report[1]);
	close(report[1]);
	/* Without a byte: it could not make the namespace, and has ended or is about to. */
	if (read(report[0], &byte, 1) != 1) {
		unit_skip("a process in a user namespace", "no namespace can be made here");
		waitpid(pid, NULL, 0);
		close(report[0]);
		return;
	}
	close(report[0]);
	CHECK_EQ(credentials_read(pid, &c), 0);
	CHECK(c.permitted && c.maker == 65534 && credentials_uid(&c) == 65534);
	CHECK(credentials_owned(&c, 65534) && !credentials_owned(&c, 1000));
	/* As if another user had made it. */
	c.maker = 1000;
	CHECK(!credentials_owned(&c, 65534) && !credentials_owned(&c, 1000));
	end(pid);
	CHECK(credentials_read(getpid(), &c) == 0 && (!c.permitted || c.maker == (uid_t)-1));
}

int main(void)
{
	test_plain_text();
	test_namespaces();
	test_not_owned();
	test_hostile_texts();
	test_names();
	test_many_groups();
	test_cut_texts();
	test_processes();
	test_other_owner();
	test_made_namespace();
	return unit_end();
}
